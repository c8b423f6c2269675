"""Which networks of a table a statistic is about: never a silent choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from trainless.bench.tables.table import Table
from trainless.core.errors import InputError, UnknownName
from trainless.core.types import Mask


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
