"""Samples as they were read, sizes as they are given, and which axis is the channels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainless.core.errors import InputError
from trainless.core.types import Array, Index
from trainless.tasks.settings import Reading

COLOURS = 4  # an axis of at most this many entries beside two or three larger ones is the channels
LEADS = 16  # a signal of at most this many channels, at least LONGER times as long, is told from an image
LONGER = 4
FEW_VALUES = 8  # columns, below which the same deviation may be chance
UNRELATED = float(np.log(1.5))  # by which the deviations of neighbouring columns differ, of measurements
APART = 3.0  # deviations between neighbouring columns, of measurements
ALIKE = 1e-3  # differences below this are of columns that were brought to the same deviation
ROWS = 20_000  # that are looked at


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs and labels as they were read and, where known, the group (patient) of each, the recording and the name."""

    x: Array
    y: Array
    groups: Array | None = None
    records: Index | None = None
    names: Array | None = None


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
        each = f", or one per axis, such as {'x'.join(['64'] * dims)}" if dims > 1 else ""
        raise InputError(f"size={size!r} was given; expected a whole number above 0, such as 64{each}")
    return sizes


@dataclass(frozen=True)
class ChannelLayout:
    """Number of spatial dimensions and where the channel axis is: ``"first"``, ``"last"`` or ``"none"``.

    Without any spatial dimension every value of a row is a channel of its own.
    """

    dims: int
    channels: str
    note: str = ""


MEASUREMENTS = ChannelLayout(0, "first", "rows were read as measurements side by side; --dims 1 reads them as signals")


def detect(sample: tuple[int, ...], reading: Reading) -> ChannelLayout:
    """Read the shape of one sample: signals, images or volumes, and the place of their channels.

    Example:
        >>> detect((28, 28, 3), Reading())
        ChannelLayout(dims=2, channels='last', note='')
        >>> detect((28, 28, 28), Reading())
        ChannelLayout(dims=3, channels='none', note='')
        >>> detect((28, 28, 28), Reading(channels="first")).dims
        2
    """
    if not 1 <= len(sample) <= 4:
        raise InputError(
            f"one sample has shape {sample}; expected one to three spatial sizes with or without channels,"
            " so an array of 2 to 5 axes whose first counts the samples"
        )
    if reading.channels or reading.dims:
        return _forced(sample, reading)
    if len(sample) == 1:
        return ChannelLayout(1, "none")
    if len(sample) == 4:
        return ChannelLayout(3, _end(sample))
    return _plane(sample) if len(sample) == 2 else _solid(sample)


def are_measurements(x: Array) -> bool:
    """Whether rows ``(N, L)`` are measurements side by side, not signals.

    They are where neighbouring columns vary as differently as unrelated quantities do, lie apart by more than they
    vary, or were all brought to the same deviation. In a signal values at neighbouring places are alike.

    Example:
        >>> waves = np.sin(np.arange(40) / 5 + np.arange(30)[:, None])
        >>> are_measurements(waves), are_measurements(waves * 10.0 ** (np.arange(40) % 3))
        (False, True)
    """
    with np.errstate(all="ignore"):
        seen = np.asarray(x[:ROWS], np.float64)
        spread, level = seen.std(0), seen.mean(0)
    there = np.isfinite(spread) & (spread > 0)
    if there.sum() < 2:
        return False
    spread, level = spread[there], level[there]
    unlike = float(np.median(np.abs(np.diff(np.log(spread)))))
    apart = float(np.median(np.abs(np.diff(level))) / np.median(spread))
    return unlike > UNRELATED or apart > APART or (unlike < ALIKE and len(spread) >= FEW_VALUES)


def channels_first(x: Array, layout: ChannelLayout) -> Array:
    """A view of shape ``(N, C, *spatial)``."""
    if layout.channels == "none":
        return x[:, np.newaxis]
    return np.moveaxis(x, -1, 1) if layout.channels == "last" else x


def _forced(sample: tuple[int, ...], reading: Reading) -> ChannelLayout:
    extra = len(sample) - reading.dims if reading.dims else int(reading.channels != "none")
    channels = reading.channels or ("none" if extra == 0 else _end(sample))
    dims = len(sample) - extra
    rows = dims == 0 and channels == "first"
    if extra not in (0, 1) or extra != int(channels != "none") or not (1 <= dims <= 3 or rows):
        given = [f"--{name} {getattr(reading, name)}" for name in ("dims", "channels") if getattr(reading, name)]
        raise InputError(
            f"one sample has shape {sample}, which does not fit {' and '.join(given)}: leave"
            f" {'one of them' if len(given) > 1 else 'it'} out"
        )
    return ChannelLayout(dims, channels)


def _end(sample: tuple[int, ...]) -> str:
    return "first" if sample[0] <= sample[-1] else "last"


def _plane(sample: tuple[int, ...]) -> ChannelLayout:
    few, many = sorted(sample)
    if few > LEADS or many < LONGER * few:
        return ChannelLayout(2, "none")
    note = f"samples of {sample[0]}×{sample[1]} were read as signals with {few} channels; --dims 2 reads them as images"
    return ChannelLayout(1, _end(sample), note if few > 1 else "")


def _solid(sample: tuple[int, ...]) -> ChannelLayout:
    if min(sample[0], sample[-1]) <= COLOURS:
        return ChannelLayout(2, _end(sample))
    shape = "×".join(map(str, sample))
    note = f"samples of {shape} were read as volumes; --channels first or last reads them as images"
    return ChannelLayout(3, "none", note if max(sample) > 2 * min(sample) else "")
