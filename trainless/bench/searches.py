"""Search methods on a table: many simulated runs, and what the archs they choose are worth on every task."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from trainless.bench.simulation import Arena, simulate_runs, summary
from trainless.bench.tables.table import Table
from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.proxies.proxy import registry as proxies
from trainless.search import registry as searchers
from trainless.search.making import made, require_columns
from trainless.search.searcher import Searcher
from trainless.search.stopping import Budget
from trainless.spaces import space
from trainless.spaces.moves import sample
from trainless.spaces.protocol import Space

Worth: TypeAlias = dict[str, dict[str, dict[str, float]]]
DRAWN = 200  # archs that show whether a table has its whole space
REMEDY = "give its scores by --proxy-scores FILE.csv:COLUMN"
ARCH_COLUMNS = ("arch", "candidate", "arch_str")


def arena_of(table: Table, task: str, fidelity: int | None = None) -> Arena:
    """What a search on a table sees: the validation accuracy after few epochs, and the seconds they take.

    Args:
        table: The table.
        task: The dataset that is searched on.
        fidelity: Epochs; the fewest for which both accuracy and time are known when left out.
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

    Args:
        table: The table.
        task: The dataset that is searched on.
        searcher: The search method's name.
        budget: Simulated seconds, or evaluations.
        runs: How many independent runs.
        parameters: The searcher's parameters.
        proxy: What assists a searcher that takes a proxy, higher is better.
        fidelity: Epochs behind the signal and its cost; the fewest by default.
        seed: The seed of all runs.
    """
    if runs < 1:
        raise InputError(f"runs={runs} was given; expected at least 1")
    rules = space(table.space)
    arena = arena_of(table, task, fidelity)
    if searcher == "prune":
        raise InputError(
            "prune evaluates regions of a supernet, and a table knows single architectures only: choose another"
            " searcher, or run it on networks (trainless search DATA --searcher prune)"
        )

    def make(one: int) -> Searcher:
        return made(searcher, searchers[searcher], rules, parameters or {}, seed=one, proxy=proxy, remedy=REMEDY)

    require_columns(searcher, make(0), ["valid"])
    _require_whole(table, arena, rules)
    report = {
        f"{each}/{metric}": table.column(each, metric)
        for each in table.tasks
        for metric in ("valid", "test")
        if metric in table.metrics(each)
    }
    found = summary(simulate_runs(make, arena, budget, runs, seed=seed), arena, report)
    worth: Worth = {}
    for name, numbers in found.items():
        each, _, metric = name.rpartition("/")
        worth.setdefault(each, {})[metric] = numbers
    return {task: worth.pop(task), **worth}


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
    given with a leading minus.

    Args:
        path: CSV, compressed where its name ends in ``.gz``; also one that ``trainless score --csv`` or a run wrote.
        column: The column's name.
        rules: The space.
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
        with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
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
