"""The network around a NAS-Bench-101 cell, and its counts."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainless.core.task import Task
from trainless.spaces.ops import GLOBAL, MAXIMUM, NORM, conv
from trainless.spaces.protocol import Counts, Network

OPERATIONS = ("conv3x3-bn-relu", "conv1x1-bn-relu", "maxpool3x3")
CONV3, CONV1, POOL = range(3)
VERTICES = 7
MAX_EDGES = 9
_INPUT, _OUTPUT = -1, -2


@dataclass(frozen=True)
class Cell:
    """A directed acyclic graph; vertex 0 is the input, the last vertex is the output.

    Attributes:
        parents: For every vertex, the vertices that it reads, ascending.
        operations: Index into ``OPERATIONS`` for every vertex between input and output.
    """

    parents: tuple[tuple[int, ...], ...]
    operations: tuple[int, ...]

    @property
    def vertices(self) -> int:
        """Number of vertices, input and output included."""
        return len(self.parents)

    @property
    def edges(self) -> int:
        """Number of edges."""
        return sum(map(len, self.parents))


def pruned(cell: Cell) -> Cell | None:
    """The cell without the vertices that lie on no path from input to output; None where there is no path.

    Example:
        >>> pruned(Cell(((), (0,), (), (1,)), (CONV3, POOL)))
        Cell(parents=((), (0,), (1,)), operations=(0,))
    """
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

    Example:
        >>> one = Cell(((), (0,), (0,), (1, 2)), (CONV3, POOL))
        >>> other = Cell(((), (0,), (0,), (1, 2)), (POOL, CONV3))
        >>> representative(one) == representative(other)
        True
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

    Example:
        >>> vertex_channels(Cell(((), (0,), (0,), (1,), (2, 3)), (CONV3, CONV3, CONV1)), 9)
        (4, 5, 4)
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
    """One representative of every cell that uses exactly this many vertices and at most nine edges.

    Example:
        >>> [sum(1 for _ in unique_cells(vertices)) for vertices in (2, 3)]
        [1, 6]
    """
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


class _ConvNormRelu(nn.Sequential):
    def __init__(self, dims: int, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__(conv(dims, inputs, outputs, kernel), NORM[dims](outputs), nn.ReLU())


class _Cell(nn.Module):
    """One cell; the attribute ``projections`` holds the 1×1 convolutions from the input by vertex."""

    def __init__(self, dims: int, inputs: int, outputs: int, cell: Cell) -> None:
        super().__init__()
        self.parents = cell.parents
        self.channels = (inputs, *vertex_channels(cell, outputs), outputs)
        self.projections = nn.ModuleDict(
            {
                str(vertex): _ConvNormRelu(dims, inputs, self.channels[vertex], 1)
                for vertex, sources in enumerate(cell.parents)
                if 0 in sources
            }
        )
        self.vertices = nn.ModuleList(
            _operation(option, dims, channels)
            for option, channels in zip(cell.operations, self.channels[1:-1], strict=True)
        )

    def _gather(self, vertex: int, x: Tensor, values: list[Tensor]) -> list[Tensor]:
        """What a vertex reads: cut to its width from other vertices, projected from the input."""
        width = self.channels[vertex]
        terms = [values[source - 1][:, :width] for source in self.parents[vertex] if source]
        if 0 in self.parents[vertex]:
            terms.append(self.projections[str(vertex)](x))
        return terms

    def forward(self, x: Tensor) -> Tensor:
        values: list[Tensor] = []
        for index, operation in enumerate(self.vertices, start=1):
            values.append(operation(_added(self._gather(index, x, values))))
        last = len(self.parents) - 1
        joined = [values[source - 1] for source in self.parents[last] if source]
        terms = [torch.cat(joined, 1)] if joined else []
        if 0 in self.parents[last]:
            terms.append(self.projections[str(last)](x))
        return _added(terms)


def _added(terms: list[Tensor]) -> Tensor:
    first, *rest = terms
    for term in rest:
        first = first + term
    return first


def _operation(option: int, dims: int, channels: int) -> nn.Module:
    if option == POOL:
        return MAXIMUM[dims](3, 1, 1)
    return _ConvNormRelu(dims, channels, channels, 3 if option == CONV3 else 1)


class CellNetwork(Network):
    """Stem, stacks of one cell, global average and a linear classifier.

    Args:
        cell: The pruned cell.
        task: What it takes and predicts.
        channels: Width of the stem and of the first stack.
        cells: Cells per stack.
        stacks: Number of stacks.
    """

    def __init__(self, cell: Cell, task: Task, channels: int, cells: int, stacks: int) -> None:
        super().__init__()
        dims = task.dims
        self.stem = _ConvNormRelu(dims, task.input_shape[0], channels, 3)
        blocks: list[nn.Module] = []
        inputs = outputs = channels
        for stack in range(stacks):
            if stack:
                blocks.append(MAXIMUM[dims](2, 2, ceil_mode=True))
                outputs *= 2
            for _ in range(cells):
                blocks.append(_Cell(dims, inputs, outputs, cell))
                inputs = outputs
        self.blocks = nn.ModuleList(blocks)
        self.pool = GLOBAL[dims](1)
        self.classifier = nn.Linear(outputs, task.target.outputs)
        names = (f"blocks.{index}" for index, block in enumerate(blocks) if isinstance(block, _Cell))
        self.block_names = ("stem", *names)

    def forward(self, x: Tensor) -> Tensor:
        """Logits or values, ``(N, outputs)``."""
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.classifier(self.pool(x).flatten(1))
        return logits


def _cell_convolutions(cell: Cell, inputs: int, outputs: int) -> Iterator[tuple[int, int, int]]:
    """Inputs, outputs and kernel of every convolution of a cell; a norm follows each."""
    channels = (inputs, *vertex_channels(cell, outputs), outputs)
    for vertex, sources in enumerate(cell.parents):
        if 0 in sources:
            yield inputs, channels[vertex], 1
    for option, width in zip(cell.operations, channels[1:-1], strict=True):
        if option != POOL:
            yield width, width, 1 if option == CONV1 else 3


def count(cell: Cell, task: Task, channels: int, cells: int, stacks: int) -> Counts:
    """Parameters, multiply–accumulates and parameter tensors of that network, from shapes alone.

    Example:
        >>> count(Cell(((), (0,)), ()), Task.noise((3, 32, 32)), channels=128, cells=3, stacks=3).params
        882570
    """
    dims, size = task.dims, list(task.input_shape[1:])
    inputs = outputs = channels
    rows = [(1, math.prod(size), (task.input_shape[0], outputs, 3))]
    for stack in range(stacks):
        if stack:
            size = [(length + 1) // 2 for length in size]
            outputs *= 2
        area = math.prod(size)
        rows += [(1, area, layer) for layer in _cell_convolutions(cell, inputs, outputs)]
        rows += [(cells - 1, area, layer) for layer in _cell_convolutions(cell, outputs, outputs)]
        inputs = outputs
    classes = task.target.outputs
    params, flops, layers = outputs * classes + classes, outputs * classes, 2
    for times, area, (wide, narrow, kernel) in rows:
        weights = times * kernel**dims * wide * narrow
        params += weights + times * 2 * narrow
        flops += weights * area
        layers += 3 * times
    return Counts(params, flops, layers)
