"""Which axes are space and which one is the channels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainless.core.errors import InputError
from trainless.core.types import Array
from trainless.tasks.reading import Reading

COLOURS = 4  # an axis of at most this many entries beside two or three larger ones is the channels
LEADS = 16  # a signal of at most this many channels, at least LONGER times as long, is told from an image
LONGER = 4


@dataclass(frozen=True)
class Layout:
    """Number of spatial dimensions and where the channel axis is: ``"first"``, ``"last"`` or ``"none"``."""

    dims: int
    channels: str
    note: str = ""


def detect(sample: tuple[int, ...], reading: Reading) -> Layout:
    """Read the shape of one sample: signals, images or volumes, and the place of their channels.

    Example:
        >>> detect((28, 28, 3), Reading())
        Layout(dims=2, channels='last', note='')
        >>> detect((28, 28, 28), Reading())
        Layout(dims=3, channels='none', note='')
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
    return (_line, _plane, _solid, _solid_with_channels)[len(sample) - 1](sample)


def channels_first(x: Array, layout: Layout) -> Array:
    """A view of shape ``(N, C, *spatial)``."""
    if layout.channels == "none":
        return x[:, np.newaxis]
    return np.moveaxis(x, -1, 1) if layout.channels == "last" else x


def _forced(sample: tuple[int, ...], reading: Reading) -> Layout:
    extra = len(sample) - reading.dims if reading.dims else int(reading.channels != "none")
    channels = reading.channels or ("none" if extra == 0 else _end(sample))
    dims = len(sample) - extra
    if extra not in (0, 1) or extra != int(channels != "none") or not 1 <= dims <= 3:
        raise InputError(
            f"one sample has shape {sample}, which does not fit dims={reading.dims or 'any'} and"
            f" channels={reading.channels or 'any'!s}: leave one of them out"
        )
    return Layout(dims, channels)


def _end(sample: tuple[int, ...]) -> str:
    return "first" if sample[0] <= sample[-1] else "last"


def _line(sample: tuple[int, ...]) -> Layout:
    return Layout(1, "none")


def _plane(sample: tuple[int, ...]) -> Layout:
    few, many = sorted(sample)
    if few > LEADS or many < LONGER * few:
        return Layout(2, "none")
    note = f"samples of {sample[0]}×{sample[1]} were read as signals with {few} channels; dims=2 reads them as images"
    return Layout(1, _end(sample), note if few > 1 else "")


def _solid(sample: tuple[int, ...]) -> Layout:
    if min(sample[0], sample[-1]) <= COLOURS:
        return Layout(2, _end(sample))
    shape = "×".join(map(str, sample))
    note = f"samples of {shape} were read as volumes; channels='first' or 'last' reads them as images"
    return Layout(3, "none", note if max(sample) > 2 * min(sample) else "")


def _solid_with_channels(sample: tuple[int, ...]) -> Layout:
    return Layout(3, _end(sample))
