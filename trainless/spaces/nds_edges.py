"""The cell spaces of the NDS study edge by edge: as DARTS writes its supernet, and as TE-NAS prunes it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from trainless.core.arch import Arch, Decision, Region
from trainless.core.errors import InputError
from trainless.spaces.genotype import Nodes, Slot, plan
from trainless.spaces.moves import Cut
from trainless.spaces.nds import CELLS, FAMILIES, NdsSpace
from trainless.spaces.nds_net import Frame, Skeleton


@dataclass(frozen=True)
class NdsEdges(NdsSpace):
    """The same cells with one operation for each edge, and for each node the two edges that it keeps.

    A node has an edge from every state before it. In the supernet each edge adds up its open operations, with weights
    of their own, and a node adds up its edges. Pruning (:class:`.Prune`) goes as in TE-NAS: operations are closed edge
    by edge until each edge has one, and then each node loses, in one round, all its edges but two.

    The operation of an edge that is not kept means nothing. A node cannot read the same state twice.
    """

    @property
    def name(self) -> str:
        return f"{self.family}-edges"

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return _decisions(self.family)

    def cuts(self, region: Region) -> list[Cut]:
        """Operations as long as an edge has several, then edges as long as a node has more than two."""
        open_ = [(place, part) for place, part in enumerate(region) if len(part) > 1]
        pairs = {node.pairs: node.sources for node in _places(self.family)}
        operations = [(place, frozenset({option})) for place, part in open_ if place not in pairs for option in part]
        if operations:
            return sorted(operations, key=lambda cut: (cut[0], *cut[1]))
        kept = {place: _kept(pairs[place]) for place, _ in open_}
        return [
            (place, frozenset(option for option in part if source in kept[place][option]))
            for place, part in open_
            for source in sorted({source for option in part for source in kept[place][option]})
        ]

    def _nodes(self, arch: Arch) -> tuple[Nodes, Nodes]:
        names = FAMILIES[self.family].operations
        nodes = []
        for node in _places(self.family):
            first, second = _kept(node.sources)[arch[node.pairs]]
            pairs = [(names[arch[node.first + source]], source) for source in (first, second)]
            nodes.append((pairs[0], pairs[1]))
        half = len(nodes) // 2
        return tuple(nodes[:half]), tuple(nodes[half:])

    def _arch(self, *cells: Nodes) -> Arch:
        names = FAMILIES[self.family].operations
        arch: list[int] = []
        for node, place in zip(itertools.chain(*cells), _places(self.family), strict=True):
            (one, first), (other, second) = node
            if first == second:  # what `none` reads means nothing
                free = min(source for source in range(place.sources) if source != first)
                if other == "none":
                    second = free
                elif one == "none":
                    first = free
                else:
                    raise InputError(f"{self.name}: a node reads state {first} twice, which {self.family} alone allows")
            options = [0] * place.sources
            options[first], options[second] = names.index(one), names.index(other)
            arch += [*options, _kept(place.sources).index((min(first, second), max(first, second)))]
        return tuple(arch)

    def _frame(self, region: Region) -> Frame:
        family = FAMILIES[self.family]
        nodes: list[tuple[Slot, ...]] = []
        for node in _places(self.family):
            live = {source for option in region[node.pairs] for source in _kept(node.sources)[option]}
            edges = (sorted(region[node.first + source]) if source in live else () for source in range(node.sources))
            nodes.append(
                tuple(
                    tuple((family.operations[option], source) for option in edge) for source, edge in enumerate(edges)
                )
            )
        normal, reduction = (plan(tuple(half), family.loose) for half in (nodes[: family.nodes], nodes[family.nodes :]))
        return Frame(normal, reduction, self.channels, self.cells, self.skeleton)


@dataclass(frozen=True)
class _Place:
    """Where a node's decisions are: its edges' from ``first`` on, then which two of them it keeps."""

    first: int
    sources: int

    @property
    def pairs(self) -> int:
        return self.first + self.sources


@functools.cache
def _places(family: str) -> tuple[_Place, ...]:
    places, first = [], 0
    for sources in [node for _ in CELLS for node in range(2, FAMILIES[family].nodes + 2)]:
        places.append(_Place(first, sources))
        first += sources + 1
    return tuple(places)


@functools.cache
def _kept(sources: int) -> tuple[tuple[int, int], ...]:
    """All pairs of a node's edges."""
    return tuple(itertools.combinations(range(sources), 2))


@functools.cache
def _decisions(family: str) -> tuple[Decision, ...]:
    def of(cell: str, node: int) -> Iterator[Decision]:
        for source in range(node):
            yield Decision(f"{cell}.{node}.{source}", FAMILIES[family].operations)
        yield Decision(f"{cell}.{node}.inputs", tuple(f"{one}+{other}" for one, other in _kept(node)))

    nodes = range(2, FAMILIES[family].nodes + 2)
    return tuple(each for cell in CELLS for node in nodes for each in of(cell, node))


def darts_edges(skeleton: Skeleton = "cifar", channels: int = 36, cells: int = 20) -> NdsEdges:
    """Cells of DARTS edge by edge, with the published network's size."""
    return NdsEdges("darts", channels, cells, skeleton)
