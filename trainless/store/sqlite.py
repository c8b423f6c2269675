"""Scores in one SQLite file that the processes of one machine share: many readers, one writer at a time."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from trainless.core.processes import Wait
from trainless.store.claims import LEASE_SECONDS, ClaimTable
from trainless.store.keys import StoreError
from trainless.store.schema import SCHEMA, Cursor, Database, Rows, migrate
from trainless.store.sql import SqlStore

T = TypeVar("T")
APPLICATION = 0x74726C73  # "trls", so that another program's database is not mistaken for ours
BUSY_SECONDS = 0.25  # for which SQLite waits by itself, when nothing interrupts it
SAY_SECONDS = 10.0
WAIT_SECONDS = 600.0  # for which we wait, with a line that says so
IO_ERROR = 10  # the family of SQLITE_IOERR
MEMORY = ":memory:"
JOURNALS = ("-wal", "-shm", "-journal")  # what SQLite keeps beside a database
log = logging.getLogger("trainless.store")


class SqliteStore(SqlStore):
    """Scores in one SQLite file that several processes may use at once.

    Example:
        >>> from trainless.store import Key, Result
        >>> store = SqliteStore(":memory:")
        >>> key = Key("nb201(channels=16, cells=5)", "3,0,0,1,0,0", "snip", 1, "own", "digits", 0)
        >>> store.keep([(key, Result(2.5, "ok", 10.0, 1.2))])
        >>> store.find([key])[key].value
        2.5
    """

    def __init__(self, path: str | Path, *, lease: float = LEASE_SECONDS) -> None:
        self.path = path
        database = SqliteDatabase(path)
        super().__init__(database, ClaimTable(database, lease), lease=lease)


def require_own_journals(path: Path) -> None:
    """Refuse a database whose journals, which SQLite would write over, are files of somebody else's too."""
    for ending in JOURNALS:
        beside = Path(f"{os.path.realpath(path)}{ending}")
        with suppress(FileNotFoundError):
            about = beside.lstat()
            if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
                raise StoreError(
                    f"{beside} is a link, no plain file or has a second name elsewhere, and SQLite would write to it:"
                    " copy the store without it, or give another"
                )


def copy_database(source: Path, target: Path) -> None:
    """Copy a database as it is at a moment, also while others write to it."""
    require_own_journals(source)
    try:
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)
    except (sqlite3.Error, UnicodeError) as error:
        raise StoreError(f"the store {source} cannot be copied ({error}): give another run to fork from") from error


class SqliteCursor:
    """SQL on a connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> Rows:
        return self._connection.execute(sql.replace("/* by key */", "WITHOUT ROWID"), parameters).fetchall()

    def each(self, sql: str, parameters: Iterable[Sequence[Any]]) -> list[Rows]:
        return [self._connection.execute(sql, each).fetchall() for each in parameters]

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        return self._connection.execute(sql, parameters).rowcount


class SqliteDatabase(Database):
    """A file, or memory; whoever finds it busy waits, and threads take turns."""

    def __init__(self, path: str | Path) -> None:
        self.path = path if str(path) == MEMORY else Path(path).expanduser()
        self.url = self.shown = str(self.path)
        self._turn = threading.RLock()
        self._lasting = True  # whether commits are on the disk when they return
        with self._explained():
            if isinstance(self.path, Path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                require_own_journals(self.path)
            self._connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def read(self, work: Callable[[Cursor], T]) -> T:
        return self._patiently(lambda: self._within("BEGIN", work, self._lasting))

    def write(self, work: Callable[[Cursor], T], *, lasting: bool = True) -> T:
        return self._patiently(lambda: self._within("BEGIN IMMEDIATE", work, lasting))

    def compact(self) -> None:
        self._patiently(lambda: self._connection.execute("VACUUM"))

    def close(self) -> None:
        with self._turn:
            self._connection.close()

    def _within(self, begin: str, work: Callable[[Cursor], T], lasting: bool = True) -> T:
        if lasting != self._lasting:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if lasting else 'NORMAL'}")
            self._lasting = lasting
        self._connection.execute(begin)
        try:
            answer = work(SqliteCursor(self._connection))
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # a full disk has ended it already
                self._connection.execute("ROLLBACK")
            raise
        return answer

    def _patiently(self, work: Callable[[], T]) -> T:
        """Try until nobody else is writing; nobody is told of locks."""
        wait, said = Wait(), 0.0
        while True:
            try:
                with self._turn, self._explained():
                    return work()
            except _BusyError:
                wait.look()
                waited = wait.seconds
                if waited > WAIT_SECONDS:
                    raise StoreError(
                        f"another process has been writing to {self.path} for {waited:.0f} s: wait for it, or give"
                        " another file with --store; everything so far is kept"
                    ) from None
                if waited - said >= SAY_SECONDS:
                    said = waited
                    log.warning("another process is writing to %s: waiting for it since %.0f s", self.path, waited)

    def _prepare(self) -> None:
        """Make, recognise or bring up to date; several processes may come here at once."""
        self._connection.create_function("now_seconds", 0, time.time)
        self._patiently(lambda: self._connection.execute("PRAGMA synchronous = FULL"))
        self._patiently(lambda: self._connection.execute("PRAGMA trusted_schema = OFF"))
        self.write(self._migrated)
        self._patiently(self._write_ahead)

    def _migrated(self, cursor: Cursor) -> None:
        application, version = (cursor.run(f"PRAGMA {name}")[0][0] for name in ("application_id", "user_version"))
        tables = cursor.run("SELECT count(*) FROM sqlite_master")[0][0]
        if application != APPLICATION and (application or version or tables):
            raise StoreError(f"{self.path} is another program's database: give another file")
        if migrate(cursor, version, str(self.path)):
            cursor.run(f"PRAGMA application_id = {APPLICATION}")
            cursor.run(f"PRAGMA user_version = {SCHEMA}")

    def _write_ahead(self) -> None:
        """Let readers and a writer work at once; where others hold the file now, whoever comes next does it."""
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what is wrong with the file in one line."""
        try:
            yield
        except (sqlite3.Error, OSError, OverflowError, UnicodeError) as error:  # it may quote what is no text
            code = getattr(error, "sqlite_errorcode", None) or 0
            if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise _BusyError from error
            if code & 0xFF in (sqlite3.SQLITE_FULL, IO_ERROR):
                raise StoreError(
                    f"the store {self.path} cannot be written ({error}): free some space on its disk; everything so"
                    " far is kept, and the same command goes on"
                ) from error
            raise StoreError(f"the store {self.path} cannot be used ({error}): give another file") from error


class _BusyError(Exception):
    """Somebody else is writing."""
