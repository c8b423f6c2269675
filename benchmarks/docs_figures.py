"""Every figure in README.md and docs/ from the files that it was measured into: ``make docs-figures``.

There are three ways in which a figure comes into a page. A page can be rendered whole, by a function of ``PAGES``. A
part of a page can be a block between two comments, which such a function fills. And a single figure in prose stands
between ``<!-- figure: FILE#/KEY/KEY FORMAT -->`` and ``<!-- -->``, which readers do not see: a JSON file in this
repository, a JSON pointer (RFC 6901) into it and a format of Python's, as in
``<!-- figure: benchmarks/results/cluster.json#/cost/folder_ms/median .1f -->0.5<!-- -->``.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import (
    durability,
    ranking_study,
    recipes_page,
    render_clinical,
    render_cluster,
    render_proxies,
    render_readme,
    render_results,
    render_search,
)

ROOT = Path(__file__).resolve().parents[1]
FIGURE = re.compile(r"<!-- figure: (?P<file>[^\s#]+)#(?P<pointer>/[^>]*?) (?P<format>\S+) -->(?P<value>[^<]*)<!-- -->")
PAGES: Mapping[str, Callable[[], str]] = {
    "README.md": render_readme.rendered,
    "docs/clinical.md": render_clinical.rendered,
    "docs/cluster.md": render_cluster.rendered,
    "docs/durability.md": durability.rendered,
    "docs/proxies.md": render_proxies.rendered,
    "docs/ranking.md": ranking_study.rendered,
    "docs/recipes.md": recipes_page.rendered,
    "docs/search.md": render_search.rendered,
}
PICTURES = (render_results.pictures, render_search.pictures, ranking_study.pictures)


def rendered() -> Iterator[tuple[str, str]]:
    """Every page with figures by its path, as it has to be."""
    made = {path: page() for path, page in PAGES.items()}
    made |= {f"docs/{path}": text for path, text in render_results.pages().items()}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = path.relative_to(ROOT).as_posix()
        if name not in made and "<!-- figure: " in (text := path.read_text(encoding="utf-8")):
            made[name] = text
    for name, text in made.items():
        yield name, filled(text)


def filled(text: str) -> str:
    """A page with its single figures as their files have them.

    Example:
        >>> filled("<!-- figure: benchmarks/results/scoreboard.json#/networks , --><!-- --> networks")
        '<!-- figure: benchmarks/results/scoreboard.json#/networks , -->15,625<!-- --> networks'
    """
    return FIGURE.sub(_filled, text)


def _filled(found: re.Match[str]) -> str:
    value = pointed(_read(found["file"]), found["pointer"])
    return f"{found[0].partition('-->')[0]}-->{value:{found['format']}}<!-- -->"


@functools.cache
def _read(file: str) -> Any:
    return json.loads((ROOT / file).read_text(encoding="utf-8"))


def pointed(data: Any, pointer: str) -> float:
    """The number that a JSON pointer names.

    Example:
        >>> pointed({"a/b": [1, 2.5]}, "/a~1b/1")
        2.5
    """
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        data = data[int(name)] if isinstance(data, list) else data[name]
    if isinstance(data, bool) or not isinstance(data, (int, float)):
        raise TypeError(f"{pointer} is no number")
    return data


def main() -> int:
    """Write the pages and draw their pictures; with ``--check`` say which pages are not as they have to be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args()
    stale = {path: text for path, text in rendered() if not (ROOT / path).exists() or (ROOT / path).read_text() != text}
    for path, text in stale.items():
        print(path, flush=True)
        if not given.check:
            (ROOT / path).parent.mkdir(exist_ok=True)
            (ROOT / path).write_text(text, encoding="utf-8")
    if given.check:
        return int(bool(stale))
    for draw in PICTURES:
        draw(ROOT / "docs" / "figures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
