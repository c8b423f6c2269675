"""How to read data that does not say everything itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.core.types import Array

KINDS = ("", "binary", "multiclass", "regression")
CHANNELS = ("", "first", "last", "none")


@dataclass(frozen=True)
class Reading:
    """What the user can force; everything left empty is detected.

    Args:
        kind: ``"binary"``, ``"multiclass"`` or ``"regression"``.
        dims: Spatial dimensions, 1 to 3; 0 detects them.
        channels: ``"first"``, ``"last"`` or ``"none"``: where the channel axis is.
        label: The column of the label: its name in a table, its number where labels have several columns.
        seed: Of the split, where none is given.

    Example:
        >>> Reading(kind="regression").seed
        0
        >>> Reading(dims=4)
        Traceback (most recent call last):
        trainless.core.errors.InputError: dims=4 was given; expected 1, 2 or 3 (or 0 to detect it)
    """

    kind: str = ""
    dims: int = 0
    channels: str = ""
    label: str | int = ""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"kind={self.kind!r} was given; expected one of {', '.join(KINDS[1:])}")
        if self.channels not in CHANNELS:
            raise InputError(f"channels={self.channels!r} was given; expected one of {', '.join(CHANNELS[1:])}")
        if self.dims not in (0, 1, 2, 3):
            raise InputError(f"dims={self.dims} was given; expected 1, 2 or 3 (or 0 to detect it)")
        if self.seed < 0:
            raise InputError(f"seed={self.seed} was given; expected 0 or more")


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs, labels and, where known, the group (patient, record) of each, as they were read."""

    x: Array
    y: Array
    groups: Array | None = None


def parse_size(size: int | str | tuple[int, ...], dims: int) -> tuple[int, ...]:
    """A size as given by hand, one number for all axes or one per axis.

    Example:
        >>> parse_size("64", 2), parse_size("64x48", 2), parse_size(16, 3)
        ((64, 64), (64, 48), (16, 16, 16))
    """
    try:
        sizes = tuple(int(part) for part in (size.split("x") if isinstance(size, str) else np.atleast_1d(size)))
    except (TypeError, ValueError):
        sizes = ()
    if len(sizes) == 1:
        sizes *= dims
    if len(sizes) != dims or min(sizes) < 1:
        raise InputError(f"size={size!r} was given; expected one number or {dims}, such as {'x'.join(['64'] * dims)}")
    return sizes


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
