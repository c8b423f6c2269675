"""A network whose weights are all one number is the same in every channel: one channel is enough.

While such a network runs, tensors carry a single channel that stands for all of them. Only operations that are known to
keep channels alike are let through; any other ends the attempt, and the network is run as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from trainless.probe.layers import CONVOLUTIONS, Conv, conv_of
from trainless.probe.norms import batch_norm_of
from trainless.probe.probe import Probe, quantity
from trainless.probe.record import prepared
from trainless.probe.running import run

_ALIKE: frozenset[Any] = frozenset(
    [
        *(getattr(F, f"{kind}_pool{dims}d") for kind in ("avg", "max", "adaptive_avg") for dims in (1, 2, 3)),
        *(getattr(Tensor, name).__get__ for name in ("shape", "ndim", "dtype", "device", "requires_grad", "is_cuda")),
        *(getattr(Tensor, f"__{name}__") for name in ("add", "radd", "sub", "mul", "rmul", "truediv", "iadd", "imul")),
        *(
            getattr(Tensor, name)
            for name in ("add", "mul", "relu", "clone", "contiguous", "mean", "dim", "size", "numel")
        ),
        *(Tensor.to, Tensor.is_floating_point, Tensor.__len__),
        *(torch.add, torch.mul, torch.relu, torch.sigmoid, torch.tanh, Tensor.sigmoid, Tensor.tanh),
        *(F.relu, F.relu6, F.gelu, F.silu, F.leaky_relu, F.hardswish, F.hardsigmoid, F.elu),
        *(F.hardtanh, F.mish, F.softplus, F.selu, F.celu, torch.selu, torch.celu),
    ]
)


class _Different(Exception):
    """An operation that may treat channels differently."""


@quantity
def outputs_alike(p: Probe) -> Tensor:
    """The outputs of a network of one constant weight, ``(N, 1)`` where one channel was enough, without a graph."""
    with torch.no_grad(), prepared(p):
        try:
            with _OneChannel():
                return run(p.net, p.weights, p.x)
        except (_Different, RuntimeError, ValueError):  # a module may insist on its number of channels
            return run(p.net, p.weights, p.x)


class _OneChannel(TorchFunctionMode):
    """Lets one channel stand for all."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in CONVOLUTIONS:
            return _convolution(*args, **kwargs)
        if func is F.linear:
            return _linear(*args, **kwargs)
        if func is F.batch_norm:
            return _batch_norm(*args, **kwargs)
        if func is batch_norm_of and args[1] in ("off", "batch"):
            x, mode, norm = args[:3]
            held = None, None, norm.weight, norm.bias
            return x.clone() if mode == "off" else _batch_norm(x, *held, training=True, momentum=0.0, eps=norm.eps)
        if func in (Tensor.flatten, torch.flatten) and (args[1:] in ((1,), (1, -1)) or kwargs == {"start_dim": 1}):
            return func(*args, **kwargs)
        if func in (Tensor.view, Tensor.reshape) and len(args) == 3 and args[1:] == (len(args[0]), -1):
            return func(*args, **kwargs)
        if func in _ALIKE:
            return func(*args, **kwargs)
        raise _Different


def _convolution(x: Tensor, weight: Tensor, bias: Tensor | None = None, *how: Any, **named: Any) -> Tensor:
    """The sum over each window, times the constant and the number of channels that were added."""
    conv = conv_of(weight, *how, **named)
    if x.shape[1] == weight.shape[1] * conv.groups and conv.groups == 1:
        x, alike = x.sum(1, keepdim=True), 1
    elif x.shape[1] == 1:
        alike = weight.shape[1]
    else:
        raise _Different
    if any(isinstance(each, str) for each in (*how, *named.values())):  # padding may add more on one side
        raise _Different
    scaled = _sums(x, conv) * (weight.flatten()[0] * alike)
    return scaled if bias is None else scaled + bias[0]


def _sums(x: Tensor, conv: Conv) -> Tensor:
    """The sum of every window, one axis after the other."""
    if any(conv.padding):
        x = F.pad(x, [size for size in reversed(conv.padding) for _ in range(2)])
    if x.is_cuda and x.ndim == 4 and set(conv.dilation) == {1}:  # in one operation, for which a GPU waits once
        if any(size < taps for size, taps in zip(x.shape[2:], conv.kernel, strict=True)):
            raise _Different
        return F.avg_pool2d(x, conv.kernel, conv.stride, divisor_override=1)
    for axis, (taps, stride, step) in enumerate(zip(conv.kernel, conv.stride, conv.dilation, strict=True), 2):
        last = x.shape[axis] - step * (taps - 1)
        if last < 1:
            raise _Different
        before = (slice(None),) * axis
        seen = [x[(*before, slice(step * tap, step * tap + last, stride))] for tap in range(taps)]
        x = seen[0]
        for more in seen[1:]:
            x = x + more
    return x


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if weight.shape[1] % x.shape[-1]:
        raise _Different
    alike = weight.shape[1] // x.shape[-1]
    total = x.sum(-1, keepdim=True) * (weight.flatten()[0] * alike)
    return total if bias is None else total + bias[0]


def _batch_norm(
    x: Tensor, mean: None, variance: None, weight: Tensor | None, bias: Tensor | None, **kwargs: Any
) -> Tensor:
    if x.shape[1] != 1:
        raise _Different
    first = None if weight is None else weight[:1]
    return F.batch_norm(x, mean, variance, first, None if bias is None else bias[:1], **kwargs)
