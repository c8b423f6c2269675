"""Random tensors that depend on a seed and a name alone, drawn once for many networks."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from trainless.probe.layout import Layout, channels_lie_last, laid_out

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
