"""A DARTS-like cell as a plan of operations, and the one form of all cells that compute the same."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from trainless.spaces.genotype import Pair
from trainless.spaces.nds_ops import FREE

Nodes = tuple[tuple[Pair, Pair], ...]
"""The two pairs of every node of a cell without open options."""

Slot = tuple[Pair, ...]
"""The open pairs of one of a node's two places; they are added up."""


@dataclass(frozen=True)
class Plan:
    """What a cell computes: the slots of its nodes and the states that are concatenated."""

    nodes: tuple[tuple[Slot, ...], ...]
    outputs: tuple[int, ...]


def plan(nodes: tuple[tuple[Slot, ...], ...], loose: bool) -> Plan:
    """A plan whose output is made of all nodes, or of those that are not sure to be read by another one.

    Example:
        >>> plan((((("skip_connect", 0),), (("skip_connect", 1),)),
        ...       ((("skip_connect", 2),), (("skip_connect", 1),))), loose=True).outputs
        (3,)
    """
    read: set[int] = set()
    for slot in itertools.chain(*nodes):
        sources = {source for _, source in slot}
        if loose and len(sources) == 1:
            read |= sources
    return Plan(nodes, tuple(state for state in range(2, len(nodes) + 2) if state not in read))


def canonical_nodes(nodes: Nodes) -> Nodes:
    """The same nodes for all cells that differ by the order of pairs and nodes, or by zeros alone.

    The two pairs of a node are added, so their order means nothing; neither does the order of the nodes, since the
    next layer's channels can be permuted. A pooling or skip of a state that is always zero is ``none``, and it does
    not matter what ``none`` reads. Nodes are ordered by depth, then by what they compute; orders of nodes that are
    alike in both are all tried and the smallest is taken.

    Example:
        >>> canonical_nodes(((("skip_connect", 1), ("none", 1)),))
        ((('none', 0), ('skip_connect', 1)),)
    """
    nodes = _without_zeros(nodes)
    depths, labels = [0, 0], ["0", "1"]
    for node in nodes:
        depths.append(1 + max(depths[source] for _, source in node))
        labels.append(f"({'+'.join(sorted(f'{name} {labels[source]}' for name, source in node))})")
    keys = list(zip(depths, labels, strict=True))
    states = sorted(range(2, len(nodes) + 2), key=keys.__getitem__)
    groups = [list(group) for _, group in itertools.groupby(states, key=keys.__getitem__)]
    orders = itertools.product(*(itertools.permutations(group) for group in groups))
    return min(_renumbered(nodes, list(itertools.chain(*order))) for order in orders)


def _without_zeros(nodes: Nodes) -> Nodes:
    zeros: set[int] = set()
    found: list[tuple[Pair, Pair]] = []
    for state, node in enumerate(nodes, start=2):
        first, second = (
            ("none", 0) if name == "none" or (name in FREE and source in zeros) else (name, source)
            for name, source in node
        )
        if first[0] == second[0] == "none":
            zeros.add(state)
        found.append((first, second))
    return tuple(found)


def _renumbered(nodes: Nodes, order: list[int]) -> Nodes:
    place = {0: 0, 1: 1} | {old: new for new, old in enumerate(order, start=2)}
    found: list[tuple[Pair, Pair]] = []
    for old in order:
        first, second = sorted((name, place[source]) for name, source in nodes[old - 2])
        found.append((first, second))
    return tuple(found)
