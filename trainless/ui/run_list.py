"""The runs that are looked at: those of a folder, or those of a store; each is read on from where it was."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from trainless.core.errors import InputError, TrainlessError
from trainless.designs.reporting import REPORT
from trainless.runs.folder import CONFIGURATION
from trainless.store import SqlStore
from trainless.ui.designs import DesignReader
from trainless.ui.progress import Reader
from trainless.ui.run_files import changed_at, is_plain, is_sweep, links_in, read_bytes, runs_in
from trainless.ui.searches import SearchReader
from trainless.ui.sources import FolderSource, StoreSource
from trainless.ui.sweeps import SweepReader

PATIENCE = 5.0  # seconds for which a server that went away is waited for


class Shelf(Protocol):
    """A set of runs."""

    @property
    def title(self) -> str:
        """What people call it."""
        ...

    def names(self) -> list[str]:
        """The runs that are there now."""
        ...

    def skipped(self) -> list[str]:
        """What may be a run and is not looked into."""
        ...

    def opened(self, name: str) -> Reader:
        """A reader of a run, at its beginning.

        Raises:
            InputError: There is no such run.
        """
        ...

    def stamp(self, name: str) -> float:
        """Changes where a name has come to stand for another run."""
        ...

    def report(self, name: str) -> bytes | None:
        """The run's report, where there is one."""
        ...

    def report_written(self, name: str) -> float:
        """When it was written; 0 where there is none."""
        ...

    def close(self) -> None:
        """Let go of a connection."""
        ...


def reader_at(folder: Path) -> Reader:
    """A reader of a folder of ``search``, ``bench sweep`` or ``design``.

    Raises:
        InputError: It is none of them.
    """
    if is_sweep(folder):
        return SweepReader(folder)
    if not is_plain(folder / CONFIGURATION):
        raise InputError(f"{folder} is no run: it has no {CONFIGURATION}")
    source = FolderSource(folder)
    configuration = source.configuration()
    if configuration.get("verb") == "design":
        return DesignReader(folder)
    if "searcher" not in configuration:
        raise InputError(f"{folder} is no folder of trainless search, design or bench sweep: give one of those")
    return SearchReader(source)


class FolderShelf:
    """The runs in a folder and below it.

    Args:
        root: The folder; it may be a run itself.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._found = runs_in(root)

    @property
    def title(self) -> str:
        """The folder."""
        return str(self._root.resolve())

    def names(self) -> list[str]:
        """Looked for again, so that new ones appear."""
        self._found = runs_in(self._root)
        return list(self._found)

    def skipped(self) -> list[str]:
        """Links to folders."""
        return links_in(self._root)

    def _at(self, name: str) -> Path:
        """Looked up and never made into a path."""
        found = self._found.get(name) or runs_in(self._root).get(name)
        if found is None:
            raise InputError(f"there is no run {name!r} in {self._root}")
        return found

    def opened(self, name: str) -> Reader:
        """By what is in its folder."""
        return reader_at(self._at(name))

    def stamp(self, name: str) -> float:
        """The folder's inode."""
        try:
            return float(self._at(name).lstat().st_ino)
        except OSError:
            return 0.0

    def report(self, name: str) -> bytes | None:
        """``report.html``, where it is a file of its own."""
        path = self._at(name) / REPORT
        return read_bytes(path) if is_plain(path) else None

    def report_written(self, name: str) -> float:
        """When it was written; 0 where there is none."""
        return changed_at(self._at(name) / REPORT)

    def close(self) -> None:
        """Nothing is open."""


class StoreShelf:
    """The runs of a store.

    Args:
        store: The store.
    """

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    @property
    def title(self) -> str:
        """The store, without a password."""
        return self._store.shown

    def names(self) -> list[str]:
        """As the store has them now."""
        return [entry.name for entry in self._store.runs.all()]

    def skipped(self) -> list[str]:
        """A store has no links."""
        return []

    def opened(self, name: str) -> Reader:
        """A search; designs and sweeps keep themselves in folders."""
        return SearchReader(StoreSource(self._store, name))

    def stamp(self, name: str) -> float:
        """Names are not used again."""
        return 0.0

    def report(self, name: str) -> bytes | None:
        """A store has none."""
        return None

    def report_written(self, name: str) -> float:
        """A store has none."""
        return 0.0

    def close(self) -> None:
        """Let go of the connection."""
        self._store.close()


def shelf_at(place: str) -> Shelf:
    """The runs at a folder, or at ``postgresql://user@host/database``."""
    if not place.startswith(("postgresql://", "postgres://")):
        return FolderShelf(Path(place))
    from trainless.store.postgres import PostgresStore

    return StoreShelf(PostgresStore(place, patience=PATIENCE))


class Opened(NamedTuple):
    """A run that is looked at: its reader, who may use it, and which run it was."""

    reader: Reader
    turn: threading.Lock
    stamp: float


class Desk:
    """Keeps readers, so that only what is new is read; one thread at a time reads a run.

    Args:
        shelf: The runs.
    """

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self._opened: dict[str, Opened] = {}
        self._turn = threading.Lock()

    @contextmanager
    def reading(self, name: str) -> Iterator[Reader]:
        """A run's reader, up to date; what is wrong with it is forgotten, so that it is read again next time."""
        opened = self._entry(name)
        with opened.turn:
            try:
                opened.reader.refresh()
                yield opened.reader
            except (TrainlessError, OSError) as error:
                with self._turn:
                    self._opened.pop(name, None)
                if isinstance(error, OSError):
                    raise InputError(f"{name} cannot be read ({error.strerror}): look at its folder") from error
                raise

    def _entry(self, name: str) -> Opened:
        with self._turn:
            held, stamp = self._opened.get(name), self.shelf.stamp(name)
            if held is None or held.stamp != stamp:
                self._opened.pop(name, None)
                held = Opened(self.shelf.opened(name), threading.Lock(), stamp)
                self._opened[name] = held
            return held
