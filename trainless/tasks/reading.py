"""How to read data that does not say everything itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trainless.core.errors import InputError

Array = npt.NDArray[Any]

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
