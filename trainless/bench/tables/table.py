"""One type for every tabular benchmark, and the populations of networks that a statistic can be about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from trainless.core.arch import Arch
from trainless.core.errors import InputError, UnknownName
from trainless.core.types import Floats, Indices, Mask


class ColumnKey(NamedTuple):
    """What a column holds: a metric of a task after so many epochs; 0 epochs where training plays no part."""

    task: str
    metric: str
    fidelity: int = 0


Group = Callable[[], Mapping[ColumnKey, Floats]]
"""Loads some columns, each with one value per arch in the table's order."""


def own_notation(text: str) -> str:
    """The key of a notation that is unique but for spaces."""
    return "".join(text.split())


@dataclass(frozen=True, eq=False)
class Table:
    """The trained accuracies, times and costs of many archs, in the space's own notation.

    ``groups`` are loaders of columns by the keys they provide, read when one of these is asked for. An arch is found by
    one of ``keys``, as a rule its notation without spaces, or of ``numbers``; ``key`` turns any notation of an arch,
    also one of a twin, into what it is found by.

    Example:
        >>> columns = {ColumnKey("toy", "test", 9): np.array([80.0, 90.0])}
        >>> table = Table("toy", "letters", ("a", "b"), {frozenset(columns): lambda: columns})
        >>> table.query("b", "toy", "test", 9), table.query("a", "toy", "test")
        (90.0, 80.0)
        >>> table.column("toy", "test")
        array([80., 90.])
    """

    name: str
    space: str
    archs: tuple[str, ...]
    groups: Mapping[frozenset[ColumnKey], Group]
    keys: tuple[str, ...] = ()
    key: Callable[[str], str] = own_notation
    numbers: Mapping[str, int] = field(default_factory=dict)
    _loaded: dict[ColumnKey, Floats] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.archs)

    @cached_property
    def columns(self) -> tuple[ColumnKey, ...]:
        """Everything that can be asked for, sorted."""
        return tuple(sorted(key for keys in self.groups for key in keys))

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks, sorted."""
        return tuple(sorted({key.task for key in self.columns}))

    def metrics(self, task: str) -> tuple[str, ...]:
        """The metrics of a task, sorted."""
        return tuple(sorted({key.metric for key in self.columns if key.task == task}))

    def fidelities(self, task: str, metric: str) -> tuple[int, ...]:
        """The numbers of epochs after which a metric is known, ascending."""
        if task not in self.tasks:
            raise UnknownName(f"table {self.name} has no task {task!r}; its tasks are: {', '.join(self.tasks)}")
        if metric not in self.metrics(task):
            raise UnknownName(
                f"table {self.name} has no metric {metric!r} of {task}; there are: {', '.join(self.metrics(task))}"
            )
        return tuple(key.fidelity for key in self.columns if key[:2] == (task, metric))

    def column(self, task: str, metric: str, fidelity: int | None = None) -> Floats:
        """One value per arch in the order of ``archs``, read-only, NaN where the benchmark has none.

        The fidelity is epochs of training, the most that there are when left out.
        """
        known = self.fidelities(task, metric)
        if fidelity is None:
            fidelity = known[-1]
        if fidelity not in known:
            raise InputError(
                f"table {self.name} has {metric} of {task} after {', '.join(map(str, known))} epochs, not {fidelity}"
            )
        key = ColumnKey(task, metric, fidelity)
        if key not in self._loaded:
            load = next(load for keys, load in self.groups.items() if key in keys)
            for found, values in load().items():
                values.setflags(write=False)
                self._loaded[found] = values
        return self._loaded[key]

    def query(self, arch: str | Arch, task: str, metric: str, fidelity: int | None = None) -> float:
        """One value of one arch, in any notation of it or as options."""
        return float(self.column(task, metric, fidelity)[self.index(arch)])

    def index(self, arch: str | Arch) -> int:
        """The row of an arch."""
        if isinstance(arch, str):
            text = arch
        else:
            from trainless.spaces import space

            text = space(self.space).format(arch)
        row = self._rows.get(own_notation(text))
        if row is None and (row := self._rows.get(self.key(text))) is None:
            raise InputError(
                f"table {self.name} does not have {text!r}; it has {len(self):,} archs of the space {self.space},"
                f" such as {self.archs[0]!r}"
            )
        return row

    def rows(self, archs: Iterable[str | Arch]) -> Indices:
        """The rows of many archs."""
        return np.array([self.index(arch) for arch in archs], np.intp)

    @cached_property
    def _rows(self) -> dict[str, int]:
        keys = self.keys or tuple(map(self.key, self.archs))
        notations = {own_notation(arch): row for row, arch in enumerate(self.archs)}
        return {**self.numbers, **notations, **{key: row for row, key in enumerate(keys)}}


def everything(table: Table) -> Mask:
    """Every network of the table."""
    return np.full(len(table), True)


def without_dead_edges(table: Table) -> Mask:
    """NAS-Bench-201's 9,445 networks in which every edge but ``none`` lies on a path from input to output."""
    from trainless.spaces.nb201 import NasBench201, has_dead_edges

    if table.space != "nb201":
        raise InputError(f"dead edges are known in nb201, but table {table.name} has archs of {table.space}")
    parse = NasBench201().parse
    return np.array([not has_dead_edges(parse(arch)) for arch in table.archs])


def canonical(table: Table) -> Mask:
    """One network of each class of twins that compute the same function: the first in the table's order."""
    from trainless.spaces import space

    rules = space(table.space)
    first: dict[tuple[int, ...], int] = {}
    for row, arch in enumerate(table.archs):
        first.setdefault(rules.canonical(rules.parse(arch)), row)
    mask = np.full(len(table), False)
    mask[list(first.values())] = True
    return mask


POPULATIONS: Mapping[str, Callable[[Table], Mask]] = MappingProxyType(
    {"all": everything, "no-dead-edges": without_dead_edges, "canonical": canonical}
)


def population(table: Table, name: str) -> Mask:
    """A mask of the table's networks by the name of a population.

    Example:
        >>> population(Table("toy", "letters", ("a", "b"), {}), "all")
        array([ True,  True])
    """
    if name not in POPULATIONS:
        raise UnknownName(f"no population is called {name!r}; there are: {', '.join(POPULATIONS)}")
    return POPULATIONS[name](table)
