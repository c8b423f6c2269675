"""The store: every score that was ever computed, found again by what it depends on.

SQLite today; whatever has ``find`` and ``keep`` can take its place.
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import astuple, dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol

from trainless.core.errors import InputError

SCHEMA = 1
APPLICATION = 0x74726C73  # "trls", so that another program's database is not mistaken for ours
WAIT_SECONDS = 30.0

_TABLE = """
CREATE TABLE IF NOT EXISTS scores (
    space TEXT NOT NULL, arch TEXT NOT NULL, proxy TEXT NOT NULL, version INTEGER NOT NULL,
    setting TEXT NOT NULL, task TEXT NOT NULL, seed INTEGER NOT NULL,
    value REAL, status TEXT NOT NULL, ms REAL, fbe REAL,
    PRIMARY KEY (space, arch, proxy, version, setting, task, seed)
) WITHOUT ROWID
"""
_FIND = """
SELECT value, status, ms, fbe FROM scores
WHERE space = ? AND arch = ? AND proxy = ? AND version = ? AND setting = ? AND task = ? AND seed = ?
"""
_KEEP = "INSERT INTO scores VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"


class Key(NamedTuple):
    """Everything that a score depends on.

    Args:
        space: Name and parameters of the space; ``"network"`` for a network of the user's.
        arch: Its options; the fingerprint of a network of the user's.
        proxy: The proxy's name.
        version: The proxy's version.
        setting: Weights, inputs, batch size and network size, written out.
        task: Fingerprint of the data.
        seed: The seed.
    """

    space: str
    arch: str
    proxy: str
    version: int
    setting: str
    task: str
    seed: int


@dataclass(frozen=True)
class Result:
    """What came out: a value, or NaN and the reason, and what it cost."""

    value: float
    status: str
    ms: float
    fbe: float


class Store(Protocol):
    """Finds and keeps results; the first result of a key stays."""

    def find(self, keys: Iterable[Key]) -> dict[Key, Result]:
        """The results that are there, by key."""
        ...

    def keep(self, results: Iterable[tuple[Key, Result]]) -> None:
        """Write results down for good, all or none."""
        ...


class SqliteStore:
    """Scores in one SQLite file that several processes may use at once.

    Example:
        >>> store = SqliteStore(":memory:")
        >>> key = Key("nb201(channels=16, cells=5)", "3,0,0,1,0,0", "snip", 1, "own", "digits", 0)
        >>> store.keep([(key, Result(2.5, "ok", 10.0, 1.2))])
        >>> store.find([key])[key].value
        2.5
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path
        with self._explained():
            if str(path) != ":memory:":
                Path(path).expanduser().parent.mkdir(parents=True, exist_ok=True)
                path = Path(path).expanduser()
            self._connection = sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)
        try:
            with self._explained():
                self._prepare()
        except InputError:
            self._connection.close()
            raise

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def find(self, keys: Iterable[Key]) -> dict[Key, Result]:
        """The results that are there, by key."""
        found = {}
        with self._explained():
            for key in keys:
                row = self._connection.execute(_FIND, key).fetchone()
                if row is not None:
                    found[key] = Result(_number(row[0]), row[1], _number(row[2]), _number(row[3]))
        return found

    def keep(self, results: Iterable[tuple[Key, Result]]) -> None:
        """Write results down for good, all or none; a key that is there keeps its first result."""
        rows = [(*key, *(_column(part) for part in astuple(result))) for key, result in results]
        with self._explained(), self._transaction():
            self._connection.executemany(_KEEP, rows)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _prepare(self) -> None:
        """Make or recognise the schema; several processes may come here at once."""
        self._connection.execute(f"PRAGMA busy_timeout = {int(1000 * WAIT_SECONDS)}")
        with self._transaction():
            self._recognise()
            if self._pragma("user_version") < SCHEMA:
                self._connection.execute(_TABLE)
                self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
                self._connection.execute(f"PRAGMA user_version = {SCHEMA}")
        self._write_ahead()
        self._connection.execute("PRAGMA synchronous = NORMAL")

    def _recognise(self) -> None:
        application, version = self._pragma("application_id"), self._pragma("user_version")
        if application != APPLICATION and (application or version or self._tables()):
            raise InputError(f"{self.path} is another program's database: give another file with --store")
        if version > SCHEMA:
            raise InputError(
                f"{self.path} was written by a newer trainless (schema {version}, this one knows {SCHEMA}):"
                " update trainless or give another file with --store"
            )

    def _write_ahead(self) -> None:
        """Let readers and a writer work at once; where others hold the file now, whoever comes next does it."""
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise

    def _tables(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what is wrong with the file in one line."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise InputError(
                f"the store {self.path} cannot be used ({error}): give another file with --store, or none"
            ) from error


def default_path() -> Path:
    """``$TRAINLESS_STORE``, else ``scores.sqlite`` in the user's cache directory."""
    named = os.environ.get("TRAINLESS_STORE")
    if named:
        return Path(named)
    import platformdirs

    return platformdirs.user_cache_path("trainless") / "scores.sqlite"


def open_store(text: str = "") -> AbstractContextManager[SqliteStore | None]:
    """A store by its path as given by hand: empty for the default one, ``none`` for none at all."""
    return nullcontext(None) if text == "none" else SqliteStore(text or default_path())


def _number(column: float | None) -> float:
    return math.nan if column is None else column


def _column(part: float | str) -> float | str | None:
    return None if isinstance(part, float) and math.isnan(part) else part
