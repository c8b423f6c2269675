"""Activations that open and close, by what they do: each has a pattern, the sign of what enters it.

Known are PyTorch's functions, and what networks write out in simpler ones (see ``formulas``): that
opens at zero if it gives nothing there and far away is two lines, one steeper than the other. A tanh or sigmoid alone
is no gate of what enters it.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from trainless.probe.formulas import FORMULAS, GRID, Formula, Formulas, Function, Values, operation


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
_RECURRENT = frozenset((torch.rnn_relu, torch.rnn_relu_cell))  # whose outputs are positive where they are open
_KNOWN = frozenset((*_KINDS, *_CLAMPS, *_FLOORS, *_HARDTANH, *_THRESHOLD, F.glu, *_RECURRENT))
_SHAPES: dict[str, tuple[Function, ...]] = {
    "ReLU": (F.relu,),
    "GELU": (F.gelu, lambda x: F.gelu(x, approximate="tanh")),
    "ELU": (F.elu,),
    "SELU": (F.selu,),
}


class Gates:
    """Recognises activations in the calls of one forward pass.

    Example:
        >>> gates, x = Gates(), torch.tensor([1.0, -1.0])
        >>> coming = gates.coming(torch.relu, (x,), {})
        >>> gates.met(torch.relu, torch.relu(x), (x,), {}, coming).kind
        'ReLU'
    """

    def __init__(self) -> None:
        self.formulas = Formulas()

    def coming(self, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Formula | None:
        """What a call is about to compute; asked before it may work in place."""
        return None if func in _KNOWN and func not in _CLAMPS else self.formulas.of(func, args, kwargs)

    def met(
        self, func: Function, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], coming: Formula | None
    ) -> Gate | None:
        """The activation that a call is, or that it completes."""
        gate = self._known(func, result, args, kwargs) if func in _KNOWN else None
        if gate is None and coming is not None:
            gate = _opening(coming)
        if gate is None and operation(func) in ("mul", "rmul", "multiply"):
            gate = self._gated_half(*(each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)))
        if gate is None and coming is not None:
            self.formulas.note(args[0] if result is None else result, coming)
        return gate

    def _known(self, func: Function, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Gate | None:
        """One of PyTorch's functions."""
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
        if func is F.glu:
            axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
            return Gate("GLU", x.chunk(2, axis)[1])
        if func in _THRESHOLD:
            low, value = _numbers(args, kwargs, threshold=0.0, value=0.0)
            return Gate("ReLU", x, True) if low == value == 0 else None
        low, high = (_number(each) for each in _numbers(args, kwargs, min=None, max=None))
        if low != 0:
            return None
        return Gate("ReLU", x, True) if func in _FLOORS or high is None else self._clipped(x, high)

    def _clipped(self, x: Tensor, high: Any) -> Gate:
        """A rectifier with a ceiling; of a line that has half the ceiling at zero, a hard sigmoid."""
        formula = None if x.is_inference() else self.formulas.get(x)
        if formula is not None and formula.affine and formula.line[0] > 0 and 2 * formula.line[1] == high:
            return Gate("hardsigmoid", formula.x)
        return Gate("ReLU6" if high == 6 else "clipped ReLU", x, True)

    def _gated_half(self, *factors: Tensor) -> Gate | None:
        """One half of a tensor times the sigmoid of the other: a GLU, written out."""
        for gate, other in (factors, factors[::-1]) if len(factors) == 2 else ():
            formula = None if gate.is_inference() else self.formulas.get(gate)
            if formula is not None and formula.x is not other and formula.x._base is not None:
                halves = other._base is formula.x._base and other.shape == formula.x.shape
                if halves and formula.is_like(torch.sigmoid):
                    return Gate("GLU", formula.x)
        return None


def _opening(formula: Formula) -> Gate | None:
    """The gate that a function is, if it is one."""
    found = _shape(Values(formula.values))
    if found is None:
        return None
    kind, mirrored, own = found
    x = -formula.x if mirrored else formula.x
    if kind == "ReLU" and not own:
        return Gate(kind, x.relu(), False)  # its output would be another's
    return Gate(kind, x, kind == "ReLU" and not mirrored)


@functools.lru_cache(maxsize=4096)
def _shape(of: Values) -> tuple[str, bool, bool] | None:
    """What a function is called that gives nothing at zero and far away is two lines, of which one is steeper.

    Also whether it opens below zero, and whether it is as steep as a ReLU.
    """
    y = of.values
    if y.dtype == torch.bool or not bool(y.isfinite().all()) or float(y[len(y) // 2]) != 0:
        return None
    slopes = (y.diff() / GRID.diff()).tolist()
    left, right = slopes[:2], slopes[-2:]
    if any(abs(a - b) > 1e-3 * max(abs(a), abs(b), 1e-3) for a, b in (left, right)):
        return None  # not a line
    (closed, opened), mirrored = (slopes[0], slopes[-1]), abs(slopes[0]) > abs(slopes[-1])
    if mirrored:
        slopes, closed, opened = slopes[::-1], opened, closed
    if abs(closed) > 0.95 * abs(opened):
        return None
    middle = len(slopes) // 2

    def is_open(slope: float) -> bool:
        return bool(abs(slope - opened) < abs(slope - closed))

    if not is_open(slopes[middle]) or any(map(is_open, slopes[:4])) or not all(map(is_open, slopes[-4:])):
        return None
    if abs(slopes[middle - 1] - opened) <= 1e-9 * abs(opened):
        return None  # it opens below zero
    kind = _kind(Formula(y, (y.flip(0) if mirrored else y) / abs(opened)), closed / abs(opened))
    return kind, mirrored, opened == 1


def _kind(formula: Formula, closed: float) -> str:
    """What a function is called that is as steep as its input where it is open."""
    for kind, shapes in _SHAPES.items():
        if any(formula.is_like(shape) for shape in shapes):
            return kind
    one = float(formula.values[GRID == 1])
    steep = math.log(one / (1 - one)) if 0 < one < 1 else 0.0
    if steep and formula.is_like(lambda x: x * torch.sigmoid(steep * x)):
        return "SiLU"
    return "leaky ReLU" if formula.is_like(lambda x: torch.where(x > 0, x, closed * x)) else "a function written out"


def _number(value: Any) -> Any:
    """A limit as a number, also where it is given as a tensor of one."""
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 and value.is_leaf else value


@functools.lru_cache(maxsize=4096)
def watched(func: Function) -> bool:
    """Whether ``Gates`` is to be asked about a function."""
    return func in _KNOWN or operation(func) in FORMULAS


def _numbers(args: tuple[Any, ...], kwargs: dict[str, Any], **defaults: Any) -> list[Any]:
    """Arguments after the first, given by place or by name."""
    by_place = dict(zip(defaults, args[1:], strict=False))
    return [by_place.get(name, kwargs.get(name, default)) for name, default in defaults.items()]
