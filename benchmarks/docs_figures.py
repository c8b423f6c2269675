"""Every figure in README.md and docs/ from the files that it was measured into: ``make docs-figures``.

There are three ways in which a figure comes into a page. A page can be rendered whole, by a function of ``PAGES``. A
part of a page can be a block between two comments, which such a function fills. And a single figure in prose stands
between ``<!-- figure: FILE#/KEY/KEY FORMAT -->`` and ``<!-- -->``, which readers do not see: a JSON file in this
repository, a JSON pointer (RFC 6901) into it and a format of Python's, as in
``<!-- figure: benchmarks/results/cluster.json#/cost/folder_ms/median .1f -->0.5<!-- -->``. What lies in a list is named
by its ``name``, and a row of a published table by its row, task and statistic, so that a figure stays itself when
others come: ``results/papers.json#/vkdnw:table1/rows/FLOPs,cifar10,kendall/ours``.

A figure in prose that comes from no file says what it is: ``<!-- setting -->0.05<!-- -->``, or on lines of their own
around a passage ``<!-- record -->`` and ``<!-- end of record -->``. ``KINDS`` has what there is; versions, places in a
publication, powers of ten and levels such as 95 % need no mark. A test finds figures that say nothing.
"""

from __future__ import annotations

import argparse
import ast
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
    speed,
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
    "docs/speed.md": speed.rendered,
}
KINDS = {
    "setting": "somebody chose it, and nothing measured it",
    "cited": "a publication says it",
    "example": "it stands for any other",
    "mathematics": "it follows from a formula",
    "record": "an experiment found it once; it is not run again, and what it gave is in no file",
}
RECORDS = ("docs/log.md", "docs/decisions/")
"""Pages of dated records, which are superseded and never edited."""
TEMPLATES = (
    *("benchmarks/ranking_page.md", "benchmarks/durability_page.md", "benchmarks/speed_page.md"),
    *("results/clinical/introduction.md", "results/notes.md"),
)
MODULES = (
    *("render_clinical", "render_cluster", "render_readme", "render_results", "render_search"),
    *("recipes_page", "teacup_report"),
)
_PASSAGE = rf"<!-- (?P<passage>{'|'.join(KINDS)}|figures|demo) -->\n.*?<!-- end of (?P=passage) -->"
_IN_LINE = rf"<!-- (?:figure: [^>]*?|{'|'.join(KINDS)}) -->.*?<!-- -->"
_CODE = r"^```.*?^```$|``[^`]*``|`[^`]*`|\]\([^)]*\)|https?://\S+"
_PLAIN = "|".join(
    (
        r"(?<![\d.])(?:1|2|5|10|15|50|90|95|97\.5|99)[ \u00a0]%",  # levels
        r"\d[\d.,]*·10[⁰¹²³⁴⁵⁶⁷⁸⁹]+|P\([^)]*\)[^,;\n]*",  # mathematics
        r"(?:Python|torch|PyTorch|version|trainless) \d+(?:\.\d+)+",
        r"(?:[Tt]able|[Ff]igure|[Ss]ection|[Ee]quation)s? [A-Z]?\d[\d.]*(?: (?:and|to|or) [A-Z]?\d[\d.]*)?",
    )
)
_UNITS = r"%|ms|µs|s|min|h|GB|MB|KB|kB|seconds?|minutes?|hours?|points?"
_MEASURED = re.compile(
    rf"(?<![\w.,])\d[\d,.]*[ \u00a0]?(?:{_UNITS})(?!\w)|(?<![\w.,/-])[+−-]?(?:\d[\d,]*)?\.\d+(?!\w|[.,]\d)"
)
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
    text = f"{value:{found['format']}}".replace("-", "−")
    return f"{found[0].partition('-->')[0]}-->{text}<!-- -->"


@functools.cache
def _read(file: str) -> Any:
    return json.loads((ROOT / file).read_text(encoding="utf-8"))


def pointed(data: Any, pointer: str) -> float:
    """The number that a JSON pointer names.

    Example:
        >>> pointed({"a/b": [1, 2.5]}, "/a~1b/1"), pointed([{"name": "snip", "rho": 0.6}], "/snip/rho")
        (2.5, 0.6)
    """
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        data = _item(data, name) if isinstance(data, list) else _rows(data) if _is_sheet(data, name) else data[name]
    if isinstance(data, bool) or not isinstance(data, (int, float)):
        raise TypeError(f"{pointer} is no number")
    return data


def _item(data: list[Any], name: str) -> Any:
    """An item of a list by its place or its name."""
    if name.isdigit():
        return data[int(name)]
    (found,) = (each for each in data if isinstance(each, dict) and each.get("name") == name)
    return found


def _is_sheet(data: Any, name: str) -> bool:
    return name == "rows" and "columns" in data


def _rows(sheet: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows of a published table by row, task and statistic; none of them is there twice."""
    columns = sheet["columns"]
    rows = [dict(zip(columns, row, strict=True)) for row in sheet["rows"]]
    keys = [",".join(row[key] for key in ("row", "task", "statistic")) for row in rows]
    return {key: row for key, row in zip(keys, rows, strict=True) if keys.count(key) == 1}


def written() -> Iterator[tuple[str, str]]:
    """What is written by hand: pages, but records, the templates of rendered ones, and the words in their modules."""
    whole = {path for path in PAGES if path not in ("README.md", "docs/cluster.md")}
    whole |= {f"docs/{path}" for path in render_results.pages()}
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        name = path.relative_to(ROOT).as_posix()
        if name not in whole and not name.startswith(RECORDS):
            yield name, path.read_text(encoding="utf-8")
    for name in TEMPLATES:
        yield name, (ROOT / name).read_text(encoding="utf-8")
    for name in MODULES:
        yield f"benchmarks/{name}.py", words_of((ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8"))


def words_of(program: str) -> str:
    r"""The strings of a program, but documentation.

    Example:
        >>> words_of('x = f"took {seconds:.1f} s"')
        'took \n\n s\n\n.1f'
    """
    nodes = list(ast.walk(ast.parse(program)))
    said = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    strings = [node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in said]
    return "\n\n".join(each for each in strings if isinstance(each, str))


def unexplained(text: str) -> list[str]:
    """Figures that look measured, and say neither which file has them nor what else they are.

    Example:
        >>> unexplained("ρ is 0.81 in table 5.2 (<!-- cited -->theirs: 0.8<!-- -->), and takes 5 ms with Python 3.11")
        ['0.81', '5 ms']
    """
    for pattern in (_PASSAGE, _IN_LINE, _CODE, _PLAIN):
        text = re.sub(pattern, "", text, flags=re.MULTILINE | re.DOTALL)
    return [found.group().strip() for found in _MEASURED.finditer(text)]


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
