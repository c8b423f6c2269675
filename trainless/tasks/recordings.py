"""Recordings of different lengths: windows are cut inside each, and the answer is one per recording."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from trainless.core.errors import InputError
from trainless.core.processes import physical_memory
from trainless.core.task import InputFormat, PartName, Task
from trainless.core.types import Array, Index
from trainless.tasks.assemble import assemble
from trainless.tasks.reading import Samples, parse_size
from trainless.tasks.resize import FINEST, resampled
from trainless.tasks.settings import Reading

MOST = 5000  # samples of a window by default; where recordings are longer, they are resampled
COARSEST = 4  # by this factor at most: windows of longer ones are shorter than the recordings
SLACK = 0.1  # of a window that a recording may be longer without a further window
RECORDINGS = InputFormat("recordings")


@dataclass(frozen=True, eq=False)
class Recordings:
    """Signals ``(channels, length)`` of any lengths, the label of each and, where known, its group and its name."""

    signals: Sequence[Array]
    y: Array
    groups: Array | None = None
    names: Array | None = None


@dataclass(frozen=True)
class Windowing:
    """How recordings become windows: resampled by ``up / down``, then cut into windows of ``size`` samples."""

    size: int
    up: int = 1
    down: int = 1


def plan_windows(lengths: Sequence[int] | Array, window: int = 0, size: int = 0) -> Windowing:
    """The windows for recordings of these lengths.

    A window is as long as the median recording, unless ``window`` says how many samples as recorded. One of more than
    MOST samples is resampled by the least whole factor that makes it fit, at most by COARSEST; ``size`` says how many
    samples it is to have instead.

    Example:
        >>> plan_windows([9000, 9000, 18000]), plan_windows([90, 100, 130])
        (Windowing(size=4500, up=1, down=2), Windowing(size=100, up=1, down=1))
        >>> plan_windows([9000], window=1000), plan_windows([9000], size=3000), plan_windows([10**6])
        (Windowing(size=1000, up=1, down=1), Windowing(size=3000, up=1, down=3), Windowing(size=5000, up=1, down=4))
    """
    if window < 0 or size < 0:
        raise InputError(f"window={window} and size={size} were given; expected numbers of samples, at least 1")
    long = window or min(round(float(np.median(lengths))), COARSEST * max(size, MOST))
    if size:
        ratio = Fraction(size, long).limit_denominator(FINEST)
        if not ratio:
            raise InputError(f"size={size} was given for windows of {long} samples; expected at least {long // FINEST}")
        return Windowing(size, ratio.numerator, ratio.denominator)
    down = 1 if window else math.ceil(long / MOST)
    return Windowing(math.ceil(long / down), 1, down)


def cut(signal: Array, how: Windowing) -> Array:
    """The windows ``(count, channels, size)`` of a recording.

    A recording that is shorter is repeated until it fills the window. A longer one has as few windows as cover it, at
    even distances, so that they overlap; up to a tenth of a window at its ends is left out rather than cut once more.

    Example:
        >>> cut(np.arange(3)[None], Windowing(5))[:, 0].tolist()
        [[0, 1, 2, 0, 1]]
        >>> cut(np.arange(8)[None], Windowing(5))[:, 0].tolist()
        [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]]
    """
    signal = resampled(signal, how.up, how.down)
    length = signal.shape[1]
    if length < how.size:
        return signal[:, np.arange(how.size) % length][None]
    count = max(1, math.ceil(length / how.size - SLACK))
    room = length - how.size
    starts = np.linspace(0, room, count).round().astype(int) if count > 1 else [room // 2]
    return np.stack([signal[:, start : start + how.size] for start in starts])


def cut_all(signals: Sequence[Array], how: Windowing) -> tuple[Array, Index]:
    """The windows of all recordings, and the recording that each is of."""
    count = sum(max(1, math.ceil(signal.shape[1] * how.up / how.down / how.size)) for signal in signals)
    needed, there = 4 * count * signals[0].shape[0] * how.size, physical_memory()
    if needed > there:
        raise InputError(
            f"the windows would take {needed / 1e9:,.1f} GB, but this machine has {there / 1e9:,.1f} GB: give a smaller"
            " --size"
        )
    pieces = [cut(signal, how) for signal in signals]
    return np.concatenate(pieces), np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])


def from_recordings(
    name: str,
    given: Mapping[PartName, Recordings],
    reading: Reading,
    *,
    names: Sequence[str] = (),
    notes: Sequence[str] = (),
    source: InputFormat = RECORDINGS,
) -> Task:
    """A task whose cases are recordings.

    Where all recordings have one length that needs no windows, each is a sample as it is. Otherwise the windows are
    planned for the training part (:func:`plan_windows`), and all windows of a recording are in one part.
    """
    for part, each in given.items():
        _check(part, each, given["train"])
    lengths = {part: np.array([signal.shape[1] for signal in each.signals]) for part, each in given.items()}
    every = np.concatenate(list(lengths.values()))
    how = plan_windows(lengths["train"], reading.window, parse_size(reading.size, 1)[0] if reading.size else 0)
    equal = bool((every == every[0]).all())
    cuts = {part: cut_all(each.signals, how) for part, each in given.items()}
    alone = equal and all(len(x) == len(given[part].signals) for part, (x, _) in cuts.items())
    samples = {part: _samples(given[part], *cuts[part], alone=alone) for part in given}
    said = [*notes, *_said(every, sum(len(x) for x, _ in cuts.values()), how)]
    read_as = replace(
        source, resampling=(how.up, how.down) if how.up != how.down else (), any_length=not (equal and alone)
    )
    forced = replace(reading, dims=1, channels="first", label="", size="")
    return assemble(name, samples, forced, names, said, read_as)


def _check(part: PartName, each: Recordings, train: Recordings) -> None:
    if len(each.signals) != len(each.y):
        raise InputError(f"{len(each.signals)} recordings and {len(each.y)} labels are in the {part} part")
    if not len(each.signals):
        raise InputError(f"the {part} part has no recordings: expected at least one")
    for number, signal in enumerate(each.signals):
        if signal.ndim != 2 or not signal.size:
            raise InputError(f"recording {_called(each, number)} of the {part} part is empty: remove it")
        if len(signal) != len(train.signals[0]):
            raise InputError(
                f"recording {_called(each, number)} of the {part} part has {len(signal)} channels, the first one"
                f" {len(train.signals[0])}; expected as many in all"
            )


def _called(each: Recordings, number: int) -> str:
    return str(number if each.names is None else each.names[number])


def _samples(each: Recordings, x: Array, records: Index, *, alone: bool) -> Samples:
    groups = None if each.groups is None else np.asarray(each.groups)[records]
    names = None if each.names is None else np.asarray(each.names)[records]
    return Samples(x, np.asarray(each.y)[records], groups, None if alone else records, names)


def _said(lengths: Array, windows: int, how: Windowing) -> list[str]:
    """What was done to the recordings, for the user."""
    said = []
    if how.up != how.down:
        said.append(f"signals were resampled by {how.up}/{how.down} after a low-pass filter")
    after = np.ceil(lengths * how.up / how.down)
    if windows != len(lengths) or (after != how.size).any():
        short = int((after < how.size).sum())
        filled = f"; {short} shorter ones are repeated to fill theirs" if short else ""
        said.append(
            f"{len(lengths):,} recordings of {lengths.min():,} to {lengths.max():,} samples were cut into {windows:,}"
            f" windows of {how.size:,}{filled}; answers are by recording, the mean over its windows"
        )
    return said


def stored(arrays: Mapping[str, Array], file: str) -> Recordings | None:
    """Recordings one after the other in one array ``signal``, with ``offsets`` and ``labels``; None where not so.

    ``offsets`` say where each recording begins and, at the end, where the last one ends; ``records`` may name them and
    ``groups`` say whose each is.
    """
    lower = {name.lower(): array for name, array in arrays.items()}
    if not {"signal", "offsets", "labels"} <= set(lower):
        return None
    return Recordings(
        pieces_of(lower, file), lower["labels"], lower.get("groups"), lower.get("records", lower.get("names"))
    )


def pieces_of(arrays: Mapping[str, Array], file: str) -> list[Array]:
    """The recordings ``(channels, length)`` of ``signal`` between its ``offsets``."""
    signal, offsets = arrays["signal"], arrays["offsets"]
    if signal.ndim not in (1, 2) or signal.dtype.kind not in "biuf":
        raise InputError(
            f"{file}: signal has shape {signal.shape} and type {signal.dtype}; expected (channels, length)"
        )
    flat = signal[None] if signal.ndim == 1 else signal if signal.shape[0] <= signal.shape[1] else signal.T
    right = offsets.ndim == 1 and offsets.dtype.kind in "iu" and len(offsets) > 1
    if not right or offsets[0] != 0 or offsets[-1] != flat.shape[1] or (offsets[1:] <= offsets[:-1]).any():
        raise InputError(
            f"{file}: offsets do not fit the signal; expected rising whole numbers from 0 to its length"
            f" {flat.shape[1]:,}, one more than there are recordings"
        )
    return np.split(flat, np.asarray(offsets[1:-1], np.int64), axis=1)


def fill(signal: Array, gaps: Array, where: str) -> int:
    """Fill in missing values linearly between their neighbours, at the ends by the nearest; returns how many."""
    for row, holes in zip(signal, gaps, strict=True):
        if holes.all():
            raise InputError(f"{where} has a channel without a single value: remove it")
        if holes.any():
            row[holes] = np.interp(np.flatnonzero(holes), np.flatnonzero(~holes), row[~holes])
    return int(gaps.sum())
