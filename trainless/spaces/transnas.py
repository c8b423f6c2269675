"""The micro space of TransNAS-Bench-101 in one, two and three dimensions (Duan et al., 2021)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from torch import Tensor, nn

from trainless.core.arch import Arch, Decision
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.moves import Extent, has_options
from trainless.spaces.nb201 import CONV1, CONV3, EDGES, NONE, SKIP, representatives
from trainless.spaces.nds_net import FactorizedReduce, tally_reduce
from trainless.spaces.ops import NORM, BlockNetwork, ReluConvNorm, Tally, Zero, conv
from trainless.spaces.protocol import Counts, ShownSpace, require_arch, require_grid, require_least
from trainless.spaces.sketch import Graph, edge_cell

OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3")
KERNELS = {CONV1: 1, CONV3: 3}
HALVED = (True, False, True, False, True)
"""Of each module, whether its first cell halves the size and doubles the channels."""

_DECISIONS = tuple(Decision(f"{source}->{target}", OPERATIONS) for source, target in EDGES)
_NOTATION = re.compile(r"(?:64-41414-)?([0-3])_([0-3]{2})_([0-3]{3})", re.ASCII)


@dataclass(frozen=True)
class TransNasMicro(ShownSpace):
    """TransNAS-Bench-101's micro space: cells of four nodes and six edges, four operations on each; 4,096 archs.

    The network is the benchmark's with a linear classifier: two 3×3 convolutions of stride 2, five modules of
    ``cells`` cells, of which the first, third and last begin with a cell that halves the size and doubles the channels
    on the edges from its input, where a skip becomes two 1×1 convolutions; global average.

    Example:
        >>> space = TransNasMicro()
        >>> space.parse("64-41414-1_02_333")
        (1, 0, 2, 3, 3, 3)
    """

    channels: int = 64
    cells: int = 2
    name = "transnas-micro"
    decisions = _DECISIONS

    def __post_init__(self) -> None:
        require_least(self, channels=2, cells=1)

    def check(self, task: Task) -> None:
        require_grid(self, task)

    def valid(self, arch: Arch) -> bool:
        return has_options(self, arch)

    def canonical(self, arch: Arch) -> Arch:
        """The first arch that computes the same function; a skip from a cell's input may have weights."""
        return representatives((NONE, SKIP, CONV1, CONV3), learned_skips=True)[arch]

    def build(self, arch: Arch, task: Task) -> nn.Module:
        require_arch(self, arch, task)
        dims, channels = task.dims, self.channels
        stem = nn.Sequential(
            conv(dims, task.input_shape[0], channels // 2, 3, 2),
            NORM[dims](channels // 2),
            nn.ReLU(),
            conv(dims, channels // 2, channels, 3, 2),
            NORM[dims](channels),
        )
        blocks: list[nn.Module] = []
        for halved in HALVED:
            for place in range(self.cells):
                factor = 2 if halved and not place else 1
                blocks.append(_Cell(dims, channels, factor, arch))
                channels *= factor
        return BlockNetwork(dims, stem, blocks, nn.Identity(), nn.Linear(channels, task.target.outputs))

    def counts(self, arch: Arch, task: Task) -> Counts:
        require_arch(self, arch, task)
        tally, channels = Tally(), self.channels
        size = tally.conv(task.input_shape[0], channels // 2, 3, task.input_shape[1:], stride=2, norm=True)
        size = tally.conv(channels // 2, channels, 3, size, stride=2, norm=True)
        for halved in HALVED:
            for place in range(self.cells):
                factor = 2 if halved and not place else 1
                size = _tally_cell(tally, channels, factor, arch, size)
                channels *= factor
        tally.linear(channels, task.target.outputs)
        return tally.counts()

    def extent(self) -> Extent:
        return Extent(4_096, 4_096, 1_666)

    def sketch(self, arch: Arch) -> tuple[Graph, ...]:
        return (edge_cell("cell", EDGES, [OPERATIONS[option] for option in arch], "none", OPERATIONS),)

    def scaled(self, channels: int, cells: int) -> TransNasMicro:
        return TransNasMicro(channels, cells)

    def parse(self, text: str) -> Arch:
        found = _NOTATION.fullmatch(text.strip())
        if found is None:
            raise InputError(
                f"{self.name}: {text[:80]!r} was given; expected a digit from 0 to 3 for each edge, by the node that it"
                " enters, such as 64-41414-1_02_333"
            )
        return tuple(map(int, "".join(found.groups())))

    def format(self, arch: Arch) -> str:
        require_arch(self, arch)
        digits = "".join(map(str, arch))
        return f"64-41414-{digits[0]}_{digits[1:3]}_{digits[3:]}"


class _Cell(nn.Module):
    """Six edges between four nodes; those from the first node take the inputs to the cell's channels and size."""

    by_channel = True

    def __init__(self, dims: int, inputs: int, factor: int, arch: Arch) -> None:
        super().__init__()
        outputs = factor * inputs
        self.edges = nn.ModuleList(
            _operation(option, dims, *((inputs, factor) if source == 0 else (outputs, 1)))
            for (source, _), option in zip(EDGES, arch, strict=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        nodes: list[Tensor] = [x]
        edges = iter(self.edges)
        for node in (1, 2, 3):
            total = next(edges)(nodes[0])
            for source in range(1, node):
                total = total + next(edges)(nodes[source])
            nodes.append(total)
        return nodes[3]


class _HalvedZero(nn.Module):
    """Zero at half the size and twice the channels: the gradient path stays."""

    by_channel = gives_zero = True

    def forward(self, x: Tensor) -> Tensor:
        every = (slice(None), slice(None), *[slice(None, None, 2)] * (x.ndim - 2))
        return x[every].repeat(1, 2, *[1] * (x.ndim - 2)) * 0


def _operation(option: int, dims: int, inputs: int, factor: int) -> nn.Module:
    """One operation, which halves the size and doubles the channels where the factor is 2."""
    if option == NONE:
        return Zero() if factor == 1 else _HalvedZero()
    if option == SKIP:
        return nn.Identity() if factor == 1 else FactorizedReduce(dims, inputs, factor * inputs)
    return ReluConvNorm(dims, inputs, factor * inputs, KERNELS[option], factor)


def _tally_cell(tally: Tally, inputs: int, factor: int, arch: Arch, size: tuple[int, ...]) -> tuple[int, ...]:
    outputs, after = factor * inputs, tuple((length - 1) // factor + 1 for length in size)
    for (source, _), option in zip(EDGES, arch, strict=True):
        first = source == 0
        if option in KERNELS:
            entering, stride, there = (inputs, factor, size) if first else (outputs, 1, after)
            tally.conv(entering, outputs, KERNELS[option], there, stride=stride, norm=True)
        elif option == SKIP and first and factor == 2:
            tally_reduce(tally, inputs, outputs, size)
    return after
