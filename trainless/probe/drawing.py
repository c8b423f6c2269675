"""Random tensors that depend on a seed and a name alone, drawn once for many networks."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar

import torch
from torch import Tensor

R = TypeVar("R")
Layout: TypeAlias = Literal["given", "plain", "channels_last"]
"""As they are, channel by channel, or place by place: the last is what a processor convolves images fastest in."""


def laid_out(tensor: Tensor, layout: Layout) -> Tensor:
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


def run_in(layout: Layout, compute: Callable[[Layout], R]) -> R:
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


Kind: TypeAlias = Literal["normal", "uniform", "signs"]
Draw: TypeAlias = Callable[[str], torch.Generator]
LIMIT = 1 << 28  # bytes that are kept
_KEPT: OrderedDict[tuple[object, ...], Tensor] = OrderedDict()
_LOCK = threading.Lock()


def drawn(kind: Kind, shape: tuple[int, ...], source: torch.Generator, like: Tensor) -> Tensor:
    """N(0, 1), U(−1, 1) or ±1, drawn on the CPU so that every device gets the same numbers.

    What was drawn lately is kept, so that networks which share a layer's name and shape share its numbers without
    drawing them again; the caller must not change them. They lie in memory as ``like`` does.

    Example:
        >>> source = torch.Generator().manual_seed(0)
        >>> drawn("signs", (3,), source, torch.zeros(())).abs().tolist()
        [1.0, 1.0, 1.0]
    """
    layout: Layout = "channels_last" if len(shape) == like.ndim and channels_lie_last(like) else "given"
    key = (kind, shape, source.initial_seed(), like.device, like.dtype, layout)
    with _LOCK:
        if key in _KEPT:
            _KEPT.move_to_end(key)
            return _KEPT[key]
    made = laid_out(_draw(kind, shape, source).to(like.device, like.dtype), layout)
    with _LOCK:
        _KEPT[key] = made
        held = sum(math.prod(tensor.shape) * tensor.element_size() for tensor in _KEPT.values())
        while held > LIMIT:
            _, oldest = _KEPT.popitem(last=False)
            held -= math.prod(oldest.shape) * oldest.element_size()
    return made


def _draw(kind: Kind, shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    if kind == "normal":
        return torch.randn(shape, generator=source)
    if kind == "uniform":
        return torch.rand(shape, generator=source) * 2 - 1
    return torch.randint(0, 2, shape, generator=source, dtype=torch.int8) * 2 - 1
