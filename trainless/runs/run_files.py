"""Files of a run: their names, how they are read safely, and whether somebody works in their folder right now.

Folders are not trusted: no link is followed, and only plain files are opened.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import closing
from pathlib import Path

from trainless.core.errors import InputError
from trainless.runs.folder import LOCK

SETTINGS, SESSIONS, MERGED = "settings.json", "runs.json", "scores.npz"
PLAN, SUMMARY, PREDICTIONS, RESULT = "plan.json", "summary.json", "predictions.npz", "result.json"
SEARCHES, MEMBERS = "searches", "members"
REPORT, SHOWN = "report.html", "shown.npz"
_LOCKS = Path("/proc/locks")


def is_plain(path: Path) -> bool:
    """Whether this is a file of its own: no link, no pipe, no device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def read_bytes(path: Path, start: int = 0, most: int = -1) -> bytes:
    """Read a plain file from a place on; a link that was put there in the meantime is not followed."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise InputError(f"{path} is no plain file: give another folder")
        file.seek(start)
        return file.read(most)


def changed_at(path: Path) -> float:
    """When a plain file was written last, in seconds since 1970; 0 where there is none."""
    return path.lstat().st_mtime if is_plain(path) else 0.0


def folders_in(folder: Path, file: str = "") -> list[str]:
    """Names of the folders in a folder, those that hold a plain file of a name; links are left alone."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    try:
        with os.scandir(folder) as entries:
            found = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
    return [name for name in found if not file or is_plain(folder / name / file)]


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
    with closing(os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
