"""Files are weighed before they are read, and whatever a reader stumbles over becomes one sentence."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from trainless.core.errors import InputError
from trainless.core.processes import physical_memory
from trainless.core.text import in_a_sentence, reason

GROWTH = 10  # times a text's bytes that reading it may take in memory
PIECE = 2**20
LONGEST = 64 * 2**20  # bytes of a line


def readable(path: Path, what: str, remedy: str = "get or save it again") -> AbstractContextManager[None]:
    """Turn whatever reading a file raises into one sentence that names it.

    Example:
        >>> with readable(Path("a/scan.nii"), "a NIfTI volume"):
        ...     raise OverflowError("too large")
        Traceback (most recent call last):
        trainless.core.errors.InputError: scan.nii cannot be read as a NIfTI volume (too large): get or save it again
    """
    return in_a_sentence(lambda error: f"{path.name} cannot be read as {what} ({reason(error)}): {remedy}")


def require_plain(path: Path) -> None:
    """Raise InputError where a path is no regular file (a pipe would be waited for) or an empty one."""
    if not path.is_file():
        raise InputError(f"{path.name} is no regular file: give a file or a folder")
    if not path.stat().st_size:
        raise InputError(f"{path.name} is empty: get or save it again")


def require_inside(path: Path, root: Path) -> None:
    """Raise InputError where a file, or a folder or anything in it, is a link that leads out of the ``root``."""
    for each in (path, *(path.iterdir() if path.is_dir() else ())):
        if not each.resolve().is_relative_to(root.resolve()):
            raise InputError(f"{each.relative_to(root)} points outside {root.name}: copy it into the folder")


def unpacked_size(path: Path, most: int) -> int:
    """The bytes of a file, of a gzip file once unpacked; counted only up to a little more than ``most``."""
    require_plain(path)
    if path.suffix.lower() != ".gz":
        return path.stat().st_size
    seen = 0
    try:
        with gzip.open(path) as stream:
            while seen <= most and (piece := stream.read(PIECE)):
                seen += len(piece)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path.name} is no complete gzip file ({error}): get or save it again") from error
    return seen


def require_text(path: Path) -> None:
    """Refuse a text file, compressed or not, that would not fit in memory once it is read."""
    there = int(physical_memory())
    size = unpacked_size(path, there // GROWTH)
    if size * GROWTH > there:
        raise InputError(
            f"{path.name} has {'more than ' if path.suffix == '.gz' else ''}{size / 1e9:,.1f} GB of text, which takes"
            f" about {GROWTH} times as much to read, and this machine has {there / 1e9:,.1f} GB: save it as .npy"
        )


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file, compressed or not, that are not blank, with their numbers from 1."""
    require_text(path)
    with readable(path, "text"), open_text(path) as stream:
        number = 0
        while line := stream.readline(LONGEST):
            number += 1
            if len(line) >= LONGEST:
                raise InputError(f"line {number} of {path.name} is longer than {LONGEST:,} bytes: shorten it")
            text = line.decode("utf-8", "replace").strip()
            if text:
                yield number, text


def open_text(path: Path) -> IO[bytes]:
    """A text file, unpacked where it is compressed."""
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]
