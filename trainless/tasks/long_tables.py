"""Long tables: each row is one moment of a recording, whose time a column says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trainless.core.errors import InputError
from trainless.core.task import InputFormat, Task
from trainless.core.types import Array
from trainless.tasks.columns import without
from trainless.tasks.recordings import Recordings, fill, from_recordings
from trainless.tasks.settings import Reading
from trainless.tasks.table import GROUPS, column, complete, label_column, numbers, read_table

RECORDS = ("record", "recording", "record_id", "recording_id", "case", "case_id", "series", "id")
UNEVEN = 0.01  # of the median step that a step may differ without being uneven


def from_long_table(path: Path, reading: Reading) -> Task:
    """A task from a table with one row per moment: recordings in order of time, values as channels.

    The recording's column is ``reading.record``, or one called record, recording, case, series or id; without one the
    group's. Where steps of time are uneven, values are interpolated linearly at the median step.
    """
    table = without(read_table(path), reading.ignore, path)
    table.columns = table.columns.astype(str)
    time = column(table, reading.time_column, (), "time", path)
    label = label_column(table, reading, path)
    rest = table.drop(columns=[time, label])
    record = column(rest, reading.record, RECORDS, "record", path)
    who = column(rest.drop(columns=record) if record else rest, reading.group, GROUPS, "group", path)
    if not record and not who:
        raise InputError(f"{path.name} has a time column, but none that says which recording a row is of: --record")
    values = [str(name) for name in rest.columns if name not in (record, who)]
    if not values:
        raise InputError(f"{path.name} has no values beside {time}, {label}, {record}: expected at least one channel")
    numbers(table[values], path)
    pieces, names = recordings_in(table, record or who, time, path)
    y = np.array([_only(piece, label, name, path) for name, piece in zip(names, pieces, strict=True)])
    groups = None
    if record and who:
        groups = np.array([_only(piece, who, name, path) for name, piece in zip(names, pieces, strict=True)])
    moments = [moments_of(piece[time], path) for piece in pieces]
    step = float(np.median(np.concatenate([np.diff(each) for each in moments if len(each) > 1] or [np.ones(1)])))
    uneven = sum(_is_uneven(each, step) for each in moments)
    signals, filled = [], 0
    for name, piece, when in zip(names, pieces, moments, strict=True):
        signal, holes = signal_of(piece[values], when, step, f"recording {name} of {path.name}")
        signals.append(signal)
        filled += holes
    notes = [f"each row of {path.name} was read as a moment of a recording by {time!r} and {record or who!r}"]
    if uneven:
        notes.append(f"{uneven} recordings have uneven steps of time and were interpolated at steps of {step:g}")
    if filled:
        notes.append(f"{filled:,} missing values were filled in linearly")
    source = InputFormat("table", columns=tuple(values), time_column=time, record=record or who, step=step)
    held = Recordings(signals, y, groups, np.array([str(name) for name in names]))
    return from_recordings(path.name.split(".")[0], {"train": held}, reading, notes=notes, source=source)


def recordings_in(table: pd.DataFrame, record: str, time: str, path: Path) -> tuple[list[pd.DataFrame], list[Any]]:
    """The rows of each recording in order of time, and what each is called."""
    complete(table[record], "recording", path)
    complete(table[time], "time", path)
    pieces: list[pd.DataFrame] = []
    names: list[Any] = []
    for name, piece in table.groupby(record, sort=False):
        pieces.append(piece.sort_values(time, kind="stable"))
        names.append(name)
    return pieces, names


def moments_of(times: pd.Series, path: Path) -> Array:
    """Times as numbers; dates as seconds."""
    if not pd.api.types.is_numeric_dtype(times):
        try:
            times = pd.to_datetime(times, format="ISO8601").astype("datetime64[ns]").astype(np.int64) / 1e9
        except (ValueError, TypeError, OverflowError) as error:
            raise InputError(
                f"{path.name} has times that are neither numbers nor dates as 2026-01-31, but {str(times.iloc[0])!r}"
            ) from error
    found = times.to_numpy(np.float64)
    if (np.diff(found) <= 0).any():
        raise InputError(f"{path.name} has two rows of one recording at the same time {found[0]:g}: remove one")
    return found


def signal_of(values: pd.DataFrame, when: Array, step: float, where: str) -> tuple[Array, int]:
    """The channels of a recording at even steps, missing values filled in, and how many were."""
    signal = np.ascontiguousarray(values.to_numpy(np.float64).T)
    gaps = np.isnan(signal)
    filled = fill(signal, gaps, where) if gaps.any() else 0
    if _is_uneven(when, step):
        even = when[0] + step * np.arange(int((when[-1] - when[0]) / step + 1e-6) + 1)
        signal = np.stack([np.interp(even, when, row) for row in signal])
    with np.errstate(over="ignore"):
        return signal.astype(np.float32), filled


def _is_uneven(when: Array, step: float) -> bool:
    return len(when) > 1 and bool(np.abs(np.diff(when) - step).max() > UNEVEN * step)


def _only(piece: pd.DataFrame, name: str, record: object, path: Path) -> object:
    found = pd.unique(complete(piece[name], "label", path))
    if len(found) > 1:
        raise InputError(
            f"recording {record} of {path.name} has several values of {name!r} ({found[0]}, {found[1]}); expected one"
        )
    return found[0]
