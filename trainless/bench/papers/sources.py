"""Where our side of a published figure comes from: our scores, rankings of them, peers' scores, fits, the table itself.

A paper's rows are text, one line each, as they are printed: ``label | source | figures | note``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from trainless.bench.papers.definition import TASKS, Answer, Figures, FigureSource, Where
from trainless.bench.score_library import Missing, ScoreColumn, ScoreLibrary, truth
from trainless.bench.sheet import Interval, Share
from trainless.bench.simulation import bench_search
from trainless.bench.statistics import evaluate
from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.scores import Record, Scores
from trainless.core.types import Floats
from trainless.rankings import Ranking, RankSum, fit_forest, fit_ridge
from trainless.rankings import ranking as named_ranking
from trainless.searchers import registry as searchers
from trainless.searchers.searcher import Told
from trainless.searchers.stopping import Budget
from trainless.spaces import space
from trainless.spaces.structure import features


def judged(library: ScoreLibrary, where: Where, column: ScoreColumn) -> Answer:
    """All statistics of a column on the networks of a population that it was asked for."""
    if where.task == "mean":
        return _mean([_judged(library, where, task, column) for task in TASKS])
    return _judged(library, where, where.task, column)


def _judged(library: ScoreLibrary, where: Where, task: str, column: ScoreColumn) -> Answer:
    try:
        accuracy = truth(library.table(where.table), task, where.metric, where.fidelity)
    except InputError as error:
        raise Missing(str(error)) from error
    chosen = library.population(where.table, where.population) & column.asked & np.isfinite(accuracy)
    if chosen.sum() < 2:
        raise Missing(f"fewer than two networks of {where.table} have both scores and {where.metric} of {task}")
    up = column.higher_is_better
    return Answer.of(evaluate(column.values[:, chosen], accuracy[chosen], higher_is_better=up, draws=where.draws))


def _mean(answers: list[Answer]) -> Answer:
    """The mean over tasks, for figures that a paper averaged so."""

    def joined(parts: list[Mapping[str, Interval]]) -> dict[str, Interval]:
        found = {}
        for name in parts[0]:
            ends = [(part[name].value, part[name].low, part[name].high) for part in parts]
            found[name] = Interval(*np.mean(ends, axis=0).tolist())
        return found

    first = answers[0]
    out, last = joined([each.out for each in answers]), joined([each.last for each in answers])
    return Answer(out, last, first.networks, first.coverage, first.seeds)


@dataclass(frozen=True)
class Ours:
    """Our stored scores by one proxy; from a file of their own where their setting is not that of the others."""

    proxy: str
    file: str = ""

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        found = library.of_file(where.table, self.file, self.proxy) if self.file else None
        return judged(library, where, found or library.ours(where.table, self.proxy))


@dataclass(frozen=True)
class OurRanking:
    """Our stored scores combined by a ranking, given itself or by its name.

    Args:
        ranking: The ranking.
        file: A file of their own for the scores, where their setting is not that of the others.
        sweep: The arguments of ``trainless bench sweep`` that make such a file, said where there is none.
    """

    ranking: Ranking | str
    file: str = ""
    sweep: str = ""

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        ranking = named_ranking(self.ranking) if isinstance(self.ranking, str) else self.ranking
        within = library.population(where.table, where.population)
        try:
            column = library.ranked(where.table, ranking, within, self.file)
        except Missing as missing:
            if not self.sweep:
                raise
            raise Missing(f"{missing}: trainless bench sweep {self.sweep}", missing.brief) from missing
        return judged(library, where, column)


@dataclass(frozen=True)
class Peers:
    """Scores that others published; for another task of the same table where they have none of this one."""

    name: str
    proxy: str
    higher_is_better: bool = True

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        from trainless.bench.tables.peers import PEERS

        if where.task not in PEERS[self.name].tasks:
            raise Missing(f"the published scores {self.name!r} have none for {where.task}")
        column = library.peers(self.name, where.task, self.proxy, where.table)
        return judged(library, where, ScoreColumn(column.values, column.asked, self.higher_is_better))


@dataclass(frozen=True)
class TableColumn:
    """A column of the table itself, such as the accuracy after few epochs; with no name, the truth (Optimal)."""

    metric: str = ""
    fidelity: int | None = None
    task: str = ""

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        table = library.table(where.table)
        task, metric = self.task or where.task, self.metric or where.metric
        try:
            values = table.column(task, metric, self.fidelity if self.metric else where.fidelity)
        except InputError as error:
            raise Missing(str(error)) from error
        return judged(library, where, ScoreColumn(values[None], np.isfinite(values)))


@dataclass(frozen=True)
class Optimum:
    """The best accuracy that there is."""

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        values = library.table(where.table).column(where.task, where.metric, where.fidelity)
        return Answer.whole({"mean": Interval(float(np.nanmax(values)))}, len(values), 1)


@dataclass(frozen=True)
class Chance:
    """No score at all: every network is as good as another (Random)."""

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        size = len(library.table(where.table))
        return judged(library, where, ScoreColumn(np.zeros((1, size)), np.full(size, True)))


@dataclass(frozen=True)
class Against:
    """A proxy's rank correlation with another proxy rather than with accuracy."""

    proxy: str
    other: str

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        one, other = (library.ours(where.table, name) for name in (self.proxy, self.other))
        values, others = one.values.mean(axis=0), other.values.mean(axis=0)
        within = library.population(where.table, where.population)
        chosen = within & one.asked & other.asked & np.isfinite(others)
        return Answer.of(evaluate(values[chosen], others[chosen], draws=where.draws))


@dataclass(frozen=True)
class Absent:
    """Nothing here, and why."""

    reason: str

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        raise Missing(self.reason)


ENOUGH = 0.8  # a search passes by the few networks that have no scores


def _estimates(mean: float, std: float, runs: int) -> dict[str, Interval]:
    """The mean over runs with its standard error's interval, and the deviation."""
    margin = 1.96 * std / math.sqrt(runs)
    return {"mean": Interval(mean, mean - margin, mean + margin), "std": Interval(std)}


@dataclass(frozen=True)
class TableSearch:
    """A search by trained accuracy after few epochs within simulated seconds, with a proxy's help or without.

    Args:
        searcher: The search method.
        proxy: The stored proxy that assists it; empty for none.
        peer: Take the proxy's scores from this published table instead.
        task: The dataset that is searched on.
        seconds: Simulated seconds; infinite where evaluations are counted.
        evaluations: Trained networks; 0 for no such limit.
    """

    searcher: str
    proxy: str = ""
    peer: str = ""
    task: str = "cifar10"
    seconds: float = 12_000.0
    evaluations: int = 0

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        worth = _worth(library, self, where.table, where.runs)
        found = worth[where.task][where.metric]
        estimates = _estimates(found["mean"], found["std"], where.runs)
        return Answer.whole(estimates, len(library.table(where.table)), where.runs)


@functools.lru_cache(maxsize=64)
def _worth(library: ScoreLibrary, what: TableSearch, table: str, runs: int) -> dict[str, dict[str, dict[str, float]]]:
    opened = library.table(table)
    assist: Callable[[Arch], float] | None = None
    if what.proxy:
        if what.peer:
            column = library.peers(what.peer, what.task, what.proxy, table)
        else:
            column = library.ours(table, what.proxy)
        assist = _lookup(library, table, column)
    budget = Budget(what.evaluations or None, simulated=what.seconds if math.isfinite(what.seconds) else None)
    return bench_search(opened, what.task, what.searcher, budget, runs, proxy=assist)


def _lookup(library: ScoreLibrary, table: str, column: ScoreColumn) -> Callable[[Arch], float]:
    rules = space(library.table(table).space)
    scores = column.upward().tolist()
    values = {rules.parse(text): value for text, value in zip(library.table(table).archs, scores, strict=True)}
    return values.__getitem__


@dataclass(frozen=True)
class Guided:
    """A search by proxies alone: a searcher is told stored scores, and its best arch is looked up.

    Args:
        searcher: The search method.
        proxies: The proxies.
        summed: Whether it is told the sum of their ranks, and not one column per proxy.
        evaluations: How many networks one run scores.
        runs: How many runs; the paper does not say how many it made.
    """

    searcher: str
    proxies: tuple[str, ...]
    summed: bool = False
    evaluations: int = 500
    runs: int = 50

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        rows = _guided(library, self, where.table)
        worth = library.table(where.table).column(where.task, where.metric)[rows]
        estimates = _estimates(float(worth.mean()), float(worth.std()), self.runs)
        estimates["seconds"] = _seconds(library, self, where.table)
        asked = np.logical_and.reduce([library.ours(where.table, proxy).asked for proxy in self.proxies])
        return Answer(estimates, estimates, len(asked), Share(int(asked.sum()), len(asked)), self.runs)


def _seconds(library: ScoreLibrary, what: Guided, table: str) -> Interval:
    """What the search would have cost: its evaluations times the proxies' measured milliseconds."""
    ms = 0.0
    for proxy in what.proxies:
        file = next(file for file, _ in library.stored(table) if proxy in file.proxies)
        ms += float(file.ms[file.proxies.index(proxy)])
    return Interval(what.evaluations * ms / 1000)


@functools.lru_cache(maxsize=32)
def _guided(library: ScoreLibrary, what: Guided, table: str) -> list[int]:
    """The rows of the archs that the runs end with."""
    opened = library.table(table)
    rules = space(opened.space)
    columns = {proxy: library.ours(table, proxy) for proxy in what.proxies}
    if min(column.asked.mean() for column in columns.values()) < ENOUGH:
        raise Missing(f"a search needs the scores of at least {ENOUGH:.0%} of the networks of {table}")
    signed = {name: column.upward() for name, column in columns.items()}
    if what.summed:
        signed = {"rank": RankSum(what.proxies).combine(list(signed.values()))}
    rows = {rules.parse(text): row for row, text in enumerate(opened.archs)}
    return [_run(what.searcher, opened.space, seed, rows, signed) for seed in range(what.runs)]


def _run(searcher: str, name: str, seed: int, rows: dict[Arch, int], signals: dict[str, Floats]) -> int:
    made = searchers[searcher](space(name), seed=seed)
    while proposals := made.ask():
        places = [rows[proposal.arch] for proposal in proposals]
        made.tell(Told(tuple(proposals), {column: values[places] for column, values in signals.items()}))
    return rows[made.best()]


TRAINED = 1024


@dataclass(frozen=True)
class Forest:
    """A random forest on 1,024 trained networks, judged on all others; repeated with other networks.

    Args:
        proxies: The scores that are features; empty for none.
        everything: Take all stored proxies.
        structure: Take GRAF's features of the graph too.
        repeats: How often, each time with other networks; the published figures are means of five runs.
    """

    proxies: tuple[str, ...] = ()
    everything: bool = False
    structure: bool = False
    repeats: int = 3

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        names, table, known = self._features(library, where)
        truth = library.table(where.table).column(where.task, where.metric, where.fidelity)
        rows = np.flatnonzero(known & np.isfinite(truth))
        if len(rows) < 2 * TRAINED:
            raise Missing(f"{len(rows)} networks have all features; {2 * TRAINED:,} are needed for a fit and its test")
        found = []
        for repeat in range(self.repeats):
            order = np.random.default_rng(repeat).permutation(rows)
            train, test = order[:TRAINED], order[TRAINED:]
            model = fit_forest(names, table[train], truth[train], seed=repeat)
            found.append(evaluate(model.predict(table[test]), truth[test], draws=0)[0].statistics)
        return Answer.whole(over_runs(found), len(rows) - TRAINED, self.repeats)

    def _features(self, library: ScoreLibrary, where: Where) -> tuple[list[str], Floats, np.ndarray]:
        within = library.population(where.table, where.population)
        names: list[str] = []
        columns: list[Floats] = []
        if self.everything or self.proxies:
            for proxy in library.proxies(where.table) if self.everything else self.proxies:
                column = library.ours(where.table, proxy)
                within = within & column.asked
                names.append(proxy)
                columns.append(column.values.mean(axis=0))
        if self.structure:
            graf = structure(library, where.table)
            names += list(graf)
            columns += list(graf.values())
        return names, np.stack(columns, axis=1), within


@functools.lru_cache(maxsize=2)
def structure(library: ScoreLibrary, name: str) -> Mapping[str, Floats]:
    """GRAF's features of every network of a table."""
    table = library.table(name)
    rules = space(table.space)
    rows = [features(rules, rules.parse(arch)) for arch in table.archs]
    return {feature: np.array([row[feature] for row in rows]) for feature in rows[0]}


def over_runs(runs: Sequence[Mapping[str, Interval]]) -> dict[str, Interval]:
    """Means over repeated runs; the interval is where the middle 95 % of runs lie."""
    return {name: _middle(np.array([run[name].value for run in runs])) for name in runs[0]}


def _middle(values: Floats) -> Interval:
    """The mean of repeats, and where the middle 95 % of them lie."""
    low, high = np.nanquantile(values, [0.025, 0.975]).tolist()
    return Interval(float(np.nanmean(values)), low, high, seed_std=float(np.nanstd(values)))


@dataclass(frozen=True)
class RidgeWeight:
    """TEACUP's bootstrapped ridge fit: the weight of one proxy over the smallest of the four, and held-out ρ.

    Args:
        proxies: The proxies that are combined.
        proxy: Whose weight; empty for the held-out correlation alone.
        tasks: The tasks that are fitted together.
        networks: How many networks; the paper has 150.
    """

    proxies: tuple[str, ...]
    proxy: str = ""
    tasks: tuple[str, ...] = ("cifar10", "ImageNet16-120")
    networks: int = 150

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        weights, spread, held_out = fitted(library, where, self.proxies, self.tasks, self.networks)
        estimates = {f"held_out_{task}": estimate for task, estimate in zip(self.tasks, held_out, strict=True)}
        if self.proxy:
            place = self.proxies.index(self.proxy)
            estimates["weight"] = replace(_middle(spread[:, place]), value=weights[place])
        return Answer.whole(estimates, self.networks, len(spread))


@functools.lru_cache(maxsize=16)
def fitted(
    library: ScoreLibrary, where: Where, proxies: tuple[str, ...], tasks: tuple[str, ...], networks: int
) -> tuple[list[float], Floats, list[Interval]]:
    """The scaled weights, their bootstrap distribution and the held-out correlations."""
    columns = {proxy: library.ours(where.table, proxy) for proxy in proxies}
    known = np.logical_and.reduce([column.asked for column in columns.values()])
    known = known & library.population(where.table, where.population)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(known))[:networks]
    records = [
        Record(str(row), proxy, value, column.higher_is_better, "ok" if value == value else "failed")
        for proxy, column in columns.items()
        for row, value in zip(rows, column.values.mean(axis=0)[rows].tolist(), strict=True)
    ]
    table = library.table(where.table)
    fit = fit_ridge([(Scores(records), table.column(task, "test")[rows]) for task in tasks], proxies, draws=2000)
    smallest = np.abs(fit.coefficients.mean(axis=0)).min()
    held_out = [_middle(fit.held_out[:, place]) for place in range(len(tasks))]
    return list(fit.weights.values()), fit.coefficients / smallest, held_out


def rows(
    text: str,
    names: Sequence[str],
    sources: Mapping[str, FigureSource] = MappingProxyType({}),
    *,
    tasks: Sequence[str] = TASKS,
    metric: str = "",
    words: tuple[str, str] = ("valid", "test"),
) -> tuple[Figures, ...]:
    """Read rows of a published table.

    A line is ``label | source | figures | note``. The source is a key of ``sources`` or else a proxy of ours; where it
    is empty, the label is it. Figures stand task by task, each task's statistics side by side; ``1.5±0.2`` is two of
    them and ``30%`` is 0.3. ``figures / figures`` makes two rows, of validation and of test accuracy.

    Args:
        text: The lines.
        names: The statistics.
        sources: Sources other than a proxy's stored scores.
        tasks: The tasks.
        metric: The accuracy that counts; the definition's where it is empty.
        words: What the labels of rows of validation and test accuracy end with.

    Example:
        >>> [row.published for row in rows("SNIP | snip | 0.6 0.8 0.5 0.7", ("kendall", "spearman"), tasks=("a", "b"))]
        [{'a': {'kendall': 0.6, 'spearman': 0.8}, 'b': {'kendall': 0.5, 'spearman': 0.7}}]
    """
    found = []
    for line in text.strip().splitlines():
        label, named, figures, note = [*(part.strip() for part in line.split("|")), ""][:4]
        source = sources.get(named or label) or Ours(named or label)
        both = figures.split(" / ")
        ways = [("", metric)] if len(both) == 1 else [(f", {words[0]}", "valid"), (f", {words[1]}", "test")]
        for (end, accuracy), part in zip(ways, both, strict=True):
            values = iter([_figure(each) for pair in part.split() for each in pair.split("±")])
            published = {task: {name: next(values) for name in names} for task in tasks}
            found.append(Figures(f"{label}{end}", source, published, accuracy, note))
    return tuple(found)


def _figure(text: str) -> float:
    """A figure as it is printed: counts stay whole numbers, a percentage is a share."""
    if text.endswith("%"):
        return float(text[:-1]) / 100
    return int(text) if text.isdigit() else float(text)
