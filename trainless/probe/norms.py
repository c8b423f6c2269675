"""Modes of normalisation layers at a probe.

Batch norm makes "the gradient of one sample" ambiguous, so its mode is always explicit:

- ``batch``: the batch is normalised together, as in training;
- ``isolated``: every sample is normalised alone, as if it were a batch of one;
- ``fresh``: by the running statistics of an untrained network, mean 0 and variance 1;
- ``off``: nothing is normalised; layer, group and instance norms are left out too.
"""

from __future__ import annotations

import fnmatch
import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from trainless.core.errors import Unscorable
from trainless.probe.layers import modules
from trainless.probe.second_order import batch_norm

Norm: TypeAlias = Literal["batch", "isolated", "fresh", "off"]
Rule: TypeAlias = Norm | Literal["elementary", "twice"]
"""A norm's mode; or as ``batch``, ``elementary`` in operations that can be differentiated forwards, even twice, and
``twice`` in one whose second derivative costs little."""

SAMPLE_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, _InstanceNorm)
Observer: TypeAlias = Callable[[nn.Module, Tensor, Tensor, Tensor], Tensor]


def _standardised(mode: Rule, module: _BatchNorm, x: Tensor) -> Tensor:
    """The input with mean 0 and variance 1 by the statistics of the mode, before scale and bias."""
    if mode == "fresh":
        return x * (1 / math.sqrt(1 + module.eps))
    if mode == "batch":
        return F.batch_norm(x, None, None, None, None, True, 0.0, module.eps)
    if mode == "elementary":
        axes = [0, *range(2, x.ndim)]
        centred = x - x.mean(axes, keepdim=True)
        return centred * torch.rsqrt(centred.square().mean(axes, keepdim=True) + module.eps)
    if x.ndim == 2 or x[0, 0].numel() == 1:
        raise Unscorable(
            "batch norm sees one value per channel and sample here: a sample cannot be normalised on its own"
        )
    if not x.is_cuda:
        # a third to an eighth of batch norm's time on a processor, but slow for channels last
        return F.group_norm(x.contiguous(), x.shape[1], None, None, module.eps)
    flat = x.reshape(1, -1, *x.shape[2:])
    return F.batch_norm(flat, None, None, None, None, True, 0.0, module.eps).view(x.shape)


def channel_variances(x: Tensor) -> Tensor:
    """The biased variance of every channel over samples and positions, ``(C,)``.

    Example:
        >>> channel_variances(torch.tensor([[[1.0, 3.0]], [[1.0, 3.0]]])).tolist()
        [1.0]
    """
    count = x.numel() // x.shape[1]
    rows = x.flatten(2) if x.ndim > 2 else x[:, :, None]
    rows = rows - (rows.sum(2).sum(0) / count)[:, None]
    squares: Tensor = torch.linalg.vecdot(rows, rows).sum(0)
    return squares / count


def _apply(mode: Rule, observe: Observer | None, module: _BatchNorm, x: Tensor) -> Tensor:
    if mode == "off":
        return x
    if mode in ("batch", "twice") and x.numel() == x.shape[1]:
        raise Unscorable("batch norm sees a single value per channel here: this batch is too small to be normalised")
    if mode == "batch" and observe is None:
        return F.batch_norm(x, None, None, module.weight, module.bias, True, 0.0, module.eps)
    if mode == "twice":
        return batch_norm(x, module.weight, module.bias, module.eps)
    standard = _standardised(mode, module, x)
    if module.weight is None or _trivial(module):
        result = standard
    else:
        shape = (1, -1, *[1] * (x.ndim - 2))
        result = module.bias.view(shape).addcmul(standard, module.weight.view(shape))
    return result if observe is None else observe(module, x, standard, result)


def _trivial(module: _BatchNorm) -> bool:
    """Whether scale and bias change nothing, as at initialisation; then they need not be applied."""
    weight: Tensor = module.weight
    ones, zeros = _constants(len(weight), weight.dtype, weight.device)
    return torch.equal(weight, ones) and torch.equal(module.bias, zeros)


@functools.lru_cache(maxsize=64)
def _constants(count: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    return torch.ones(count, dtype=dtype, device=device), torch.zeros(count, dtype=dtype, device=device)


def _identity(x: Tensor) -> Tensor:
    return x


@contextmanager
def normalised(
    net: nn.Module, mode: Rule, kept: tuple[str, ...] = (), observe: Observer | None = None
) -> Iterator[None]:
    """Let the norm layers of a private network behave as told until the end of the block.

    Args:
        net: The network; its norm layers are given back their own behaviour in the end.
        mode: See the module's text.
        kept: Patterns of module names that are normalised by the batch whatever the mode.
        observe: Called with each batch norm's module, input, standardised input and output; returns what goes on.
    """
    changed: list[nn.Module] = []
    try:
        for name, module in modules(net):
            if isinstance(module, _BatchNorm):
                own: Rule = "batch" if any(fnmatch.fnmatch(name, pattern) for pattern in kept) else mode
                module.forward = functools.partial(_apply, own, observe, module)  # type: ignore[method-assign]
                changed.append(module)
            elif mode == "off" and isinstance(module, SAMPLE_NORMS):
                module.forward = _identity  # type: ignore[method-assign]
                changed.append(module)
        yield
    finally:
        for module in changed:
            del module.forward
