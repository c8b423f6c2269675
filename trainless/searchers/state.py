"""State that outlives a process: the fields that an object declares as kept, as strict JSON and back, bit for bit.

A field's type says how it is read back: generators, arrays, numbers, containers of them, dataclasses, and objects that
have a state themselves.
"""

from __future__ import annotations

import types
import typing
from collections import deque
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, final

import numpy as np

from trainless.core.files import number, unnumber
from trainless.core.types import Json


def kept(start: Any = MISSING) -> Any:
    """Declare a field of the state: its first value, or the type that makes it; set in ``__post_init__`` without."""
    made = {"default_factory": start} if callable(start) else {} if start is MISSING else {"default": start}
    return field(init=False, repr=False, metadata={"state": True}, **made)


def lazy() -> Any:
    """Declare a field that is computed from the kept ones when it is needed: None at first and after a restore."""
    return field(init=False, repr=False, default=None, metadata={"state": False})


@dataclass(eq=False)
class Stateful:
    """Something whose kept fields are its state.

    Example:
        >>> @dataclass(eq=False)
        ... class Counter(Stateful):
        ...     seen: dict[tuple[int, ...], float] = kept(dict)
        >>> counter, other = Counter(), Counter()
        >>> counter.seen[1, 2] = float("nan")
        >>> counter.state()
        {'seen': [[[1, 2], None]]}
        >>> other.restore(counter.state())
        >>> other.seen
        {(1, 2): nan}
    """

    @final
    def state(self) -> Json:
        """Everything that changes, as strict JSON."""
        return {name.lstrip("_"): packed(getattr(self, name)) for name in _kept(self)}

    @final
    def restore(self, state: Json) -> None:
        """Continue where ``state`` was taken from an object with the same arguments."""
        for name, kind in _kept(self).items():
            setattr(self, name, unpacked(kind, state[name.lstrip("_")], getattr(self, name)))
        for each in fields(self):
            if each.metadata.get("state") is False:
                setattr(self, each.name, None)


def _kept(owner: Any) -> dict[str, Any]:
    """The kept fields and their types."""
    return _declared(owner.__class__)


@cache
def _declared(cls: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {each.name: hints[each.name] for each in fields(cls) if each.metadata.get("state")}


def packed(value: Any) -> Any:
    """A value as strict JSON; mappings become lists of pairs, because keys need not be text."""
    if isinstance(value, float):
        return number(value)
    if isinstance(value, (list, tuple, deque)):
        return [packed(each) for each in value]
    if isinstance(value, dict):
        return [[packed(each), packed(held)] for each, held in value.items()]
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, np.ndarray):
        return packed(value.tolist())
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if hasattr(value, "restore"):
        return value.state()
    return [packed(getattr(value, each.name)) for each in fields(value)] if is_dataclass(value) else value


def unpacked(kind: Any, data: Any, now: Any = None) -> Any:
    """The value of a type that :func:`packed` wrote; generators and objects with a state are restored in place.

    Example:
        >>> unpacked(list[tuple[tuple[int, ...], float]], [[[1, 2], "-inf"]])
        [((1, 2), -inf)]
    """
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return None if data is None else unpacked(inner[0], data, now)
    if kind is float:
        return unnumber(data)
    if origin is tuple:
        kinds = inner[:1] * len(data) if inner[-1] is Ellipsis else inner
        return tuple(unpacked(each, part) for each, part in zip(kinds, data, strict=True))
    if origin in (list, deque, frozenset):
        return origin(unpacked(inner[0], each) for each in data)
    if origin is dict:
        return {unpacked(inner[0], each): unpacked(inner[1], held) for each, held in data}
    if origin is np.ndarray:
        return np.array(data, dtype=np.float64)
    if kind is np.random.Generator:
        now.bit_generator.state = data
        return now
    if hasattr(kind, "restore"):
        now.restore(data)
        return now
    if is_dataclass(kind):
        make, hints = typing.cast(Any, kind), typing.get_type_hints(kind)
        return make(*(unpacked(hints[each.name], part) for each, part in zip(fields(kind), data, strict=True)))
    return data
