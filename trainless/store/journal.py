"""Journals: files that only grow, one for each writer, of lines that carry their own checksum.

A line is whole or it does not count: a writer that died in the middle of one leaves its beginning, which every reader
leaves out. Nobody but its writer appends to a journal, so no lock is needed, and a reader goes on where it was.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainless.core.types import Json
from trainless.store.keys import StoreError

LONGEST_LINE = 2**26  # bytes
PORTION = 2**20
_AGAIN = (0.05, 0.2, 0.75)  # seconds after which a damaged line is read again: another machine may see its parts late
_DIGITS = 16
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def line_of(entry: Json) -> bytes:
    r"""Write an entry as a line.

    Example:
        >>> line_of({"at": 1})
        b'7221b82d73adfb1c {"at":1}\n'
    """
    text = json.dumps(entry, separators=(",", ":"), allow_nan=False).encode()
    return b"%b %b\n" % (_digest(text), text)


def entry_of(line: bytes) -> Json | None:
    r"""Read the entry of a line without its end; None where it is damaged.

    Example:
        >>> entry_of(line_of({"at": 1})[:-1]), entry_of(line_of({"at": 1})[:-2])
        ({'at': 1}, None)
    """
    text = line[_DIGITS + 1 :]
    if line[: _DIGITS + 1] != _digest(text) + b" ":
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_DIGITS // 2).hexdigest().encode()


def cell(value: Any) -> Any:
    """A value of a database as strict JSON; bytes are the digest of a file."""
    if isinstance(value, bytes):
        return {"file": value.hex()}
    return {"float": repr(value)} if isinstance(value, float) and not math.isfinite(value) else value


def uncell(value: Any) -> Any:
    """The value that :func:`cell` wrote."""
    if not isinstance(value, dict):
        return value
    return bytes.fromhex(value["file"]) if "file" in value else float(value["float"])


@contextmanager
def explained(shown: object) -> Iterator[None]:
    """Say in one line what is wrong with a folder."""
    try:
        yield
    except (OSError, sqlite3.Error, OverflowError) as error:
        said = getattr(error, "strerror", None) or error
        if getattr(error, "errno", None) in _FULL:
            raise StoreError(
                f"the store {shown} cannot be written ({said}): free some space on its disk; everything so far is"
                " kept, and the same command goes on"
            ) from error
        raise StoreError(f"the store {shown} cannot be used ({said}): give another one with --store") from error


def open_plain(path: Path) -> int:
    """Open a plain file for reading; no link is followed. Opening asks a file server anew, which looking does not."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise StoreError(f"{path} is no plain file: give another store")


def entries(path: Path, start: int = 0) -> Iterator[tuple[int, Json]]:
    """The whole lines of a journal from a place on, each with the place behind it.

    Raises:
        StoreError: A line that is whole is damaged, and stays so.
    """
    pauses = iter(_AGAIN)
    while True:
        damaged = True
        for place, found in _entries(path, start):
            if found is None:
                break
            yield place, found
            start = place
        else:
            damaged = False
        if not damaged:
            return
        pause = next(pauses, None)
        if pause is None:
            raise StoreError(f"{path} is damaged at byte {start}: give another store, or restore this file")
        time.sleep(pause)


def _entries(path: Path, start: int) -> Iterator[tuple[int, Json | None]]:
    handle = open_plain(path)
    try:
        rest, place = b"", start
        while portion := os.pread(handle, PORTION, place + len(rest)):
            *lines, rest = (rest + portion).split(b"\n")
            for line in lines:
                place += len(line) + 1
                yield place, entry_of(line)
            if len(rest) > LONGEST_LINE:
                yield place, None
    finally:
        os.close(handle)


class FolderJournal:
    """The journal of this process: lines appended and on the disk before anything is said of them."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self.path, self.size, self.pid = path, 0, os.getpid()
        self._file = os.open(path, flags, 0o666)
        sync_folder(path.parent)

    def append(self, entry: Json) -> None:
        """Add a line for good, or leave the journal as it was."""
        line = line_of(entry)
        if len(line) > LONGEST_LINE:
            raise StoreError(f"an entry of {len(line) / 1e6:.0f} MB was given; a store takes up to 67 MB")
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, self.size)  # where this fails too, the journal is given up by whoever called
            raise
        self.size += len(line)

    def close(self) -> None:
        os.close(self._file)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder survive a loss of power, too."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
