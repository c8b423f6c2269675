"""Layers that are differentiated twice at the price of the arithmetic.

PyTorch differentiates its batch norm twice by some twenty operations that lay numbers out anew, and finds one of a
convolution's three second gradients by convolving with an image for a kernel. Together they take longer than all that
must be done. Here a convolution's follow from the kernels of its first, a batch norm's from five means per channel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from trainless.probe.layers import CONVOLUTIONS, Conv, conv_of

_norm_backward = torch.ops.aten.native_batch_norm_backward
_conv_backward = torch.ops.aten.convolution_backward


class Curved(TorchFunctionMode):
    """Lets convolutions note their part of θᵀHu while a gradient along u is differentiated again.

    Within it, the second gradient with respect to a convolution's weight w is never formed: all that is asked of it is
    its product with w, and that is left behind by gradients that are needed anyway. With y = w∗x, g the gradient at y,
    h what is held against the gradient at x, and ȳ the second gradient at y, it is ⟨w∗h, g⟩ + ⟨y, ȳ⟩.

    Args:
        weights: θ, as the network is given it.
    """

    def __init__(self, weights: Iterable[Tensor]) -> None:
        super().__init__()
        self.weights = {id(tensor) for tensor in weights}
        self.noting = False  # a network may differentiate on its way: that is no business of ours
        self.noted: list[Tensor] = []

    def note(self, left: Tensor, right: Tensor) -> None:
        """Add an inner product."""
        self.noted.append((left * right).sum())

    def along(self, flow: Tensor, weights: list[Tensor]) -> float:
        """θᵀ∂flow/∂θ."""
        self.noting = True
        found = torch.autograd.grad(flow, weights, allow_unused=True, materialize_grads=True)
        self.noting = False
        self.noted += [(weight.detach() * gradient).sum() for weight, gradient in zip(weights, found, strict=True)]
        return float(torch.stack(self.noted).double().sum())

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in CONVOLUTIONS:
            return self._convolved(func, *args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _convolved(
        self,
        func: Callable[..., Any],
        input: Tensor,  # noqa: A002 - torch's own keyword
        weight: Tensor,
        bias: Tensor | None = None,
        *how: Any,
        **named: Any,
    ) -> Any:
        same = "same" in (*how, *named.values())
        if input.ndim != weight.ndim or same or id(weight) not in self.weights:
            return func(input, weight, bias, *how, **named)
        output = _Convolution.apply(input, weight, conv_of(weight, *how, **named), self)  # type: ignore[no-untyped-call]
        return output if bias is None else output + bias.view(-1, *[1] * (weight.ndim - 2))


class WrittenOut(TorchFunctionMode):
    """Lets functions that PyTorch differentiates but once be computed by such as it differentiates twice."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is F.hardsigmoid:
            x = args[0] if args else (kwargs or {})["input"]
            return F.hardtanh(x + 3, 0.0, 6.0) / 6
        return func(*args, **(kwargs or {}))


def _convolve(x: Tensor, weight: Tensor, conv: Conv) -> Tensor:
    zero = (0,) * len(conv.kernel)
    return torch.convolution(x, weight, None, conv.stride, conv.padding, conv.dilation, False, zero, conv.groups)


def _gradients(g: Tensor, x: Tensor, weight: Tensor, conv: Conv, on_x: bool, on_weight: bool) -> Any:
    sizes = conv.stride, conv.padding, conv.dilation, False, [0] * len(conv.kernel), conv.groups
    return _conv_backward(g, x, weight, None, *sizes, [on_x, on_weight, False])[:2]


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, conv: Conv, curved: Curved) -> Tensor:
        output = _convolve(x, weight, conv)
        ctx.save_for_backward(x, weight)
        ctx.conv, ctx.curved = conv, curved
        ctx.output, ctx.version = output.detach(), output._version
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        if torch.is_grad_enabled():
            given = gradients[0], x, weight, ctx.conv, ctx.curved
            return *_ConvolutionGradients.apply(*given), None, None  # type: ignore[no-untyped-call]
        noting = ctx.curved.noting
        if noting:
            written_over = ctx.output._version != ctx.version  # the network may go on in place
            ctx.curved.note(_convolve(x, weight, ctx.conv) if written_over else ctx.output, gradients[0])
        on_x = ctx.needs_input_grad[0]
        if noting and not on_x:
            return None, None, None, None
        return *_gradients(gradients[0], x, weight, ctx.conv, on_x, not noting), None, None


class _ConvolutionGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor, weight: Tensor, conv: Conv, curved: Curved) -> Any:
        ctx.save_for_backward(g, x, weight)
        ctx.conv, ctx.curved = conv, curved
        ctx.set_materialize_grads(False)
        return _gradients(g, x, weight, conv, ctx.needs_input_grad[1], True)

    @staticmethod
    def backward(ctx: Any, h: Tensor | None, u: Tensor | None) -> Any:
        _require_last()
        g, x, weight = ctx.saved_tensors
        on_g = on_x = on_weight = None
        if h is not None:
            on_g = _convolve(h, weight, ctx.conv)
            if ctx.curved.noting:
                ctx.curved.note(on_g, g)
            else:
                on_weight = _gradients(g, h, weight, ctx.conv, False, True)[1]
        if u is not None:
            further = _convolve(x, u, ctx.conv)
            on_g = further if on_g is None else on_g.add_(further)
            on_x = _gradients(g, x, u, ctx.conv, True, False)[0] if ctx.needs_input_grad[1] else None
        return on_g, on_x, on_weight, None, None


def batch_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """As ``F.batch_norm`` in training without running statistics.

    Example:
        >>> batch_norm(torch.tensor([[[1.0, 3.0]]]), None, None, 0.0)
        tensor([[[-1.,  1.]]])
    """
    found: Tensor = _BatchNorm.apply(x, weight, bias, eps)  # type: ignore[no-untyped-call]
    return found


class _BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
        output, mean, scale = torch.native_batch_norm(x, weight, bias, None, None, True, 0.0, eps)
        ctx.save_for_backward(x, weight, mean, scale)
        ctx.eps = eps
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, weight, mean, scale = ctx.saved_tensors
        if torch.is_grad_enabled():
            given = gradients[0], x, weight, mean, scale, ctx.eps
            return *_BatchNormGradients.apply(*given), None  # type: ignore[no-untyped-call]
        found = _norm_backward(gradients[0], x, weight, None, None, mean, scale, True, ctx.eps, [True] * 3)
        return (*found, None) if weight is not None else (found[0], None, None, None)


class _BatchNormGradients(torch.autograd.Function):
    """The gradients with respect to input, scale and bias: rγ(a − ⟨a⟩ − x̂⟨a x̂⟩), Σ a x̂ and Σ a.

    Here x̂ is the standardised input, r one over its deviation, a the gradient at the output and ⟨·⟩ a channel's mean.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, r: Tensor, eps: float) -> Any:
        on_x, on_weight, on_bias = _norm_backward(a, x, weight, None, None, mean, r, True, eps, [True] * 3)
        ctx.save_for_backward(a, x, weight, mean, r, on_weight, on_bias)
        ctx.eps = eps
        ctx.set_materialize_grads(False)
        return (on_x, on_weight, on_bias) if weight is not None else (on_x, None, None)

    @staticmethod
    def backward(ctx: Any, h: Tensor | None, along_weight: Tensor | None, along_bias: Tensor | None) -> Any:
        _require_last()
        a, x, weight, mean, r, sum_ax, sum_a = ctx.saved_tensors
        n = x.numel() // x.shape[1]
        h = torch.zeros_like(x) if h is None else h
        on_a, sum_hx, sum_h = _norm_backward(h, x, weight, None, None, mean, r, True, ctx.eps, [True] * 3)
        a1, ax, h1, hx = sum_a / n, sum_ax / n, sum_h / n, sum_hx / n
        one = torch.ones_like(r)  # a's own deviation does not matter, its mean is taken away
        ha = _norm_backward(h, a, None, None, None, a1, one, True, 0.0, [False, True, True])[1] / n
        gain = r if weight is None else r * weight
        of_h, of_a, of_x = -r * gain * ax, -r * gain * hx, -r * gain * (ha - 3 * hx * ax)  # times h, a and x̂
        rest = r * gain * (h1 * ax + a1 * hx)
        if along_weight is not None:
            along = r * along_weight
            of_a, of_x, rest = of_a + along, of_x - along * ax, rest - along * a1
            on_a = on_a + (x - _wide(mean, x)) * _wide(along, x)
        if along_bias is not None:
            on_a = on_a + _wide(along_bias, x)
        on_x = torch.addcmul(_wide(rest - of_x * r * mean, x), h, _wide(of_h, x))
        on_x.addcmul_(a, _wide(of_a, x)).addcmul_(x, _wide(of_x * r, x))
        return on_a, on_x, None if weight is None else n * r * (ha - hx * ax), None, None, None


def _require_last() -> None:
    """Refuse to differentiate further: second derivatives computed here have no graph of their own."""
    if torch.is_grad_enabled():
        raise RuntimeError("these second derivatives cannot be differentiated again")


def _wide(channels: Tensor, x: Tensor) -> Tensor:
    return channels.view(-1, *[1] * (x.ndim - 2))
