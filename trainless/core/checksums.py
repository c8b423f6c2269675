"""Whether a file of the data directory is what it should be: known checksums, or that of its first reading."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from trainless.core.errors import InputError
from trainless.core.files import write_atomic
from trainless.core.opening import without_links

SUMS, FIRST = "SHA256SUMS", "SHA256SUMS.first"


def verify(file: Path, folder: Path) -> None:
    """Raise InputError where a file differs from its line in the folder's ``SHA256SUMS``, or from its first reading.

    The checksum of a file without a line there is kept in ``SHA256SUMS.first`` when it is first read, where that can be
    written: nobody has published it, but a file that has changed since then is told.
    """
    name, found = file.relative_to(folder).as_posix(), digest(file)
    for sums, what in ((SUMS, "the file is damaged or another version"), (FIRST, "that is what was first read here")):
        expected = checksums(folder, sums).get(name)
        if expected == found:
            return
        if expected is not None:
            raise InputError(
                f"{file} has the SHA-256 checksum {found[:12]}…, but {sums} expects {expected[:12]}…: {what};"
                f" fetch it again, or correct its line in {folder / sums} if it was changed on purpose"
            )
    with suppress(OSError, InputError):
        record(file, folder, FIRST)


def checksums(folder: Path, sums: str = SUMS) -> dict[str, str]:
    """Relative path to checksum, from the folder's file of checksums; empty where it has none."""
    path = folder / sums
    if not path.is_file():
        return {}
    lines = (line.split(maxsplit=1) for line in path.read_text().splitlines() if line.strip())
    return {path.strip().lstrip("*").removeprefix("./"): value for value, path in lines}


def record(file: Path, folder: Path, sums: str = SUMS) -> None:
    """Write a file's line into the folder's file of checksums."""
    known = checksums(folder, sums) | {file.relative_to(folder).as_posix(): digest(file)}
    text = "".join(f"{value}  ./{path}\n" for path, value in sorted(known.items()))
    write_atomic(without_links(folder / sums), text)


def digest(file: Path) -> str:
    """The SHA-256 checksum of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def unofficial(file: Path, md5s: Collection[str]) -> str:
    """A sentence where a file is none of the official ones, by their MD5 checksums; empty where it is one."""
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    return "" if found in md5s else f"{file.name} is not the official file: its MD5 checksum is {found}"
