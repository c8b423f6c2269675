"""Files of the data directory: where they are, whether they are what they should be, and their columns."""

from __future__ import annotations

import csv
import functools
import gzip
import io
import itertools
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO, cast

import numpy as np

from trainless.core.checksums import FIRST, SUMS, record, verify
from trainless.core.errors import InputError
from trainless.core.files import data_directory, write_atomic
from trainless.core.opening import without_links
from trainless.core.types import Floats

_ROWS = 1000


class MissingFile(InputError):
    """A file of the data directory is not there; ``bring`` says what to do and names no folder of this machine."""

    def __init__(self, message: str, bring: str) -> None:
        super().__init__(message)
        self.bring = bring


@dataclass(frozen=True)
class DataFile:
    """One file of the data directory, what to tell somebody who does not have it, and its columns of text."""

    path: str
    about: str
    origin: str
    text: tuple[str, ...] = ()

    def locate(self) -> Path:
        """The verified file; raises InputError where it is missing, or not the one whose checksum is known."""
        folder = data_directory()
        file = folder / self.path
        if not file.is_file():
            about = f"it is {self.about}, from {self.origin}"
            raise MissingFile(
                f"{self.path} is not in the data directory {folder}: {about};"
                f" put it at {file}, or set TRAINLESS_DATA to the directory that has it",
                f"{self.path} is for the reader to bring into the data directory (TRAINLESS_DATA): {about}",
            )
        verify(file, folder)
        return file


@dataclass(frozen=True, eq=False)
class FileColumns:
    """The columns of one CSV file: numbers, NaN where a field is empty, and text."""

    path: str
    numbers: dict[str, Floats]
    text: dict[str, tuple[str, ...]]

    def __len__(self) -> int:
        return max([*map(len, self.numbers.values()), *map(len, self.text.values())], default=0)

    def strings(self, name: str) -> tuple[str, ...]:
        """A column of text."""
        self._require(name, self.text)
        return self.text[name]

    def floats(self, name: str) -> Floats:
        """A column of numbers."""
        self._require(name, self.numbers)
        return self.numbers[name]

    def _require(self, name: str, names: Iterable[str]) -> None:
        if name not in names:
            raise InputError(f"{self.path} has no column {name!r}; its columns are: {', '.join(names)}")


def read_columns(file: Path, text: Collection[str] = ()) -> FileColumns:
    """Read a CSV file, compressed by gzip if its name ends in ``.gz``; columns that are not ``text`` are numbers."""
    try:
        return _read_columns(file, text)
    except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise InputError(f"{file} is damaged ({error}): fetch it again") from None


def _read_columns(file: Path, text: Collection[str]) -> FileColumns:
    numbers: dict[str, list[Floats]] = {}
    strings: dict[str, list[str]] = {}
    with open_text(file) as stream:
        reader = csv.reader(stream)
        header = next(reader, [])
        while rows := list(itertools.islice(reader, _ROWS)):
            if wrong := next((row for row in rows if len(row) != len(header)), None):
                raise InputError(
                    f"{file}: a row has {len(wrong)} fields, but the header has {len(header)}: {wrong[:3]}"
                )
            for name, values in zip(header, zip(*rows, strict=True), strict=True):
                if name in text:
                    strings.setdefault(name, []).extend(values)
                else:
                    numbers.setdefault(name, []).append(_numbers(file, name, values))
    joined = {name: np.concatenate(parts) for name, parts in numbers.items()}
    return FileColumns(file.name, joined, {name: tuple(values) for name, values in strings.items()})


def open_text(file: Path, mode: Literal["r", "w"] = "r") -> TextIO:
    """Open a text file, compressed by gzip if its name ends in ``.gz``."""
    if file.suffix == ".gz":
        return cast(TextIO, gzip.open(file, "rt" if mode == "r" else "wt", newline=""))
    return file.open(mode, newline="")


def mean_of(values: Sequence[float]) -> float | str:
    """The mean of repeated trainings for a column, empty where there are none."""
    return round(float(np.mean(values)), 6) if values else ""


def _numbers(file: Path, name: str, values: Iterable[str]) -> Floats:
    try:
        return np.array([value or "nan" for value in values], np.float64)
    except ValueError as error:
        raise InputError(f"column {name!r} of {file} should hold numbers: {error}") from None


def write_columns(file: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    """Write a CSV file that ``read_columns`` reads, and its line in ``SHA256SUMS`` where its folder keeps one."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(rows)
    content = text.getvalue().encode()
    write_atomic(without_links(file), gzip.compress(content, mtime=0) if file.suffix == ".gz" else content)
    for folder in file.parents[:2]:
        for sums in (SUMS, FIRST):
            if (folder / sums).is_file():
                record(file, folder, sums)
    return file


@functools.lru_cache(maxsize=4)
def _cached(file: Path, text: tuple[str, ...], changed: int) -> FileColumns:
    """The columns of a file as it was at a time of change, kept for the next group of columns that wants it."""
    return read_columns(file, text)


def columns_of(file: DataFile) -> FileColumns:
    """The columns of a verified data file."""
    path = file.locate()
    return _cached(path, file.text, path.stat().st_mtime_ns)
