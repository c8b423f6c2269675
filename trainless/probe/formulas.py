"""Functions of one tensor, entry by entry, followed through a network's operations by their values on a few numbers.

Authors write activations out: ``x * (x > 0)``, ``torch.where(x > 0, x, 0)``, ``x * 0.5 * (1 + torch.erf(x / 2**0.5))``.
While a network runs, each tensor that was made from a single one by operations that work entry by entry carries that
function's values on ``GRID``. What the function does is then read off its values, however it was written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten
from torch.utils.weak import WeakIdKeyDictionary

from trainless.probe.axes import name_of

Function = Callable[..., Any]
GRID = torch.tensor([*(sign * size for sign in (-1.0, 1.0) for size in (400, 200, 100, 8, 4, 2, 1, 0.5, 0.25)), 0.0])
GRID = GRID.double().sort().values
_NEAR = 1e-9
_FORMULAS = """add iadd radd sub isub rsub subtract mul imul rmul multiply div idiv itruediv rdiv truediv rtruediv
    divide true_divide neg negative pow rpow float_power square sqrt rsqrt abs absolute sign sgn exp
    expm1 log log1p reciprocal sigmoid special_expit tanh erf special_erf addcmul lerp where masked_fill
    special_ndtr erfc special_erfc
    maximum minimum fmax fmin max min gt ge lt le greater greater_equal less less_equal heaviside clamp
    clip clamp_min clamp_max setitem to float double type type_as clone contiguous detach logical_not
    bitwise_not invert"""
_ACTIVATIONS = """relu relu6 leaky_relu elu selu celu gelu silu mish hardswish hardsigmoid hardtanh softplus threshold
    logsigmoid log_sigmoid softsign tanhshrink softshrink hardshrink"""
FORMULAS = frozenset(_FORMULAS.split())
ACTIVATIONS = frozenset(_ACTIVATIONS.split())
_CHOOSING = frozenset(("where", "masked_fill", "maximum", "minimum", "fmax", "fmin", "max", "min", "setitem"))
_CONVERTING = frozenset(("to", "float", "double", "type", "type_as", "clone", "contiguous", "detach"))


@functools.lru_cache(maxsize=4096)
def operation(func: Function) -> str:
    """A function's name without what says where or how it is called.

    Example:
        >>> operation(torch.mul), operation(Tensor.__imul__), operation(Tensor.mul_)
        ('mul', 'imul', 'mul')
    """
    return name_of(func).strip("_")


@dataclass(frozen=True, eq=False)
class Values:
    """Values on the grid, told apart by identity: a key of what is remembered."""

    values: Tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and self.values is other.values

    def __hash__(self) -> int:
        return id(self.values)


@dataclass(frozen=True, eq=False)
class Formula:
    """What a tensor is: a function of another one, entry by entry.

    Attributes:
        x: The other one.
        values: The function's values on ``GRID``.
        versions: How often the other and the tensor had been written to.
    """

    x: Tensor
    values: Tensor
    versions: tuple[int, int] = (0, 0)

    @property
    def affine(self) -> bool:
        """Whether the function only scales and shifts."""
        return _is_affine(Values(self.values))

    @property
    def line(self) -> tuple[float, float]:
        """Slope and height at zero, as of a function that only scales and shifts."""
        middle = len(GRID) // 2
        return float(self.values[middle + 1] - self.values[middle]) / 0.25, float(self.values[middle])

    def is_like(self, function: Function) -> bool:
        """Whether the function is another one."""
        return bool(torch.allclose(self.values.double(), function(GRID), rtol=_NEAR, atol=_NEAR))


@functools.lru_cache(maxsize=4096)
def _is_affine(of: Values) -> bool:
    if of.values.dtype == torch.bool or not bool(of.values.isfinite().all()):
        return False
    scale, shift = Formula(of.values, of.values).line
    near = _NEAR * (1 + abs(scale) * 400)
    return scale != 0 and bool(((GRID * scale + shift - of.values).abs() <= near).all())


class Formulas:
    """Follows the functions of single tensors in the calls of one forward pass.

    Args:
        known: The operations that are followed, by their names.

    Example:
        >>> x, formulas = torch.tensor([1.0, -2.0]), Formulas()
        >>> mask = x > 0
        >>> formulas.note(mask, formulas.of(Tensor.gt, (x, 0), {}))
        >>> formulas.of(Tensor.mul, (x, mask), {}).is_like(torch.relu)
        True
    """

    def __init__(self, known: frozenset[str] = FORMULAS) -> None:
        self.operations = known
        self._known = WeakIdKeyDictionary()

    def of(self, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Formula | None:
        """The function of a single tensor that a call is about to compute; asked before it may work in place."""
        name = operation(func)
        if name not in self.operations:
            return None
        found: dict[int, Formula] = {}
        for each in tree_leaves(args[:1] if name in _CONVERTING else (args, kwargs)):
            if isinstance(each, Tensor):
                if type(each) not in (Tensor, torch.nn.Parameter) or each.is_inference():
                    return None
                formula = self.get(each)
                if formula is not None or not _is_constant(name, each):
                    found[id(each)] = formula or Formula(each, GRID)
        if not found or len({id(formula.x) for formula in found.values()}) > 1:
            return None
        x = next(iter(found.values())).x
        try:
            values = _applied(name, func, args, kwargs, {at: one.values for at, one in found.items()})
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            return None
        return None if values is None else Formula(x, values, (x._version, 0))

    def get(self, tensor: Tensor) -> Formula | None:
        """What is known of a tensor, unless it or what it was made from has been written to since."""
        formula = self._known.get(tensor)
        if formula is None or (formula.x._version, tensor._version) != formula.versions:
            return None
        return formula  # type: ignore[no-any-return]

    def note(self, result: Any, formula: Formula | None) -> None:
        """Remember what a call has made."""
        if formula is not None and isinstance(result, Tensor) and result is not formula.x:
            versions = formula.x._version, result._version
            if versions[0] == formula.versions[0]:
                self._known[result] = Formula(formula.x, formula.values, versions)


def _is_constant(name: str, tensor: Tensor) -> bool:
    """Whether a tensor is one number, such as a learned factor, or zeros to choose from."""
    if not tensor.is_leaf or torch._C._functorch.is_functorch_wrapped_tensor(tensor) or tensor.is_meta:
        return False
    if tensor.numel() < 2:
        return tensor.numel() == 1
    return name in _CHOOSING and not tensor.requires_grad and bool((tensor == tensor.flatten()[0]).all())


def _applied(
    name: str, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any], values: dict[int, Tensor]
) -> Tensor | None:
    """Apply a function to the values of what it is given."""
    if name in _CONVERTING:
        wanted = [each for each in (*args[1:], *kwargs.values()) if isinstance(each, torch.dtype)]
        whole = wanted and not wanted[0].is_floating_point
        if whole and wanted[0] != torch.bool:
            return None
        return values[id(args[0])].to(torch.bool if whole else GRID.dtype)

    def told(each: Any) -> Any:
        if not isinstance(each, Tensor):
            return each
        return Values(values[id(each)]) if id(each) in values else _Number(float(each.detach().flatten()[0]))

    leaves, structure = tree_flatten((args, {key: each for key, each in kwargs.items() if key != "inplace"}))
    return _computed(name, func, structure, tuple(map(told, leaves)))


@dataclass(frozen=True)
class _Number:
    """What came as a tensor of one number: to some functions that is not the same as the number."""

    value: float


@functools.lru_cache(maxsize=4096)
def _computed(name: str, func: Function, structure: TreeSpec, leaves: tuple[Any, ...]) -> Tensor | None:
    """The same, remembered: networks repeat themselves."""

    def on_grid(each: Any) -> Any:
        if isinstance(each, Values):
            return each.values.clone()
        return torch.tensor(each.value, dtype=GRID.dtype) if isinstance(each, _Number) else each

    given, named = tree_unflatten(map(on_grid, leaves), structure)
    made = func(*given, **named)
    made = given[0] if name == "setitem" else made
    return made if isinstance(made, Tensor) and made.shape == GRID.shape else None
