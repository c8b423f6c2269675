"""Where our side of a published figure comes from: our scores and rankings, peers' scores, fits, the table itself."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, Protocol

import numpy as np

from trainless.bench.score_library import Missing, ScoreColumn, ScoreLibrary, in_words, truth
from trainless.bench.sheet import Interval, Share
from trainless.bench.simulation import bench_search
from trainless.bench.statistics import Evaluation, evaluate
from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.scores import Record, Scores
from trainless.core.types import Floats
from trainless.rankings import Ranking, fit_forest, fit_ridge
from trainless.rankings import registry as rankings
from trainless.searchers import registry as searchers
from trainless.searchers.searcher import Told
from trainless.searchers.stopping import Budget
from trainless.spaces import space
from trainless.spaces.structure import features

TASKS = ("cifar10", "cifar100", "ImageNet16-120")
ENOUGH = 0.8  # a search passes by the few networks that have no scores
TRAINED = 1024


@dataclass(frozen=True)
class Where:
    """On what a figure is measured; ``fidelity`` is epochs of training, all where it is None."""

    table: str = "nb201"
    task: str = "cifar10"
    metric: str = "test"
    population: str = "all"
    fidelity: int | None = None
    draws: int = 200
    runs: int = 500


@dataclass(frozen=True)
class Answer:
    """Our estimates with failures left out as the papers do, and with failures ranked last.

    ``coverage`` says how many scores there are, of how many that were asked for; ``lacking`` why a statistic is not
    there.
    """

    out: Mapping[str, Interval]
    last: Mapping[str, Interval]
    networks: int
    coverage: Share
    seeds: int
    lacking: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, judged: tuple[Evaluation, Evaluation]) -> Answer:
        """All statistics of a column."""
        last, out = judged
        return cls(out.statistics, last.statistics, last.population, Share(last.scored, last.asked), last.seeds)

    @classmethod
    def whole(cls, estimates: Mapping[str, Interval], networks: int, seeds: int) -> Answer:
        """Estimates to which no failure belongs."""
        return cls(estimates, estimates, networks, Share(networks, networks), seeds)


class FigureSource(Protocol):
    """Where our side of a figure comes from."""

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        """The estimates; raises Missing where the data does not exist here."""
        ...


def judged(library: ScoreLibrary, where: Where, column: ScoreColumn) -> Answer:
    """All statistics of a column on the networks of a population that it was asked for."""
    if where.task == "mean":
        return _mean([_judged(library, where, task, column) for task in TASKS])
    return _judged(library, where, where.task, column)


def _judged(library: ScoreLibrary, where: Where, task: str, column: ScoreColumn) -> Answer:
    try:
        accuracy = truth(library.table(where.table), task, where.metric, where.fidelity)
    except InputError as error:
        raise Missing(in_words(error)) from error
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
    """Our stored scores by one proxy; from a file of their own where their setting is not that of the others.

    Such a file's classes count once each, or with all their ``twins``.
    """

    proxy: str
    file: str = ""
    twins: bool = False

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        found = library.of_file(where.table, self.file, self.proxy, self.twins) if self.file else None
        return judged(library, where, found or library.ours(where.table, self.proxy))


@dataclass(frozen=True)
class OnTable:
    """Our stored scores by a proxy on another table than the definition's."""

    table: str
    proxy: str

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        library.table(self.table)  # the accuracies are what is missing first
        return Ours(self.proxy).answer(library, replace(where, table=self.table))


@dataclass(frozen=True)
class OurRanking:
    """Our stored scores combined by a ranking, given itself or by its name.

    The scores are of a ``file`` of their own where their setting is not that of the others; the ``command`` that makes
    such a file is said where there is none.
    """

    ranking: Ranking | str
    file: str = ""
    command: str = ""

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        ranking = rankings[self.ranking] if isinstance(self.ranking, str) else self.ranking
        within = library.population(where.table, where.population)
        try:
            column = library.ranked(where.table, ranking, within, self.file)
        except Missing as missing:
            if not self.command:
                raise
            raise Missing(f"{missing}: {self.command}", missing.brief) from missing
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
            raise Missing(in_words(error)) from error
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
    """A proxy's rank correlation with another proxy rather than with accuracy, both turned so that higher is better."""

    proxy: str
    other: str

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        one, other = (library.ours(where.table, name) for name in (self.proxy, self.other))
        values, others = one.upward(), other.upward()
        within = library.population(where.table, where.population)
        chosen = within & one.asked & other.asked & np.isfinite(others)
        return Answer.of(evaluate(values[chosen], others[chosen], draws=where.draws))


@dataclass(frozen=True)
class Absent:
    """Nothing here, and why: ``data`` is needed, it is ``quoted`` from others in the paper, or not built ``yet``."""

    reason: str
    lacks: Literal["data", "quoted", "yet"] = "data"

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        raise Missing(self.reason)


def estimates_over(reached: Floats) -> dict[str, Interval]:
    """The mean over runs and the deviation.

    Example:
        >>> estimates_over(np.array([1.0, 3.0]))["mean"].value
        2.0
    """
    return _estimates(float(reached.mean()), float(reached.std()), len(reached))


def _estimates(mean: float, std: float, runs: int) -> dict[str, Interval]:
    """The mean over runs with its standard error's interval, and the deviation."""
    margin = 1.96 * std / math.sqrt(runs)
    return {"mean": Interval(mean, mean - margin, mean + margin), "std": Interval(std)}


@dataclass(frozen=True)
class TableSearch:
    """A search by trained accuracy after few epochs within simulated seconds, with a proxy's help or without.

    The proxy's scores are ours or a ``peer``'s published ones. The budget is simulated ``seconds`` (infinite for none)
    and trained networks, ``evaluations`` (0 for no such limit).
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
    """A search by proxies alone: a searcher is told one column of stored scores per proxy, and its best is looked up.

    The paper made four runs of each search.
    """

    searcher: str
    proxies: tuple[str, ...]

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        found = _guided(library, self, where.table, where.runs)
        worth = library.table(where.table).column(where.task, where.metric)[[row for row, _ in found]]
        estimates = estimates_over(worth)
        lacking = {}
        try:
            seconds = library.price(where.table, self.proxies) / 1000
            estimates["seconds"] = Interval(float(np.mean([count for _, count in found])) * seconds)
        except Missing as missing:
            lacking["seconds"] = str(missing)
        asked = np.logical_and.reduce([library.ours(where.table, proxy).asked for proxy in self.proxies])
        coverage = Share(int(asked.sum()), len(asked))
        return Answer(estimates, estimates, len(asked), coverage, where.runs, lacking)


@functools.lru_cache(maxsize=32)
def _guided(library: ScoreLibrary, what: Guided, table: str, runs: int) -> list[tuple[int, int]]:
    """The row of the arch that each run ends with, and how many archs it evaluated."""
    opened = library.table(table)
    rules = space(opened.space)
    columns = {proxy: library.ours(table, proxy) for proxy in what.proxies}
    if min(column.asked.mean() for column in columns.values()) < ENOUGH:
        raise Missing(f"a search needs the scores of at least {ENOUGH:.0%} of the networks of {table}")
    signed = {name: column.upward() for name, column in columns.items()}
    rows = {rules.parse(text): row for row, text in enumerate(opened.archs)}
    return [_run(what.searcher, opened.space, seed, rows, signed) for seed in range(runs)]


def _run(searcher: str, name: str, seed: int, rows: dict[Arch, int], signals: dict[str, Floats]) -> tuple[int, int]:
    made, count = searchers[searcher](space(name), seed=seed), 0
    while proposals := made.ask():
        count += len(proposals)
        places = [rows[proposal.arch] for proposal in proposals]
        made.tell(Told(tuple(proposals), {column: values[places] for column, values in signals.items()}))
    return rows[made.best()], count


@dataclass(frozen=True)
class Forest:
    """A random forest on 1,024 trained networks, judged on all others; repeated with other networks.

    Its features are the scores by ``proxies`` or by ``everything`` that is stored, and GRAF's features of the graph
    (``structure``). The published figures are means of five runs.
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
        repeats = min(self.repeats, where.runs)
        for repeat in range(repeats):
            order = np.random.default_rng(repeat).permutation(rows)
            train, test = order[:TRAINED], order[TRAINED:]
            model = fit_forest(names, table[train], truth[train], seed=repeat)
            found.append(evaluate(model.predict(table[test]), truth[test], draws=0)[0].statistics)
        return Answer.whole(over_runs(found), len(rows) - TRAINED, repeats)

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
    return {name: middle(np.array([run[name].value for run in runs])) for name in runs[0]}


def middle(values: Floats) -> Interval:
    """The mean of repeats, and where the middle 95 % of them lie."""
    low, high = np.nanquantile(values, [0.025, 0.975]).tolist()
    return Interval(float(np.nanmean(values)), low, high, seed_std=float(np.nanstd(values)))


@dataclass(frozen=True)
class RidgeWeight:
    """TEACUP's bootstrapped ridge fit: the weight of one proxy over the smallest of the four, and held-out ρ.

    With no ``proxy`` it is the held-out correlation alone; ``tasks`` are fitted together.
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
            estimates["weight"] = replace(middle(spread[:, place]), value=weights[place])
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
    held_out = [middle(fit.held_out[:, place]) for place in range(len(tasks))]
    return list(fit.weights.values()), fit.coefficients / smallest, held_out


@dataclass(frozen=True)
class Theory:
    """GradSign's lemma and theorems on random small networks: the share of draws for which each holds."""

    network: Literal["linear", "tanh", "relu"]
    draws: int = 10

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        from scipy.stats import binomtest

        from trainless.bench.papers.theory import check, psi_and_gradsign

        found = {}
        for name, share in asdict(check(self.network, draws=self.draws)).items():
            interval = binomtest(round(share * self.draws), self.draws).proportion_ci()
            found[name] = Interval(share, float(interval.low), float(interval.high))
        found["psi_and_gradsign"] = Interval(psi_and_gradsign(self.network))
        return Answer.whole(found, self.draws, self.draws)


@dataclass(frozen=True)
class PredictorSource:
    """A predictor that learns from ``trained`` networks of NAS-Bench-201, judged on 7,813 others, four times."""

    predictor: Literal["mlp", "lstm", "gates-1", "gates-2"]
    trained: int
    judged: int = 7813
    repeats: int = 4

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        from trainless.bench.papers.predictors import predict

        table = library.table(where.table)
        rules = space(table.space)
        archs = [rules.parse(text) for text in table.archs]
        found = []
        for repeat in range(repeats := min(self.repeats, where.runs)):
            order = np.random.default_rng(repeat).permutation(len(archs))
            train, test = order[: self.trained], order[self.trained : self.trained + self.judged]
            seen, others = ([archs[row] for row in rows] for rows in (train, test))
            runs = []
            for task in TASKS if where.task == "mean" else (where.task,):
                truth = table.column(task, where.metric, where.fidelity)
                values = predict(self.predictor, seen, truth[train], others, repeat)
                runs.append(evaluate(values, truth[test], draws=0)[0].statistics)
            found.append({name: Interval(float(np.mean([run[name].value for run in runs]))) for name in runs[0]})
        return Answer.whole(over_runs(found), self.judged, repeats)


SEARCHES = (TableSearch, Guided)
