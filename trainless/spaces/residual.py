"""Residual networks for signals, images and volumes (He et al., 2016): what a competent person begins with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor, nn

from trainless.core.arch import Arch, Decision
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.ops import AVERAGE, GLOBAL, MAXIMUM, NORM, BlockNetwork, Tally, conv
from trainless.spaces.protocol import Counts, IndependentDecisions, require_arch, require_grid
from trainless.spaces.sketch import Block, Chain

WIDTHS = (16, 32, 64)
DEPTHS = (1, 2, 3)
STAGES = (2, 3, 4)
KERNELS = MappingProxyType({1: (3, 7, 15), 2: (3, 5, 7), 3: (3, 3, 3)})  # of the blocks
STEMS = MappingProxyType({1: (3, 7, 15), 2: (3, 5, 7), 3: (3, 5, 7)})
STRIDES = (1, 2, 4, 8, 16)
POOLS = ("mean", "mean+max")
SQUEEZED, LEAST_SQUEEZED = 8, 4  # a gate has an eighth of the channels inside, and no fewer than four
LARGEST_MAP = MappingProxyType({1: 32, 2: 8, 3: 4})  # of a plain network's last map, along its longest axis
FEW_STAGES = MappingProxyType({1: (32, 512), 2: (16, 96), 3: (16, 48)})  # shorter: two stages; shorter: three
AFFORDABLE = 200_000_000  # multiply–accumulates of a plain network: minutes of training on a processor
WIDTH = Decision("width", tuple(map(str, WIDTHS)))
DEPTH = Decision("depth", tuple(map(str, DEPTHS)))
STAGE = Decision("stages", tuple(map(str, STAGES)))
KERNEL = Decision("kernel", ("narrow", "medium", "wide"))
GATE, POOL = Decision("gate", ("no", "yes")), Decision("pool", POOLS)


@dataclass(frozen=True)
class ResidualShape:
    """What an arch stands for in some number of dimensions."""

    width: int
    depth: int
    stages: int
    kernel: int
    stem: int
    stride: int
    gate: bool
    pool: str

    @property
    def features(self) -> int:
        """How many numbers the classifier reads."""
        last: int = self.width * 2 ** (self.stages - 1)
        return 2 * last if self.pool == "mean+max" else last


@dataclass(frozen=True)
class Residual(IndependentDecisions):
    """Residual networks: width, depth, stages, kernel, stem stride, gates and pooling are open.

    A stem (convolution, norm, ReLU), stages of ``depth`` basic blocks (two convolutions with norms around a
    shortcut) whose first has ``width`` channels, each further one twice as many at half the size, global pooling and
    a linear classifier. A stem's stride of 4 or more is a stride of 2 and a maximum over the rest; a shortcut that
    halves takes the average before its 1×1 convolution. Kernels are 3, 7 or 15 long in signals, 3, 5 or 7 in images;
    in volumes only the stem's is 3, 5 or 7, and blocks have 3. A gate is a squeeze-and-excitation of each block
    (Hu et al., 2018). Convolutions begin as He et al. (2015) have it.

    With ``zero_gain`` the last norm of each block begins with a gain of zero, so that blocks begin as shortcuts;
    stem strides are from ``least_stride`` to ``most_stride``.

    Example:
        >>> space = Residual()
        >>> task = Task.noise((1, 28, 28), classes=2)
        >>> space.format(space.plain(task))
        'width=32,depth=2,stages=3,kernel=narrow,stride=1,gate=no,pool=mean'
        >>> space.counts(space.plain(task), task).params
        695010
    """

    zero_gain: bool = False
    least_stride: int = STRIDES[0]
    most_stride: int = STRIDES[-1]
    name = "residual"

    def __post_init__(self) -> None:
        if not self.strides:
            given = f"least_stride={self.least_stride} and most_stride={self.most_stride} were given"
            raise InputError(f"{self.name}: {given}; expected one of {STRIDES} between them")

    @property
    def strides(self) -> tuple[int, ...]:
        """The stem strides to choose from."""
        return tuple(stride for stride in STRIDES if self.least_stride <= stride <= self.most_stride)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return (WIDTH, DEPTH, STAGE, KERNEL, Decision("stride", tuple(map(str, self.strides))), GATE, POOL)

    def check(self, task: Task) -> None:
        require_grid(self, task, 4, ", which halves them at least once")

    def plain(self, task: Task) -> Arch:
        """The network that a competent person takes for inputs of such a size, without any search.

        Two blocks a stage and the average. The number of stages and the stem's stride follow the longest axis; the
        width is 32, or 16 for volumes and where 32 would need more than 200 million multiply–accumulates.
        """
        self.check(task)
        longest = max(task.input_shape[1:])
        stages = STAGES[sum(longest >= bound for bound in FEW_STAGES[task.dims])]
        fits = [s for s in self.strides if -(-longest // (s * 2 ** (stages - 1))) <= LARGEST_MAP[task.dims]]
        stride = fits[0] if fits else self.strides[-1]
        kernel = 1 if task.dims == 1 else 0
        widths = (0,) if task.dims == 3 else (1, 0)
        found = [(width, 1, STAGES.index(stages), kernel, self.strides.index(stride), 0, 0) for width in widths]
        return next((arch for arch in found if self.counts(arch, task).flops <= AFFORDABLE), found[-1])

    def shape(self, arch: Arch, dims: int) -> ResidualShape:
        """What an arch stands for on inputs of so many dimensions."""
        width, depth, stages, kernel, stride, gate, pool = arch
        sizes = KERNELS[dims][kernel], STEMS[dims][kernel]
        step = self.strides[stride]
        return ResidualShape(WIDTHS[width], DEPTHS[depth], STAGES[stages], *sizes, step, bool(gate), POOLS[pool])

    def build(self, arch: Arch, task: Task) -> nn.Module:
        require_arch(self, arch, task)
        return _Net(self.shape(arch, task.dims), task, self.zero_gain)

    def counts(self, arch: Arch, task: Task) -> Counts:
        require_arch(self, arch, task)
        shape, tally = self.shape(arch, task.dims), Tally()
        size = tally.conv(
            task.input_shape[0], shape.width, shape.stem, task.input_shape[1:], stride=min(shape.stride, 2), norm=True
        )
        if shape.stride > 2:
            size = tuple((length - 1) // (shape.stride // 2) + 1 for length in size)
        for inputs, outputs, stride in _blocks(shape):
            if inputs != outputs:
                tally.conv(inputs, outputs, 1, size, stride=stride, norm=True)
            size = tally.conv(inputs, outputs, shape.kernel, size, stride=stride, norm=True)
            tally.conv(outputs, outputs, shape.kernel, size, norm=True)
            if shape.gate:
                tally.linear(outputs, _inside(outputs))
                tally.linear(_inside(outputs), outputs)
        tally.linear(shape.features, task.target.outputs)
        return tally.counts()

    def sketch(self, arch: Arch) -> tuple[Chain]:
        width, depth, stages, kernel, stride, gate, pool = (
            decision.options[option] for decision, option in zip(self.decisions, arch, strict=True)
        )
        named = f"{depth} × residual block, {kernel} kernel{', gate' if gate == 'yes' else ''}"
        blocks = (Block(named, f"{int(width) * 2**stage} channels") for stage in range(int(stages)))
        stem = Block("stem", f"{width} channels, stride {stride}")
        return (Chain("network", (stem, *blocks, Block(f"{pool}, classifier"))),)


def _blocks(shape: ResidualShape) -> list[tuple[int, int, int]]:
    """Input channels, output channels and stride of every block."""
    found, inputs = [], shape.width
    for stage in range(shape.stages):
        for block in range(shape.depth):
            outputs = shape.width * 2**stage
            found.append((inputs, outputs, 2 if stage and not block else 1))
            inputs = outputs
    return found


def _inside(channels: int) -> int:
    return max(LEAST_SQUEEZED, channels // SQUEEZED)


class _Net(BlockNetwork):
    def __init__(self, shape: ResidualShape, task: Task, zero_gain: bool) -> None:
        dims, size = task.dims, _after(task.input_shape[1:], shape.stride)
        blocks: list[nn.Module] = []
        for inputs, outputs, stride in _blocks(shape):
            blocks.append(BasicBlock(dims, inputs, outputs, shape, stride, pooled=min(size) > 1))
            size = _after(size, stride)
        classifier = nn.Linear(shape.features, task.target.outputs)
        super().__init__(dims, stem(dims, task.input_shape[0], shape), blocks, nn.Identity(), classifier)
        if shape.pool == "mean+max":
            self.pool = MeanMax(dims)
        initialise(self)
        if zero_gain:
            for block in blocks:
                nn.init.zeros_(block.get_parameter("norms.1.weight"))


def initialise(net: nn.Module) -> None:
    """Draw the weights of all convolutions as He et al. (2015) have it for ReLU, by what goes out of them."""
    for module in net.modules():
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def stem(dims: int, inputs: int, shape: ResidualShape) -> nn.Sequential:
    """Convolution, norm and ReLU, and a maximum where the stride is more than two."""
    layers = [conv(dims, inputs, shape.width, shape.stem, min(shape.stride, 2)), NORM[dims](shape.width), nn.ReLU()]
    if (rest := shape.stride // 2) > 1:
        layers.append(MAXIMUM[dims](rest + 1, rest, rest // 2))
    return nn.Sequential(*layers)


def _after(size: Sequence[int], stride: int) -> tuple[int, ...]:
    """The size after strides whose product this is; halving twice is the same as a quarter at once."""
    return tuple((length - 1) // stride + 1 for length in size)


class BasicBlock(nn.Module):
    """Two convolutions with norms, a gate where there is one, and a shortcut around them; ReLU after the sum."""

    def __init__(
        self, dims: int, inputs: int, outputs: int, shape: ResidualShape, stride: int, *, pooled: bool
    ) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            [conv(dims, inputs, outputs, shape.kernel, stride), conv(dims, outputs, outputs, shape.kernel)]
        )
        self.norms = nn.ModuleList(NORM[dims](outputs) for _ in range(2))
        self.relus = nn.ModuleList(nn.ReLU() for _ in range(2))
        self.gate = SqueezeGate(dims, outputs) if shape.gate else nn.Identity()
        self.shortcut = nn.Sequential() if inputs == outputs else _shortcut(dims, inputs, outputs, stride, pooled)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.relus[0](self.norms[0](self.convs[0](x)))
        inner = self.gate(self.norms[1](self.convs[1](inner)))
        result: Tensor = self.relus[1](inner + self.shortcut(x))
        return result


def _shortcut(dims: int, inputs: int, outputs: int, stride: int, pooled: bool) -> nn.Sequential:
    """The average of each pair and a 1×1 convolution; where an axis is one long, only every other position is read."""
    if not pooled:
        return nn.Sequential(conv(dims, inputs, outputs, 1, stride), NORM[dims](outputs))
    pairs = AVERAGE[dims](stride, stride, ceil_mode=True, count_include_pad=False)
    return nn.Sequential(pairs, conv(dims, inputs, outputs, 1), NORM[dims](outputs))


class SqueezeGate(nn.Module):
    """Squeeze-and-excitation (Hu et al., 2018): each channel times a number that all of them decide."""

    def __init__(self, dims: int, channels: int) -> None:
        super().__init__()
        self.pool = GLOBAL[dims](1)
        self.rule = nn.Sequential(
            nn.Linear(channels, _inside(channels)), nn.ReLU(), nn.Linear(_inside(channels), channels), nn.Sigmoid()
        )

    def forward(self, x: Tensor) -> Tensor:
        share: Tensor = self.rule(self.pool(x).flatten(1))
        return x * share.reshape(*share.shape, *[1] * (x.ndim - 2))


class MeanMax(nn.Module):
    """The mean and the maximum of every channel over all positions, one after the other."""

    def __init__(self, dims: int) -> None:
        super().__init__()
        self.mean = GLOBAL[dims](1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.mean(x).flatten(1), x.flatten(2).amax(2)], 1)
