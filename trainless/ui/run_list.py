"""The runs that are looked at: those of a folder, or those of a store; each is read on from where it was.

Folders are not trusted: no link is followed, and the names that come from outside are looked up among what was found
here and never made into paths.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from trainless.core.errors import InputError
from trainless.core.opening import changed_at, is_plain, read_bytes
from trainless.core.text import undamaged
from trainless.core.types import Json
from trainless.runs.folder import REPORT
from trainless.runs.reader import RunReader, is_run, reader_at, settings_in
from trainless.runs.reader_search import SearchReader, StoreSource
from trainless.store import SqlStore, scheme_of
from trainless.store.folder import FolderStore, holds_store

PATIENCE = 5.0  # seconds for which a server that went away is waited for
MOST, DEEPEST = 1000, 5
NO_RUNS = ".no-runs"  # a file that says that a folder, and what is below it, is not looked into


class RunList(ABC):
    """A set of runs; its title is what people call it, never with a password."""

    def __init__(self, title: str) -> None:
        self.title = title

    @abstractmethod
    def names(self) -> list[str]:
        """The runs that are there now."""

    @abstractmethod
    def opened(self, name: str) -> RunReader:
        """A reader of a run, at its beginning; raises InputError where there is no such run."""

    def about(self, name: str) -> Json:
        """A run's settings, as they were asked for, without reading what it did."""
        return self.opened(name).settings

    def skipped(self) -> list[str]:
        """Links to folders, which may be runs and are not looked into."""
        return []

    def stamp(self, name: str) -> float:
        """Changes where a name has come to stand for another run."""
        return 0.0

    def report(self, name: str) -> bytes | None:
        """The run's report, where there is one."""
        return None

    def report_written(self, name: str) -> float:
        """When it was written; 0 where there is none."""
        return 0.0

    def close(self) -> None:  # noqa: B027, a folder has nothing to close
        """Let go of a connection."""


class Listed(NamedTuple):
    """The runs in a folder and below it by their place in it (the folder itself is ``.``), and links to folders."""

    runs: dict[str, Path]
    links: list[str]


def listed_in(root: Path) -> Listed:
    """What is in a folder and below it: nothing hidden, no link, no folder that holds a file called ``.no-runs``."""
    if not root.is_dir():
        raise InputError(f"{root} is no folder: give a run, a folder of runs, or postgresql://user@host/database")
    top = root.resolve()
    found = Listed({}, [])
    _walk(top, "", 0, found)
    return found


def _walk(folder: Path, place: str, depth: int, found: Listed) -> None:
    """Look through a folder and what is below it, in the order of names."""
    try:
        with os.scandir(folder) as entries:
            here = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    files = {entry.name for entry in here if entry.is_file(follow_symlinks=False)}
    if NO_RUNS in files or len(found.runs) >= MOST:
        return
    if is_run(files):
        found.runs[place or "."] = folder
    folders = [entry for entry in here if not entry.name.startswith(".") and _is_folder(entry)]
    below = {entry.name: f"{place}/{_called(entry.name)}" if place else _called(entry.name) for entry in folders}
    found.links.extend(below[entry.name] for entry in folders[: MOST - len(found.links)] if entry.is_symlink())
    for entry in folders if depth < DEEPEST else ():
        if not entry.is_symlink():
            _walk(folder / entry.name, below[entry.name], depth + 1, found)


def _called(name: str) -> str:
    """A folder's name as text that can be sent, also where its bytes are none."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


class FolderRuns(RunList):
    """The runs in a folder, which may be a run itself, and below it."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root.resolve()))
        self._root = root
        self._found = listed_in(root)

    def names(self) -> list[str]:
        self._found = listed_in(self._root)
        return list(self._found.runs)

    def skipped(self) -> list[str]:
        return self._found.links

    def _at(self, name: str) -> Path:
        found = self._found.runs.get(name) or listed_in(self._root).runs.get(name)
        if found is None:
            raise InputError(f"there is no run {name!r} in {self._root}")
        return found

    def about(self, name: str) -> Json:
        return settings_in(self._at(name))

    def opened(self, name: str) -> RunReader:
        return reader_at(self._at(name))

    def stamp(self, name: str) -> float:
        try:
            return float(self._at(name).lstat().st_ino)
        except OSError:
            return 0.0

    def report(self, name: str) -> bytes | None:
        path = self._at(name) / REPORT
        return read_bytes(path) if is_plain(path) else None

    def report_written(self, name: str) -> float:
        return changed_at(self._at(name) / REPORT)


class StoreRuns(RunList):
    """The searches of a store; designs and sweeps keep themselves in folders."""

    def __init__(self, store: SqlStore) -> None:
        super().__init__(store.shown)
        self._store = store

    def names(self) -> list[str]:
        return [entry.name for entry in self._store.runs.all()]

    def opened(self, name: str) -> RunReader:
        return SearchReader(StoreSource(self._store, name))

    def close(self) -> None:
        self._store.close()


def runs_at(place: str) -> RunList:
    """The runs at a folder, which may be a shared store, or at ``postgresql://user@host/database``."""
    if not scheme_of(place):
        return StoreRuns(FolderStore(place)) if holds_store(place) else FolderRuns(Path(place))
    from trainless.store.postgres import PostgresStore

    return StoreRuns(PostgresStore(place, patience=PATIENCE))


class OpenRun(NamedTuple):
    """A run that is looked at: its reader, who may use it, and which run it was."""

    reader: RunReader
    turn: threading.Lock
    stamp: float


class OpenRuns:
    """Keeps readers, so that only what is new is read; one thread at a time reads a run."""

    def __init__(self, listed: RunList) -> None:
        self.listed = listed
        self._opened: dict[str, OpenRun] = {}
        self._turn = threading.Lock()

    @contextmanager
    def reading(self, name: str) -> Iterator[RunReader]:
        """A run's reader, up to date.

        Raises InputError whatever is wrong with the run, which is then read again from its beginning next time.
        """
        try:
            with undamaged(name, "look at its folder"):
                opened = self._entry(name)
                with opened.turn:
                    opened.reader.refresh()
                    yield opened.reader
        except Exception as error:
            with self._turn:
                self._opened.pop(name, None)
            if isinstance(error, OSError):
                raise InputError(f"{name} cannot be read ({error.strerror}): look at its folder") from error
            raise

    def is_open(self, name: str) -> bool:
        """Whether a run has been read already."""
        with self._turn:
            return name in self._opened

    def _entry(self, name: str) -> OpenRun:
        with self._turn:
            held, stamp = self._opened.get(name), self.listed.stamp(name)
            if held is None or held.stamp != stamp:
                self._opened.pop(name, None)
                held = OpenRun(self.listed.opened(name), threading.Lock(), stamp)
                self._opened[name] = held
            return held
