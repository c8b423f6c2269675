"""Recordings that are files of their own (WFDB, EDF): the same channels of each, at one rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from trainless.core.errors import InputError
from trainless.core.progress import watched
from trainless.core.task import InputFormat, PartName, Task
from trainless.core.types import Array
from trainless.tasks.cases import Cases
from trainless.tasks.recordings import Recordings, fill, from_recordings
from trainless.tasks.resize import FINEST, resampled
from trainless.tasks.settings import Reading

FURTHEST = 100  # factor between two rates


@dataclass(frozen=True, eq=False)
class Channels:
    """The channels of one recording: values of each, what it is called, and its samples per second."""

    values: Sequence[Array]
    names: tuple[str, ...]
    hertz: tuple[float, ...]


Read = Callable[[Path], Channels]


def unique(names: Sequence[str]) -> tuple[str, ...]:
    """Names of channels, numbered where one is there twice.

    Example:
        >>> unique(["ECG", "EEG", "ECG"])
        ('ECG', 'EEG', 'ECG 2')
    """
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(f"{name} {seen[name]}" if seen[name] > 1 else name)
    return tuple(found)


def from_signal_files(cases: Cases, reading: Reading, read: Read, kind: str) -> Task:
    """A task whose cases are recordings in files: the channels of the first, at the rate that most of them have."""
    first = read(cases.paths[0])
    hertz = Counter(first.hertz).most_common(1)[0][0]
    given: dict[PartName, Recordings] = {}
    filled, rates = 0, set(first.hertz)
    for part, held in cases.parts.items():
        signals = []
        for path in watched(held.paths, "reading recordings"):
            found = read(path)
            signal, holes = aligned(found, first.names, hertz, path.name)
            rates |= set(found.hertz)
            filled += holes
            signals.append(signal)
        given[part] = Recordings(signals, held.y, held.groups, cases.names(part))
    notes = [f"channels {', '.join(first.names[:8])} at {hertz:g} samples per second"]
    if len(rates) > 1:
        notes.append(f"signals of {', '.join(f'{rate:g}' for rate in sorted(rates))} Hz were resampled to {hertz:g} Hz")
    if filled:
        notes.append(f"{filled:,} missing values were filled in linearly")
    source = InputFormat(kind, columns=first.names, hertz=hertz)
    return from_recordings(cases.name, given, reading, names=cases.classes, notes=notes, source=source)


def aligned(found: Channels, names: Sequence[str], hertz: float, where: str) -> tuple[Array, int]:
    """The wanted channels ``(channels, length)`` at one rate, missing values filled in, and how many were."""
    rows, filled = [], 0
    for name in names:
        if name not in found.names:
            raise InputError(
                f"{where} has no channel {name!r}; it has {', '.join(found.names[:8])}: expected those of the first"
                " recording in all"
            )
        place = found.names.index(name)
        row = np.array(found.values[place], np.float32)[None]
        gaps = np.isnan(row)
        if gaps.any():
            filled += fill(row, gaps, f"channel {name} of {where}")
        ratio = Fraction(hertz / found.hertz[place]).limit_denominator(FINEST)
        if not 1 / FURTHEST <= ratio <= FURTHEST:
            own = found.hertz[place]
            raise InputError(f"{where} has {own:g} samples per second, too far from {hertz:g} to resample: remove it")
        rows.append(resampled(row, ratio.numerator, ratio.denominator)[0])
    length = min(len(row) for row in rows)
    if not length:
        raise InputError(f"{where} has no samples: remove it")
    return np.stack([row[:length] for row in rows]), filled
