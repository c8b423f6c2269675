"""The operations of DARTS and of the NDS spaces, in one, two and three dimensions, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainless.spaces.ops import CONV, MAXIMUM, NORM, ReluConvNorm, Zero, average, conv
from trainless.spaces.tally import Tally

_SEPARABLE = {"sep_conv_3x3": (3, 1), "sep_conv_5x5": (5, 1), "sep_conv_7x7": (7, 1), "dil_sep_conv_3x3": (3, 2)}
_DILATED = {"dil_conv_3x3": 3, "dil_conv_5x5": 5}
_PLAIN = {"conv_1x1": 1, "conv_3x3": 3}
_AXIAL = {"conv_3x1_1x3": 3, "conv_7x1_1x7": 7}
_MAXIMUM = {"max_pool_3x3": 3, "max_pool_5x5": 5, "max_pool_7x7": 7}

FREE = frozenset({"none", "skip_connect", "avg_pool_3x3", *_MAXIMUM})
"""Operations that turn zeros into zeros where they do not halve the size."""


class FactorizedReduce(nn.Module):
    """ReLU, two 1×1 convolutions of stride 2, the second shifted by one along every axis, batch norm.

    Odd sizes are padded by a zero at their end, so that both halves have the size ⌈n/2⌉; an odd number of channels
    gives the first convolution one more.
    """

    def __init__(self, dims: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.relu = nn.ReLU()
        self.first = conv(dims, inputs, outputs - outputs // 2, 1, 2)
        self.second = conv(dims, inputs, outputs // 2, 1, 2)
        self.norm = NORM[dims](outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Half the size."""
        x = self.relu(x)
        shifted = F.pad(x, (-1, 1) * (x.ndim - 2))
        halves: Tensor = self.norm(torch.cat([self.first(x), self.second(shifted)], 1))
        return halves


class _HalvedZero(nn.Module):
    """Zero at half the size: the gradient path stays."""

    def forward(self, x: Tensor) -> Tensor:
        every = (slice(None), slice(None), *[slice(None, None, 2)] * (x.ndim - 2))
        return x[every] * 0


def operation(name: str, dims: int, channels: int, stride: int) -> nn.Module:
    """One operation from ``channels`` to as many channels.

    ``sep_conv``: twice ReLU, depthwise and 1×1 convolution, norm; ``dil_conv``: the same once, with dilation 2;
    ``dil_sep_conv``: twice, with dilation 2; ``conv_3x1_1x3``: ReLU, one convolution along each axis, the last axis
    first, norm; ``skip_connect`` becomes a FactorizedReduce at stride 2.

    Example:
        >>> sum(p.numel() for p in operation("sep_conv_3x3", 2, 4, 1).parameters())
        120
    """
    if name == "none":
        return Zero() if stride == 1 else _HalvedZero()
    if name == "skip_connect":
        return nn.Identity() if stride == 1 else FactorizedReduce(dims, channels, channels)
    if name == "avg_pool_3x3":
        return average(dims, 3, stride, 1)
    if name in _MAXIMUM:
        return MAXIMUM[dims](_MAXIMUM[name], stride, _MAXIMUM[name] // 2)
    if name in _PLAIN:
        return ReluConvNorm(dims, channels, channels, _PLAIN[name], stride)
    if name in _AXIAL:
        return _axial(dims, channels, _AXIAL[name], stride)
    if name in _DILATED:
        return nn.Sequential(*_depthwise(dims, channels, _DILATED[name], stride, 2))
    kernel, dilation = _SEPARABLE[name]
    return nn.Sequential(
        *_depthwise(dims, channels, kernel, stride, dilation), *_depthwise(dims, channels, kernel, 1, dilation)
    )


def _depthwise(dims: int, channels: int, kernel: int, stride: int, dilation: int) -> list[nn.Module]:
    return [
        nn.ReLU(),
        conv(dims, channels, channels, kernel, stride, groups=channels, dilation=dilation),
        conv(dims, channels, channels, 1),
        NORM[dims](channels),
    ]


def _axial(dims: int, channels: int, kernel: int, stride: int) -> nn.Module:
    layers: list[nn.Module] = [nn.ReLU()]
    convolution: Callable[..., nn.Module] = CONV[dims]
    for axis in reversed(range(dims)):
        shape, steps, padding = [1] * dims, [1] * dims, [0] * dims
        shape[axis], steps[axis], padding[axis] = kernel, stride, kernel // 2
        layers.append(convolution(channels, channels, tuple(shape), tuple(steps), tuple(padding), bias=False))
    return nn.Sequential(*layers, NORM[dims](channels))


def tally_operation(tally: Tally, name: str, channels: int, stride: int, size: tuple[int, ...]) -> None:
    """Add what ``operation`` costs on inputs of this size.

    Example:
        >>> tally = Tally()
        >>> tally_operation(tally, "dil_conv_3x3", 4, 2, (8, 8))
        >>> tally.counts()
        Counts(params=60, flops=832, layers=4)
    """
    if name == "skip_connect" and stride == 2:
        tally_reduce(tally, channels, channels, size)
    elif name in _PLAIN:
        tally.conv(channels, channels, _PLAIN[name], size, stride=stride)
        tally.norm(channels)
    elif name in _AXIAL:
        _tally_axial(tally, channels, _AXIAL[name], stride, size)
    elif name in _DILATED:
        _tally_depthwise(tally, channels, _DILATED[name], stride, size)
    elif name in _SEPARABLE:
        kernel, _ = _SEPARABLE[name]
        size = _tally_depthwise(tally, channels, kernel, stride, size)
        _tally_depthwise(tally, channels, kernel, 1, size)


def tally_reduce(tally: Tally, inputs: int, outputs: int, size: tuple[int, ...]) -> None:
    """Add what a FactorizedReduce costs on inputs of this size."""
    tally.conv(inputs, outputs - outputs // 2, 1, size, stride=2)
    tally.conv(inputs, outputs // 2, 1, size, stride=2)
    tally.norm(outputs)


def _tally_depthwise(tally: Tally, channels: int, kernel: int, stride: int, size: tuple[int, ...]) -> tuple[int, ...]:
    size = tally.conv(channels, channels, kernel, size, stride=stride, groups=channels)
    tally.conv(channels, channels, 1, size)
    tally.norm(channels)
    return size


def _tally_axial(tally: Tally, channels: int, kernel: int, stride: int, size: tuple[int, ...]) -> None:
    lengths = list(size)
    weights = kernel * channels * channels
    for axis in reversed(range(len(size))):
        lengths[axis] = (lengths[axis] - 1) // stride + 1
        tally.params += weights
        tally.flops += weights * math.prod(lengths)
        tally.tensors += 1
    tally.norm(channels)
