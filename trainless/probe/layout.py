"""The order of images in memory: channel by channel, or place by place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar

import torch
from torch import Tensor

R = TypeVar("R")
MemoryLayout: TypeAlias = Literal["given", "plain", "channels_last"]
"""As they are, channel by channel, or place by place: the last is what a processor convolves images fastest in."""


def laid_out(tensor: Tensor, layout: MemoryLayout) -> Tensor:
    """The same numbers in another order in memory, if they are images.

    Example:
        >>> laid_out(torch.zeros(2, 3, 4, 4), "channels_last").stride()
        (48, 1, 12, 3)
    """
    if layout == "given" or tensor.ndim != 4:
        return tensor
    if layout == "plain":
        return tensor.contiguous()
    _, channels, height, width = tensor.shape
    strides = (
        channels * height * width,
        1,
        channels * width,
        channels,
    )  # said even of one channel, which lies both ways
    return tensor.contiguous(memory_format=torch.channels_last).as_strided(tensor.shape, strides)


def run_in(layout: MemoryLayout, compute: Callable[[MemoryLayout], R]) -> R:
    """Compute in a layout, or plainly where a network cannot run with channels last.

    ``view`` depends on how numbers lie in memory.

    Example:
        >>> run_in("channels_last", lambda layout: laid_out(torch.zeros(1, 2, 2, 2), layout).view(-1).shape)
        torch.Size([8])
    """
    try:
        return compute(layout)
    except RuntimeError:
        if layout != "channels_last":
            raise
        return compute("plain")


def channels_lie_last(tensor: Tensor) -> bool:
    """Whether images lie place by place and not channel by channel.

    Example:
        >>> channels_lie_last(torch.zeros(2, 3, 4, 4)), channels_lie_last(torch.zeros(2, 4, 4, 3).movedim(-1, 1))
        (False, True)
    """
    return tensor.ndim == 4 and not tensor.is_contiguous() and tensor.is_contiguous(memory_format=torch.channels_last)
