"""The published tables and figures of five papers, each as a definition that can be run.

A paper is a TOML file: the ``sources`` of our figures by name, ``texts`` that notes refer to by name, and
``definitions`` whose rows are text, one line each, as they are printed: ``label | source | figures | note``.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from trainless.bench.papers.kinds import KINDS
from trainless.bench.papers.sources import SEARCHES, TASKS, Answer, FigureSource, Ours, Where
from trainless.bench.score_library import Missing, ScoreLibrary
from trainless.bench.sheet import Sheet, Value
from trainless.core.errors import UnknownName

COLUMNS = (
    *("row", "task", "metric", "statistic", "published", "ours", "difference", "low", "high", "failures last"),
    *("coverage", "networks", "runs", "note"),
)
BRIEF = ("row", "task", "statistic", "published", "ours", "difference", "low", "high", "note")


PAPERS = ("teacup", "epsilon", "gradsign", "teg", "vkdnw")


@dataclass(frozen=True)
class Figures:
    """One row of a published table.

    ``published`` is task to statistic to the printed figure, NaN where the paper shows a picture and no figure; a
    ``metric`` overrides the definition's.
    """

    label: str
    source: FigureSource
    published: Mapping[str, Mapping[str, float]]
    metric: str = ""
    note: str = ""


@dataclass(frozen=True)
class Definition:
    """A published table or figure; its name is ``paper:table``, such as ``vkdnw:table1``.

    The notes say how our side differs from the paper's, where it does.
    """

    name: str
    title: str
    rows: tuple[Figures, ...]
    where: Where
    notes: tuple[str, ...]


def definitions() -> dict[str, Definition]:
    """Every definition by its name.

    Example:
        >>> definitions()["vkdnw:table1"].where.population
        'no-dead-edges'
    """
    read = [tomllib.loads((files(__name__) / f"{paper}.toml").read_text("utf-8")) for paper in PAPERS]
    found = [_definition(paper, each) for paper in read for each in paper["definitions"]]
    return {each.name: each for each in found}


def _definition(paper: Mapping[str, Any], table: Mapping[str, Any]) -> Definition:
    texts = paper.get("texts", {})
    sources = {name: _source(**given) for name, given in {**paper["sources"], **table.get("sources", {})}.items()}
    found = [row for block in table["rows"] for row in rows(sources=sources, texts=texts, **block)]
    notes = tuple(texts.get(note, note) for note in table.get("notes", ()))
    return Definition(
        f"{paper['paper']}:{table['table']}", table["title"], tuple(found), Where(**table.get("where", {})), notes
    )


def _source(kind: str, **given: Any) -> FigureSource:
    return KINDS[kind](**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def rows(
    figures: str,
    statistics: Sequence[str],
    *,
    sources: Mapping[str, FigureSource],
    texts: Mapping[str, str],
    tasks: Sequence[str] = TASKS,
    metric: str = "",
    words: Sequence[str] = ("valid", "test"),
    apart: bool = False,
) -> Iterator[Figures]:
    """Read rows of a published table.

    The source of a line is a key of ``sources`` or else a proxy of ours; where it is empty, the label is it. Figures
    stand task by task, each task's statistics side by side; ``1.5±0.2`` is two of them and ``30%`` is 0.3.
    ``figures / figures`` makes two rows, of validation and of test accuracy, whose labels end with the two ``words``;
    ``apart`` makes a row of each task. A note that is a key of ``texts`` stands for that text.

    Example:
        >>> found = rows("SNIP | snip | 0.6 0.8 0.5 0.7", ("kendall", "ndcg"), sources={}, texts={}, tasks=("a", "b"))
        >>> next(found).published
        {'a': {'kendall': 0.6, 'ndcg': 0.8}, 'b': {'kendall': 0.5, 'ndcg': 0.7}}
    """
    for line in figures.strip().splitlines():
        label, named, printed, note = [*(part.strip() for part in line.split("|")), ""][:4]
        source, note = sources.get(named or label) or Ours(named or label), texts.get(note, note)
        both = printed.split(" / ")
        ways = [("", metric)] if len(both) == 1 else [(f", {words[0]}", "valid"), (f", {words[1]}", "test")]
        for (end, accuracy), part in zip(ways, both, strict=True):
            values = iter([_figure(each) for pair in part.split() for each in pair.split("±")])
            published = {task: {name: next(values) for name in statistics} for task in tasks}
            for each in [{task: published[task]} for task in tasks] if apart else [published]:
                yield Figures(f"{label}{end}", source, each, accuracy, note)


def _figure(text: str) -> float:
    """A figure as it is printed: counts stay whole numbers, a percentage is a share."""
    if text.endswith("%"):
        return float(text[:-1]) / 100
    return int(text) if text.isdigit() else float(text)


def find(text: str) -> list[Definition]:
    """One definition by its name, or all of a paper's.

    Example:
        >>> [each.name for each in find("teg-nas")][:2]
        ['teg-nas:figure1', 'teg-nas:figure2']
    """
    known = definitions()
    if text in known:
        return [known[text]]
    chosen = [each for name, each in known.items() if text in ("all", name.partition(":")[0])]
    if not chosen:
        raise UnknownName(f"no published table is called {text!r}; there are: {', '.join(known)}")
    return chosen


def compare(definition: Definition, library: ScoreLibrary, *, draws: int = 200, runs: int | None = None) -> Sheet:
    """Published figures and ours, side by side; ``runs`` of each search, the paper's number where it is None."""
    lacking: dict[str, None] = {}
    where = dataclasses.replace(definition.where, draws=draws, runs=runs or definition.where.runs)
    found = [row for figures in definition.rows for row in _compared(figures, where, library, lacking)]
    absent = sum(row[5] is None for row in found)
    searched = {figures.label for figures in definition.rows if isinstance(figures.source, SEARCHES)}
    runs_of = sorted({row[12] for row in found if row[0] in searched and isinstance(row[12], int)})
    notes = (
        "ours: failures left out, as the papers do; failures last: ranked last and counted. low and high: 95 %"
        f" ({draws} bootstrap draws over networks and seeds; over repeats for fits and searches).",
        *((f"{absent} of {len(found)} figures have no data here; the note says why.",) if absent else ()),
        *(f"No data here: {each}." for each in lacking),
        *((f"Runs of each search: {', '.join(map(str, runs_of))}.",) if runs_of else ()),
        *definition.notes,
        *_stored(definition, library),
    )
    counted = ("failures last",) if any(differs(row) for row in found) else ()
    return Sheet(definition.title, COLUMNS, tuple(found), notes, (*BRIEF, *counted))


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


def _compared(
    figures: Figures, given: Where, library: ScoreLibrary, lacking: dict[str, None]
) -> Iterator[tuple[Value, ...]]:
    """Rows of a sheet; what is said of missing data in more words than fit a row goes to ``lacking``."""
    for task, published in figures.published.items():
        where = dataclasses.replace(given, task=task, metric=figures.metric or given.metric)
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
            if statistic in answer.lacking:
                yield (*about, statistic, value, *(None,) * 8, f"no data here: {answer.lacking[statistic]}")
            else:
                yield (*about, statistic, value, *_figures(answer, statistic, value), figures.note)


def _figures(answer: Answer, statistic: str, published: float) -> tuple[Value, ...]:
    ours = answer.out[statistic]
    counted = answer.last[statistic].value
    numbers = (ours.value, ours.value - published, ours.low, ours.high, counted, answer.coverage)
    return (*numbers, answer.networks, answer.seeds)
