"""NAS-Bench-Macro: which block each of eight layers is, in one, two and three dimensions (Su et al., 2021)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from trainless.core.arch import Arch, Decision
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.moves import Extent, has_options
from trainless.spaces.ops import NORM, BlockNetwork, Tally, conv
from trainless.spaces.protocol import Counts, ShownSpace, require_arch, require_grid, require_least
from trainless.spaces.sketch import Block, Chain

STAGES = (2, 3, 3)
IDENTITY, SMALL, LARGE = range(3)
OPERATIONS = ("identity", "k3e3", "k5e6")
KERNEL_AND_EXPANSION = {SMALL: (3, 3), LARGE: (5, 6)}
_DECISIONS = tuple(
    Decision(f"stage{stage}.layer{layer}", OPERATIONS)
    for stage, layers in enumerate(STAGES, start=1)
    for layer in range(1, layers + 1)
)


@dataclass(frozen=True)
class NasBenchMacro(ShownSpace):
    """NAS-Bench-Macro: eight layers in three stages, each left out or one of two inverted residuals; 6,561 archs.

    A 3×3 stem of ``channels``; every stage doubles the channels and halves the size in its first layer, where the
    layer that is left out is a 1×1 convolution; a last 1×1 convolution to ``last`` channels, global average and a
    linear classifier.

    Example:
        >>> space = NasBenchMacro()
        >>> space.parse("2012100")  # a leading zero may be missing
        (0, 2, 0, 1, 2, 1, 0, 0)
        >>> space.counts(space.parse("00000000"), Task.noise((3, 32, 32), classes=10)).params
        387882
    """

    channels: int = 32
    last: int = 1280
    name = "nb-macro"
    decisions = _DECISIONS

    def __post_init__(self) -> None:
        require_least(self, channels=1, last=1)

    def check(self, task: Task) -> None:
        require_grid(self, task)

    def valid(self, arch: Arch) -> bool:
        return has_options(self, arch)

    def canonical(self, arch: Arch) -> Arch:
        """Layers that are left out come last in their stage, but for its first layer, which always does something."""
        options = iter(arch)
        kept: list[int] = []
        for layers in STAGES:
            first, *rest = itertools.islice(options, layers)
            kept += [first, *sorted(rest, key=lambda option: option == IDENTITY)]
        return tuple(kept)

    def build(self, arch: Arch, task: Task) -> nn.Module:
        require_arch(self, arch, task)
        dims, channels = task.dims, self.channels
        stem = _conv_norm_relu(dims, task.input_shape[0], channels, 3)
        blocks = [_layer(dims, option, inputs, factor) for option, inputs, factor in _layers(arch, channels)]
        channels *= 2 ** len(STAGES)
        last = _conv_norm_relu(dims, channels, self.last, 1)
        return BlockNetwork(dims, stem, blocks, last, nn.Linear(self.last, task.target.outputs))

    def counts(self, arch: Arch, task: Task) -> Counts:
        require_arch(self, arch, task)
        tally = Tally()
        size = tally.conv(task.input_shape[0], self.channels, 3, task.input_shape[1:], norm=True)
        for option, inputs, factor in _layers(arch, self.channels):
            if option != IDENTITY:
                kernel, expansion = KERNEL_AND_EXPANSION[option]
                middle = expansion * inputs
                tally.conv(inputs, middle, 1, size, norm=True)
                size = tally.conv(middle, middle, kernel, size, stride=factor, groups=middle, norm=True)
                tally.conv(middle, factor * inputs, 1, size, norm=True)
            elif factor == 2:
                size = tally.conv(inputs, 2 * inputs, 1, size, stride=2, norm=True)
        tally.conv(self.channels * 2 ** len(STAGES), self.last, 1, size, norm=True)
        tally.linear(self.last, task.target.outputs)
        return tally.counts()

    def extent(self) -> Extent:
        return Extent(6_561, 6_561, 9 * 21 * 21)

    def sketch(self, arch: Arch) -> tuple[Chain]:
        blocks = (
            Block(OPERATIONS[option] if option else "1×1 convolution", f"{factor * inputs} channels")
            for option, inputs, factor in _layers(arch, self.channels)
            if option != IDENTITY or factor == 2
        )
        ends = Block("stem", f"{self.channels} channels"), Block("average, classifier", f"{self.last} channels")
        return (Chain("network", (ends[0], *blocks, ends[1])),)

    def parse(self, text: str) -> Arch:
        digits = text.strip()
        if not 1 <= len(digits) <= len(self.decisions) or not set(digits) <= set("012"):
            raise InputError(
                f"{self.name}: {text[:80]!r} was given; expected a digit from 0 to 2 for each of"
                f" {len(self.decisions)} layers, such as 02012100"
            )
        return tuple(map(int, digits.zfill(len(self.decisions))))

    def format(self, arch: Arch) -> str:
        require_arch(self, arch)
        return "".join(map(str, arch))


def _layers(arch: Arch, channels: int) -> Iterator[tuple[int, int, int]]:
    """Of every layer its option, the channels that enter it, and 2 where it doubles them and halves the size."""
    options = iter(arch)
    for layers in STAGES:
        yield next(options), channels, 2
        channels *= 2
        for option in itertools.islice(options, layers - 1):
            yield option, channels, 1


def _conv_norm(dims: int, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    return [conv(dims, inputs, outputs, kernel, stride, groups=groups), NORM[dims](outputs)]


def _conv_norm_relu(dims: int, inputs: int, outputs: int, kernel: int) -> nn.Sequential:
    return nn.Sequential(*_conv_norm(dims, inputs, outputs, kernel), nn.ReLU())


def _layer(dims: int, option: int, inputs: int, factor: int) -> nn.Module:
    if option == IDENTITY:
        return nn.Identity() if factor == 1 else nn.Sequential(*_conv_norm(dims, inputs, 2 * inputs, 1, 2))
    return _InvertedResidual(dims, inputs, factor, *KERNEL_AND_EXPANSION[option])


class _InvertedResidual(nn.Module):
    """Expand by 1×1, convolve every channel by itself, reduce by 1×1; the input is added where shapes are equal."""

    def __init__(self, dims: int, inputs: int, factor: int, kernel: int, expansion: int) -> None:
        super().__init__()
        middle = expansion * inputs
        self.adds = factor == 1
        self.body = nn.Sequential(
            *_conv_norm(dims, inputs, middle, 1),
            nn.ReLU(),
            *_conv_norm(dims, middle, middle, kernel, factor, groups=middle),
            nn.ReLU(),
            *_conv_norm(dims, middle, factor * inputs, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.adds else y
