"""Write docs/results.md and the pages below it from results/leaderboard.json and results/papers.json.

``python -m benchmarks.measure_results`` measures both; ``make docs-figures`` renders them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from trainless.bench.leaderboard import FILE, Entry, Leaderboard, Standing, read
from trainless.bench.papers import PAPERS, definitions, differs, stored
from trainless.bench.papers.states import State, states
from trainless.bench.sheet import Sheet, Value, shown
from trainless.core.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
RESULTS, DOCS = ROOT / "results", ROOT / "docs"
CORRELATIONS = ("spearman", "kendall", "ndcg_1000")
TOLERANCE = 0.03
NOT_COVERED = "–"
SCORES = "Our scores: "


def pages(results: Path = RESULTS) -> dict[str, str]:
    """Every page by its path in docs/."""
    found = read(results / FILE)
    known = stored.read(results / stored.FILE)
    if lacking := [name for name in definitions() if name not in known]:
        raise InputError(f"no results are stored: python -m benchmarks.measure_results {' '.join(lacking)}")
    sheets = {name: known[name] for name in definitions()}
    peers = known[stored.PEERS]
    notes = (results / "notes.md").read_text(encoding="utf-8").strip()
    everything = states(results)
    parts = {
        "results.md": ["# Results", SUMMARY, _summary(found), CELLS, _costs(found), *_met(sheets.values()), DETAILS],
        "results/leaderboards.md": ["# Leaderboards in full", FULL, *_about(found), *_boards(found)],
        "results/differences.md": [
            *("# Where papers and we differ", notes, "## Another program beside ours", peers.markdown()),
            *("## Published figures that are not met", *_far(sheets.values())),
        ],
    }
    for paper in PAPERS:
        own = [sheet for name, sheet in sheets.items() if name.partition(":")[0].partition("-")[0] == paper]
        tables = [part for sheet in own for part in (f"## {sheet.title}", _pivoted(sheet), *_said(sheet))]
        scores = "\n".join(f"- {line}" for line in _scores(own))
        items = [state for state in everything if state.item.paper.partition("-")[0] == paper]
        parts[f"results/{paper}.md"] = [
            *(f"# {NAMES[paper]}, published beside ours", ITEMS, _items(items), READING, *tables),
            *(("## Our scores", scores) if scores else ()),
        ]
    return {path: "\n\n".join(each) + "\n" for path, each in parts.items()}


NAMES = {"teacup": "TEACUP", "epsilon": "Epsilon", "gradsign": "GradSign", "teg": "TEG-NAS", "vkdnw": "VKDNW"}
SUMMARY = """A *proxy* looks at a network before it is trained and says a number; a *ranking* (in italics) joins
several. How well do they order networks by what these reach when they are trained? Others have trained the networks of
a *space*, or a part of them, and published the accuracies: nb201 is NAS-Bench-201, nb101 NAS-Bench-101, darts has
networks of DARTS, nb-macro is NAS-Bench-Macro and transnas-micro TransNAS-Bench-101 micro. Of NAS-Bench-201's networks
*no-dead-edges* are those without parts that do nothing.

Each cell is Spearman's ρ and its 95 % interval: 1 is the order that training gives, 0 is chance, and below 0 the worse
networks come first. Networks without a score are ranked last, and where there are any, how many have one
stands beside. [The same to sort](leaderboard/index.html) has a scatter plot, all statistics and a permanent link for
every cell, and a JSON file; one command makes that page with a proxy of yours:

```sh
trainless bench site --out site --proxy my_proxy.py:name --table nb201 --sample 500
```"""
CELLS = """A dash: not all networks of that table were scored by it. An interval is of the networks alone, not of
other tables or seeds."""
DETAILS = """In full: [every statistic of every leaderboard](results/leaderboards.md),
[where papers and we differ, and why](results/differences.md), and the papers' tables one by one:
[TEACUP](results/teacup.md), [Epsilon](results/epsilon.md), [GradSign](results/gradsign.md),
[TEG-NAS](results/teg.md), [VKDNW](results/vkdnw.md). What a proxy measures is in [proxies](proxies.md), which ranking
to take in [rankings](ranking.md), and what searches find with them in [search](search.md)."""
FULL = """Networks without a score are never dropped silently: where there are any, a proxy has two rows, *last*
(ranked last, and counted) and *out* (left out, as most papers do)."""
ITEMS = """Every table and figure of the paper, and where it stands. A published figure agrees where it lies in our
95 % interval or within <!-- setting -->0.03<!-- --> of ours, half a point of accuracy or 5 networks; deviations and
times are not judged."""
READING = """Below are the published figures beside ours. Each cell: published → ours. Ours leaves failures out, as the
papers do. `–`: the paper prints no figure,
or there is no data here; `trainless bench paper NAME` gives intervals, coverage and the reason. *(… counted)*: with
networks that have no score ranked last, where that makes a difference."""


def _summary(found: Leaderboard) -> str:
    """One row for each proxy and ranking, one column for each contest."""
    names = list(dict.fromkeys(entry.name for standing in found.standings for entry in standing.entries))
    entries = [{entry.name: entry for entry in standing.entries} for standing in found.standings]
    head = [f"{standing.contest.title} ({standing.networks:,})" for standing in found.standings]
    rows = tuple(
        (_name(entries, name), *(_cell(each.get(name)) for each in entries), found.costs[name]) for name in names
    )
    return Sheet("", ("proxy or *ranking*", *head, "cost, FBE"), rows).markdown().removeprefix("****\n\n")


def _name(entries: Sequence[Mapping[str, Entry]], name: str) -> str:
    kind = next(each[name].kind for each in entries if name in each)
    return f"*{name}*" if kind == "ranking" else name


def _cell(entry: Entry | None) -> str:
    if entry is None:
        return NOT_COVERED
    missing = "" if entry.coverage.value == 1 else f" ({entry.coverage.shown()})"
    return f"{entry.last['spearman'].shown()}{missing}"


def _costs(found: Leaderboard) -> str:
    return "\n".join(f"- {line}" for line in found.about if line.startswith("cost"))


def _about(found: Leaderboard) -> Iterator[str]:
    yield "\n".join(f"- {line}" for line in found.about)


def _boards(found: Leaderboard) -> Iterator[str]:
    for standing in found.standings:
        yield f"## {standing.contest.title}"
        yield standing.sheet().markdown().partition("\n\n")[2]
        if name := _picture(standing):
            yield f"![Spearman's ρ of each proxy and ranking: {standing.contest.title}](../figures/{name})"


def _picture(standing: Standing) -> str:
    """The file of a contest's picture; of two populations of a table one has none."""
    contest = standing.contest
    return (
        ""
        if contest.population == "all" and contest.table == "nb201"
        else f"{contest.table}-{contest.task}.svg".lower()
    )


def pictures(folder: Path, results: Path = RESULTS) -> None:
    """Draw the pictures of the pages, by matplotlib."""
    from trainless.bench.figures import bars, pairs

    for standing in read(results / FILE).standings:
        if name := _picture(standing):
            rho = {entry.name: entry.last["spearman"] for entry in standing.entries}
            values = {each: (cell.value, cell.low, cell.high) for each, cell in rho.items()}
            marked = [entry.name for entry in standing.entries if entry.kind == "ranking"]
            bars(folder / name, values, label="Spearman's ρ", marked=marked)
    known = stored.read(results / stored.FILE)
    both = list(_both(known[name] for name in definitions()))
    published, ours = (np.array([_number(row[at]) for _, row in both]) for at in (4, 5))
    pairs(folder / "published-and-ours.svg", published, ours, label="correlation or nDCG")


def _both(sheets: Iterable[Sheet]) -> Iterator[tuple[str, tuple[Value, ...]]]:
    """Correlations that the paper prints and that we have."""
    for sheet in sheets:
        for row in sheet.rows:
            if row[3] in CORRELATIONS and np.isfinite(_number(row[4])) and np.isfinite(_number(row[5])):
                yield sheet.title, row


def _is_far(row: Sequence[Value]) -> bool:
    return abs(_number(row[5]) - _number(row[4])) > TOLERANCE


def _met(sheets: Iterable[Sheet]) -> Iterator[str]:
    """How many published correlations are met, and a picture of all."""
    both = list(_both(sheets))
    near = sum(not _is_far(row) for _, row in both)
    yield "## Published figures beside ours"
    yield "![Published correlations against ours](figures/published-and-ours.svg)"
    yield f"{near} of {len(both)} published correlations and nDCGs are met within {TOLERANCE}."


def _far(sheets: Iterable[Sheet]) -> Iterator[str]:
    far = [(title, row) for title, row in _both(sheets) if _is_far(row)]
    rows = tuple((title, *row[:2], row[3], row[4], row[5], row[6], row[13]) for title, row in far)
    columns = ("table", "row", "task", "statistic", "published", "ours", "difference", "note")
    yield Sheet(f"Not met within {TOLERANCE}", columns, rows).markdown()


def _number(value: Value) -> float:
    return float(value) if isinstance(value, (int, float)) else float("nan")


def _items(found: Iterable[State]) -> str:
    """The state of every table and figure of a paper."""
    rows = tuple((each.item.label, each.item.about, each.word, each.figures, each.why) for each in found)
    head = ("item", "shows", "state", "figures", "why, or what is needed")
    return Sheet("", head, rows).markdown().removeprefix("****\n\n")


def _said(sheet: Sheet) -> list[str]:
    """What is said below a table of a paper; where the scores come from is said once for all tables of a page."""
    return [note for note in sheet.notes[1:] if not note.startswith(SCORES)]


def _scores(sheets: Iterable[Sheet]) -> list[str]:
    """Where the scores of these tables come from, each file once."""
    found = (note.removeprefix(SCORES) for sheet in sheets for note in sheet.notes if note.startswith(SCORES))
    return list(dict.fromkeys(found))


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
