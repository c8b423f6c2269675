"""What a user can say about data that do not say everything themselves: one class for Python and the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from trainless.core.errors import InputError
from trainless.core.settings import setting

KINDS = ("", "binary", "multiclass", "regression")
CHANNELS = ("", "first", "last", "none")
Loader = TypeVar("Loader", bound=Callable[..., Any])


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


@dataclass(frozen=True)
class Reading:
    """How to read data; everything left empty is detected.

    Example:
        >>> Reading(kind="regression").seed, Reading(classes="no,yes").classes
        (0, ('no', 'yes'))
        >>> Reading(dims=4)
        Traceback (most recent call last):
        trainless.core.errors.InputError: dims=4 was given; expected 1, 2 or 3 (or 0 to detect it)
    """

    label: str | int = setting("", "The column of the label, in a table or among the labels.", metavar="COLUMN")
    group: str = setting("", "The column that says whose each case is: a patient is never split.", metavar="COLUMN")
    ignore: Any = setting(
        (),
        "Columns of a table to leave out, such as notes and dates, with commas between them.",
        kind=str,
        metavar="A,B",
        read=_listed,
    )
    record: str = setting("", "The column that says which recording a row of a long table is of.", metavar="COLUMN")
    time_column: str = setting("", "The column of the time: each row of the table is one moment.", metavar="COLUMN")
    classes: Any = setting(
        (),
        "Names of the classes in the order of their labels, with commas between them; of noise their number.",
        kind=str,
        metavar="A,B",
        read=_listed,
    )
    size: str | int | tuple[int, ...] = setting(
        "", "Resize images or volumes, such as 32 or 32x48, or resample signals to so many values.", metavar="SIZE"
    )
    window: int = setting(0, "Samples of a recording that one window takes.", shown="the median length", least=0)
    labels: str = setting("", "The file with the labels, of an array or a folder with several tables.", metavar="FILE")
    kind: str = setting("", "What is predicted: binary, multiclass or regression.", metavar="KIND")
    dims: int = setting(
        0, "Signals (1), images (2) or volumes (3), where arrays could be either.", shown="by their shape", least=0
    )
    channels: str = setting("", "Where the channels of arrays are: first, last or none.", metavar="PLACE")
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("classes", "ignore"):
            given = getattr(self, name)
            object.__setattr__(self, name, _listed(given) if isinstance(given, str) else tuple(map(str, given)))
        if self.kind not in KINDS:
            raise InputError(f"kind={self.kind!r} was given; expected one of {', '.join(KINDS[1:])}")
        if self.channels not in CHANNELS:
            raise InputError(f"channels={self.channels!r} was given; expected one of {', '.join(CHANNELS[1:])}")
        if self.dims not in (0, 1, 2, 3):
            raise InputError(f"dims={self.dims} was given; expected 1, 2 or 3 (or 0 to detect it)")
        if not isinstance(self.window, int) or self.window < 0:
            raise InputError(f"window={self.window!r} was given; expected a number of samples, at least 1")
        if self.seed < 0:
            raise InputError(f"seed={self.seed} was given; expected 0 or more")

    @property
    def given(self) -> dict[str, Any]:
        """What is not left to be detected, by name."""
        usual = Reading()
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if getattr(self, each.name) != getattr(usual, each.name)
        }


def reads(names: str) -> Callable[[Loader], Loader]:
    """Say which fields of :class:`Reading` a loader goes by; others are refused where they are given."""

    def mark(loader: Loader) -> Loader:
        loader.__dict__["reads"] = frozenset(names.split())
        return loader

    return mark
