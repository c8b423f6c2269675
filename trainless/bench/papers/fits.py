"""Rankings fitted to a table: VKDNW's random forests and TEACUP's ridge regression."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trainless.bench.papers.definition import Answer, Where
from trainless.bench.score_library import Evidence, Missing
from trainless.bench.sheet import Share
from trainless.bench.statistics import Estimate, evaluate
from trainless.core.scores import Record, Scores
from trainless.core.types import Floats
from trainless.rankings import fit_forest, fit_ridge
from trainless.spaces import space
from trainless.spaces.structure import features

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

    def answer(self, evidence: Evidence, where: Where) -> Answer:
        names, table, known = self._features(evidence, where)
        truth = evidence.table(where.table).column(where.task, where.metric, where.fidelity)
        rows = np.flatnonzero(known & np.isfinite(truth))
        if len(rows) < 2 * TRAINED:
            raise Missing(f"{len(rows)} networks have all features; {2 * TRAINED:,} are needed for a fit and its test")
        found = []
        for repeat in range(self.repeats):
            order = np.random.default_rng(repeat).permutation(rows)
            train, test = order[:TRAINED], order[TRAINED:]
            model = fit_forest(names, table[train], truth[train], seed=repeat)
            found.append(evaluate(model.predict(table[test]), truth[test], draws=0)[0].statistics)
        joined = over_runs(found)
        size = len(rows) - TRAINED
        return Answer(joined, joined, size, Share(size, size), self.repeats)

    def _features(self, evidence: Evidence, where: Where) -> tuple[list[str], Floats, np.ndarray]:
        within = evidence.population(where.table, where.population)
        names: list[str] = []
        columns: list[Floats] = []
        if self.everything or self.proxies:
            for proxy in evidence.proxies(where.table) if self.everything else self.proxies:
                column = evidence.ours(where.table, proxy)
                within = within & column.asked
                names.append(proxy)
                columns.append(column.values.mean(axis=0))
        if self.structure:
            graf = structure(evidence, where.table)
            names += list(graf)
            columns += list(graf.values())
        return names, np.stack(columns, axis=1), within


@functools.lru_cache(maxsize=2)
def structure(evidence: Evidence, name: str) -> Mapping[str, Floats]:
    """GRAF's features of every network of a table."""
    table = evidence.table(name)
    rules = space(table.space)
    rows = [features(rules, rules.parse(arch)) for arch in table.archs]
    return {feature: np.array([row[feature] for row in rows]) for feature in rows[0]}


def over_runs(runs: Sequence[Mapping[str, Estimate]]) -> dict[str, Estimate]:
    """Means over repeated runs; the interval is where the middle 95 % of runs lie."""
    joined = {}
    for name in runs[0]:
        values = np.array([run[name].value for run in runs])
        low, high = np.quantile(values, [0.025, 0.975]).tolist()
        joined[name] = Estimate(float(values.mean()), low, high, float(values.std()))
    return joined


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

    def answer(self, evidence: Evidence, where: Where) -> Answer:
        weights, spread, held_out = fitted(evidence, where, self.proxies, self.tasks, self.networks)
        estimates = {f"held_out_{task}": estimate for task, estimate in zip(self.tasks, held_out, strict=True)}
        if self.proxy:
            place = self.proxies.index(self.proxy)
            low, high = np.quantile(spread[:, place], [0.025, 0.975]).tolist()
            estimates["weight"] = Estimate(weights[place], low, high, float(spread[:, place].std()))
        whole = Share(self.networks, self.networks)
        return Answer(estimates, estimates, self.networks, whole, len(spread))


@functools.lru_cache(maxsize=16)
def fitted(
    evidence: Evidence, where: Where, proxies: tuple[str, ...], tasks: tuple[str, ...], networks: int
) -> tuple[list[float], Floats, list[Estimate]]:
    """The scaled weights, their bootstrap distribution and the held-out correlations."""
    columns = {proxy: evidence.ours(where.table, proxy) for proxy in proxies}
    known = np.logical_and.reduce([column.asked for column in columns.values()])
    known = known & evidence.population(where.table, where.population)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(known))[:networks]
    records = [
        Record(str(row), proxy, value, column.higher_is_better, "ok" if value == value else "failed")
        for proxy, column in columns.items()
        for row, value in zip(rows, column.values.mean(axis=0)[rows].tolist(), strict=True)
    ]
    table = evidence.table(where.table)
    fit = fit_ridge([(Scores(records), table.column(task, "test")[rows]) for task in tasks], proxies, draws=2000)
    smallest = np.abs(fit.coefficients.mean(axis=0)).min()
    held_out = []
    for place in range(len(tasks)):
        values = fit.held_out[:, place]
        low, high = np.nanquantile(values, [0.025, 0.975]).tolist()
        held_out.append(Estimate(float(np.nanmean(values)), low, high, float(np.nanstd(values))))
    return list(fit.weights.values()), fit.coefficients / smallest, held_out
