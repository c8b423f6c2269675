"""The schema of a store, the same in SQLite and PostgreSQL, and how an older one becomes the newest.

A context is a key without its arch. Results are keyed by context and arch, so that two million of them stay small; the
view ``scores`` joins both again for whoever looks in by hand. SQL is written with ``?`` for parameters and
``now_seconds()`` for the database's own clock; each database puts its own words there. A table marked ``/* by key */``
is its own index where there is such a thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from trainless.store.keys import LONGEST, Context, StoreError, brief

T = TypeVar("T")
Rows = list[tuple[Any, ...]]


class Cursor(Protocol):
    """Runs SQL within one transaction."""

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> Rows: ...

    def each(self, sql: str, parameters: Iterable[Sequence[Any]]) -> list[Rows]:
        """The rows that a statement gives for each of many parameters."""

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """The number of rows that a statement changed."""


class Database(Protocol):
    """A database behind a store. It waits where waiting helps, and says in one line what is wrong where not.

    ``url`` opens the same database again; ``shown`` is the same for people, without a password.
    """

    url: str
    shown: str

    def read(self, work: Callable[[Cursor], T]) -> T:
        """Look something up; done again from the beginning where the connection was lost."""

    def write(self, work: Callable[[Cursor], T], *, lasting: bool = True) -> T:
        """Change something, all or nothing; done again from the beginning where the connection was lost.

        What is ``lasting`` survives a loss of power once this returns.
        """

    def rows(self, sql: str, *parameters: Any) -> Rows:
        return self.read(lambda cursor: cursor.run(sql, parameters))

    def change(self, sql: str, *parameters: Any) -> int:
        return self.write(lambda cursor: cursor.change(sql, parameters))

    def compact(self) -> None:
        """Give space that is no longer used back to the disk."""

    def close(self) -> None: ...


def _first(cursor: Cursor) -> None:
    cursor.run(
        "CREATE TABLE scores ("
        " space TEXT NOT NULL, arch TEXT NOT NULL, proxy TEXT NOT NULL, version BIGINT NOT NULL,"
        " setting TEXT NOT NULL, task TEXT NOT NULL, seed BIGINT NOT NULL,"
        " value DOUBLE PRECISION, status TEXT NOT NULL, ms DOUBLE PRECISION, fbe DOUBLE PRECISION,"
        " PRIMARY KEY (space, arch, proxy, version, setting, task, seed))"
    )


def _second(cursor: Cursor) -> None:
    """Contexts apart from results; claims; runs."""
    cursor.run("ALTER TABLE scores RENAME TO scores_first")
    for statement in _TABLES:
        cursor.run(statement)
    found = cursor.run("SELECT DISTINCT space, proxy, version, setting, task, seed FROM scores_first")
    contexts = [Context(*row) for row in found]
    cursor.each(ADD_CONTEXT, [(context.number, *context) for context in contexts])
    long = cursor.run("SELECT DISTINCT arch FROM scores_first WHERE length(arch) > ?", (LONGEST,))
    cursor.each("UPDATE scores_first SET arch = ? WHERE arch = ?", [(brief(arch), arch) for (arch,) in long])
    cursor.run(
        "INSERT INTO results SELECT c.id, f.arch, f.value, f.status, f.ms, f.fbe, now_seconds()"
        " FROM scores_first f JOIN contexts c ON c.space = f.space AND c.proxy = f.proxy AND c.version = f.version"
        " AND c.setting = f.setting AND c.task = f.task AND c.seed = f.seed ORDER BY c.id, f.arch"
    )
    cursor.run("DROP TABLE scores_first")
    cursor.run(
        "CREATE VIEW scores AS SELECT space, arch, proxy, version, setting, task, seed, value, status, ms, fbe, kept"
        " FROM results JOIN contexts ON contexts.id = results.context"
    )


def _third(cursor: Cursor) -> None:
    """Add how a run's last session ended, and files that go with a run."""
    cursor.run("ALTER TABLE runs ADD COLUMN ending TEXT NOT NULL DEFAULT ''")
    cursor.run(
        "CREATE TABLE files (run TEXT NOT NULL, name TEXT NOT NULL, content BYTEA NOT NULL, PRIMARY KEY (run, name))"
    )


def _fourth(cursor: Cursor) -> None:
    """Add what is to be known of how a score came about."""
    cursor.run("ALTER TABLE results ADD COLUMN notes TEXT NOT NULL DEFAULT ''")
    cursor.run("DROP VIEW IF EXISTS scores")
    cursor.run(
        "CREATE VIEW scores AS SELECT space, arch, proxy, version, setting, task, seed, value, status, ms, fbe, notes,"
        " kept FROM results JOIN contexts ON contexts.id = results.context"
    )


_TABLES = (
    "CREATE TABLE contexts (id BIGINT PRIMARY KEY, space TEXT NOT NULL, proxy TEXT NOT NULL, version BIGINT NOT NULL,"
    " setting TEXT NOT NULL, task TEXT NOT NULL, seed BIGINT NOT NULL)",
    "CREATE TABLE results (context BIGINT NOT NULL, arch TEXT NOT NULL, value DOUBLE PRECISION, status TEXT NOT NULL,"
    " ms DOUBLE PRECISION, fbe DOUBLE PRECISION, kept DOUBLE PRECISION NOT NULL,"
    " PRIMARY KEY (context, arch)) /* by key */",
    "CREATE TABLE claims (context BIGINT NOT NULL, arch TEXT NOT NULL, owner TEXT NOT NULL,"
    " until DOUBLE PRECISION NOT NULL, PRIMARY KEY (context, arch))",
    "CREATE INDEX claims_by_owner ON claims (owner)",
    "CREATE TABLE runs (name TEXT PRIMARY KEY, configuration TEXT NOT NULL, leaderboard TEXT NOT NULL,"
    " changed DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE steps (run TEXT NOT NULL, number BIGINT NOT NULL, line TEXT NOT NULL, PRIMARY KEY (run, number))",
)
ADD_CONTEXT = "INSERT INTO contexts VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
MIGRATIONS: tuple[Callable[[Cursor], None], ...] = (_first, _second, _third, _fourth)
SCHEMA = len(MIGRATIONS)


def migrate(cursor: Cursor, version: int, shown: str) -> bool:
    """Bring a schema from a version, 0 for an empty store, to the newest; whether anything was to be done."""
    require_known(version, shown)
    for step in MIGRATIONS[version:]:
        step(cursor)
    return version < SCHEMA


def require_known(version: int, shown: str) -> None:
    """Refuse what a newer version has written."""
    if version > SCHEMA:
        raise StoreError(
            f"{shown} was written by a newer trainless (schema {version}, this one knows {SCHEMA}):"
            " update trainless or give another store with --store"
        )
