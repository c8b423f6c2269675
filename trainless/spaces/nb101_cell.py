"""Cells of NAS-Bench-101 as graphs: pruning, the benchmark's hash, twins and enumeration; nothing here needs torch."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

OPERATIONS = ("conv3x3-bn-relu", "conv1x1-bn-relu", "maxpool3x3")
CONV3, CONV1, POOL = range(3)
VERTICES = 7
MAX_EDGES = 9
_INPUT, _OUTPUT = -1, -2


@dataclass(frozen=True)
class Cell:
    """A directed acyclic graph; vertex 0 is the input, the last vertex is the output.

    ``parents`` are the vertices that each reads, ascending; ``operations`` index ``OPERATIONS`` from vertex 1 on.
    """

    parents: tuple[tuple[int, ...], ...]
    operations: tuple[int, ...]

    @property
    def vertices(self) -> int:
        return len(self.parents)

    @property
    def edges(self) -> int:
        return sum(map(len, self.parents))


def pruned(cell: Cell) -> Cell | None:
    """The cell without the vertices that lie on no path from input to output; None where there is no path."""
    last = cell.vertices - 1
    forward = {0}
    for vertex in range(1, last + 1):
        if not forward.isdisjoint(cell.parents[vertex]):
            forward.add(vertex)
    if last not in forward:
        return None
    backward = {last}
    for vertex in range(last, 0, -1):
        if vertex in backward:
            backward.update(cell.parents[vertex])
    kept = sorted(forward & backward)
    if len(kept) == cell.vertices:
        return cell
    return reordered(cell, kept)


def reordered(cell: Cell, order: list[int]) -> Cell:
    """The cell of these vertices in this order, which starts with the input and ends with the output."""
    place = {vertex: index for index, vertex in enumerate(order)}
    parents = tuple(
        tuple(sorted(place[source] for source in cell.parents[vertex] if source in place)) for vertex in order
    )
    return Cell(parents, tuple(cell.operations[vertex - 1] for vertex in order[1:-1]))


def _digest(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _vertex_digests(cell: Cell) -> list[str]:
    """Refine every vertex's label by its neighbours' labels, as many times as there are vertices."""
    children: list[list[int]] = [[] for _ in cell.parents]
    for vertex, sources in enumerate(cell.parents):
        for source in sources:
            children[source].append(vertex)
    kinds = (_INPUT, *cell.operations, _OUTPUT)
    labels = [
        _digest(str((len(children[vertex]), len(cell.parents[vertex]), kind))) for vertex, kind in enumerate(kinds)
    ]
    for _ in kinds:
        labels = [
            _digest(f"{_joined(labels, cell.parents[vertex])}|{_joined(labels, children[vertex])}|{label}")
            for vertex, label in enumerate(labels)
        ]
    return labels


def _joined(labels: list[str], vertices: Iterable[int]) -> str:
    return "".join(sorted(labels[vertex] for vertex in vertices))


def module_hash(cell: Cell) -> str:
    """The benchmark's key of a pruned cell, equal for isomorphic cells (Ying et al., 2019, section 2.3).

    Every vertex starts with the MD5 digest of (out-degree, in-degree, operation) and is refined by the sorted
    digests of its parents and children once per vertex; the key is the digest of the sorted digests.

    Example:
        >>> module_hash(Cell(((), (0,)), ()))
        '043721b9c7fe8c5fad811d47d83132ec'
    """
    return _digest(str(sorted(_vertex_digests(cell))))


def _depths(cell: Cell) -> list[int]:
    """Length of the longest path from the input to every vertex of a pruned cell."""
    depths = [0]
    for sources in cell.parents[1:]:
        depths.append(1 + max(depths[source] for source in sources))
    return depths


def representative(cell: Cell) -> Cell:
    """The same cell for all pruned cells that are isomorphic to this one.

    Vertices are ordered by depth, then by digest; the orders of vertices that are alike in both are all tried
    and the smallest graph is taken, so that two cells share a representative only if they are isomorphic.
    """
    key = list(zip(_depths(cell), _vertex_digests(cell), strict=True))
    last = cell.vertices - 1
    middle = sorted(range(1, last), key=key.__getitem__)
    groups = [list(group) for _, group in itertools.groupby(middle, key=key.__getitem__)]
    orders = itertools.product(*(itertools.permutations(group) for group in groups))
    cells = (reordered(cell, [0, *itertools.chain(*order), last]) for order in orders)
    return min(cells, key=lambda found: found.parents)


def vertex_channels(cell: Cell, outputs: int) -> tuple[int, ...]:
    """The benchmark's channels of every vertex between input and output of a cell with this many outputs.

    The vertices that the output concatenates share its channels equally, the first ones taking one more where
    that does not come out even; every other vertex is as wide as the widest one that reads it.
    """
    last = cell.vertices - 1
    concatenated = [vertex for vertex in cell.parents[last] if vertex]
    channels = [0] * last
    for index, vertex in enumerate(concatenated):
        channels[vertex] = outputs // len(concatenated) + (index < outputs % len(concatenated))
    for vertex in range(last - 1, 0, -1):
        if not channels[vertex]:
            channels[vertex] = max(channels[child] for child in range(vertex, last) if vertex in cell.parents[child])
    return tuple(channels[1:])


def unique_cells(vertices: int) -> Iterator[Cell]:
    """One representative of every cell that uses exactly this many vertices and at most nine edges."""
    middle = vertices - 2
    for parents in _connected_graphs(vertices):
        for operations in itertools.product(range(len(OPERATIONS)), repeat=middle):
            cell = Cell(parents, operations)
            if representative(cell) == cell:
                yield cell


def _connected_graphs(vertices: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All graphs of at most nine edges without a useless vertex, their vertices in the order of their depth."""
    subsets = [
        [chosen for size in range(1, vertex + 1) for chosen in itertools.combinations(range(vertex), size)]
        for vertex in range(1, vertices)
    ]
    for choice in itertools.product(*subsets):
        cell = Cell(((), *choice), (0,) * (vertices - 2))
        if cell.edges > MAX_EDGES or pruned(cell) != cell:
            continue
        depths = _depths(cell)
        if depths == sorted(depths):
            yield cell.parents
