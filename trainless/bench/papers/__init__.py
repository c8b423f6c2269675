"""The published tables and figures of five papers, each as a definition that can be run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from trainless.bench.papers.definition import Answer, Definition, Figures
from trainless.bench.score_library import Missing, ScoreLibrary
from trainless.bench.sheet import Sheet, Value
from trainless.core.errors import UnknownName

COLUMNS = (
    *("row", "task", "metric", "statistic", "published", "ours", "difference", "low", "high", "failures last"),
    *("coverage", "networks", "runs", "note"),
)
BRIEF = ("row", "task", "statistic", "published", "ours", "difference", "low", "high", "note")


def definitions() -> dict[str, Definition]:
    """Every definition by its name.

    Example:
        >>> definitions()["vkdnw:table1"].where.population
        'no-dead-edges'
    """
    from trainless.bench.papers import epsilon, gradsign, teacup, teg, vkdnw

    return {each.name: each for paper in (teacup, epsilon, gradsign, teg, vkdnw) for each in paper.DEFINITIONS}


def find(text: str) -> list[Definition]:
    """One definition by its name, or all of a paper's.

    Example:
        >>> [each.name for each in find("teg-nas")]
        ['teg-nas:figure1', 'teg-nas:table2', 'teg-nas:table5']
    """
    known = definitions()
    if text in known:
        return [known[text]]
    chosen = [each for name, each in known.items() if text in ("all", name.partition(":")[0])]
    if not chosen:
        raise UnknownName(f"no published table is called {text!r}; there are: {', '.join(known)}")
    return chosen


def compare(definition: Definition, library: ScoreLibrary, *, draws: int = 200, runs: int | None = None) -> Sheet:
    """Published figures and ours, side by side.

    Args:
        definition: The published table.
        library: Where our figures come from.
        draws: Bootstrap draws behind the intervals.
        runs: Runs of each search; the paper's number where it is None.
    """
    lacking: dict[str, None] = {}
    rows = [row for figures in definition.rows for row in _rows(definition, figures, library, draws, runs, lacking)]
    absent = sum(row[5] is None for row in rows)
    notes = (
        "ours: failures left out, as the papers do; failures last: ranked last and counted. low and high: 95 %"
        f" ({draws} bootstrap draws over networks and seeds; over repeats for fits and searches).",
        *((f"{absent} of {len(rows)} figures have no data here; the note says why.",) if absent else ()),
        *(f"No data here: {each}." for each in lacking),
        *definition.notes,
        *_stored(definition, library),
    )
    counted = ("failures last",) if any(differs(row) for row in rows) else ()
    return Sheet(definition.title, COLUMNS, tuple(rows), notes, (*BRIEF, *counted))


def differs(row: Sequence[Value]) -> bool:
    """Whether counting failures changes a figure by more than 0.01.

    Example:
        >>> differs(("epsilon", "cifar10", "test", "spearman", 0.87, 0.869, -0.001, 0.86, 0.88, 0.005))
        True
    """
    ours, last = row[5], row[9]
    return isinstance(ours, float) and isinstance(last, float) and abs(ours - last) > 0.01


def _stored(definition: Definition, library: ScoreLibrary) -> tuple[str, ...]:
    try:
        return tuple(f"Our scores: {line}." for line in library.describe(definition.where.table))
    except Missing:
        return ()


def _rows(
    definition: Definition,
    figures: Figures,
    library: ScoreLibrary,
    draws: int,
    runs: int | None,
    lacking: dict[str, None],
) -> Iterator[tuple[Value, ...]]:
    """Rows of a sheet; what is said of missing data in more words than fit a row goes to ``lacking``."""
    for task, published in figures.published.items():
        where = dataclasses.replace(
            definition.where,
            task=task,
            metric=figures.metric or definition.where.metric,
            draws=draws,
            runs=runs or definition.where.runs,
        )
        about = (figures.label, task, where.metric)
        try:
            answer = figures.source.answer(library, where)
        except Missing as missing:
            if missing.brief != str(missing):
                lacking[str(missing)] = None
            for statistic, value in published.items():
                yield (*about, statistic, value, *(None,) * 8, f"no data here: {missing.brief}")
            continue
        for statistic, value in published.items():
            yield (*about, statistic, value, *_figures(answer, statistic, value), figures.note)


def _figures(answer: Answer, statistic: str, published: float) -> tuple[Value, ...]:
    ours = answer.out[statistic]
    counted = answer.last[statistic].value
    numbers = (ours.value, ours.value - published, ours.low, ours.high, counted, answer.coverage)
    return (*numbers, answer.networks, answer.seeds)
