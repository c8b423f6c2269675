"""Searches on a table: what a method would have found, and when, without training anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.search.searcher import Floats, Searcher, Told
from trainless.search.stopping import Budget

Rows: TypeAlias = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Arena:
    """A table as a search sees it: each arch, its signal and the seconds one evaluation takes.

    On NAS-Bench-201 the signal is the 12-epoch validation accuracy and the cost 12/200 of the recorded training time.

    Args:
        archs: The rows.
        signal: What the searcher is told, higher is better.
        cost: Simulated seconds of one evaluation.
    """

    archs: Sequence[Arch]
    signal: Floats
    cost: Floats

    def __post_init__(self) -> None:
        if not len(self.archs) == len(self.signal) == len(self.cost):
            raise InputError(
                f"{len(self.archs)} archs were given with {len(self.signal)} signals and {len(self.cost)} costs"
            )
        if len(self.rows) != len(self.archs):
            raise InputError(f"the table has {len(self.archs)} rows but {len(self.rows)} different archs")

    @cached_property
    def rows(self) -> dict[Arch, int]:
        """Where each arch is."""
        return {arch: row for row, arch in enumerate(self.archs)}

    @cached_property
    def evaluations(self) -> list[tuple[float, float]]:
        """Signal and cost of each row as plain floats."""
        return list(zip(self.signal.tolist(), self.cost.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Trace:
    """One simulated run: the evaluated rows in order, and the simulated seconds after each."""

    rows: Rows
    seconds: Floats

    def chosen(self, signal: Floats, within: float = np.inf) -> int:
        """The evaluated row with the best signal, among those known after ``within`` seconds; −1 for none."""
        rows = self.rows[self.seconds <= within]
        known = rows[~np.isnan(signal[rows])]
        if not len(known):
            return int(rows[0]) if len(rows) else -1
        return int(known[np.argmax(signal[known])])


def simulate(searcher: Searcher, arena: Arena, budget: Budget) -> Trace:
    """Run one searcher against a table.

    Proposals are evaluated one after the other. An evaluation that would overrun the budget ends the run and does not
    count. As in the published baselines an arch pays each time it is evaluated, and a multi-fidelity searcher is given
    the same signal at the same cost at every fidelity.

    Example:
        >>> from trainless.search.exhaustive import Exhaustive
        >>> from trainless.spaces.nb201 import NasBench201
        >>> archs = [(0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 2)]
        >>> arena = Arena(archs, np.array([1.0, 2.0]), np.array([5.0, 6.0]))
        >>> simulate(Exhaustive(NasBench201()), arena, Budget(simulated=10.0)).seconds.tolist()
        [5.0]
    """
    if budget.evaluations is None and budget.simulated is None:
        raise InputError(
            "a simulation needs a budget in evaluations or simulated seconds; wall time does not pass in it"
        )
    count_limit = np.inf if budget.evaluations is None else budget.evaluations
    time_limit = np.inf if budget.simulated is None else budget.simulated
    known, evaluations = arena.rows, arena.evaluations
    rows: list[int] = []
    seconds: list[float] = []
    spent = 0.0
    while len(rows) < count_limit and (proposals := searcher.ask()):
        told: list[float] = []
        for proposal in proposals:
            row = known.get(proposal.arch)
            if row is None:
                raise InputError(f"the table has no row for {proposal.arch}; restrict the search by `feasible`")
            value, cost = evaluations[row]
            spent += cost
            if spent > time_limit or len(rows) >= count_limit:
                return Trace(np.array(rows, dtype=np.intp), np.array(seconds))
            rows.append(row)
            seconds.append(spent)
            told.append(value)
        searcher.tell(Told.of(proposals, told))
    return Trace(np.array(rows, dtype=np.intp), np.array(seconds))


def simulate_runs(
    make: Callable[[int], Searcher], arena: Arena, budget: Budget, runs: int, *, seed: int = 0
) -> list[Trace]:
    """Independent runs; ``make`` gets a seed of its own for each.

    Example:
        >>> from trainless.search.random import Random
        >>> from trainless.spaces.nb201 import NasBench201
        >>> from trainless.spaces.moves import enumerate_archs
        >>> space = NasBench201()
        >>> archs = list(enumerate_archs(space))
        >>> arena = Arena(archs, np.arange(15625.0), np.ones(15625))
        >>> traces = simulate_runs(lambda s: Random(space, seed=s), arena, Budget(evaluations=3), runs=2)
        >>> [len(trace.rows) for trace in traces]
        [3, 3]
    """
    seeds = np.random.SeedSequence(seed).generate_state(runs).tolist()
    return [simulate(make(one), arena, budget) for one in seeds]


def summary(traces: Sequence[Trace], arena: Arena, report: Mapping[str, Floats]) -> dict[str, dict[str, float]]:
    """Mean and deviation over runs of what the chosen archs are worth, for each reported column.

    Example:
        >>> arena = Arena([(0,), (1,)], np.array([1.0, 2.0]), np.ones(2))
        >>> trace = Trace(np.array([0, 1]), np.array([1.0, 2.0]))
        >>> summary([trace], arena, {"test": np.array([90.0, 91.0])})
        {'test': {'mean': 91.0, 'std': 0.0}}
    """
    chosen = np.array([row for trace in traces if (row := trace.chosen(arena.signal)) >= 0], dtype=np.intp)
    if not len(chosen):
        raise InputError(f"none of {len(traces)} runs evaluated anything within the budget: allow more seconds")
    return {
        name: {"mean": float(column[chosen].mean()), "std": float(column[chosen].std())}
        for name, column in report.items()
    }


def curve(traces: Sequence[Trace], arena: Arena, column: Floats, times: Floats) -> Floats:
    """Runs × times: what the best arch known at each time is worth; NaN before the first evaluation ends.

    Example:
        >>> arena = Arena([(0,), (1,)], np.array([1.0, 2.0]), np.ones(2))
        >>> trace = Trace(np.array([0, 1]), np.array([1.0, 2.0]))
        >>> curve([trace], arena, np.array([90.0, 91.0]), np.array([0.5, 1.0, 3.0])).tolist()
        [[nan, 90.0, 91.0]]
    """
    table = np.full((len(traces), len(times)), np.nan)
    for place, trace in enumerate(traces):
        best = _best_so_far(arena.signal[trace.rows])
        known = np.searchsorted(trace.seconds, times, side="right") - 1
        reached = known >= 0
        table[place, reached] = column[trace.rows[best[known[reached]]]]
    return table


def _best_so_far(values: Floats) -> Rows:
    """The place of the first highest value among the values up to each; NaN counts as −∞."""
    clean = np.where(np.isnan(values), -np.inf, values)
    highest = np.maximum.accumulate(clean)
    fresh = np.r_[True, highest[1:] > highest[:-1]] if len(clean) else np.array([], dtype=bool)
    return np.maximum.accumulate(np.where(fresh, np.arange(len(clean)), 0)).astype(np.intp)
