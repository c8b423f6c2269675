"""What MkDocs builds beside the pages of ``docs/``: those that are made from the code, and the list of versions.

``make docs`` calls it. Pages made here: the start page (README.md), CONTRIBUTING.md, CHANGELOG.md, every command and
option, every searcher, ranking and other name, the tutorials, which are notebooks, and the leaderboard to sort.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # MkDocs runs hooks as files of no package

from docs.hooks import commands, names, tutorials  # noqa: E402
from trainless import __version__  # noqa: E402
from trainless.bench import leaderboard  # noqa: E402
from trainless.bench.site import page  # noqa: E402

AT_THE_ROOT = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
MADE: dict[str, Callable[[], str]] = {
    **{page: lambda source=source: from_the_root(source) for source, page in AT_THE_ROOT.items()},  # type: ignore[misc]
    "reference/commands.md": commands.page,
    "reference/searchers.md": names.searchers,
    "reference/rankings.md": names.rankings,
    "reference/names.md": names.others,
}
ROLE = re.compile(r":(?:func|class|meth|mod|attr|data|exc):<code>([^<]*)</code>")
LINK = re.compile(r"\]\((?:docs/)?([\w./-]+)((?:#[\w-]+)?)\)")
FENCE = re.compile(r"(^(?:```|~~~).*?^(?:```|~~~)$)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """One folder for each version; a folder in the menu stands for its pages."""
    config.site_dir = str(ROOT / "site" / __version__) if config.site_dir == str(ROOT / "site") else config.site_dir
    config.nav = _expanded(config.nav)
    return config


def _expanded(entry: Any) -> Any:
    if isinstance(entry, list):
        return [_expanded(each) for each in entry]
    if isinstance(entry, dict):
        return {title: _expanded(inner) for title, inner in entry.items()}
    if entry.endswith("/"):
        return sorted(f"{entry}{path.name}" for path in (ROOT / "docs" / entry).glob("*.md"))
    return entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    for name, made in MADE.items():
        files.append(File.generated(config, name, content=made()))
    for name, content in tutorials.pages(ROOT):
        files.append(File.generated(config, name, content=content))
    board = ROOT / "results" / leaderboard.FILE
    files.append(File.generated(config, "leaderboard/index.html", content=page(leaderboard.read(board))))
    files.append(File.generated(config, f"leaderboard/{leaderboard.FILE}", abs_src_path=str(board)))
    return files


def from_the_root(source: str) -> str:
    """A page that stands at the repository's root, with links as they are from ``docs/``."""
    parts = FENCE.split((ROOT / source).read_text(encoding="utf-8"))
    return "".join(part if place % 2 else LINK.sub(_link, part) for place, part in enumerate(parts))


def _link(found: re.Match[str]) -> str:
    return f"]({AT_THE_ROOT.get(found[1], found[1])}{found[2]})"


def on_page_content(html: str, **_: Any) -> str:
    """Names in docstrings without their roles, as in ``:func:`trainless.score```."""
    return ROLE.sub(lambda found: f"<code>{found[1].removeprefix('~')}</code>", html)


def on_post_build(config: MkDocsConfig) -> None:
    """List the versions that lie beside this one, newest first, and send whoever comes to the newest."""
    home = Path(config.site_dir).parent
    versions = sorted((path.parent.name for path in home.glob("*/sitemap.xml")), key=_numbers, reverse=True)
    listed = [{"version": version, "title": version, "aliases": []} for version in versions]
    (home / "versions.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    newest = escape(versions[0])
    (home / "index.html").write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>trainless</title>'
        f'<meta http-equiv="refresh" content="0; url={newest}/"><a href="{newest}/">trainless {newest}</a></html>\n',
        encoding="utf-8",
    )


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
