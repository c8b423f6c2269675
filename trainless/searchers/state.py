"""State that outlives a process: the fields that an object declares as kept, as strict JSON and back, bit for bit.

A field's type says how it is read back: generators, arrays, numbers, containers of them, dataclasses, and objects that
have a state themselves.
"""

from __future__ import annotations

import typing
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any, final

import numpy as np

from trainless.core.files import from_json, to_json
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
    """A value as strict JSON, whether it has a state itself or not."""
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    return value.state() if hasattr(value, "restore") else to_json(value)


def unpacked(kind: Any, data: Any, now: Any) -> Any:
    """The value that :func:`packed` wrote; generators and objects with a state are restored in place."""
    if isinstance(now, np.random.Generator):
        now.bit_generator.state = data
    elif hasattr(now, "restore"):
        now.restore(data)
    else:
        return from_json(kind, data)
    return now
