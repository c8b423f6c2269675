"""Searches on a table as figures: what a method finds, in trained accuracy."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trainless.bench.evidence import Column, Evidence, Floats, Missing
from trainless.bench.papers.definition import Answer, Where
from trainless.bench.searches import bench_search
from trainless.bench.sheet import Share
from trainless.bench.statistics import Estimate
from trainless.core.arch import Arch
from trainless.ranking import RankSum
from trainless.search import registry as searchers
from trainless.search.searcher import Told
from trainless.search.stopping import Budget
from trainless.spaces import space

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
