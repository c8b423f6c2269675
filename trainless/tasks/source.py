"""How the inputs of a task were read, kept so that new ones are read in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from trainless.core.errors import InputError
from trainless.core.task import Task

EXAMPLES = {"npz": "new.npz", "npy": "new.npy", "table": "new.csv", "images": "new-images/", "volumes": "new-volumes/"}
MODES = ("L", "RGB", "F")


@dataclass(frozen=True)
class Source:
    """What a reader of new inputs has to know, as plain data.

    Args:
        kind: ``npz``, ``npy``, ``table``, ``images`` or ``volumes``.
        channels: Where the channel axis is in what was read: ``first``, ``last`` or ``none``; empty is not known.
        mode: What pixels of images became: ``L`` (grey), ``RGB`` or ``F`` (more than 8 bits).
        resized: Whether images or volumes were brought to one size; otherwise all had it.
        columns: The names of a table's values, in order.
        label_last: Whether the last column of an array was the label.

    Example:
        >>> Source("table", columns=("t0", "t1")).example
        'new.csv'
    """

    kind: str = "npz"
    channels: str = ""
    mode: str = ""
    resized: bool = False
    columns: tuple[str, ...] = ()
    label_last: bool = False

    def __post_init__(self) -> None:
        if self.kind not in EXAMPLES or (self.mode in MODES) != (self.kind == "images"):
            raise InputError(f"a source of kind {self.kind!r} and mode {self.mode!r} is not known to this trainless")

    @property
    def example(self) -> str:
        """What new inputs of this kind could be called."""
        return EXAMPLES[self.kind]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "columns": list(self.columns)}


def source_from_json(data: Mapping[str, Any]) -> Source:
    """Read what ``Source.to_json`` wrote.

    Example:
        >>> source_from_json(Source("images", "last", "RGB").to_json()) == Source("images", "last", "RGB")
        True
    """
    return Source(**{**data, "columns": tuple(str(name) for name in data["columns"])})


@dataclass(frozen=True, eq=False)
class SourcedTask(Task):
    """A task that knows how its inputs were read."""

    source: Source = field(default_factory=Source)


def source_of(task: Task) -> Source:
    """How a task's inputs were read; arrays where it does not know."""
    return task.source if isinstance(task, SourcedTask) else Source()
