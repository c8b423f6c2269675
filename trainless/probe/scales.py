"""Numbers beyond double precision: while a network runs, each tensor may stand for itself times a power of two.

The exponents are carried from operation to operation. Sums bring their parts to one exponent, products add exponents, a
saturating function sees what its input stands for. Powers of two round nothing, so that the network is as exact as it
would be with an unlimited range of exponents; and its gradient is that of the last tensor, which is of ordinary size.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.weak import WeakIdKeyDictionary

from trainless.core.errors import Unscorable
from trainless.probe.layers import CONVOLUTIONS
from trainless.probe.norms import batch_norm_of

RANGE = 200  # of exponents that a tensor may have before it is brought back to ordinary size
_LARGE = 1e30  # beyond it a saturating function has saturated
_LAST = 1000  # the largest exponent that a number can be multiplied by

_ADD = frozenset(
    (
        *(torch.add, torch.sub, torch.rsub, Tensor.add, Tensor.add_, Tensor.sub, Tensor.sub_),
        *(Tensor.__iadd__, Tensor.__rsub__),
    )
)
_ALIGN = frozenset((torch.cat, torch.concat, torch.stack, torch.maximum, torch.minimum, torch.where))
_MULTIPLY = frozenset(
    (
        *(torch.mul, Tensor.mul, Tensor.mul_, Tensor.__imul__, torch.matmul, torch.bmm, torch.mm, Tensor.matmul),
        *(Tensor.__matmul__, Tensor.bmm, Tensor.mm, torch.einsum, torch.multiply),
    )
)
_DIVIDE = frozenset((torch.div, Tensor.div, Tensor.div_, Tensor.__itruediv__, torch.true_divide))
_GATES = frozenset(
    (F.gelu, F.silu, F.hardswish, F.mish, F.softplus, F.elu, F.selu, F.celu, torch.selu, torch.celu, F.elu_, F.selu_)
)
_SATURATE = frozenset(
    (
        *(torch.sigmoid, Tensor.sigmoid, F.sigmoid, torch.tanh, Tensor.tanh, F.tanh, F.hardsigmoid, F.relu6),
        *(F.hardtanh, F.hardtanh_, torch.erf, Tensor.erf),
    )
)
_SHAPED = frozenset((Tensor.expand_as, Tensor.view_as, Tensor.reshape_as, Tensor.type_as))  # as others, in shape alone
_SOFTMAX = frozenset((F.softmax, torch.softmax, Tensor.softmax))
_LOOKS = frozenset(getattr(Tensor, name).__get__ for name in ("shape", "ndim", "dtype", "device", "requires_grad"))
_PASSES = frozenset(
    (
        *(F.relu, torch.relu, Tensor.relu, Tensor.relu_, F.leaky_relu, F.leaky_relu_, F.prelu, torch.prelu, F.pad),
        *(torch.flatten, torch.reshape, torch.transpose, torch.permute, torch.squeeze, torch.unsqueeze, torch.narrow),
        *(torch.chunk, torch.split, torch.unbind, torch.movedim, torch.roll, torch.mean, torch.sum, torch.amax),
        *(torch.clone, torch.flip, torch.index_select, torch.gather, torch.unflatten, torch.swapaxes, torch.tile),
        *(torch.max_pool1d, torch.max_pool2d, torch.max_pool3d, torch.avg_pool1d, torch.adaptive_avg_pool1d),
        *(F.interpolate, F.unfold, F.fold, F.pixel_shuffle, F.pixel_unshuffle, F.upsample, torch.repeat_interleave),
        *(getattr(F, f"{kind}_pool{dims}d") for kind in ("avg", "max", "lp") for dims in (1, 2, 3)),
        *(getattr(F, f"adaptive_{kind}_pool{dims}d") for kind in ("avg", "max") for dims in (1, 2, 3)),
        *(getattr(F, f"max_pool{dims}d_with_indices") for dims in (1, 2, 3)),
        *(
            getattr(Tensor, name)
            for name in (
                *("flatten", "reshape", "view", "transpose", "permute", "squeeze", "unsqueeze", "narrow", "chunk"),
                *("split", "unbind", "movedim", "roll", "mean", "sum", "amax", "clone", "flip", "index_select"),
                *("gather", "unflatten", "swapaxes", "expand", "expand_as", "contiguous", "to", "repeat"),
                *("__getitem__", "masked_fill", "detach", "requires_grad_", "repeat_interleave", "abs"),
                *("view_as", "reshape_as", "type_as", "float", "double", "unfold", "tile", "swapdims"),
            )
        ),
        *(getattr(Tensor, name).__get__ for name in ("T", "mT", "H", "mH")),
        *(torch.abs, torch.neg, Tensor.neg, torch.masked_fill),
    )
)
_LAYERS = frozenset((*CONVOLUTIONS, F.linear, F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d))


class Scales(TorchFunctionMode):
    """Carries the exponents of a pass.

    Args:
        limit: The exponent from which on tensors are brought back to ordinary size.

    Example:
        >>> x = torch.full((1,), 2.0**600, dtype=torch.float64, requires_grad=True)
        >>> with Scales() as scales:
        ...     y = (x * 1) * (x * 1)
        >>> float(y.detach().log2()) + scales.of(y)
        1200.0
    """

    def __init__(self, limit: int = RANGE) -> None:
        super().__init__()
        self.limit = limit
        self._exponents = WeakIdKeyDictionary()

    def of(self, *values: Any) -> int:
        """The largest exponent of some tensors."""
        return max(self._each(values), default=0)

    def _each(self, values: Any) -> Iterable[int]:
        return [self._exponents.get(leaf, 0) for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not any(self._each((args, kwargs))) or func in _LOOKS:
            return self._noted(func(*args, **kwargs), 0) if func not in _LOOKS else func(*args, **kwargs)
        if func is batch_norm_of and args[1] == "off":
            return self._noted(func(*args), self.of(args[0]))
        if func is F.scaled_dot_product_attention:
            return self._attention(*args, **kwargs)
        if func is F.multi_head_attention_forward:
            return self._multihead(*args, **kwargs)
        if func in _LAYERS:
            return self._layer(func, *args, **kwargs)
        if func in _MULTIPLY:
            total = sum(self._each((args, kwargs)))
            return self._noted(_OUT_OF_PLACE.get(func, func)(*args, **kwargs), total)
        if func in _DIVIDE:
            divisor = args[1] if len(args) > 1 else kwargs.get("other")
            return self._noted(torch.div(*args, **kwargs), self.of(args[0]) - self.of(divisor))
        if func in _ADD or func in _ALIGN:
            scale = self.of(args, kwargs)
            aligned = tree_map_only(Tensor, lambda each: self._at(each, scale), (args, kwargs))
            numbers = [_times(each, -scale) if isinstance(each, float | int) else each for each in aligned[0]]
            given = tuple(numbers) if func in _ADD else aligned[0]
            return self._noted(_OUT_OF_PLACE.get(func, func)(*given, **aligned[1]), scale)
        x, *rest = args or (kwargs.pop("input"),)
        args, scale = (x, *rest), self.of(x)
        if func in _PASSES and (func in _SHAPED or not any(self._each((rest, kwargs)))):
            return self._noted(func(*args, **kwargs), scale)
        if func in _SOFTMAX:
            axis = rest[0] if rest else kwargs.get("dim", -1)
            return _softmax(x, axis, scale)
        stands_for = _times(x, scale).clamp(-_LARGE, _LARGE)
        if func in _SATURATE:
            return func(stands_for, *rest, **kwargs)
        if func in _GATES:
            far = x.abs() > _times(_LARGE, -scale)
            return self._noted(torch.where(far, x.relu(), _times(func(stands_for, *rest, **kwargs), -scale)), scale)
        plain = func(*args, **kwargs)
        if not any(isinstance(leaf, Tensor) for leaf in tree_leaves(plain)):  # a question, not an operation
            return plain
        if scale > _LAST:
            raise Unscorable(f"the flow goes beyond double precision and through {_name(func)}, which it cannot there")
        return self._noted(func(*(tree_map_only(Tensor, lambda each: self._at(each, 0), args)), **kwargs), 0)

    def _at(self, tensor: Tensor, scale: int) -> Tensor:
        """A tensor that stands for the same at another exponent."""
        own = self._exponents.get(tensor, 0)
        return tensor if own == scale or not tensor.is_floating_point() else _times(tensor, own - scale)

    def _noted(self, result: Any, scale: int) -> Any:
        """Results with their exponents, brought back to ordinary size where they have left it."""
        return tree_map_only(Tensor, lambda each: self._ordinary(each, scale), result)

    def _ordinary(self, tensor: Tensor, scale: int) -> Tensor:
        if not tensor.is_floating_point() or tensor.is_meta or (tensor.is_leaf and tensor.requires_grad):
            return tensor
        largest = float(tensor.detach().abs().amax()) if tensor.numel() else 0.0
        by = math.frexp(largest)[1] if 0 < largest < math.inf else 0
        if abs(by) > self.limit:
            tensor, scale = _times(tensor, -by), scale + by
        if scale:
            self._exponents[tensor] = scale
        return tensor

    def _layer(
        self,
        func: Callable[..., Any],
        input: Tensor,  # noqa: A002 - torch's own keyword
        weight: Tensor,
        bias: Tensor | None = None,
        *how: Any,
        **named: Any,
    ) -> Any:
        scale = self.of(input) + self.of(weight)
        return self._noted(func(input, weight, None if bias is None else _times(bias, -scale), *how, **named), scale)

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if enable_gqa:
            key, value = (each.repeat_interleave(query.shape[-3] // each.shape[-3], -3) for each in (key, value))
        exponent = self.of(query) + self.of(key)
        products = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            attn_mask = torch.ones(products.shape[-2:], dtype=torch.bool, device=products.device).tril()
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            products = products.masked_fill(~attn_mask, -torch.inf)
        elif attn_mask is not None:
            products = products + _times(attn_mask, -exponent)
        return cast(Tensor, self._noted(_softmax(products, -1, exponent) @ value, self.of(value)))

    def _multihead(self, *args: Any, **kwargs: Any) -> tuple[Tensor, None]:
        """``nn.MultiheadAttention`` in its usual form, step by step."""
        given = inspect.signature(F.multi_head_attention_forward).bind(*args, **kwargs).arguments
        query, heads = given["query"], given["num_heads"]
        unusual = ("bias_k", "bias_v", "add_zero_attn", "key_padding_mask", "attn_mask", "static_k", "static_v")
        if query.ndim != 3 or any(given.get(name) is not None and given[name] is not False for name in unusual):
            raise Unscorable("the flow goes beyond double precision and through attention with masks")
        separate = [given[f"{name}_proj_weight"] for name in "qkv"] if given.get("use_separate_proj_weight") else None
        biases = (None,) * 3 if given["in_proj_bias"] is None else given["in_proj_bias"].chunk(3)
        with self:
            parts = zip(["query", "key", "value"], separate or given["in_proj_weight"].chunk(3), biases, strict=True)
            rows = [F.linear(given[name], weight, bias) for name, weight, bias in parts]
            q, k, v = (row.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3) for row in rows)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=bool(given.get("is_causal")))
            mixed = mixed.permute(2, 0, 1, 3).flatten(2)
            return F.linear(mixed, given["out_proj_weight"], given["out_proj_bias"]), None


_OUT_OF_PLACE: dict[Callable[..., Any], Callable[..., Any]] = {
    **dict.fromkeys((Tensor.add_, Tensor.__iadd__), torch.add),
    **dict.fromkeys((Tensor.mul_, Tensor.__imul__), torch.mul),
    Tensor.sub_: torch.sub,
}


def _times(value: Any, exponent: int) -> Any:
    """A number or tensor times a power of two; what a double cannot be is infinite or zero."""
    while abs(exponent) > _LAST:
        step = _LAST if exponent > 0 else -_LAST
        value, exponent = value * 2.0**step, exponent - step
        if exponent > 8 * _LAST or exponent < -8 * _LAST:
            return value * (float("inf") if exponent > 0 else 0.0)
    return value * 2.0**exponent


def _softmax(x: Tensor, axis: int, exponent: int) -> Tensor:
    """Of what a tensor stands for: only differences from the largest matter.

    Where numbers are beyond all measure it has saturated and gives no gradient on.
    """
    below = x - x.detach().amax(axis, keepdim=True)
    if exponent > 0:
        below = _times(below.detach(), min(exponent, _LAST)).clamp_min(-_LAST)
    found: Tensor = (below if exponent > 0 else _times(below, exponent)).softmax(axis)
    return found


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", str(func))
