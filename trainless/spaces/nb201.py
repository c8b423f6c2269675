"""NAS-Bench-201 in one, two and three dimensions (Dong & Yang, 2020)."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from trainless.core.arch import Arch, Decision, Region, region_of
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.moves import Extent, has_options
from trainless.spaces.ops import GLOBAL, NORM, BlockNetwork, Reduction, ReluConvNorm, Tally, Zero, average, conv
from trainless.spaces.protocol import Counts, ShownSpace, require_arch, require_grid, require_least, require_region
from trainless.spaces.sketch import Graph, edge_cell

EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
NONE, SKIP, CONV1, CONV3, POOL = range(5)

_Value = tuple[tuple[int, int], ...]  # a sum: the number of each term, in order, and how often it is there
_Terms = dict[tuple[object, ...], int]  # each term that was met has a number


@functools.cache
def representatives(options: tuple[int, ...], *, learned_skips: bool = False) -> dict[Arch, Arch]:
    """For every arch of such options the first, in their order, that computes the same function.

    With ``learned_skips`` a skip from the cell's input has weights of its own.
    """
    terms: _Terms = {}
    first: dict[_Value, Arch] = {}
    chosen: dict[Arch, Arch] = {}
    for arch in itertools.product(options, repeat=len(EDGES)):
        plain, alike = _walk(arch, {}, learned_skips, terms)
        labelled = (_walk(arch, labels, learned_skips, terms)[0] for labels in _relabellings(alike))
        chosen[arch] = first.setdefault(min(labelled, default=plain), arch)
    return chosen


def _walk(arch: Arch, labels: dict[int, int], learned_skips: bool, terms: _Terms) -> tuple[_Value, list[list[int]]]:
    """The output node's value with convolutions labelled as told, and edges whose convolutions are alike."""
    values: list[dict[int, int]] = [{terms.setdefault(("x",), len(terms)): 1}, {}, {}, {}]
    alike: dict[int, list[int]] = {}
    for edge, ((source, target), option) in enumerate(zip(EDGES, arch, strict=True)):
        if option == NONE:
            continue
        read = values[source]
        if option == POOL:
            read = {terms.setdefault(("pool", term), len(terms)): times for term, times in read.items()}
        elif option != SKIP or (learned_skips and source == 0):
            key = ("conv", option, labels.get(edge, 0), tuple(sorted(read.items())))
            term = terms.setdefault(key, len(terms))
            alike.setdefault(term, []).append(edge)
            read = {term: 1}
        for term, times in read.items():
            values[target][term] = values[target].get(term, 0) + times
    return tuple(sorted(values[3].items())), [edges for edges in alike.values() if len(edges) > 1]


def _relabellings(alike: list[list[int]]) -> Iterator[dict[int, int]]:
    """Every way to number convolutions of the same kernel that read alike: their order means nothing."""
    if not alike:
        return
    for orders in itertools.product(*(itertools.permutations(range(len(group))) for group in alike)):
        yield {
            edge: label
            for group, order in zip(alike, orders, strict=True)
            for edge, label in zip(group, order, strict=True)
        }


OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
_NASLIB = ("skip_connect", "none", "nor_conv_3x3", "nor_conv_1x1", "avg_pool_3x3")  # the order in features' names
_DECISIONS = tuple(Decision(f"{source}->{target}", OPERATIONS) for source, target in EDGES)


@dataclass(frozen=True)
class NasBench201(ShownSpace):
    """NAS-Bench-201: cells of four nodes and six edges, five operations on each; 15,625 archs.

    The network is the benchmark's: a 3×3 stem, ``cells`` cells at C, 2C and 4C channels with residual
    reductions between them, batch norm, ReLU, global average and a linear classifier.

    Example:
        >>> space = NasBench201()
        >>> arch = space.parse("|nor_conv_3x3~0|+|none~0|none~1|+|skip_connect~0|none~1|none~2|")
        >>> arch
        (3, 0, 0, 1, 0, 0)
        >>> space.canonical(arch)
        (0, 0, 0, 1, 0, 0)
    """

    channels: int = 16
    cells: int = 5
    name = "nb201"
    decisions = _DECISIONS

    def __post_init__(self) -> None:
        require_least(self, channels=1, cells=1)

    def check(self, task: Task) -> None:
        require_grid(self, task, 4, ", which halves them twice")

    def valid(self, arch: Arch) -> bool:
        return has_options(self, arch)

    def canonical(self, arch: Arch) -> Arch:
        """The smallest arch that computes the same function with the same learnable parts.

        Skips are followed, sums and poolings are linear, edges that never reach the output go; a convolution
        of a node that is always zero stays, because its norm's bias is learnt. Each convolution keeps its
        own weights, so a shared convolution is never mistaken for two separate ones.
        """
        return representatives((NONE, SKIP, CONV1, CONV3, POOL))[arch]

    def build(self, arch: Arch, task: Task) -> nn.Module:
        require_arch(self, arch)
        return self.build_region(region_of(arch), task)

    def build_region(self, region: Region, task: Task) -> nn.Module:
        """The supernet of a region: the open operations of an edge are added up.

        A region of singletons has the very layers of its arch, and modules are named by their operation, so
        that the weights of a surviving operation can be carried over by name.
        """
        self.check(task)
        require_region(self, region)
        return _Net(self, region, task)

    def build_cell(self, arch: Arch, dims: int) -> nn.Module:
        require_arch(self, arch)
        return self.build_cell_region(region_of(arch), dims)

    def build_cell_region(self, region: Region, dims: int) -> nn.Module:
        """The single cell of a region: what pruning a supernet by linear regions looks at."""
        return nn.Sequential(
            _Cell(dims, 1, region), NORM[dims](1), nn.ReLU(), GLOBAL[dims](1), nn.Flatten(), nn.Linear(1, 2)
        )

    def counts(self, arch: Arch, task: Task) -> Counts:
        require_arch(self, arch, task)
        tally = Tally()
        base, one, three = _base_counts(self.channels, self.cells, task.input_shape, task.target.outputs)
        for part, times in ((base, 1), (one, arch.count(CONV1)), (three, arch.count(CONV3))):
            tally.add(part, times)
        return tally.counts()

    def extent(self) -> Extent:
        return Extent(15_625, 15_625, 5_653)

    def sketch(self, arch: Arch) -> tuple[Graph, ...]:
        return (edge_cell("cell", EDGES, [OPERATIONS[option] for option in arch], "none", _NASLIB),)

    def scaled(self, channels: int, cells: int) -> NasBench201:
        return NasBench201(channels, cells)

    def parse(self, text: str) -> Arch:
        groups = text.strip().split("+")
        if len(groups) != 3:
            raise InputError(
                f"nb201: {text[:80]!r} has {len(groups)} nodes between '+'; expected 3, such as {_EXAMPLE}"
            )
        arch = []
        for node, group in enumerate(groups, start=1):
            edges = [edge for edge in group.split("|") if edge]
            if len(edges) != node:
                raise InputError(f"nb201: node {node} ({group!r}) has {len(edges)} edges; expected {node}")
            for source, edge in enumerate(edges):
                operation, _, origin = edge.partition("~")
                if operation not in OPERATIONS:
                    raise InputError(
                        f"nb201: {operation!r} in node {node} is not an operation: {', '.join(OPERATIONS)}"
                    )
                if origin != str(source):
                    raise InputError(f"nb201: edge {edge!r} of node {node} should come from {source}")
                arch.append(OPERATIONS.index(operation))
        return tuple(arch)

    def format(self, arch: Arch) -> str:
        require_arch(self, arch)
        edges = iter(arch)
        nodes = [[f"{OPERATIONS[next(edges)]}~{source}" for source in range(node)] for node in (1, 2, 3)]
        return "+".join(f"|{'|'.join(node)}|" for node in nodes)


_EXAMPLE = "|nor_conv_3x3~0|+|skip_connect~0|none~1|+|avg_pool_3x3~0|none~1|skip_connect~2|"


def has_dead_edges(arch: Arch) -> bool:
    """Whether an edge other than ``none`` is cut off from input or output; 9,445 archs have none such."""
    there = [edge for edge, option in zip(EDGES, arch, strict=True) if option != NONE]
    forward, backward = {0}, {3}
    for source, target in there:
        if source in forward:
            forward.add(target)
    for source, target in reversed(there):
        if target in backward:
            backward.add(source)
    return any(source not in forward or target not in backward for source, target in there)


class _Edge(nn.ModuleDict):
    """The sum of the open operations of one edge."""

    by_channel = True

    def __init__(self, dims: int, channels: int, options: frozenset[int]) -> None:
        super().__init__({OPERATIONS[option]: _operation(option, dims, channels) for option in sorted(options)})

    def forward(self, x: Tensor) -> Tensor:
        first, *rest = self.values()
        total: Tensor = first(x)
        for operation in rest:
            total = total + operation(x)
        return total


def _operation(option: int, dims: int, channels: int) -> nn.Module:
    if option == NONE:
        return Zero()
    if option == SKIP:
        return nn.Identity()
    if option == POOL:
        return average(dims, 3, padding=1)
    return ReluConvNorm(dims, channels, channels, 1 if option == CONV1 else 3)


class _Cell(nn.Module):
    by_channel = True

    def __init__(self, dims: int, channels: int, region: Region) -> None:
        super().__init__()
        self.edges = nn.ModuleList(_Edge(dims, channels, options) for options in region)

    def forward(self, x: Tensor) -> Tensor:
        nodes: list[Tensor] = [x]
        edges = iter(self.edges)
        for node in (1, 2, 3):
            total = next(edges)(nodes[0])
            for source in range(1, node):
                total = total + next(edges)(nodes[source])
            nodes.append(total)
        return nodes[3]


class _Net(BlockNetwork):
    def __init__(self, space: NasBench201, region: Region, task: Task) -> None:
        dims, channels = task.dims, space.channels
        stem = nn.Sequential(conv(dims, task.input_shape[0], channels, 3), NORM[dims](channels))
        blocks: list[nn.Module] = []
        for stage in range(3):
            if stage:
                blocks.append(Reduction(dims, channels, 2 * channels))
                channels *= 2
            blocks += [_Cell(dims, channels, region) for _ in range(space.cells)]
        last = nn.Sequential(NORM[dims](channels), nn.ReLU())
        super().__init__(dims, stem, blocks, last, nn.Linear(channels, task.target.outputs))


@functools.lru_cache(maxsize=64)
def _base_counts(channels: int, cells: int, input_shape: tuple[int, ...], outputs: int) -> tuple[Tally, Tally, Tally]:
    """What every arch has, and what one 1×1 and one 3×3 edge add in all cells together."""
    base, one, three = Tally(), Tally(), Tally()
    size = base.conv(input_shape[0], channels, 3, input_shape[1:], norm=True)
    for stage in range(3):
        if stage:
            size = base.reduction(channels, 2 * channels, size)
            channels *= 2
        for _ in range(cells):
            one.conv(channels, channels, 1, size, norm=True)
            three.conv(channels, channels, 3, size, norm=True)
    base.norm(channels)
    base.linear(channels, outputs)
    return base, one, three
