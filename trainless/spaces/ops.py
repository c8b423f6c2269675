"""Building blocks in one, two and three dimensions."""

from __future__ import annotations

from torch import Tensor, nn

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
    return CONV[dims](inputs, outputs, kernel, stride, padding, dilation, groups, bias=False)


def average(dims: int, kernel: int, stride: int = 1, padding: int = 0) -> nn.Module:
    """Average pooling that does not count the padding."""
    return AVERAGE[dims](kernel, stride, padding, count_include_pad=False)


class ReluConvNorm(nn.Sequential):
    """ReLU, convolution without bias, batch norm: the field's order."""

    def __init__(self, dims: int, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(nn.ReLU(), conv(dims, inputs, outputs, kernel, stride), NORM[dims](outputs))


class Zero(nn.Module):
    """Multiply by zero: the gradient path stays, as in the published networks."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 0
