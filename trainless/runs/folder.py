"""The run folder: the frozen configuration, the store, the trajectory and the leaderboard.

``run.json`` is written when a run starts and compared when the same command comes again; only budgets may differ, so a
run can be extended. A folder is locked before anything is written there. Files are replaced in one go or appended to
line by line; nothing outside the folder is written. Folders are not trusted: no link is followed, and only plain files
are opened.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from trainless.core.errors import InputError, TrainlessError
from trainless.core.files import read_json, write_json
from trainless.core.text import one_line
from trainless.core.types import Json

FORMAT = 1
CONFIGURATION, STORE, TRAJECTORY, LEADERBOARD = "run.json", "scores.sqlite", "trajectory.jsonl", "leaderboard.csv"
ENDING, LOCK = "ending.json", "lock"
FILES = (CONFIGURATION, STORE, TRAJECTORY, LEADERBOARD, ENDING, LOCK)  # of a search
SETTINGS, SESSIONS, MERGED = "settings.json", "runs.json", "scores.npz"  # of a sweep
PLAN, SUMMARY, PREDICTIONS, RESULT = "plan.json", "summary.json", "predictions.npz", "result.json"  # of a design
SEARCHES, MEMBERS, REPORT, SHOWN = "searches", "members", "report.html", "shown.npz"
_LOCKS = Path("/proc/locks")
Word = Literal["finished", "budget", "interrupted", "failed"]
WORDS: tuple[Word, ...] = ("finished", "budget", "interrupted", "failed")


@dataclass(frozen=True)
class Ending:
    """The end of a session.

    ``finished`` where the searcher had nothing more to ask, ``budget`` where it was used up, ``interrupted`` by Ctrl-C,
    ``failed`` by a mistake, a full disk and the like, with a reason.
    """

    end: Word
    reason: str = ""

    @property
    def concluded(self) -> bool:
        return self.end in ("finished", "budget")

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def ending_by(error: BaseException) -> Ending:
    """The ending of a session that an exception ended."""
    if isinstance(error, KeyboardInterrupt):
        return Ending("interrupted")
    return Ending("failed", one_line(error))


def read_ending(text: str) -> Ending | None:
    """Read the ending that :meth:`Ending.to_json` wrote; None where there is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    word = next((word for word in WORDS if isinstance(found, dict) and found.get("end") == word), None)
    return None if word is None else Ending(word, str(found.get("reason", ""))[:400])


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


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a folder, which is made where there is none, to this process; the lock goes with the process."""
    try:
        _require_own(folder)
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        raise InputError(f"{folder} cannot be made ({error.strerror}): give another folder with --out") from error
    with os.fdopen(file, "rb", buffering=0):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another process is working in {folder}: wait for it, or give another --out") from None
        yield


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


def _require_own(folder: Path) -> None:
    """Refuse a folder of something else, and one whose files are links, through which others would be written."""
    for name in FILES:
        if (folder / name).is_symlink():
            raise InputError(f"{folder / name} is a link, not a file of a run: remove it or give another --out")
    if not (folder / CONFIGURATION).exists() and folder.is_dir():
        strange = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith((*FILES, ".")))
        if strange:
            raise InputError(f"{folder} holds {strange[0]!r} and no run: give an empty or new folder with --out")


def open_folder(path: Path, asked: Json, budget: Json) -> Json:
    """Start a run in a locked folder, or resume the one that is there; returns its configuration.

    A value of None in what is asked takes what the run that is there has; budgets replace those that are there.
    """
    present = read_configuration(path) if (path / CONFIGURATION).exists() else None
    settings = dict(asked)
    for name, value in asked.items() if present is not None else ():
        there = present.get(name)
        settings[name] = there if value is None else value
        if value is not None and json.loads(json.dumps(value)) != there:
            raise InputError(
                f"{path} holds a run with {name}={there!r}, and {name}={value!r} was asked for: give the same settings"
                " to resume it, or another folder with --out"
            )
    configuration = {"format": FORMAT, "environment": environment(), **(present or {}), **settings, "budget": budget}
    if configuration != present:
        write_json(path / CONFIGURATION, configuration, indent=2)
    return configuration


def read_configuration(path: Path) -> Json:
    """Read the ``run.json`` of a folder."""
    file = path / CONFIGURATION
    if not is_plain(file):
        raise InputError(f"{path} is no run: it has no {CONFIGURATION}")
    return read_json(file, check=lambda found: found.get("format") == FORMAT)


def environment() -> Json:
    """The versions that a value may depend on."""
    import numpy
    import torch

    from trainless import __version__

    versions = {"trainless": __version__, "python": platform.python_version(), "torch": str(torch.__version__)}
    return {**versions, "numpy": numpy.__version__, "machine": platform.machine()}


@contextmanager
def forgotten_unless_begun(folder: Path, fresh: bool) -> Iterator[None]:
    """Forget the configuration of a new run that a mistake ends before its first step, so that another can begin."""
    try:
        yield
    except TrainlessError:
        trajectory = folder / TRAJECTORY
        if fresh and not (trajectory.exists() and trajectory.stat().st_size > 0):
            (folder / CONFIGURATION).unlink(missing_ok=True)
        raise
