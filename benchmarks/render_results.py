"""Write docs/results.md and its pictures from the stored scores in results/.

Needs the tables (TRAINLESS_DATA) and matplotlib (``pip install 'trainless[figures]'``)::

    python benchmarks/render_results.py --draws 1000
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainless.bench.correlate import beside_peers, board, meanings, stored_columns
from trainless.bench.figures import bars, pairs, scatter
from trainless.bench.papers import compare, definitions, differs
from trainless.bench.score_library import COUNTS, Missing, ScoreColumn, ScoreLibrary, truth
from trainless.bench.sheet import Interval, Sheet, Value, shown
from trainless.rankings import registry as rankings

ROOT = Path(__file__).resolve().parents[1]
BOARDS = (
    ("nb201", "cifar10", "test", "no-dead-edges"),
    ("nb201", "cifar10", "test", "all"),
    ("nb201", "cifar100", "test", "no-dead-edges"),
    ("nb201", "ImageNet16-120", "test", "no-dead-edges"),
    ("nb101", "cifar10", "valid", "all"),
    ("darts", "cifar10", "valid", "all"),
)
CORRELATIONS = ("spearman", "kendall", "ndcg_1000")
TOLERANCE = 0.03
ENOUGH = 0.8  # of the networks of the fullest column: a column with fewer would shrink all others' population
Say = Callable[[str], None]


@dataclass(frozen=True)
class Page:
    """Where a page is written.

    Args:
        path: The Markdown file.
        figures: The folder of its pictures.
        draws: Bootstrap draws behind intervals.
        runs: Runs of each search; None for the papers' numbers.
    """

    path: Path
    figures: Path
    draws: int = 1000
    runs: int | None = None

    def picture(self, path: Path, text: str) -> str:
        """A picture in Markdown, relative to the page."""
        return f"![{text}]({path.relative_to(self.path.parent).as_posix()})"


def render(library: ScoreLibrary, page: Page, say: Say) -> None:
    """Write the page and its pictures from the stored scores."""
    parts = ["# Results", INTRODUCTION, *_environment(library)]
    parts += ["## Leaderboards", "\n".join(f"- {line}" for line in meanings()), *_boards(library, page, say)]
    sheets = []
    for name, definition in definitions().items():
        say(name)
        sheets.append(compare(definition, library, draws=min(page.draws, 200), runs=page.runs))
    parts += ["## Another program beside ours", *_beside_peers(library)]
    parts += ["## Published tables beside ours", READING, *_differences(sheets, page)]
    parts += [part for sheet in sheets for part in (f"### {sheet.title}", _pivoted(sheet), *sheet.notes[1:])]
    page.path.parent.mkdir(parents=True, exist_ok=True)
    page.path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


INTRODUCTION = (
    "Generated from the files in `results/` by `python benchmarks/render_results.py`; do not edit. Networks without a"
    " score are never dropped silently: where there are any, a proxy has two rows, *last* (ranked last, and counted)"
    " and *out* (left out, as most papers do)."
)
READING = (
    "Each cell: published → ours. Ours leaves failures out, as the papers do. `–`: the paper prints no figure, or there"
    " is no data here; `trainless bench paper NAME` gives intervals, coverage and the reason. *(… counted)*: with"
    " networks that have no score ranked last, where that makes a difference."
)


def _environment(library: ScoreLibrary) -> Iterator[str]:
    for table in dict.fromkeys(table for table, *_ in BOARDS):
        try:
            yield "\n".join(f"- `{table}`: {line}." for line in library.describe(table))
        except Missing as missing:
            yield f"- `{table}`: {missing}."
    notes = library.folder / "notes.md"
    if notes.is_file():
        yield notes.read_text(encoding="utf-8").strip()


def _boards(library: ScoreLibrary, page: Page, say: Say) -> Iterator[str]:
    for table, task, metric, population in BOARDS:
        title = f"{table}, {task} {metric} accuracy, {population}"
        say(title)
        try:
            columns, left = _with_rankings(library, table, population)
            sheet = board(
                columns,
                truth(library.table(table), task, metric),
                library.population(table, population),
                title=title,
                draws=page.draws,
                notes=left,
            )
        except Missing as missing:
            yield f"**{title}**\n\n{missing}."
            continue
        yield sheet.markdown()
        if population != "all" or table != "nb201":
            yield _bars(sheet, page, f"{table}-{task}".lower())
    yield from _scatters(library, page)


def _with_rankings(library: ScoreLibrary, table: str, population: str) -> tuple[dict[str, ScoreColumn], list[str]]:
    """All stored proxies that cover the population, the published rankings of them, and what is left out."""
    columns = stored_columns(library, table)
    within = library.population(table, population)
    for name in rankings.names():
        try:
            columns[f"*{name}*"] = library.ranked(table, rankings[name], within)
        except Missing:
            continue
    counts = {name: int((column.asked & within).sum()) for name, column in columns.items()}
    most = max(count for name, count in counts.items() if name not in COUNTS)
    whole = {name: column for name, column in columns.items() if counts[name] >= ENOUGH * most}
    few = [f"{name} ({counts[name]:,})" for name in columns if name not in whole]
    return whole, [f"Left out, because they have scores of fewer networks: {', '.join(few)}."] if few else []


def _bars(sheet: Sheet, page: Page, name: str) -> str:
    place = {column: at for at, column in enumerate(sheet.columns)}
    values = {
        str(row[0]).strip("*"): (cell.value, cell.low, cell.high)
        for row in sheet.rows
        if row[1] == "last" and isinstance(cell := row[place["spearman"]], Interval)
    }
    marked = [str(row[0]).strip("*") for row in sheet.rows if str(row[0]).startswith("*")]
    path = bars(page.figures / f"{name}.svg", values, label="Spearman's ρ", marked=marked)
    return page.picture(path, f"Spearman's ρ of each proxy and ranking: {sheet.title}")


def _scatters(library: ScoreLibrary, page: Page) -> Iterator[str]:
    try:
        table = library.table("nb201")
        within = library.population("nb201", "no-dead-edges")
        column = library.ranked("nb201", rankings["vkdnw-agg"], within)
        epsilon = library.peers("epsilon", "cifar10", "epsilon", "nb201")
    except Missing as missing:
        yield f"No scatter plots: {missing}."
        return
    accuracy = table.column("cifar10", "test")
    for name, each in (("vkdnw-agg", column), ("epsilon-authors", epsilon)):
        path = scatter(
            page.figures / f"scatter-{name}.svg",
            each.values.mean(axis=0)[each.asked],
            accuracy[each.asked],
            name=name,
            truth="CIFAR-10 test accuracy (%)",
        )
        yield page.picture(path, f"CIFAR-10 test accuracy against the rank by {name}")


def _beside_peers(library: ScoreLibrary) -> Iterator[str]:
    try:
        yield beside_peers(library).markdown()
    except Missing as missing:
        yield f"{missing}."


def _differences(sheets: Sequence[Sheet], page: Page) -> Iterator[str]:
    """Which correlations are not met, and a picture of all."""
    both = [
        (sheet.title, row)
        for sheet in sheets
        for row in sheet.rows
        if row[3] in CORRELATIONS and np.isfinite(_number(row[4])) and np.isfinite(_number(row[5]))
    ]
    if not both:
        return
    published, ours = (np.array([_number(row[at]) for _, row in both]) for at in (4, 5))
    path = pairs(page.figures / "published-and-ours.svg", published, ours, label="correlation or nDCG")
    near = int((np.abs(ours - published) <= TOLERANCE).sum())
    yield page.picture(path, "Published correlations against ours")
    yield f"{near} of {len(both)} published correlations and nDCGs are met within {TOLERANCE}. The others:"
    far = [(title, row) for title, row in both if abs(_number(row[5]) - _number(row[4])) > TOLERANCE]
    rows = tuple((title, *row[:2], row[3], row[4], row[5], row[6], row[13]) for title, row in far)
    columns = ("table", "row", "task", "statistic", "published", "ours", "difference", "note")
    yield Sheet("Not met within 0.03", columns, rows).markdown()


def _number(value: Value) -> float:
    return float(value) if isinstance(value, (int, float)) else float("nan")


def _pivoted(sheet: Sheet) -> str:
    """One line per row and task, one column per statistic."""
    statistics = list(dict.fromkeys(str(row[3]) for row in sheet.rows))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in sheet.rows:
        cell = f"{shown(row[4])} → {shown(row[5])}" + (f" ({shown(row[9])} counted)" if differs(row) else "")
        lines.setdefault((str(row[0]), str(row[1]), str(row[2]), str(row[13])), {})[str(row[3])] = cell
    rows = tuple(
        (label, task, metric, *(cells.get(name, "") for name in statistics), note)
        for (label, task, metric, note), cells in lines.items()
    )
    return Sheet("", ("row", "task", "metric", *statistics, "note"), rows).markdown().removeprefix("****\n\n")


def main() -> None:
    """Read the options and render."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    parser.add_argument("--draws", type=int, default=1000, help="bootstrap draws behind the intervals")
    parser.add_argument("--runs", type=int, default=0, help="runs of each search; 0 for the papers' numbers")
    given = parser.parse_args()
    page = Page(given.docs / "results.md", given.docs / "figures", given.draws, given.runs or None)
    render(ScoreLibrary(given.results), page, lambda text: print(text, flush=True))


if __name__ == "__main__":
    main()
