"""NAS-Bench-101 in one, two and three dimensions (Ying et al., 2019)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from trainless.core.arch import Arch, Decision
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces import moves
from trainless.spaces.nb101_net import (
    MAX_EDGES,
    OPERATIONS,
    VERTICES,
    Cell,
    CellNetwork,
    count,
    module_hash,
    pruned,
    representative,
    unique_cells,
)
from trainless.spaces.ops import Extent
from trainless.spaces.protocol import Counts, require_arch
from trainless.spaces.sketch import Edge, Graph, Node

EDGES = tuple(itertools.combinations(range(VERTICES), 2))
_DECISIONS = (
    *(Decision(f"{source}->{target}", ("absent", "present")) for source, target in EDGES),
    *(Decision(f"vertex {vertex}", OPERATIONS) for vertex in range(1, VERTICES - 1)),
)
_EXAMPLE = "011/001/000;input|conv3x3-bn-relu|output"


@dataclass(frozen=True)
class NasBench101:
    """NAS-Bench-101: cells of up to seven vertices and nine edges, three operations.

    423,624 different ones.

    The network is the benchmark's: a 3×3 stem of ``channels`` channels, ``stacks`` stacks of ``cells`` cells,
    a maximum pooling that halves the size and twice the channels from one stack to the next, global average
    and a linear classifier. Within a cell every tensor that leaves the input is projected by a 1×1
    convolution, tensors are added up before a vertex and concatenated at the output. The limit of nine edges
    holds for what is left without the vertices on no path from input to output, as in the benchmark.

    Args:
        channels: Width of the stem and of the first stack.
        cells: Cells per stack.
        stacks: Number of stacks.

    Example:
        >>> space = NasBench101()
        >>> arch = space.parse("0110/0001/0001/0000;input|maxpool3x3|conv1x1-bn-relu|output")
        >>> space.format(space.canonical(arch)), space.hash(arch)[:6]
        ('0110/0001/0001/0000;input|conv1x1-bn-relu|maxpool3x3|output', 'ac9bd0')
    """

    channels: int = 128
    cells: int = 3
    stacks: int = 3

    def __post_init__(self) -> None:
        for name, least in (("channels", VERTICES - 2), ("cells", 1), ("stacks", 1)):
            if getattr(self, name) < least:
                raise InputError(f"nb101: {name}={getattr(self, name)} was given; expected at least {least}")

    @property
    def name(self) -> str:
        """The registered name."""
        return "nb101"

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """One per possible edge, row by row of the matrix, then the operations of the five vertices."""
        return _DECISIONS

    def check(self, task: Task) -> None:
        """Raise InputError for inputs without spatial axes or too small to be halved between the stacks."""
        if not 1 <= task.dims <= 3 or task.vocabulary:
            raise InputError(
                f"nb101 takes signals, images and volumes; the task {task.name!r} has inputs of shape"
                f" {task.input_shape}: choose another space (trainless list spaces)"
            )
        least = 2 ** (self.stacks - 1)
        if min(task.input_shape[1:]) < least:
            raise InputError(
                f"inputs of size {'x'.join(map(str, task.input_shape[1:]))} are too small for nb101, which halves"
                f" them {self.stacks - 1} times: at least {least} along every axis is needed"
                " (give larger inputs, or --size for a task)"
            )

    def valid(self, arch: Arch) -> bool:
        """Whether a path leads from input to output and at most nine edges lie on such paths."""
        if len(arch) != len(_DECISIONS):
            return False
        if not all(0 <= option < len(decision) for option, decision in zip(arch, _DECISIONS, strict=True)):
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
        """Every canonical arch of up to this many vertices, the smallest first.

        Example:
            >>> len(list(NasBench101().unique(vertices=3)))
            7
        """
        for size in range(2, vertices + 1):
            yield from map(_arch, unique_cells(size))

    def extent(self) -> Extent:
        """The benchmark's own number of different cells; how many ways to draw a valid one is not known."""
        return Extent(moves.size(self), None, 423_624)

    def build(self, arch: Arch, task: Task) -> nn.Module:
        """The network, freshly initialised by PyTorch's own rules."""
        cell = _cell(self, arch)
        self.check(task)
        return CellNetwork(cell, task, self.channels, self.cells, self.stacks)

    def counts(self, arch: Arch, task: Task) -> Counts:
        """What ``build`` would give, from shapes alone."""
        cell = _cell(self, arch)
        self.check(task)
        return count(cell, task, self.channels, self.cells, self.stacks)

    def scaled(self, channels: int, cells: int) -> NasBench101:
        """The same space at another width and number of cells per stack; five channels at least, one per vertex."""
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
        """The cell without its useless vertices."""
        cell = _cell(self, arch)
        labels = [OPERATIONS[option] for option in cell.operations]
        middle = (Node(str(vertex), label) for vertex, label in enumerate(labels, start=1))
        nodes = (Node("0", "input", "input"), *middle, Node(str(cell.vertices - 1), "output", "output"))
        edges = (Edge(str(s), str(vertex)) for vertex, sources in enumerate(cell.parents) for s in sources)
        return (Graph("cell", nodes, tuple(edges)),)


def _require_notation(rows: list[str], names: list[str]) -> None:
    """Raise InputError where the matrix or the list of operations is malformed."""
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
