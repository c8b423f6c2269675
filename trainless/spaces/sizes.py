"""NATS-Bench's size space: the channels of five layers around one fixed cell (Dong et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from trainless.core.arch import Arch, Decision
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.moves import Extent, has_options
from trainless.spaces.ops import NORM, BlockNetwork, Reduction, ReluConvNorm, Tally, conv
from trainless.spaces.protocol import Counts, ShownSpace, require_arch, require_grid
from trainless.spaces.sketch import Block, Chain

WIDTHS = tuple(range(8, 65, 8))
LAYERS = ("cell 1", "reduction 1", "cell 2", "reduction 2", "cell 3")
_DECISIONS = tuple(Decision(layer, tuple(map(str, WIDTHS))) for layer in LAYERS)
_INNER = ((1, 2), (1, 3), (2, 3))


@dataclass(frozen=True)
class Sizes(ShownSpace):
    """The sizes of NATS-Bench: how wide each of five layers is, 8 to 64 channels in steps of 8; 32,768 archs.

    32,768 archs. Three cells with a residual reduction between two of them. Every cell is the benchmark's,
    ``|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|``;
    where its input has another width, the skip is a 1×1 convolution with a norm.

    Example:
        >>> space = Sizes()
        >>> space.parse("64:32:16:8:64")
        (7, 3, 1, 0, 7)
        >>> space.counts((0, 0, 0, 0, 0), Task.noise((3, 32, 32), classes=10)).params
        11714
    """

    name = "nats-size"
    decisions = _DECISIONS

    def check(self, task: Task) -> None:
        require_grid(self, task, 4, ", which halves them twice")

    def valid(self, arch: Arch) -> bool:
        return has_options(self, arch)

    def canonical(self, arch: Arch) -> Arch:
        return arch

    def extent(self) -> Extent:
        every = len(WIDTHS) ** len(LAYERS)
        return Extent(every, every, every)

    def build(self, arch: Arch, task: Task) -> nn.Module:
        require_arch(self, arch, task)
        return _Net(_widths(arch), task)

    def counts(self, arch: Arch, task: Task) -> Counts:
        require_arch(self, arch, task)
        tally, widths = Tally(), _widths(arch)
        inputs = widths[0]
        size = tally.conv(task.input_shape[0], inputs, 3, task.input_shape[1:], norm=True)
        for layer, width in enumerate(widths):
            if layer % 2:
                size = tally.reduction(inputs, width, size)
            else:
                _count_cell(tally, inputs, width, size)
            inputs = width
        tally.norm(inputs)
        tally.linear(inputs, task.target.outputs)
        return tally.counts()

    def parse(self, text: str) -> Arch:
        parts = text.strip().split(":")
        if len(parts) != len(LAYERS):
            raise InputError(f"nats-size: {text!r} has {len(parts)} widths; expected 5, such as 64:32:16:8:64")
        for layer, part in zip(LAYERS, parts, strict=True):
            if part not in _DECISIONS[0].options:
                raise InputError(f"nats-size: {part!r} channels in {layer} of {text!r}; expected 8, 16, … or 64")
        return tuple(_DECISIONS[0].options.index(part) for part in parts)

    def format(self, arch: Arch) -> str:
        require_arch(self, arch)
        return ":".join(map(str, _widths(arch)))

    def sketch(self, arch: Arch) -> tuple[Chain]:
        layers = (Block(layer, f"{width} channels") for layer, width in zip(LAYERS, _widths(arch), strict=True))
        return (Chain("network", (Block("stem", "3×3 convolution"), *layers, Block("classifier"))),)


def _widths(arch: Arch) -> tuple[int, ...]:
    return tuple(WIDTHS[option] for option in arch)


def _count_cell(tally: Tally, inputs: int, width: int, size: tuple[int, ...]) -> None:
    for source in (inputs, inputs, width, width, width):
        tally.conv(source, width, 3, size, norm=True)
    if inputs != width:
        tally.conv(inputs, width, 1, size, norm=True)


class _Cell(nn.Module):
    """Nodes 0 to 3; the edges from node 0 change the width."""

    def __init__(self, dims: int, inputs: int, width: int) -> None:
        super().__init__()
        self.first = nn.ModuleList(ReluConvNorm(dims, inputs, width, 3) for _ in range(2))
        self.inner = nn.ModuleList(ReluConvNorm(dims, width, width, 3) for _ in _INNER)
        self.skip = nn.Identity() if inputs == width else nn.Sequential(conv(dims, inputs, width, 1), NORM[dims](width))

    def forward(self, x: Tensor) -> Tensor:
        one = self.first[0](x)
        two = self.first[1](x) + self.inner[0](one)
        three: Tensor = self.skip(x) + self.inner[1](one) + self.inner[2](two)
        return three


class _Net(BlockNetwork):
    def __init__(self, widths: tuple[int, ...], task: Task) -> None:
        dims, inputs = task.dims, widths[0]
        stem = nn.Sequential(conv(dims, task.input_shape[0], inputs, 3), NORM[dims](inputs))
        blocks: list[nn.Module] = []
        for layer, width in enumerate(widths):
            blocks.append(Reduction(dims, inputs, width) if layer % 2 else _Cell(dims, inputs, width))
            inputs = width
        last = nn.Sequential(NORM[dims](inputs), nn.ReLU())
        super().__init__(dims, stem, blocks, last, nn.Linear(inputs, task.target.outputs))
