"""The run folder: the frozen configuration, the store, the trajectory and the leaderboard.

``run.json`` is written when a run starts and compared when the same command comes again; only budgets may differ, so a
run can be extended. A folder is locked before anything is written there. Files are replaced in one go or appended to
line by line; nothing outside the folder is written. Folders are not trusted: no link is followed, and only plain files
are opened (:mod:`trainless.core.opening`).

A run may live in a store as well (:class:`Shared`), so that any machine sees it live and can resume it. The store has
the configuration, every line of the trajectory, the leaderboard and how the last session ended; the folder is a copy of
it that is made where there is none. A line is in the store before it is in the folder, so a folder is never ahead of
the store unless it went on without it, and then the store is brought up to it.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from trainless.core.errors import InputError, TrainlessError
from trainless.core.files import read_json, write_atomic, write_json
from trainless.core.opening import (
    GROWTH,
    is_plain,
    is_there,
    make_folder,
    open_file,
    read_bytes,
    read_text,
    remove,
    status_of,
    whole_lines,
)
from trainless.core.text import one_line, undamaged
from trainless.core.types import Json
from trainless.store import SqlStore
from trainless.store.sqlite import JOURNALS

FORMAT = 1
CONFIGURATION, STORE, TRAJECTORY, LEADERBOARD = "run.json", "scores.sqlite", "trajectory.jsonl", "leaderboard.csv"
ENDING, LOCK = "ending.json", "lock"
SHARED_STORE = "scores"  # in the place of the file, where workers are on several machines
FILES = (CONFIGURATION, STORE, TRAJECTORY, LEADERBOARD, ENDING, LOCK)  # of a search
SETTINGS, SESSIONS, MERGED = "settings.json", "runs.json", "scores.npz"  # of a sweep, beside its journals
PLAN, SUMMARY, PREDICTIONS, RESULT = "plan.json", "summary.json", "predictions.npz", "result.json"  # of a design
SEARCHES, MEMBERS, REPORT, SHOWN = "searches", "members", "report.html", "shown.npz"
BESIDE = tuple(f"{STORE}{ending}" for ending in JOURNALS)
DESIGNED = (PLAN, SUMMARY, PREDICTIONS, RESULT, SEARCHES, MEMBERS, REPORT, SHOWN)
OURS = (*FILES, *BESIDE, SHARED_STORE, SETTINGS, SESSIONS, MERGED, *DESIGNED)  # what may be no link
OWN = ("budget", "environment")  # what may differ between the places where a run goes on
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


@contextmanager
def locked(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Keep a folder, which is made where there is none, to this process; the lock goes with the process.

    A folder that was made here is removed where a mistake ends the run before anything was written. ``shared`` is one
    that may hold other things too.
    """
    fresh = not is_there(folder)
    try:
        _require_own(folder, shared=shared)
        make_folder(folder)
        file = open_file(folder / LOCK, "lock")
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{folder} is a file; expected a folder for the run: give another --out") from None
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", "") or error
        raise InputError(f"{str(folder)[:200]} cannot be made ({said}): give another folder with --out") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another process is working in {folder}: wait for it, or give another --out") from None
        except OSError as error:
            raise InputError(
                f"{folder} is on a file system without locks ({error.strerror}): give --out on another disk, and"
                " --store shared/ on this one, so that any machine can resume the run"
            ) from error
        if (about := status_of(folder / LOCK)) is None or about.st_ino != os.fstat(file.fileno()).st_ino:
            raise InputError(f"another process has just given up {folder}: give the same command again")
        try:
            yield
        except BaseException:
            if fresh and os.listdir(folder) == [LOCK]:
                remove(folder / LOCK)
                folder.rmdir()
            raise


def own_store(folder: Path, several_machines: bool) -> str:
    """The store of a run that names none: a file, or a folder where several machines write to it."""
    shared = folder / SHARED_STORE
    return f"{shared}/" if several_machines or shared.is_dir() else str(folder / STORE)


def is_held(folder: Path) -> bool:
    """Whether a process of this machine works in a run folder; asking does not get in its way.

    Linux lists all locks, by device and inode. Elsewhere, and where a file system goes by another device there, the
    lock is tried for a moment, shared, which a run that begins in that very moment would take for another process.
    """
    about = status_of(folder / LOCK)
    if about is None:
        return False
    if _LOCKS.exists():
        places = [place for line in _LOCKS.read_text().splitlines() for place in line.split() if place.count(":") == 2]
        if f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}" in places:
            return True
        if not any(place.endswith(f":{about.st_ino}") for place in places):
            return False
    with open_file(folder / LOCK) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _require_own(folder: Path, *, shared: bool) -> None:
    """Refuse a folder of something else, and one whose files are links, through which others would be written."""
    for name in OURS:
        path = folder / name
        if path.is_symlink():
            raise InputError(f"{path} is a link, not a file of a run: remove it or give another --out")
        if name in FILES and (about := status_of(path)) is not None and about.st_nlink > 1:
            raise InputError(f"{path} has a second name elsewhere (a hard link): copy the folder or give another --out")
    if not shared and not is_there(folder / CONFIGURATION) and folder.is_dir():
        strange = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith((*FILES, ".")))
        if strange:
            raise InputError(f"{folder} holds {strange[0]!r} and no run: give an empty or new folder with --out")


def open_folder(path: Path, asked: Json, budget: Json) -> Json:
    """Start a run in a locked folder, or resume the one that is there; returns its configuration.

    A value of None in what is asked takes what the run that is there has; budgets replace those that are there.
    """
    present = read_configuration(path) if is_there(path / CONFIGURATION) else None
    settings, held = dict(asked), present or asked
    there, wanted = (each.get("verb", "search") for each in (held, asked))
    if there != wanted:
        raise InputError(
            f"{path} holds a run of trainless {there}, and this is trainless {wanted}: give a new folder with --out"
        )
    for name, value in asked.items():
        there = held.get(name)
        settings[name] = there if value is None else value
        if value is not None and present and json.loads(json.dumps(value)) != there:
            raise InputError(
                f"{path} holds a run {_differing(name, there, value)} was asked for: give the same settings to resume"
                " it, or another folder with --out"
            )
    configuration = {"format": FORMAT, "environment": environment(), **(present or {}), **settings, "budget": budget}
    if configuration != present:
        write_json(path / CONFIGURATION, configuration, indent=2)
    return configuration


def _differing(name: str, there: Any, asked: Any) -> str:
    """The first of nested settings that differs, there and as it was asked for.

    Example:
        >>> _differing("seed", 3, 4)
        'with seed 3, and seed 4'
        >>> _differing("positive", "ill", "")
        "with positive 'ill', and positive left out"
        >>> _differing("task", {"name": "a", "fingerprint": 1}, {"name": "a", "fingerprint": 2})
        "on other data called 'a', or on the same read in another way, than what"
    """
    if not (isinstance(there, Mapping) and isinstance(asked, Mapping)):
        first, second = ("left out" if value in ("", None) else repr(value) for value in (there, asked))
        return f"with {name} {first}, and {name} {second}"
    key = next(key for key in {**there, **asked} if there.get(key) != asked.get(key))
    if key == "fingerprint":
        return f"on other data called {asked['name']!r}, or on the same read in another way, than what"
    return _differing(f"{name} {key}", there.get(key), asked.get(key))


def read_configuration(path: Path) -> Json:
    """Read the ``run.json`` of a folder."""
    file = path / CONFIGURATION
    if not is_plain(file):
        remedy = "give the folder that --out named (trainless ui . shows all runs below this one)"
        if not path.is_dir():
            raise InputError(f"{path} is {'a file' if path.exists() else 'not there'}; expected a run folder: {remedy}")
        raise InputError(f"{path} is no run: it has no {CONFIGURATION}; {remedy}")
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
        steps = status_of(folder / TRAJECTORY)
        if fresh and not (steps and steps.st_size) and not is_there(folder / PLAN):
            remove(folder / CONFIGURATION)
        raise


class Shared:
    """A run in a store, under its name there, and in its folder here."""

    def __init__(self, store: SqlStore, name: str, path: Path) -> None:
        self._runs, self._shown, self._name, self._path = store.runs, store.shown, name, path
        self._lines = 0

    def held(self) -> AbstractContextManager[None]:
        """Keep the run to this process, among all machines."""
        return self._runs.hold(self._name)

    def fetch(self) -> None:
        """Make the folder's configuration where the store knows the run and the folder does not."""
        entry = self._runs.find(self._name)
        if entry is None:
            return
        file = self._path / CONFIGURATION
        if not is_there(file):
            write_atomic(file, entry.configuration)
        elif settings_of(read_configuration(self._path)) != settings_of(self._read(entry.configuration)):
            raise InputError(
                f"{self._path} holds another run than {self._name!r} in {self._shown}: give another folder with --out"
            )

    @contextmanager
    def refusing(self, fresh: bool) -> Iterator[None]:
        """Say so where the run that is asked for is not the store's."""
        try:
            yield
        except InputError as error:
            if not fresh or not is_there(self._path / CONFIGURATION):
                raise
            raise InputError(
                f"{self._shown} has another run called {self._name!r} ({error}). A run in a store is called by the last"
                " part of --out: give another"
            ) from error

    def settle(self) -> None:
        """Write the configuration down, and bring the trajectories of store and folder to the longer of both."""
        self._runs.save(self._name, read_text(self._path / CONFIGURATION))
        file = self._path / TRAJECTORY
        text = whole_lines(read_bytes(file, growth=GROWTH)) if is_there(file) else b""
        here, there = text.decode("utf-8", "replace").splitlines(), list(self._runs.lines(self._name))
        both = min(len(here), len(there))
        if here[:both] != there[:both]:
            raise InputError(
                f"the run in {self._path} and the run {self._name!r} in {self._shown} went on apart from each other:"
                f" remove {file} to resume the store's"
            )
        if len(there) > both:
            write_atomic(file, "\n".join(there) + "\n")
        elif len(here) > both:
            self._runs.append(self._name, both + 1, here[both:])
        self._lines = max(len(here), len(there))

    def copy(self) -> None:
        """Bring the folder to where the store is, and change nothing in the store."""
        entry = self._runs.find(self._name)
        if entry is None:
            raise InputError(f"{self._shown} has no run called {self._name!r}: trainless store list names its runs")
        self.fetch()
        write_atomic(self._path / TRAJECTORY, "".join(f"{line}\n" for line in self._runs.lines(self._name)))
        remove(self._path / ENDING)
        if entry.ending:
            write_atomic(self._path / ENDING, entry.ending)

    def write(self, text: str) -> None:
        lines = text.splitlines()
        self._runs.append(self._name, self._lines + 1, lines)
        self._lines += len(lines)

    def publish(self, leaderboard: str, ending: Ending) -> None:
        self._runs.publish(self._name, leaderboard, ending.to_json())

    def _read(self, configuration: str) -> Json:
        with undamaged(f"the run {self._name!r} in {self._shown}", "give another --out"):
            found = json.loads(configuration)
        return found if isinstance(found, dict) else {}


def settings_of(configuration: Json) -> Json:
    """The part of a configuration that has to be the same wherever a run is resumed."""
    return {name: value for name, value in configuration.items() if name not in OWN}
