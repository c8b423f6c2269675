"""Where our side of a published figure comes from: our scores, rankings of them, peers' scores, the table itself."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from trainless.bench.papers.definition import TASKS, Answer, Where
from trainless.bench.score_library import Column, Evidence, Missing, truth
from trainless.bench.sheet import Share
from trainless.bench.simulation import bench_search
from trainless.bench.statistics import Estimate, evaluate
from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.types import Floats
from trainless.rankings import Ranking, RankSum
from trainless.rankings import ranking as named_ranking
from trainless.searchers import registry as searchers
from trainless.searchers.searcher import Told
from trainless.searchers.stopping import Budget
from trainless.spaces import space


def judged(evidence: Evidence, where: Where, column: Column) -> Answer:
    """All statistics of a column on the networks of a population that it was asked for."""
    if where.task == "mean":
        return _mean([_judged(evidence, where, task, column) for task in TASKS])
    return _judged(evidence, where, where.task, column)


def _judged(evidence: Evidence, where: Where, task: str, column: Column) -> Answer:
    try:
        accuracy = truth(evidence.table(where.table), task, where.metric, where.fidelity)
    except InputError as error:
        raise Missing(str(error)) from error
    chosen = evidence.population(where.table, where.population) & column.asked & np.isfinite(accuracy)
    if chosen.sum() < 2:
        raise Missing(f"fewer than two networks of {where.table} have both scores and {where.metric} of {task}")
    up = column.higher_is_better
    last, out = evaluate(column.values[:, chosen], accuracy[chosen], higher_is_better=up, draws=where.draws)
    return Answer(out.statistics, last.statistics, last.population, Share(last.scored, last.asked), last.seeds)


def _mean(answers: list[Answer]) -> Answer:
    """The mean over tasks, for figures that a paper averaged so."""

    def joined(parts: list[Mapping[str, Estimate]]) -> dict[str, Estimate]:
        return {
            name: Estimate(*(float(np.mean([getattr(part[name], field) for part in parts])) for field in _FIELDS))
            for name in parts[0]
        }

    first = answers[0]
    out, last = joined([each.out for each in answers]), joined([each.last for each in answers])
    return Answer(out, last, first.networks, first.coverage, first.seeds)


_FIELDS = ("value", "low", "high", "seed_std")


@dataclass(frozen=True)
class Ours:
    """Our stored scores by one proxy; from a file of their own where their setting is not that of the others."""

    proxy: str
    file: str = ""

    def answer(self, evidence: Evidence, where: Where) -> Answer:
        found = evidence.of_file(where.table, self.file, self.proxy) if self.file else None
        return judged(evidence, where, found or evidence.ours(where.table, self.proxy))


@dataclass(frozen=True)
class Ranked:
    """Our stored scores combined by a ranking, given itself or by its name.

    Args:
        ranking: The ranking.
        file: A file of their own for the scores, where their setting is not that of the others.
        sweep: The arguments of ``trainless bench sweep`` that make such a file, said where there is none.
    """

    ranking: Ranking | str
    file: str = ""
    sweep: str = ""

    def answer(self, evidence: Evidence, where: Where) -> Answer:
        ranking = named_ranking(self.ranking) if isinstance(self.ranking, str) else self.ranking
        within = evidence.population(where.table, where.population)
        try:
            column = evidence.ranked(where.table, ranking, within, self.file)
        except Missing as missing:
            if not self.sweep:
                raise
            raise Missing(f"{missing}: trainless bench sweep {self.sweep}", missing.brief) from missing
        return judged(evidence, where, column)


@dataclass(frozen=True)
class Peers:
    """Scores that others published; for another task of the same table where they have none of this one."""

    name: str
    proxy: str
    higher_is_better: bool = True

    def answer(self, evidence: Evidence, where: Where) -> Answer:
        from trainless.bench.tables.peers import PEERS

        if where.task not in PEERS[self.name].tasks:
            raise Missing(f"the published scores {self.name!r} have none for {where.task}")
        column = evidence.peers(self.name, where.task, self.proxy, where.table)
        return judged(evidence, where, Column(column.values, column.asked, self.higher_is_better))


@dataclass(frozen=True)
class Known:
    """A column of the table itself, such as the accuracy after few epochs; with no name, the truth (Optimal)."""

    metric: str = ""
    fidelity: int | None = None
    task: str = ""

    def answer(self, evidence: Evidence, where: Where) -> Answer:
        table = evidence.table(where.table)
        task, metric = self.task or where.task, self.metric or where.metric
        try:
            values = table.column(task, metric, self.fidelity if self.metric else where.fidelity)
        except InputError as error:
            raise Missing(str(error)) from error
        return judged(evidence, where, Column(values[None], np.isfinite(values)))


@dataclass(frozen=True)
class Optimum:
    """The best accuracy that there is."""

    def answer(self, evidence: Evidence, where: Where) -> Answer:
        values = evidence.table(where.table).column(where.task, where.metric, where.fidelity)
        best = {"mean": Estimate(float(np.nanmax(values)), math.nan, math.nan, math.nan)}
        return Answer(best, best, len(values), Share(len(values), len(values)), 1)


@dataclass(frozen=True)
class Chance:
    """No score at all: every network is as good as another (Random)."""

    def answer(self, evidence: Evidence, where: Where) -> Answer:
        size = len(evidence.table(where.table))
        return judged(evidence, where, Column(np.zeros((1, size)), np.full(size, True)))


@dataclass(frozen=True)
class Against:
    """A proxy's rank correlation with another proxy rather than with accuracy."""

    proxy: str
    other: str

    def answer(self, evidence: Evidence, where: Where) -> Answer:
        one, other = (evidence.ours(where.table, name) for name in (self.proxy, self.other))
        values, others = one.values.mean(axis=0), other.values.mean(axis=0)
        within = evidence.population(where.table, where.population)
        chosen = within & one.asked & other.asked & np.isfinite(others)
        last, out = evaluate(values[chosen], others[chosen], draws=where.draws)
        return Answer(out.statistics, last.statistics, last.population, Share(last.scored, last.asked), last.seeds)


@dataclass(frozen=True)
class Absent:
    """Nothing here, and why."""

    reason: str

    def answer(self, evidence: Evidence, where: Where) -> Answer:
        raise Missing(self.reason)


ENOUGH = 0.8  # a search passes by the few networks that have no scores


def _estimates(mean: float, std: float, runs: int) -> dict[str, Estimate]:
    """The mean over runs with its standard error's interval, and the deviation."""
    margin = 1.96 * std / math.sqrt(runs)
    return {
        "mean": Estimate(mean, mean - margin, mean + margin, std),
        "std": Estimate(std, math.nan, math.nan, math.nan),
    }


@dataclass(frozen=True)
class Searched:
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

    def answer(self, evidence: Evidence, where: Where) -> Answer:
        worth = _worth(evidence, self, where.table, where.runs)
        found = worth[where.task][where.metric]
        estimates = _estimates(found["mean"], found["std"], where.runs)
        size = len(evidence.table(where.table))
        return Answer(estimates, estimates, size, Share(size, size), where.runs)


@functools.lru_cache(maxsize=64)
def _worth(evidence: Evidence, what: Searched, table: str, runs: int) -> dict[str, dict[str, dict[str, float]]]:
    opened = evidence.table(table)
    assist: Callable[[Arch], float] | None = None
    if what.proxy:
        if what.peer:
            column = evidence.peers(what.peer, what.task, what.proxy, table)
        else:
            column = evidence.ours(table, what.proxy)
        assist = _lookup(evidence, table, column)
    budget = Budget(what.evaluations or None, simulated=what.seconds if math.isfinite(what.seconds) else None)
    return bench_search(opened, what.task, what.searcher, budget, runs, proxy=assist)


def _lookup(evidence: Evidence, table: str, column: Column) -> Callable[[Arch], float]:
    rules = space(evidence.table(table).space)
    signed = column.values.mean(axis=0) * (1 if column.higher_is_better else -1)
    values = {
        rules.parse(text): value for text, value in zip(evidence.table(table).archs, signed.tolist(), strict=True)
    }
    return values.__getitem__


@dataclass(frozen=True)
class Guided:
    """A search by proxies alone: a searcher is told stored scores, and its best arch is looked up.

    Args:
        searcher: ``teg_reinforce`` is told one column per proxy, ``teg_evolution`` the sum of their ranks.
        proxies: The proxies.
        runs: How many runs; the paper does not say how many it made.
    """

    searcher: str
    proxies: tuple[str, ...]
    runs: int = 50

    def answer(self, evidence: Evidence, where: Where) -> Answer:
        rows = _guided(evidence, self, where.table)
        worth = evidence.table(where.table).column(where.task, where.metric)[rows]
        estimates = _estimates(float(worth.mean()), float(worth.std()), self.runs)
        estimates["seconds"] = _seconds(evidence, self, where.table)
        asked = np.logical_and.reduce([evidence.ours(where.table, proxy).asked for proxy in self.proxies])
        return Answer(estimates, estimates, len(asked), Share(int(asked.sum()), len(asked)), self.runs)


def _seconds(evidence: Evidence, what: Guided, table: str) -> Estimate:
    """What the search would have cost: its evaluations times the proxies' measured milliseconds."""
    ms = 0.0
    for proxy in what.proxies:
        file = next(file for file, _ in evidence.stored(table) if proxy in file.proxies)
        ms += float(file.ms[file.proxies.index(proxy)])
    evaluations = 500 if "reinforce" in what.searcher else 1256
    return Estimate(evaluations * ms / 1000, math.nan, math.nan, math.nan)


@functools.lru_cache(maxsize=32)
def _guided(evidence: Evidence, what: Guided, table: str) -> list[int]:
    """The rows of the archs that the runs end with."""
    opened = evidence.table(table)
    rules = space(opened.space)
    columns = {proxy: evidence.ours(table, proxy) for proxy in what.proxies}
    if min(column.asked.mean() for column in columns.values()) < ENOUGH:
        raise Missing(f"a search needs the scores of at least {ENOUGH:.0%} of the networks of {table}")
    signed = {
        name: column.values.mean(axis=0) * (1 if column.higher_is_better else -1) for name, column in columns.items()
    }
    if what.searcher != "teg_reinforce":
        signed = {"rank": RankSum(what.proxies).combine(list(signed.values()))}
    rows = {rules.parse(text): row for row, text in enumerate(opened.archs)}
    return [_run(what.searcher, opened.space, seed, rows, signed) for seed in range(what.runs)]


def _run(searcher: str, name: str, seed: int, rows: dict[Arch, int], signals: dict[str, Floats]) -> int:
    made = searchers[searcher](space(name), seed=seed)
    while proposals := made.ask():
        places = [rows[proposal.arch] for proposal in proposals]
        made.tell(Told(tuple(proposals), {column: values[places] for column, values in signals.items()}))
    return rows[made.best()]
