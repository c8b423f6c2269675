"""A disk that loses power: every write of a program is recorded, and the files at any moment are made again from it.

Written after SQLite's own crash tests. What was synced is there; of what was not, any part may be: nothing, all, some
writes and not others, half of one, zeros where a file has grown, new names or old ones.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

CALLS = (
    "openat,open,creat,write,pwrite64,writev,pwritev,ftruncate,truncate,lseek,fsync,fdatasync,rename,renameat,renameat2,"
    "unlink,unlinkat,mkdir,mkdirat,link,linkat,fallocate,copy_file_range,sendfile"
)
SECTOR = 512
_LINE = re.compile(r"^(\d+) +(\w+)\((.*)\) = (-?\d+)(?:<([^>]*)>)?")
_FIRST = re.compile(r"^(\d+) +(.*) <unfinished \.\.\.>$")
_REST = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$")
_PLACE = re.compile(r"^(?:AT_FDCWD|\d+)<([^>]*)>$")


@dataclass(frozen=True)
class Event:
    """Something that was done to a file: made, written, cut, synced, renamed or removed; or noted as promised."""

    what: str
    path: str
    data: bytes = b""
    offset: int = 0
    other: str = ""


def plain(text: str) -> bytes:
    """What strace writes as hexadecimal."""
    return bytes.fromhex(text.replace("\\x", ""))


def recorded(kind: str, folder: Path, notes: Path) -> list[Event]:
    """Run a program and record all that it does to its folder, and what it notes."""
    if (strace := shutil.which("strace")) is None:
        pytest.skip("no strace: install it (apt-get install strace) to run this test")
    trace = notes.with_suffix(".trace")
    command = [
        strace,
        "-f",
        "-y",
        "-xx",
        "-s",
        "99999999",
        "-qq",
        "--seccomp-bpf",
        "-o",
        str(trace),
        "-e",
        f"trace={CALLS}",
    ]
    program = [sys.executable, "-m", "tests.crash.programs", kind, str(folder), str(notes)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([*command, *program], capture_output=True, text=True, check=False, env=environment)
    if "ptrace" in done.stderr and "not permitted" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    with trace.open() as lines:
        return list(events(lines, str(folder), str(notes)))


def events(lines: Iterator[str], folder: str, notes: str) -> Iterator[Event]:
    """The events of a trace below a folder, and the notes."""
    begun: dict[str, str] = {}
    offsets: dict[str, int] = {}
    for line in lines:
        if found := _FIRST.match(line):
            begun[found[1]] = found[2]
            continue
        if found := _REST.match(line):
            line = f"{found[1]} {begun.pop(found[1])}{found[2]}"
        if (parsed := _LINE.match(line)) and int(parsed[4]) >= 0:
            yield from _event(parsed[2], parsed[3].split(", "), parsed, offsets, (folder, notes))


def _event(
    call: str, given: list[str], parsed: re.Match[str], offsets: dict[str, int], within: tuple[str, str]
) -> Iterator[Event]:
    """The event of one call."""
    folder, notes = within
    opened = plain(parsed[5]).decode() if parsed[5] else ""

    def at(place: int) -> str:
        """The path of a descriptor, or of a name in a folder's."""
        known = _PLACE.match(given[place])
        if known is None:
            return plain(given[place].strip('"')).decode()
        return plain(known[1]).decode()

    def named(place: int) -> str:
        return os.path.join(at(place), plain(given[place + 1].strip('"')).decode())

    if call in ("openat", "open", "creat") and opened.startswith(folder):
        flags = given[2] if call == "openat" else given[1] if call == "open" else "O_CREAT|O_TRUNC"
        offsets[opened] = 0
        if "O_CREAT" in flags:
            yield Event("make", opened)
        if "O_TRUNC" in flags:
            yield Event("cut", opened)
        if "O_APPEND" in flags:
            offsets[opened] = -1
    elif call in ("write", "pwrite64") and at(0) == notes:
        yield Event("promise", notes, plain(given[1].strip('"')))
    elif call.startswith(("rename", "unlink", "mkdir")):
        if call in ("rename", "unlink", "mkdir"):
            path, other = at(0), at(1) if call == "rename" else ""
        else:
            path, other = named(0), named(2) if call.startswith("rename") else ""
        if path.startswith(folder):
            yield Event(call.removesuffix("2").removesuffix("at"), path, other=other)
    elif not at(0).startswith(folder):
        return
    elif call == "write":
        data, path = plain(given[1].strip('"')), at(0)
        yield Event("write", path, data, offsets.get(path, 0))
        if offsets.get(path, 0) >= 0:
            offsets[path] = offsets.get(path, 0) + len(data)
    elif call == "pwrite64":
        yield Event("write", at(0), plain(given[1].strip('"')), int(given[3]))
    elif call == "lseek":
        if offsets.get(at(0), 0) >= 0:
            offsets[at(0)] = int(parsed[4])
    elif call == "ftruncate":
        yield Event("cut", at(0), offset=int(given[1]))
    elif call in ("fsync", "fdatasync"):
        yield Event("sync", at(0))
    else:
        raise AssertionError(f"the disk does not know {call}({', '.join(given)})")


@dataclass
class Content:
    """A file: as the program sees it, as it is on the disk, and what was done since it was synced."""

    seen: bytearray = field(default_factory=bytearray)
    safe: bytes = b""
    since: list[Event] = field(default_factory=list)


def written(content: bytearray, event: Event, upto: int | None = None) -> None:
    """Write a piece of a file, or its beginning."""
    if event.what == "cut":
        content[event.offset :] = b"\0" * max(0, event.offset - len(content))
        return
    data = event.data if upto is None else event.data[:upto]
    at = len(content) if event.offset < 0 else event.offset
    content.extend(b"\0" * (at - len(content)))
    content[at : at + len(data)] = data


class Disk:
    """The files below a folder, as they are seen and as they are safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self.names: dict[str, Content | None] = {}  # None is a folder
        self.safe: dict[str, Content | None] = {}
        self._renamed: dict[str, list[tuple[str, Content | None, bool]]] = {}  # by folder: what its names have become

    def take(self, event: Event) -> None:
        """Do what the program did."""
        path = event.path
        if event.what == "make":
            if path not in self.names:
                self._name(path, Content())
        elif event.what == "mkdir":
            self._name(path, None)
        elif event.what == "rename":
            moved = self.names[path]
            self._name(event.other, moved)
            self._name(path, None, gone=True)
        elif event.what == "unlink":
            self._name(path, None, gone=True)
        elif event.what == "sync":
            self._sync(path)
        elif event.what in ("write", "cut"):
            file = self.names.get(path)
            if file is not None:
                piece = event if event.offset >= 0 else Event("write", path, event.data, len(file.seen))
                written(file.seen, piece)
                file.since.append(piece)

    def _name(self, path: str, content: Content | None, *, gone: bool = False) -> None:
        if gone:
            self.names.pop(path, None)
        else:
            self.names[path] = content
        self._renamed.setdefault(os.path.dirname(path), []).append((path, content, gone))

    def _sync(self, path: str) -> None:
        file = self.names.get(path)
        if file is not None:
            file.safe, file.since = bytes(file.seen), []
        for name, content, gone in self._renamed.pop(path, []):
            if gone:
                self.safe.pop(name, None)
            else:
                self.safe[name] = content

    def killed(self) -> dict[str, bytes | None]:
        """All that the system was given: what is there after the program was killed."""
        return {path: None if file is None else bytes(file.seen) for path, file in self.names.items()}

    def lost(self) -> dict[str, bytes | None]:
        """What was synced and nothing else: what is there at the worst after a loss of power."""
        return {path: None if file is None else file.safe for path, file in self.safe.items()}

    def torn(self, rng: random.Random) -> dict[str, bytes | None]:
        """What was synced, and any part of the rest."""
        names = dict(self.safe)
        for changes in self._renamed.values():  # a folder's changes come to the disk in their order
            for name, content, gone in changes[: rng.randrange(len(changes) + 1)]:
                if gone:
                    names.pop(name, None)
                else:
                    names[name] = content
        return {path: None if file is None else self._half(file, rng) for path, file in names.items()}

    def _half(self, file: Content, rng: random.Random) -> bytes:
        content = bytearray(file.safe)
        for piece in file.since:
            how = rng.random()
            if how < 0.4:
                written(content, piece)
            elif how < 0.6 and piece.what == "write":
                written(content, piece, SECTOR * rng.randrange(1 + len(piece.data) // SECTOR))
            elif how < 0.8 and piece.what == "write":  # the file has grown, and what stands there is not written yet
                content.extend(b"\0" * (piece.offset + len(piece.data) - len(content)))
        return bytes(content)

    def restore(self, image: dict[str, bytes | None], target: Path) -> None:
        """Make the files of an image in another folder."""
        target.mkdir()
        for path in sorted(image):
            place, data = target / os.path.relpath(path, self._folder), image[path]
            if path.endswith("-shm") or not self._reachable(path, image):
                continue  # what SQLite maps into memory is made anew; names in a folder that is lost are lost
            if data is None:
                place.mkdir(exist_ok=True)
            else:
                place.write_bytes(data)

    def _reachable(self, path: str, image: dict[str, bytes | None]) -> bool:
        above = os.path.dirname(path)
        while above != self._folder and len(above) > len(self._folder):
            if above not in image:
                return False
            above = os.path.dirname(above)
        return True
