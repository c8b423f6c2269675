"""Recordings in the European Data Format (EDF, EDF+, BDF), read by pyedflib."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainless.core.errors import InputError
from trainless.core.processes import require_room
from trainless.core.task import Task
from trainless.tasks.cases import Cases
from trainless.tasks.settings import Reading
from trainless.tasks.signal_files import Channels, from_signal_files, unique
from trainless.tasks.weigh import readable, require_plain

FIXED = 256  # bytes of the header, and again for every signal


def is_edf(path: Path) -> bool:
    """Whether a file is called as an EDF or BDF recording."""
    return path.suffix.lower() in (".edf", ".bdf") and not path.is_dir()


def from_edf(cases: Cases, reading: Reading) -> Task:
    """A task whose cases are EDF recordings."""
    return from_signal_files(cases, reading, read_edf, "edf")


def read_edf(path: Path) -> Channels:
    """All signals of a recording in physical units; annotations are left out."""
    try:
        import pyedflib
    except ImportError as error:
        raise InputError(
            f"{path.name} is an EDF recording, which needs pyedflib: pip install 'trainless[signals]'"
        ) from error
    require_plain(path)
    with readable(path, "an EDF recording"):
        _check(path)
        with pyedflib.EdfReader(str(path), pyedflib.READ_ALL_ANNOTATIONS, pyedflib.CHECK_FILE_SIZE) as file:
            places = range(file.signals_in_file)
            names = unique([file.getLabel(place).strip() for place in places])
            hertz = tuple(float(file.getSampleFrequency(place)) for place in places)
            values = [np.asarray(file.readSignal(place), np.float32) for place in places]
    if not values or min(hertz) <= 0:
        raise InputError(f"{path.name} has no signals with a rate: get or save it again")
    for name, signal in zip(names, values, strict=True):
        if not len(signal) or not np.isfinite(signal).all():
            raise InputError(f"signal {name} of {path.name} has no values or broken ones: get or save it again")
    return Channels(values, names, hertz)


def _check(path: Path) -> None:
    """Compare what the header declares with the size of the file, before anything is allocated by it."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(FIXED)
        signals, header = _number(head[252:256], path), _number(head[184:192], path)
        records = _number(head[236:244], path)
        if signals < 1 or header != FIXED * (1 + signals) or header > size or records < 1:
            raise InputError(
                f"{path.name} declares {signals} signals and {records} records in a header of {header} bytes, which"
                f" cannot be in {size:,} bytes: get or save it again"
            )
        table = stream.read(header - FIXED)
    counts = [_number(table[216 * signals + 8 * place :][:8], path) for place in range(signals)]
    width = 3 if head[:1] == b"\xff" else 2
    needed = header + width * records * sum(counts)
    if min(counts) < 1 or needed > size:
        raise InputError(f"{path.name} declares {needed:,} bytes and has {size:,}: it is incomplete; get it again")
    require_room(8.0 * records * sum(counts), path.name, "get or save it again")


def _number(text: bytes, path: Path) -> int:
    try:
        return int(text.decode("ascii", "replace").strip())
    except ValueError:
        raise InputError(f"{path.name} is no EDF recording: its header has {text[:8]!r} for a number") from None
