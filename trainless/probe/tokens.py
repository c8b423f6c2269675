"""Token inputs: where a network looks them up. What it embeds them as stands for its input where gradients are taken.

Tokens are followed from operation to operation. A lookup counts if its indices are tokens, however arranged; only where
none does, those whose indices were computed from tokens, such as hashes. Positions that are counted are no tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from trainless.core.errors import Unscorable
from trainless.probe.axes import Axes, arranges, axes_after, name_of, taken

_INDICES_FIRST = frozenset((F.embedding, F.embedding_bag))
_TABLE_FIRST = frozenset((torch.embedding, torch.embedding_bag))
_PICKS = frozenset((Tensor.__getitem__, torch.index_select, Tensor.index_select))
_CONVERTS = frozenset(
    ("to", "long", "int", "type", "type_as", "detach", "cat", "concat", "where", "masked_fill", "pad", "cuda", "cpu")
)


@dataclass(frozen=True, eq=False)
class Embedded:
    """What tokens were looked up as.

    Attributes:
        output: The looked-up rows, with their graph.
        axes: Where the samples lie.
        plainly: Whether the indices were the tokens themselves.
    """

    output: Tensor
    axes: Axes
    plainly: bool


class Tokens:
    """Follows the tokens of one forward pass.

    Example:
        >>> x, table = torch.tensor([[2, 0]]), torch.eye(3)
        >>> tokens = Tokens(x)
        >>> turned = x.t()
        >>> tokens.met(Tensor.t, turned, (x,), {}, frozenset())
        >>> tokens.met(F.embedding, table[turned], (turned, table), {}, frozenset()).axes.samples
        1
    """

    def __init__(self, x: Tensor) -> None:
        self._known = WeakIdKeyDictionary()
        self._known[x] = Axes(0), True

    def met(
        self, func: Callable[..., Any], result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], own: Container[int]
    ) -> Embedded | None:
        """The lookup of tokens that a call is.

        Args:
            func: The function.
            result: What it returned.
            args: What it was given.
            kwargs: What it was given by name.
            own: The identities of the network's parameters, which alone are tables that one may pick rows from.
        """
        numbers = tree_leaves(taken(func, args, kwargs))
        given = [each for each in numbers if isinstance(each, Tensor) and each in self._known]
        if func is Tensor.__setitem__ and len(args) == 3 and any(each is args[2] for each in given):
            axes, plainly = self._known[args[2]]
            self._known[args[0]] = (axes if args[2].ndim == args[0].ndim else Axes()), plainly
            return None
        if not given:
            return None
        axes, plainly = self._known[given[0]]
        if func in _INDICES_FIRST or func in _TABLE_FIRST or (func in _PICKS and args and id(args[0]) in own):
            output = result[0] if isinstance(result, tuple) else result
            return Embedded(output, axes, plainly)
        made = [each for each in tree_leaves(result) if isinstance(each, Tensor)]
        plainly &= arranges(func) or name_of(func) in _CONVERTS
        for each, where in zip(made, axes_after(func, args, kwargs, made, [(given[0], axes)], _never), strict=True):
            if not each.is_floating_point() and each is not given[0]:
                self._known[each] = where, plainly
        return None


def _never(tensor: Tensor) -> bool:
    return False


def chosen(found: list[Embedded]) -> list[Embedded]:
    """Those lookups whose indices were the tokens themselves, or all where there is none."""
    return [each for each in found if each.plainly] or found


def side_by_side(found: list[Embedded], values: list[Tensor], samples: int) -> Tensor:
    """What belongs to each lookup, as one row per sample."""
    if not found:
        raise Unscorable("the tokens are not looked up in a table: there is nothing to take gradients at")
    rows = [each.axes.by_sample(value, samples) for each, value in zip(found, values, strict=True)]
    known = [row.flatten(1) for row in rows if row is not None]
    if len(known) < len(rows):
        raise Unscorable("tokens of several samples are looked up side by side: their gradients cannot be told apart")
    return torch.cat(known, 1)
