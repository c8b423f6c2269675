"""Scores in a PostgreSQL database that many machines share; needs the extra ``postgres``.

A connection that is lost is made again, with growing pauses and a line that says so; every piece of work is one
transaction and may be done twice, so nothing is lost and nothing counted twice.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, TypeVar

from trainless.core.errors import InputError
from trainless.core.processes import LOOK, Wait, fulfil
from trainless.core.text import message
from trainless.store.claims import LEASE_SECONDS, ClaimTable
from trainless.store.keys import StoreError
from trainless.store.schema import SCHEMA, Cursor, Database, Rows, migrate
from trainless.store.sql import SqlStore

try:
    import psycopg
except ImportError as missing:
    raise InputError(
        "a PostgreSQL store was given, which needs psycopg: pip install 'trainless[postgres]', or give a file"
    ) from missing

T = TypeVar("T")
OPEN_SECONDS = 30.0  # for which a server that does not answer is waited for when a store is opened
PATIENCE_SECONDS = 3600.0  # and later
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
LOCK = 0x74726C73  # "trls": one process at a time changes the schema
PASSING = ("08", "40", "57P", "53300", "55P03", "25006")  # states that pass: connection, deadlock, shutdown, …
HOPELESS = ("authentication failed", "does not exist", "no password", "pg_hba.conf", "permission denied", "invalid")
SETTINGS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "trainless",
}
log = logging.getLogger("trainless.store")
logging.getLogger("psycopg").setLevel(logging.ERROR)  # what it ignores on a lost connection is said by us, in one line


class PostgresStore(SqlStore):
    """Scores in the schema ``trainless`` of a PostgreSQL database.

    The URL is ``postgresql://user:password@host:port/database``; what is left out comes from libpq's variables. A claim
    of a machine that is gone is void after the lease, and a server that went away is waited for with patience, in
    seconds.
    """

    def __init__(self, url: str, *, lease: float = LEASE_SECONDS, patience: float = PATIENCE_SECONDS) -> None:
        database = PostgresDatabase(url, patience)
        super().__init__(database, ClaimTable(database, lease), lease=lease)


class PostgresCursor:
    """SQL on a cursor."""

    def __init__(self, cursor: psycopg.Cursor[tuple[Any, ...]]) -> None:
        self._cursor = cursor

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> Rows:
        self._cursor.execute(_worded(sql), parameters)
        return self._cursor.fetchall() if self._cursor.description else []

    def each(self, sql: str, parameters: Iterable[Sequence[Any]]) -> list[Rows]:
        asked = list(parameters)
        if not asked:
            return []
        self._cursor.executemany(_worded(sql), asked, returning=True)
        answers = []
        while True:
            answers.append(self._cursor.fetchall() if self._cursor.description else [])
            if not self._cursor.nextset():
                return answers

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        self._cursor.execute(_worded(sql), parameters)
        return self._cursor.rowcount


class PostgresDatabase(Database):
    """A connection that comes back; threads take turns."""

    def __init__(self, url: str, patience: float = PATIENCE_SECONDS) -> None:
        self.url, self.shown = url, masked(url)
        self._patience = min(OPEN_SECONDS, patience)
        self._turn = threading.RLock()
        self._closing = threading.Event()
        self._away = 0.0  # since when the server does not answer
        self._given_up = False  # it did not answer when we were interrupted, and nobody waits for it again
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        try:
            self._repeatedly(_prepared(self.shown))
        except InputError:
            self.close()
            raise
        self._patience = patience

    def read(self, work: Callable[[Cursor], T]) -> T:
        return self._repeatedly(work, nullcontext())

    def write(self, work: Callable[[Cursor], T], *, lasting: bool = True) -> T:
        return self._repeatedly(work)

    def compact(self) -> None:
        """Nothing to do: the server does it by itself."""

    def close(self) -> None:
        self._closing.set()
        if not self._turn.acquire(timeout=1.0):
            self._cut()  # another thread waits for an answer
            self._turn.acquire()
        try:
            self._drop()
        finally:
            self._turn.release()

    def _repeatedly(self, work: Callable[[Cursor], T], within: AbstractContextManager[None] | None = None) -> T:
        """One transaction, or within something else; again where the server went away or had to choose between two."""
        pause, wait = FIRST_PAUSE, Wait()
        try:
            while True:
                try:
                    return self._in_turn(work, within, wait)
                except psycopg.Error as error:
                    self._judge(error, wait.seconds)
                wait.pause(pause, self._closing)
                pause = min(2 * pause, LONGEST_PAUSE)
        except KeyboardInterrupt:
            self._given_up = bool(self._away) or wait.seconds > LOOK
            raise

    def _in_turn(self, work: Callable[[Cursor], T], within: AbstractContextManager[None] | None, wait: Wait) -> T:
        while not self._turn.acquire(timeout=LOOK):
            wait.look()
        try:
            if self._closing.is_set():
                raise StoreError(f"the store {self.shown} is closed: open it again")
            if self._given_up:
                raise StoreError(f"the store {self.shown} did not answer when it was interrupted: the run is kept here")
            return wait.result(lambda: self._once(work, within), self._cut)
        finally:
            self._turn.release()

    def _cut(self) -> None:
        """End the connection under whoever waits for its answer."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.closed:
            with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as there:
                there.shutdown(socket.SHUT_RDWR)

    def _once(self, work: Callable[[Cursor], T], within: AbstractContextManager[None] | None) -> T:
        try:
            connection = self._connected()
            with within or connection.transaction(), connection.cursor() as cursor:
                answer = work(PostgresCursor(cursor))
        except psycopg.Error:
            if self._connection is not None and self._connection.broken:
                self._drop()
            raise
        if self._away:
            log.warning("the store %s is back after %.0f s", self.shown, time.monotonic() - self._away)
            self._away = 0.0
        return answer

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._connection is None or self._connection.closed:
            settings = {name: value for name, value in SETTINGS.items() if f"{name}=" not in self.url}
            self._connection = psycopg.connect(self.url, autocommit=True, **settings)
            self._connection.execute("SET search_path TO trainless")
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _judge(self, error: psycopg.Error, waited: float) -> None:
        """Return where waiting helps; say in one line what is wrong where not."""
        said, state = message(error), error.sqlstate
        if state == "53100":
            raise StoreError(
                f"the disk of the store {self.shown} is full: free some space; everything so far is kept, and the"
                " same command goes on"
            ) from error
        lost = isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
        passing = state.startswith(PASSING) if state else lost and not any(words in said for words in HOPELESS)
        if not passing:
            raise StoreError(
                f"the store {self.shown} cannot be used ({said}): give another one with --store, or none"
            ) from error
        if waited > self._patience:
            raise StoreError(
                f"the store {self.shown} does not answer since {waited:.0f} s ({said}): everything so far is kept,"
                " and the same command goes on when it is back"
            ) from error
        if not self._away and (state is None or not state.startswith("40")):
            self._away = time.monotonic()
            log.warning("the store %s is away (%s): waiting for it, nothing is lost", self.shown, said)


def answers(url: str) -> bool:
    """Whether a server answers at once."""

    def ask() -> bool:
        with psycopg.connect(url, connect_timeout=2) as connection:
            return connection.execute("SELECT 1").fetchone() is not None

    done: Future[bool] = Future()
    threading.Thread(target=fulfil, args=(done, ask), daemon=True).start()
    try:
        return done.result(LOOK * 4)
    except (psycopg.Error, TimeoutError):
        return False


_PLAIN = r"(?:[^\s/?#@%:]|%[0-9A-Fa-f]{2})"  # signs that cannot be taken for a URL's own, and escaped ones
_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[\w.~%-]*)(?::\d*)?"
_URL = re.compile(
    rf"(?P<scheme>postgres(?:ql)?)://(?:(?P<user>{_PLAIN}*)(?::(?P<password>(?:{_PLAIN}|:)*))?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)(?P<path>/{_PLAIN}*)?(?:\?(?P<query>(?:{_PLAIN}|[/:?])*))?"
)


def masked(url: str) -> str:
    """A URL without its password and its parameters, for messages.

    What is no URL is refused here, before any library quotes it: nobody can tell which part of it is the password.

    Example:
        >>> masked("postgresql://me:secret@host:5432/scores?password=x")
        'postgresql://me@host:5432/scores'
    """
    found = _URL.fullmatch(url)
    if found is None:
        raise InputError(
            "the address of a store is not written as a URL (it is not shown, for it may hold a password); expected"
            " postgresql://user:password@host:port/database, signs such as / ? # @ % in the password as %2F %3F %23"
            " %40 %25"
        )
    user = "" if found["user"] is None else f"{found['user']}@"
    return f"{found['scheme']}://{user}{found['hosts']}{found['path'] or ''}"


def _worded(sql: str) -> str:
    """PostgreSQL's own words; the statements are all constants of ours."""
    return sql.replace("?", "%s").replace("now_seconds()", "EXTRACT(EPOCH FROM clock_timestamp())::float8")


def _prepared(shown: str) -> Callable[[Cursor], None]:
    """Make, recognise or bring up to date; several machines may come here at once."""

    def work(cursor: Cursor) -> None:
        if cursor.run("SELECT to_regclass('trainless.schema_version') IS NOT NULL")[0][0]:
            version = cursor.run("SELECT version FROM schema_version")[0][0]
            if version == SCHEMA:
                return
        cursor.run("SELECT pg_advisory_xact_lock(?)", (LOCK,))
        cursor.run("CREATE SCHEMA IF NOT EXISTS trainless")
        cursor.run("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)")
        versions = cursor.run("SELECT version FROM schema_version")
        if migrate(cursor, versions[0][0] if versions else 0, shown):
            cursor.run("DELETE FROM schema_version")
            cursor.run("INSERT INTO schema_version VALUES (?)", (SCHEMA,))

    return work
