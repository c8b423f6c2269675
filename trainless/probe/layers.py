"""Applications of layers, norms and tables: what a recorded forward pass notes of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

CONVOLUTIONS: dict[Callable[..., Any], int] = {F.conv1d: 1, F.conv2d: 2, F.conv3d: 3}
"""The functions that convolve, with the number of axes."""


@dataclass(frozen=True, eq=False)
class Conv:
    """Stride, padding, dilation and groups of a convolution, one number per axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


@dataclass(frozen=True, eq=False)
class Layer:
    """One application of a convolution or linear layer: ``output = weight ∗ x (+ bias)``."""

    weight: str
    bias: str | None
    x: Tensor
    output: Tensor
    conv: Conv | None


@dataclass(frozen=True, eq=False)
class Lookup:
    """One application of an embedding: ``output = weight[tokens]``, the weight of this shape."""

    weight: str
    tokens: Tensor
    output: Tensor
    shape: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Standardised:
    """One application of a batch norm: ``output = weight · x̂ + bias``."""

    weight: str
    bias: str
    x: Tensor
    output: Tensor


def conv_of(
    kernel: tuple[int, ...],
    stride: int | tuple[int, ...],
    padding: str | int | tuple[int, ...],
    dilation: int | tuple[int, ...],
    groups: int,
) -> Conv:
    """A convolution's sizes, each as one number per axis, from what PyTorch's functions take.

    Example:
        >>> conv_of((3, 3), 2, "valid", 1, 1)
        Conv(kernel=(3, 3), stride=(2, 2), padding=(0, 0), dilation=(1, 1), groups=1)
    """

    def each(value: int | tuple[int, ...]) -> tuple[int, ...]:
        return (value,) * len(kernel) if isinstance(value, int) else tuple(value) * (len(kernel) // len(value))

    if isinstance(padding, str):
        wide = [(size - 1) * step for size, step in zip(kernel, each(dilation), strict=True)]
        padding = tuple(total // 2 for total in wide) if padding == "same" else 0
    return Conv(kernel, each(stride), each(padding), each(dilation), groups)
