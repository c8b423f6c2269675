"""Building blocks in one, two and three dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch.nn.functional as F
from torch import Tensor, nn

from trainless.spaces.moves import Choices, enumerate_archs, size

COUNTED = 20_000
"""Spaces of up to so many archs are counted one by one where they do not know their numbers."""


@dataclass(frozen=True)
class Extent:
    """Numbers of archs, None where nobody knows.

    Attributes:
        combinations: What the decisions span.
        valid: Those that make a network.
        different: Those that are left when twins count once, by the space's canonical form.
    """

    combinations: int
    valid: int | None = None
    different: int | None = None


@runtime_checkable
class Sized(Protocol):
    """A space that knows its exact numbers without enumeration."""

    def extent(self) -> Extent:
        """Its numbers."""
        ...


def extent(space: Choices) -> Extent:
    """The numbers of a space: its own, or counted where it is small.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> extent(NasBench201())
        Extent(combinations=15625, valid=15625, different=5653)
    """
    if isinstance(space, Sized):
        return space.extent()
    if size(space) > COUNTED:
        return Extent(size(space))
    valid = list(enumerate_archs(space))
    return Extent(size(space), len(valid), len({space.canonical(arch) for arch in valid}))


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

    def __init__(self, dims: int, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(nn.ReLU(), conv(dims, inputs, outputs, kernel, stride), NORM[dims](outputs))


class Zero(nn.Module):
    """Multiply by zero: the gradient path stays, as in the published networks."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 0
