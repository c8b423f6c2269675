"""Building blocks in one, two and three dimensions, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from trainless.spaces.protocol import Counts, Network

CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
NORM = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
AVERAGE = {1: nn.AvgPool1d, 2: nn.AvgPool2d, 3: nn.AvgPool3d}
MAXIMUM = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
GLOBAL = {1: nn.AdaptiveAvgPool1d, 2: nn.AdaptiveAvgPool2d, 3: nn.AdaptiveAvgPool3d}


def conv(
    dims: int, inputs: int, outputs: int, kernel: int, stride: int = 1, *, groups: int = 1, dilation: int = 1
) -> nn.Module:
    """A convolution without bias that keeps the size at stride 1."""
    padding = dilation * (kernel - 1) // 2
    made: nn.Module = CONV[dims](inputs, outputs, kernel, stride, padding, dilation, groups, bias=False)
    return made


def average(dims: int, kernel: int, stride: int = 1, padding: int = 0) -> nn.Module:
    """Average pooling that does not count the padding."""
    if dims == 3 and padding:
        return _AverageVolumes(kernel, stride, padding)
    made: nn.Module = AVERAGE[dims](kernel, stride, padding, count_include_pad=False)
    return made


class _AverageVolumes(nn.AvgPool3d):
    """Average pooling of volumes; PyTorch's refuses any that is smaller than the kernel, padding or not."""

    by_channel = True

    def __init__(self, kernel: int, stride: int, padding: int) -> None:
        super().__init__(kernel, stride, padding, count_include_pad=False)
        self.sides = (kernel, stride, padding)

    def forward(self, x: Tensor) -> Tensor:
        kernel, stride, padding = self.sides
        if min(x.shape[2:]) >= kernel:
            return super().forward(x)
        around = (padding,) * 6
        inside = F.pad(x.new_ones(1, 1, *x.shape[2:]), around)
        return F.avg_pool3d(F.pad(x, around), kernel, stride) / F.avg_pool3d(inside, kernel, stride)


class ReluConvNorm(nn.Sequential):
    """ReLU, convolution without bias, batch norm: the field's order."""

    by_channel = True  # as of all that works on networks which lie side by side: see trainless.stack

    def __init__(self, dims: int, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(nn.ReLU(), conv(dims, inputs, outputs, kernel, stride), NORM[dims](outputs))


class Zero(nn.Module):
    """Multiply by zero: the gradient path stays, as in the published networks."""

    by_channel = gives_zero = True

    def forward(self, x: Tensor) -> Tensor:
        return x * 0


class Reduction(nn.Module):
    """NAS-Bench-201's residual block that halves the size."""

    by_channel = True

    def __init__(self, dims: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = ReluConvNorm(dims, inputs, outputs, 3, 2)
        self.second = ReluConvNorm(dims, outputs, outputs, 3)
        self.shortcut = nn.Sequential(
            AVERAGE[dims](2, 2, ceil_mode=True, count_include_pad=False), conv(dims, inputs, outputs, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.shortcut(x) + self.second(self.first(x))
        return result


class BlockNetwork(Network):
    """A stem, blocks one after the other, a last part, global average and a linear classifier."""

    by_channel = True

    def __init__(
        self, dims: int, stem: nn.Module, blocks: Sequence[nn.Module], last: nn.Module, classifier: nn.Module
    ) -> None:
        super().__init__()
        self.stem, self.blocks, self.last = stem, nn.ModuleList(blocks), last
        self.pool: nn.Module = GLOBAL[dims](1)
        self.classifier = classifier
        self.block_names = ("stem", *(f"blocks.{index}" for index in range(len(blocks))))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.classifier(self.pool(self.last(x)).flatten(1))
        return logits


@dataclass
class Tally:
    """Parameters, multiply–accumulates and parameter tensors, layer by layer."""

    params: int = 0
    flops: int = 0
    tensors: int = 0

    def conv(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        size: Sequence[int],
        *,
        stride: int = 1,
        groups: int = 1,
        bias: bool = False,
        norm: bool = False,
    ) -> tuple[int, ...]:
        """Count a convolution with the padding of ``conv``, and a norm after it; returns its output's size."""
        after = tuple((length - 1) // stride + 1 for length in size)
        weights = kernel ** len(after) * (inputs // groups) * outputs
        self.params += weights + outputs * bias
        self.flops += weights * math.prod(after)
        self.tensors += 1 + bias
        if norm:
            self.norm(outputs)
        return after

    def reduction(self, inputs: int, outputs: int, size: Sequence[int]) -> tuple[int, ...]:
        """Count a :class:`Reduction`; returns its output's size."""
        half = self.conv(inputs, outputs, 3, size, stride=2, norm=True)
        self.conv(outputs, outputs, 3, half, norm=True)
        return self.conv(inputs, outputs, 1, half)

    def norm(self, channels: int) -> None:
        self.params += 2 * channels
        self.tensors += 2

    def linear(self, inputs: int, outputs: int, positions: int = 1, *, bias: bool = True) -> None:
        self.params += inputs * outputs + outputs * bias
        self.flops += inputs * outputs * positions
        self.tensors += 1 + bias

    def parameter(self, size: int) -> None:
        self.params += size
        self.tensors += 1

    def add(self, other: Tally, times: int) -> None:
        self.params += times * other.params
        self.flops += times * other.flops
        self.tensors += times * other.tensors

    def counts(self) -> Counts:
        return Counts(self.params, self.flops, self.tensors)
