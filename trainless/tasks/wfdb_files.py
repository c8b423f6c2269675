"""Recordings in PhysioNet's WFDB format: a header ``.hea`` and its signals, as the format's specification has them.

Only what stands in one segment is read, in the formats 16, 24, 32, 61, 80 and 212, one sample per frame.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from trainless.core.errors import InputError
from trainless.core.processes import require_room
from trainless.core.task import Task
from trainless.core.types import Array
from trainless.tasks.cases import Cases
from trainless.tasks.settings import Reading
from trainless.tasks.signal_files import Channels, from_signal_files, unique
from trainless.tasks.weigh import readable, require_inside, require_plain

MISSING = {16: -(2**15), 24: -(2**23), 32: -(2**31), 61: -(2**15), 80: -(2**7), 212: -(2**11)}
BYTES = {16: 2.0, 24: 3.0, 32: 4.0, 61: 2.0, 80: 1.0, 212: 1.5}  # of a sample
GAIN = 200.0  # where the header has none
HEADER = 2**20  # bytes of a header at most
_FORMAT = re.compile(r"(\d+)(?:x(\d+))?(?::(\d+))?(?:\+(\d+))?")
_GAIN = re.compile(r"([-+.\deE]+)(?:\(([-+]?\d+)\))?(?:/(.*))?")


@dataclass(frozen=True)
class SignalLine:
    """One signal of a header."""

    file: str
    code: int
    offset: int
    gain: float
    baseline: int
    checksum: int | None
    name: str


def is_wfdb(path: Path) -> bool:
    """Whether a file is called as a WFDB header."""
    return path.suffix.lower() == ".hea" and not path.is_dir()


def from_wfdb(cases: Cases, reading: Reading) -> Task:
    """A task whose cases are WFDB recordings."""
    return from_signal_files(cases, reading, partial(read_wfdb, root=cases.root), "wfdb")


def read_wfdb(path: Path, root: Path | None = None) -> Channels:
    """A recording in physical units; samples that are marked as missing are NaN.

    No file that it names is read outside the ``root``, by default the folder of the header.
    """
    require_plain(path)
    if path.stat().st_size > HEADER:
        raise InputError(f"{path.name} has {path.stat().st_size:,} bytes, too many for a header: get it again")
    with readable(path, "a WFDB header"):
        hertz, samples, lines = _header(path)
        files = list(dict.fromkeys(line.file for line in lines))
        values: dict[int, Array] = {}
        for file in files:
            mine = [place for place, line in enumerate(lines) if line.file == file]
            found = _file(path, [lines[place] for place in mine], samples, root or path.parent)
            values |= dict(zip(mine, found, strict=True))
    ordered = [values[place] for place in range(len(lines))]
    return Channels(ordered, unique([line.name for line in lines]), (hertz,) * len(lines))


def _header(path: Path) -> tuple[float, int, list[SignalLine]]:
    """Samples per second, samples per signal (0 where not said) and the signals."""
    text = path.read_text("utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    record = (lines[0] if lines else "").split()
    if len(record) < 2 or not record[1].isdigit():
        raise InputError(f"{path.name} is no WFDB header: expected a line with the record's name and its signals")
    if "/" in record[0]:
        raise InputError(f"{path.name} has several segments, which are not read: join them first")
    count = int(record[1])
    hertz = float(re.split(r"[/(]", record[2])[0]) if len(record) > 2 else 250.0
    samples = int(record[3]) if len(record) > 3 else 0
    if not count or len(lines) < 1 + count or not 0 < hertz < 1e9 or samples < 0:
        raise InputError(f"{path.name} declares {count} signals at {hertz:g} Hz and has {len(lines) - 1}: get it again")
    return hertz, samples, [_signal(line, path, place) for place, line in enumerate(lines[1 : 1 + count])]


def _signal(line: str, path: Path, place: int) -> SignalLine:
    parts = line.split(None, 8)
    form = _FORMAT.fullmatch(parts[1]) if len(parts) > 1 else None
    if form is None:
        raise InputError(f"{path.name} has a signal line that cannot be read ({line[:40]!r}): get it again")
    code, frame, skew, offset = (int(part) if part else None for part in form.groups())
    if code not in BYTES or (frame or 1) != 1 or skew:
        raise InputError(
            f"{path.name} has signals of format {parts[1]}; expected one of {', '.join(map(str, sorted(BYTES)))}, one"
            " sample per frame and no skew"
        )
    gain = _GAIN.fullmatch(parts[2]) if len(parts) > 2 else None
    zero = int(parts[4]) if len(parts) > 4 else 0
    return SignalLine(
        parts[0],
        code,
        offset or 0,
        float(gain[1]) if gain and float(gain[1]) else GAIN,
        int(gain[2]) if gain and gain[2] else zero,
        int(parts[6]) if len(parts) > 6 else None,
        parts[8] if len(parts) > 8 else f"signal {place}",
    )


def _file(header: Path, lines: list[SignalLine], samples: int, root: Path) -> list[Array]:
    """The signals of one file, which are interleaved."""
    first, path = lines[0], header.parent / lines[0].file
    if Path(first.file).name != first.file:
        raise InputError(f"{header.name} names {first.file!r}, which is outside its folder: expected a file beside it")
    if any((line.code, line.offset) != (first.code, first.offset) for line in lines):
        raise InputError(f"{header.name} has signals of different formats in {first.file}: expected one format")
    if not path.is_file():
        raise InputError(f"{header.name} names {first.file}, which is not there: expected it beside the header")
    require_inside(path, root)
    held = int((path.stat().st_size - first.offset) / BYTES[first.code] / len(lines))
    if held < max(1, samples):
        raise InputError(
            f"{first.file} has {max(0, held):,} samples of each signal where {header.name} declares {samples:,}: it is"
            " incomplete; get it again"
        )
    length = samples or held
    require_room(16.0 * length * len(lines), first.file, "get or save it again")
    digital = _samples(path, first, length * len(lines)).reshape(length, len(lines)).T
    return [_physical(each, line, header) for each, line in zip(digital, lines, strict=True)]


def _samples(path: Path, line: SignalLine, count: int) -> Array:
    """So many samples of a file as integers."""
    needed = int(np.ceil(count * BYTES[line.code]))
    with path.open("rb") as stream:
        stream.seek(line.offset)
        raw = np.frombuffer(stream.read(needed), np.uint8)
    if line.code in (16, 61):
        return raw.view(">i2" if line.code == 61 else "<i2").astype(np.int64)
    if line.code == 32:
        return raw.view("<i4").astype(np.int64)
    if line.code == 80:
        return raw.astype(np.int64) - 128
    wide = np.asarray(raw, np.int64)
    if line.code == 24:
        found = wide[0::3] | wide[1::3] << 8 | wide[2::3] << 16
        return np.where(found >= 2**23, found - 2**24, found)
    padded = np.concatenate([wide, np.zeros(-len(wide) % 3, np.int64)]).reshape(-1, 3)
    low, high = padded[:, 0] | (padded[:, 1] & 0x0F) << 8, padded[:, 2] | (padded[:, 1] & 0xF0) << 4
    found = np.stack([low, high], axis=1).reshape(-1)[:count]
    return np.where(found >= 2**11, found - 2**12, found)


def _physical(digital: Array, line: SignalLine, header: Path) -> Array:
    if line.checksum is not None and (int(digital.sum()) - line.checksum) % 2**16:
        raise InputError(f"signal {line.name} of {line.file} has not the checksum of {header.name}: get it again")
    values = (digital - line.baseline) / line.gain
    return np.where(digital == MISSING[line.code], np.nan, values).astype(np.float32)
