"""The CinC 2017 single-lead ECG recordings from the data directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainless.core.errors import InputError
from trainless.core.task import PartName, Task
from trainless.tasks.assemble import assemble
from trainless.tasks.npz import arrays_of
from trainless.tasks.paths import data_directory, missing
from trainless.tasks.reading import Array, Reading, Samples
from trainless.tasks.split import stratified

RHYTHMS = ("N", "A", "O", "~")  # normal, atrial fibrillation, other, too noisy


@dataclass(frozen=True, eq=False)
class Recordings:
    """Signals one after the other, where each begins, its rhythm (index into RHYTHMS) and its name."""

    signal: Array
    offsets: Array
    labels: Array
    records: Array


def cinc2017(*, length: int = 1000, stride: int = 500, seed: int = 0) -> Task:
    """Short single-lead ECG at 300 Hz (Clifford et al. 2017, ODC-By): windows in 4 classes, split by record.

    Records are split first, stratified by rhythm, and windows are cut afterwards, so that no record is in two
    parts. ``groups`` of each part hold the record's name.

    Args:
        length: Samples of one window.
        stride: Samples from one window's start to the next.
        seed: Of the split.
    """
    if length < 1 or stride < 1:
        raise InputError(f"length={length} and stride={stride} were given; expected at least 1")
    recordings = _recordings(data_directory() / "ecg2017")
    long = np.flatnonzero(np.diff(recordings.offsets) >= length)
    if not len(long):
        raise InputError(f"length={length} was given, but no record is that long")
    names: tuple[PartName, ...] = ("train", "valid", "test")
    parts = [long[index] for index in stratified(recordings.labels[long], seed)]
    given = {name: _windows(recordings, part, length, stride) for name, part in zip(names, parts, strict=True)}
    short = len(recordings.labels) - len(long)
    notes = [f"{short} records shorter than {length} samples are left out"] if short else []
    return assemble("cinc2017", given, Reading(dims=1, kind="multiclass"), RHYTHMS, notes)


def _windows(recordings: Recordings, chosen: Array, length: int, stride: int) -> Samples:
    x, y, groups = [], [], []
    for index in chosen:
        signal = recordings.signal[recordings.offsets[index] : recordings.offsets[index + 1]]
        cut = np.lib.stride_tricks.sliding_window_view(signal, length)[::stride]
        x.append(cut)
        y += [recordings.labels[index]] * len(cut)
        groups += [recordings.records[index]] * len(cut)
    return Samples(np.concatenate(x), np.array(y), np.array(groups))


def _recordings(folder: Path) -> Recordings:
    subset = folder / "cinc2017_subset1500.npz"
    if (folder / "training2017").is_dir():
        return _official(folder / "training2017")
    if subset.is_file():
        arrays = arrays_of(subset)
        return Recordings(arrays["signal"], arrays["offsets"], _codes(arrays["labels"]), arrays["records"])
    raise missing(
        "the CinC 2017 ECG set",
        "physionet.org (Challenge 2017, training2017.zip)",
        "its folder training2017 (with REFERENCE.csv)",
        folder,
    )


def _official(folder: Path) -> Recordings:
    """The challenge's own files: one MATLAB file per record and a table of rhythms without a header."""
    import pandas as pd
    from scipy.io import loadmat

    table = next((path for path in sorted(folder.glob("REFERENCE*.csv"), reverse=True)), None)
    if table is None:
        raise InputError(f"{folder.name} has no REFERENCE.csv: unpack training2017.zip again")
    rows = pd.read_csv(table, header=None, names=["record", "label"], dtype=str)
    signals = []
    for record in rows["record"]:
        path = folder / f"{Path(record).name}.mat"
        try:
            signals.append(loadmat(path)["val"].reshape(-1).astype(np.int16))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"record {path.name} is missing or cannot be read: unpack training2017.zip again"
            ) from error
    offsets = np.concatenate([[0], np.cumsum([len(signal) for signal in signals])])
    return Recordings(
        np.concatenate(signals), offsets, _codes(rows["label"].to_numpy(str)), rows["record"].to_numpy(str)
    )


def _codes(labels: Array) -> Array:
    wrong = np.setdiff1d(labels, RHYTHMS)
    if len(wrong):
        raise InputError(f"the CinC 2017 labels have {str(wrong[0])!r}; expected {', '.join(RHYTHMS)}")
    return np.array([RHYTHMS.index(label) for label in labels.tolist()])
