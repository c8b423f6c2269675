"""Activations that open and close, by what they do: each has a pattern, the sign of what enters it.

Known are PyTorch's functions, whoever calls them, and those that networks write out in simpler ones: a rectifier as a
clamp at zero, GELU by ``1 + erf(…)`` or ``1 + tanh(…)``, SiLU as a tensor times its own sigmoid, hard sigmoid as
``relu6(x + 3)``. A tanh or sigmoid alone is no gate of what enters it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

Function = Callable[..., Any]


class Gate(NamedTuple):
    """An activation that was met: its kind, what enters it, and whether its output is positive where that is."""

    kind: str
    x: Tensor
    alike: bool = False


def _named(kind: str, *functions: Function) -> dict[Function, str]:
    return dict.fromkeys(functions, kind)


RELU = frozenset((F.relu, torch.relu, Tensor.relu))
_KINDS: dict[Function, str] = {
    **_named("ReLU", *RELU, torch.relu_, Tensor.relu_),
    **_named("ReLU6", F.relu6),
    **_named("leaky ReLU", F.leaky_relu, F.leaky_relu_),
    **_named("PReLU", F.prelu, torch.prelu, Tensor.prelu),
    **_named("RReLU", F.rrelu, F.rrelu_, torch.rrelu, torch.rrelu_),
    **_named("ELU", F.elu, F.elu_),
    **_named("SELU", F.selu, F.selu_, torch.selu, torch.selu_),
    **_named("CELU", F.celu, F.celu_, torch.celu, torch.celu_),
    **_named("GELU", F.gelu),
    **_named("SiLU", F.silu),
    **_named("Mish", F.mish),
    **_named("hardswish", F.hardswish),
    **_named("hardsigmoid", F.hardsigmoid),
    **_named("softplus", F.softplus),
}
_LIKE_THEIR_INPUT = frozenset(("ReLU", "ReLU6"))  # positive where it is
_CLAMPS = frozenset((torch.clamp, torch.clamp_, Tensor.clamp, Tensor.clamp_, torch.clip, Tensor.clip))
_FLOORS = frozenset((torch.clamp_min, torch.clamp_min_, Tensor.clamp_min, Tensor.clamp_min_))
_HARDTANH = frozenset((F.hardtanh, F.hardtanh_))
_THRESHOLD = frozenset((F.threshold, torch.threshold, torch.threshold_, getattr(F, "threshold_")))  # noqa: B009
_ADD = frozenset((torch.add, Tensor.add, Tensor.add_))
_MULTIPLY = frozenset((torch.mul, Tensor.mul, Tensor.mul_, torch.multiply, Tensor.multiply))
_SIGMOID = frozenset((torch.sigmoid, Tensor.sigmoid, F.sigmoid))
_SQUASH = frozenset((torch.tanh, Tensor.tanh, F.tanh, torch.erf, Tensor.erf, torch.special.erf))
_RECURRENT = frozenset((torch.rnn_relu, torch.rnn_relu_cell))  # whose outputs are positive where they are open
_PARTS = _ADD | _MULTIPLY | _SIGMOID | _SQUASH
WATCHED = frozenset((*_KINDS, *_CLAMPS, *_FLOORS, *_HARDTANH, *_THRESHOLD, F.glu, *_PARTS, *_RECURRENT))
"""The functions to call ``Gates.met`` for."""


class Gates:
    """Recognises activations in the calls of one forward pass."""

    def __init__(self) -> None:
        self._parts = WeakIdKeyDictionary()  # what a tensor is, of which, and by which number

    def met(self, func: Function, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Gate | None:
        """The activation that a call is, or that it completes."""
        x = args[0] if args else kwargs.get("input")
        if func in _RECURRENT:
            return Gate("ReLU", result[0] if isinstance(result, tuple) else result, True)
        if not isinstance(x, Tensor) or not isinstance(result, Tensor):
            return None
        kind = _KINDS.get(func)
        if kind == "ReLU6" or (func in _HARDTANH and _numbers(args, kwargs, min_val=-1.0, max_val=1.0)[0] == 0):
            return self._clipped(x, _numbers(args, kwargs, min_val=0.0, max_val=6.0)[1])
        if func in _HARDTANH:
            return Gate("hardtanh", x)
        if kind is not None:
            return Gate(kind, x, kind in _LIKE_THEIR_INPUT)
        if func in _PARTS:
            return self._part(func, result, x, args, kwargs)
        if func is F.glu:
            axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
            return Gate("GLU", x.chunk(2, axis)[1])
        if func in _THRESHOLD:
            low, value = _numbers(args, kwargs, threshold=0.0, value=0.0)
            return Gate("ReLU", x, True) if low == value == 0 else None
        low, high = _numbers(args, kwargs, min=None, max=None)
        if low != 0:
            return None
        return Gate("ReLU", x, True) if func in _FLOORS or high is None else self._clipped(x, high)

    def _clipped(self, x: Tensor, high: Any) -> Gate:
        """A rectifier with a ceiling; of ``x + 3`` and with ceiling 6, a hard sigmoid of ``x``."""
        part, of, number = self._parts.get(x, ("", x, 0.0))
        if part == "shifted" and number == 3 and high == 6:
            return Gate("hardsigmoid", of)
        return Gate("ReLU6" if high == 6 else "clipped ReLU", x, True)

    def _part(
        self, func: Function, result: Tensor, x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Gate | None:
        if func in _SIGMOID or func in _SQUASH:
            self._parts[result] = ("sigmoid" if func in _SIGMOID else "squashed", x, 0.0)
            return None
        other = args[1] if len(args) > 1 else kwargs.get("other")
        if isinstance(other, Tensor):
            return self._times_itself(x, other) or self._times_itself(other, x) if func in _MULTIPLY else None
        if not isinstance(other, (int, float)) or kwargs.get("alpha", 1) != 1:
            return None
        part, of, _ = self._parts.get(x, ("", x, 0.0))
        if func in _ADD and part == "squashed" and other == 1:
            return Gate("GELU", of)
        if (func in _ADD and other == 3) or (func in _MULTIPLY and other > 0):
            self._parts[result] = ("shifted" if func in _ADD else "scaled", x, float(other))
        return None

    def _times_itself(self, x: Tensor, other: Tensor) -> Gate | None:
        """SiLU, written out: a tensor times the sigmoid of itself, or of itself times a number."""
        part, of, _ = self._parts.get(other, ("", x, 0.0))
        scaled, base, _ = self._parts.get(of, ("", of, 0.0))
        return Gate("SiLU", x) if part == "sigmoid" and (of is x or (scaled == "scaled" and base is x)) else None


def _numbers(args: tuple[Any, ...], kwargs: dict[str, Any], **defaults: Any) -> list[Any]:
    """Arguments after the first, given by place or by name."""
    by_place = dict(zip(defaults, args[1:], strict=False))
    return [by_place.get(name, kwargs.get(name, default)) for name, default in defaults.items()]
