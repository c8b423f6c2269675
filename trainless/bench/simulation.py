"""Searches on a table: what a method would have found, and when, without training anything."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from trainless.bench.tables.files import open_text
from trainless.bench.tables.table import Table
from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.types import Floats, Indices
from trainless.proxies.proxy import registry as proxies
from trainless.searchers import registry as searchers
from trainless.searchers.searcher import Searcher, Told, made, require_columns
from trainless.searchers.stopping import Budget
from trainless.spaces import space
from trainless.spaces.moves import sample
from trainless.spaces.protocol import Space


@dataclass(frozen=True, eq=False)
class Arena:
    """A table as a search sees it: each arch, its signal and the seconds one evaluation takes.

    On NAS-Bench-201 the signal is the 12-epoch validation accuracy and the cost 12/200 of the recorded training time.
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
class SimulatedRun:
    """One simulated run: the evaluated rows in order, and the simulated seconds after each."""

    rows: Indices
    seconds: Floats

    def chosen(self, signal: Floats, within: float = np.inf) -> int:
        """The evaluated row with the best signal, among those known after ``within`` seconds; −1 for none."""
        rows = self.rows[self.seconds <= within]
        known = rows[~np.isnan(signal[rows])]
        if not len(known):
            return int(rows[0]) if len(rows) else -1
        return int(known[np.argmax(signal[known])])


def simulate(searcher: Searcher, arena: Arena, budget: Budget) -> SimulatedRun:
    """Run one searcher against a table.

    Proposals are evaluated one after the other. An evaluation that would overrun the budget ends the run and does not
    count. As in the published baselines an arch pays each time it is evaluated, and a multi-fidelity searcher is given
    the same signal at the same cost at every fidelity.

    Example:
        >>> from trainless.searchers.simple import Exhaustive
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
                return SimulatedRun(np.array(rows, dtype=np.intp), np.array(seconds))
            rows.append(row)
            seconds.append(spent)
            told.append(value)
        searcher.tell(Told.of(proposals, told))
    return SimulatedRun(np.array(rows, dtype=np.intp), np.array(seconds))


def simulate_runs(
    make: Callable[[int], Searcher], arena: Arena, budget: Budget, runs: int, *, seed: int = 0
) -> list[SimulatedRun]:
    """Independent runs; ``make`` gets a seed of its own for each."""
    seeds = np.random.SeedSequence(seed).generate_state(runs).tolist()
    return [simulate(make(one), arena, budget) for one in seeds]


def summary(traces: Sequence[SimulatedRun], arena: Arena, report: Mapping[str, Floats]) -> dict[str, dict[str, float]]:
    """Mean and deviation over runs of what the chosen archs are worth, for each reported column.

    Example:
        >>> arena = Arena([(0,), (1,)], np.array([1.0, 2.0]), np.ones(2))
        >>> trace = SimulatedRun(np.array([0, 1]), np.array([1.0, 2.0]))
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


def curve(traces: Sequence[SimulatedRun], arena: Arena, column: Floats, times: Floats) -> Floats:
    """Runs × times: what the best arch known at each time is worth; NaN before the first evaluation ends.

    Example:
        >>> arena = Arena([(0,), (1,)], np.array([1.0, 2.0]), np.ones(2))
        >>> trace = SimulatedRun(np.array([0, 1]), np.array([1.0, 2.0]))
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


def _best_so_far(values: Floats) -> Indices:
    """The place of the first highest value among the values up to each; NaN counts as −∞."""
    clean = np.where(np.isnan(values), -np.inf, values)
    highest = np.maximum.accumulate(clean)
    fresh = np.r_[True, highest[1:] > highest[:-1]] if len(clean) else np.array([], dtype=bool)
    return np.maximum.accumulate(np.where(fresh, np.arange(len(clean)), 0)).astype(np.intp)


Worth: TypeAlias = dict[str, dict[str, dict[str, float]]]
DRAWN = 200  # archs that show whether a table has its whole space
REMEDY = "give its scores by --proxy-scores FILE.csv:COLUMN"
ARCH_COLUMNS = ("arch", "candidate", "arch_str")


def arena_of(table: Table, task: str, fidelity: int | None = None) -> Arena:
    """What a search on a table sees: the validation accuracy after few epochs, and the seconds they take.

    They are the fewest epochs for which both are known where no fidelity is given.
    """
    rules = space(table.space)
    common = [each for each in table.fidelities(task, "valid") if each in table.fidelities(task, "train_time")]
    if not common:
        raise InputError(f"table {table.name} has no epochs for which both valid and train_time of {task} are known")
    epochs = common[0] if fidelity is None else fidelity
    archs = [rules.parse(text) for text in table.archs]
    return Arena(archs, table.column(task, "valid", epochs), table.column(task, "train_time", epochs))


def bench_search(
    table: Table,
    task: str,
    searcher: str,
    budget: Budget,
    runs: int,
    *,
    parameters: Mapping[str, Any] | None = None,
    proxy: Callable[[Arch], float] | None = None,
    fidelity: int | None = None,
    seed: int = 0,
) -> Worth:
    """Mean and deviation over runs of the chosen archs' final accuracies, by task and by validation and test.

    A ``proxy``, the higher the better, assists a searcher that takes one; ``fidelity`` is epochs behind the signal and
    its cost, the fewest by default.
    """
    if runs < 1:
        raise InputError(f"runs={runs} was given; expected at least 1")
    rules = space(table.space)
    arena = arena_of(table, task, fidelity)

    def make(one: int) -> Searcher:
        return made(searcher, searchers[searcher], rules, parameters or {}, seed=one, proxy=proxy, remedy=REMEDY)

    first = make(0)
    if first.regions:
        raise InputError(
            f"{searcher} evaluates regions of a supernet, and a table knows single architectures only: choose another"
            f" searcher, or run it on networks (trainless search DATA --searcher {searcher})"
        )
    require_columns(searcher, first, ["valid"])
    _require_whole(table, arena, rules)
    traces, worth = simulate_runs(make, arena, budget, runs, seed=seed), Worth()
    for each in (task, *table.tasks):
        metrics = [metric for metric in ("valid", "test") if metric in table.metrics(each)]
        worth[each] = summary(traces, arena, {metric: table.column(each, metric) for metric in metrics})
    return worth


def _require_whole(table: Table, arena: Arena, rules: Space) -> None:
    """Raise InputError where a table lacks archs that a search could propose."""
    rng = np.random.default_rng(0)
    for arch in (sample(rules, rng) for _ in range(DRAWN)):
        if arch not in arena.rows:
            raise InputError(
                f"table {table.name} has {len(table):,} architectures of {rules.name}, not all of them (not"
                f" {rules.format(arch)}, for one), and a search proposes any: choose a table of a whole space, such as"
                " nb201"
            )


def proxy_of_scores(path: Path, column: str, rules: Space) -> Callable[[Arch], float]:
    """A proxy from a file of scores: one row per arch in the space's notation, one column per proxy.

    An arch that the file does not have gets its canonical twin's score, and NaN where that is missing too. A column of
    a registered proxy is turned so that higher is better; any other one is taken as it is, or turned where its name is
    given with a leading minus. The file is CSV, compressed where its name ends in ``.gz``; also one that ``trainless
    score --csv`` or a run wrote.
    """
    name = column.removeprefix("-")
    lower = name in proxies and not proxies[name].higher_is_better
    sign = -1.0 if lower != column.startswith("-") else 1.0
    values = {rules.parse(text): sign * value for text, value in _read(path, name).items()}

    def proxy(arch: Arch) -> float:
        value = values.get(arch)
        return values.get(rules.canonical(arch), math.nan) if value is None else value

    return proxy


def _read(path: Path, column: str) -> dict[str, float]:
    try:
        with open_text(path) as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read ({error}): expected a CSV file of scores") from error
    header = list(rows[0]) if rows else []
    arch = next((name for name in ARCH_COLUMNS if name in header), None)
    if arch is None:
        raise InputError(f"{path} has no column of archs; expected one called {', '.join(ARCH_COLUMNS)}")
    if {"proxy", "value"} <= set(header):
        rows = [{arch: row[arch], column: row["value"]} for row in rows if row["proxy"] == column]
    if not rows or column not in rows[0]:
        raise InputError(f"{path} has no scores of {column!r}; its columns are: {', '.join(header)}")
    try:
        return {row[arch]: float(row[column] or "nan") for row in rows}
    except ValueError as error:
        raise InputError(f"the column {column!r} of {path} should hold numbers ({error})") from error
