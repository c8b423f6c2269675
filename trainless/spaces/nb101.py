"""NAS-Bench-101 in one, two and three dimensions (Ying et al., 2019)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainless.core.arch import Arch, Decision
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces import moves
from trainless.spaces.moves import Extent, has_options
from trainless.spaces.nb101_cell import (
    CONV1,
    CONV3,
    MAX_EDGES,
    OPERATIONS,
    POOL,
    VERTICES,
    Cell,
    module_hash,
    pruned,
    representative,
    unique_cells,
    vertex_channels,
)
from trainless.spaces.ops import GLOBAL, MAXIMUM, NORM, Tally, conv
from trainless.spaces.protocol import Counts, Network, ShownSpace, require_arch, require_grid, require_least
from trainless.spaces.sketch import Edge, Graph, Node

EDGES = tuple(itertools.combinations(range(VERTICES), 2))
_DECISIONS = (
    *(Decision(f"{source}->{target}", ("absent", "present")) for source, target in EDGES),
    *(Decision(f"vertex {vertex}", OPERATIONS) for vertex in range(1, VERTICES - 1)),
)
_EXAMPLE = "011/001/000;input|conv3x3-bn-relu|output"


@dataclass(frozen=True)
class NasBench101(ShownSpace):
    """NAS-Bench-101: cells of up to seven vertices and nine edges, three operations; 423,624 different ones.

    The network is the benchmark's: a 3×3 stem of ``channels`` channels, ``stacks`` stacks of ``cells`` cells,
    a maximum pooling that halves the size and twice the channels from one stack to the next, global average
    and a linear classifier. Within a cell every tensor that leaves the input is projected by a 1×1
    convolution, tensors are added up before a vertex and concatenated at the output. The limit of nine edges
    holds for what is left without the vertices on no path from input to output, as in the benchmark.

    Example:
        >>> space = NasBench101()
        >>> arch = space.parse("0110/0001/0001/0000;input|maxpool3x3|conv1x1-bn-relu|output")
        >>> space.format(space.canonical(arch)), space.hash(arch)[:6]
        ('0110/0001/0001/0000;input|conv1x1-bn-relu|maxpool3x3|output', 'ac9bd0')
    """

    channels: int = 128
    cells: int = 3
    stacks: int = 3
    name = "nb101"
    decisions = _DECISIONS

    def __post_init__(self) -> None:
        require_least(self, channels=VERTICES - 2, cells=1, stacks=1)

    def check(self, task: Task) -> None:
        require_grid(self, task, 2 ** (self.stacks - 1), f", which halves them {self.stacks - 1} times")

    def valid(self, arch: Arch) -> bool:
        if not has_options(self, arch):
            return False
        cell = pruned(_drawn(arch))
        return cell is not None and cell.edges <= MAX_EDGES

    def canonical(self, arch: Arch) -> Arch:
        """The representative of the cell's isomorphism class, without useless vertices.

        These are the twins of the benchmark, whose table has one entry for each class. Where the output's
        channels cannot be shared out equally, twins differ by a channel here and there, and so do their counts.
        """
        return _arch(representative(_cell(self, arch)))

    def hash(self, arch: Arch) -> str:
        """The key of this cell in the benchmark's tables (``module_hash``)."""
        return module_hash(_cell(self, arch))

    def unique(self, vertices: int = VERTICES) -> Iterator[Arch]:
        """Every canonical arch of up to this many vertices, the smallest first."""
        for size in range(2, vertices + 1):
            yield from map(_arch, unique_cells(size))

    def extent(self) -> Extent:
        return Extent(moves.size(self), None, 423_624)

    def build(self, arch: Arch, task: Task) -> nn.Module:
        cell = _cell(self, arch)
        self.check(task)
        return CellNetwork(cell, task, self.channels, self.cells, self.stacks)

    def counts(self, arch: Arch, task: Task) -> Counts:
        cell = _cell(self, arch)
        self.check(task)
        return count(cell, task, self.channels, self.cells, self.stacks)

    def scaled(self, channels: int, cells: int) -> NasBench101:
        return NasBench101(max(channels, VERTICES - 2), cells, self.stacks)

    def parse(self, text: str) -> Arch:
        """Read ``adjacency;operations`` as in the columns of the benchmark's table, for 2 to 7 vertices."""
        adjacency, _, operations = text.strip().partition(";")
        rows, names = adjacency.split("/"), operations.split("|")
        _require_notation(rows, names)
        size = len(rows)
        parents = tuple(tuple(s for s in range(size) if rows[s][vertex] == "1") for vertex in range(size))
        arch = _arch(Cell(parents, tuple(OPERATIONS.index(name) for name in names[1:-1])))
        cell = pruned(_drawn(arch))
        if cell is None:
            raise InputError(f"nb101: no path leads from input to output in {adjacency!r}")
        if cell.edges > MAX_EDGES:
            raise InputError(f"nb101: {adjacency!r} has {cell.edges} edges; expected at most {MAX_EDGES}")
        return arch

    def format(self, arch: Arch) -> str:
        """The benchmark's notation of the cell as it stands; unused vertices at the end are left out."""
        require_arch(self, arch)
        cell = _drawn(arch)
        last = used = VERTICES - 1
        touched = set(itertools.chain(*cell.parents))
        while used > 1 and not cell.parents[used - 1] and used - 1 not in touched and not cell.operations[used - 2]:
            used -= 1
        vertices = [*range(used), last]
        rows = ("".join("01"[source in cell.parents[vertex]] for vertex in vertices) for source in vertices)
        names = ("input", *(OPERATIONS[option] for option in cell.operations[: used - 1]), "output")
        return f"{'/'.join(rows)};{'|'.join(names)}"

    def sketch(self, arch: Arch) -> tuple[Graph]:
        cell = _cell(self, arch)
        labels = [OPERATIONS[option] for option in cell.operations]
        middle = (Node(str(vertex), label) for vertex, label in enumerate(labels, start=1))
        nodes = (Node("0", "input", "input"), *middle, Node(str(cell.vertices - 1), "output", "output"))
        edges = (Edge(str(s), str(vertex)) for vertex, sources in enumerate(cell.parents) for s in sources)
        return (Graph("cell", nodes, tuple(edges)),)


def _require_notation(rows: list[str], names: list[str]) -> None:
    size = len(rows)
    if not 2 <= size <= VERTICES:
        raise InputError(f"nb101: {size} matrix rows were given; expected 2 to {VERTICES} joined by '/': {_EXAMPLE}")
    for index, row in enumerate(rows):
        if len(row) != size or set(row) - {"0", "1"}:
            raise InputError(f"nb101: matrix row {index} is {row!r}; expected {size} digits 0 or 1, as in {_EXAMPLE}")
        if "1" in row[: index + 1]:
            raise InputError(f"nb101: matrix row {index} is {row!r}; edges may only lead to later vertices")
    if len(names) != size:
        raise InputError(
            f"nb101: {len(names)} operations were given for {size} vertices; expected one for each, joined by '|' and"
            f" after a ';', as in {_EXAMPLE}"
        )
    if names[0] != "input" or names[-1] != "output":
        raise InputError(f"nb101: the operations go from {names[0]!r} to {names[-1]!r}; expected 'input' to 'output'")
    for vertex, name in enumerate(names[1:-1], start=1):
        if name not in OPERATIONS:
            raise InputError(f"nb101: {name!r} of vertex {vertex} is not an operation: {', '.join(OPERATIONS)}")


def _drawn(arch: Arch) -> Cell:
    """The seven vertices of an arch, whether they are of use or not."""
    parents: list[list[int]] = [[] for _ in range(VERTICES)]
    for (source, target), present in zip(EDGES, arch, strict=False):
        if present:
            parents[target].append(source)
    return Cell(tuple(map(tuple, parents)), arch[len(EDGES) :])


def _cell(space: NasBench101, arch: Arch) -> Cell:
    require_arch(space, arch)
    cell = pruned(_drawn(arch))
    if cell is None:
        raise InputError(f"nb101: no path leads from input to output in {arch}")
    return cell


def _arch(cell: Cell) -> Arch:
    """The arch of a cell of up to seven vertices: unused vertices come last and hold the first operation."""
    last = cell.vertices - 1
    place = {vertex: vertex for vertex in range(last)} | {last: VERTICES - 1}
    edges = {(place[s], place[vertex]) for vertex, sources in enumerate(cell.parents) for s in sources}
    padding = (0,) * (VERTICES - cell.vertices)
    return (*(int(edge in edges) for edge in EDGES), *cell.operations, *padding)


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
    """Stem, stacks of one cell, global average and a linear classifier."""

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
    """Parameters, multiply–accumulates and parameter tensors of that network, from shapes alone."""
    tally, inputs, outputs = Tally(), channels, channels
    size = tally.conv(task.input_shape[0], channels, 3, task.input_shape[1:], norm=True)
    for stack in range(stacks):
        if stack:
            size = tuple((length + 1) // 2 for length in size)
            outputs *= 2
        for times, wide in ((1, inputs), (cells - 1, outputs)):
            one = Tally()
            for layer in _cell_convolutions(cell, wide, outputs):
                one.conv(*layer, size, norm=True)
            tally.add(one, times)
        inputs = outputs
    tally.linear(outputs, task.target.outputs)
    return tally.counts()
