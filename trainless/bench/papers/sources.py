"""Where our side of a published figure comes from: our scores, rankings of them, peers' scores, the table itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trainless.bench.evidence import Column, Evidence, Missing, truth
from trainless.bench.papers.definition import TASKS, Answer, Where
from trainless.bench.sheet import Share
from trainless.bench.statistics import Estimate, evaluate
from trainless.core.errors import InputError
from trainless.ranking import Ranking
from trainless.ranking import ranking as named_ranking


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
