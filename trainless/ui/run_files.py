"""Which folders are runs, which of their files may be read, and whether somebody works in them right now.

Folders are not trusted: no link is followed, only plain files are opened, and the names that come from outside are
looked up among what was found here and never made into paths.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from trainless.core.errors import InputError
from trainless.runs.folder import CONFIGURATION

SETTINGS, SESSIONS, MERGED = "settings.json", "runs.json", "scores.npz"
LOCK = "lock"
MOST, DEEPEST = 1000, 5
_LOCKS = Path("/proc/locks")


def is_plain(path: Path) -> bool:
    """Whether this is a file of its own: no link, no pipe, no device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def read_bytes(path: Path, start: int = 0, most: int = -1) -> bytes:
    """What a plain file holds from a place on; a link that was put there in the meantime is not followed."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise InputError(f"{path} is no plain file: give another folder")
        file.seek(start)
        return file.read(most)


def changed_at(path: Path) -> float:
    """When a plain file was written last, in seconds since 1970; 0 where there is none."""
    return path.lstat().st_mtime if is_plain(path) else 0.0


def is_sweep(folder: Path) -> bool:
    """Whether a folder is that of ``bench sweep``."""
    return is_plain(folder / SETTINGS) and not is_plain(folder / CONFIGURATION)


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a search, a design or a sweep."""
    return is_plain(folder / CONFIGURATION) or is_sweep(folder)


def runs_in(root: Path) -> dict[str, Path]:
    """The runs in a folder and below it, by their place in it; the folder itself is ``.``.

    Raises:
        InputError: There is no such folder.
    """
    if not root.is_dir():
        raise InputError(f"{root} is no folder: give a run, a folder of runs, or postgresql://user@host/database")
    top = root.resolve()
    found: dict[str, Path] = {}
    for folder in _walk(top, 0):
        if is_run(folder):
            found[folder.relative_to(top).as_posix()] = folder
        if len(found) == MOST:
            break
    return found


def links_in(root: Path) -> list[str]:
    """The links to folders in a folder and below it, by their place in it; they are not followed."""
    top, found = root.resolve(), list[str]()
    for folder in _walk(top, 0):
        try:
            with os.scandir(folder) as entries:
                names = sorted(e.name for e in entries if e.is_symlink() and e.is_dir() and not e.name.startswith("."))
        except OSError:
            continue
        found += [(folder / name).relative_to(top).as_posix() for name in names]
        if len(found) >= MOST:
            break
    return found[:MOST]


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    """A folder and what is below it, each folder in the order of names; no links, nothing hidden."""
    yield folder
    if depth == DEEPEST:
        return
    try:
        with os.scandir(folder) as entries:
            below = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith("."))
    except OSError:
        return
    for name in below:
        yield from _walk(folder / name, depth + 1)


def is_held(folder: Path) -> bool:
    """Whether a process of this machine works in a run folder; asking does not get in its way.

    Linux lists all locks, by device and inode. Elsewhere, and where a file system goes by another device there, the
    lock is tried for a moment, shared, which a run that begins in that very moment would take for another process.
    """
    path = folder / LOCK
    if not is_plain(path):
        return False
    about = path.lstat()
    if _LOCKS.exists():
        places = [place for line in _LOCKS.read_text().splitlines() for place in line.split() if place.count(":") == 2]
        if f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}" in places:
            return True
        if not any(place.endswith(f":{about.st_ino}") for place in places):
            return False
    return _is_locked(path)


def _is_locked(path: Path) -> bool:
    with closing(os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
