"""Scores in a folder of a file system that many machines share; no server, no lock of the file system.

Every process appends what it changes to a journal of its own, one line for each transaction, and holds what all
journals say in a database in its memory, which it brings up to date before anything is looked up or changed. So the SQL
of all stores serves here, too. Where two have written the same at the same moment, everybody takes the same one of
both: the first result, the last state of a run. What is removed is removed by a *base*: a file with all that is left,
and with how far it has read each journal; the base with the highest number counts, and exactly one process can make the
next.

    store.json      which kind of folder this is
    journals/       one file for each writer, and base-000001, …
    claims/         who computes what (claim_files)
    files/          contents of files that go with a run, by their digest

It relies on what a network file system promises: a file is made, linked or renamed by one process alone, and whoever
opens a file sees what was on the disk before.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from trainless.core.errors import InputError
from trainless.core.opening import below
from trainless.core.types import Json
from trainless.store import claims
from trainless.store.claim_files import ClaimFiles
from trainless.store.claims import LEASE_SECONDS
from trainless.store.journal import FolderJournal, cell, entries, explained, line_of, open_plain, sync_folder, uncell
from trainless.store.keys import StoreError
from trainless.store.runs import RUN
from trainless.store.schema import SCHEMA, Cursor, Database, Rows, migrate, require_known
from trainless.store.sql import SqlStore
from trainless.store.sqlite import SqliteCursor

T = TypeVar("T")
MARK, JOURNALS, CLAIMS, FILES = "store.json", "journals", "claims", "files"
KIND = "scores of trainless"
BASE = "base-"
MANY_JOURNALS = 200  # of processes that have ended, beyond which the next writer makes a base of them
GROUP = 1000  # rows of a line of a base
KEYS = {"contexts": 1, "results": 2, "runs": 1, "steps": 2, "files": 2}  # columns that tell rows apart
LAST = ("runs", "files")  # of these tables the last row counts, of the others the first
_SAME_RUN = (
    "new.name = old.name AND new.configuration = old.configuration"
    " AND new.leaderboard = old.leaderboard AND new.ending = old.ending"
)
_CLAIMS = (
    "CREATE TEMP VIEW claims AS SELECT {run} AS context, name AS arch, holder(name) AS owner, 1e300 AS until"
    " FROM main.runs WHERE holder(name) <> ''"
)
_TOUCH = "UPDATE runs SET changed = max(changed, ?) WHERE name = ?"


class FolderStore(SqlStore):
    """Scores in a shared folder; a claim of a machine that is gone is void after the lease.

    Example:
        >>> import tempfile
        >>> from trainless.store import Key, Result
        >>> key = Key("nb201(channels=16, cells=5)", "3,0,0,1,0,0", "snip", 1, "own", "digits", 0)
        >>> with tempfile.TemporaryDirectory() as folder, FolderStore(folder) as one, FolderStore(folder) as other:
        ...     one.keep([(key, Result(2.5, "ok", 10.0, 1.2))])
        ...     other.find([key])[key].value
        2.5
    """

    def __init__(self, path: str | Path, *, lease: float = LEASE_SECONDS) -> None:
        database = FolderDatabase(path, lease)
        super().__init__(database, database.claims, lease=lease)


class FolderCursor:
    """SQL on the database in memory, which has the digests of files in the place of what is in them."""

    def __init__(self, cursor: Cursor, files: Path) -> None:
        self._cursor, self._files = cursor, files

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> Rows:
        return self._read(self._cursor.run(sql, self._kept(parameters)))

    def each(self, sql: str, parameters: Iterable[Sequence[Any]]) -> list[Rows]:
        return [self._read(rows) for rows in self._cursor.each(sql, map(self._kept, parameters))]

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        return self._cursor.change(sql, self._kept(parameters))

    def _kept(self, parameters: Sequence[Any]) -> Sequence[Any]:
        return [self._keep(each) if isinstance(each, bytes) else each for each in parameters]

    def _keep(self, content: bytes) -> bytes:
        digest = hashlib.blake2b(content, digest_size=32).digest()
        path = self._files / digest.hex()
        if not path.exists():
            beside = self._files / f".{secrets.token_hex(12)}"
            with beside.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            beside.rename(path)
            sync_folder(self._files)
        return digest

    def _read(self, rows: Rows) -> Rows:
        return [tuple(self._content(each) if isinstance(each, bytes) else each for each in row) for row in rows]

    def _content(self, digest: bytes) -> bytes:
        path = self._files / digest.hex()
        with os.fdopen(open_plain(path), "rb") as file:
            content = file.read()
        if hashlib.blake2b(content, digest_size=32).digest() != digest:
            raise StoreError(f"{path} is damaged: give another store, or restore this file")
        return content


class FolderDatabase(Database):
    """What all journals of a folder say, in memory, and the journal of this process; threads take turns."""

    def __init__(self, path: str | Path, lease: float = LEASE_SECONDS) -> None:
        self.path = Path(path).expanduser().absolute()
        self.url, self.shown = f"{self.path}/", str(path)
        self._turn = threading.RLock()
        self._journal: FolderJournal | None = None
        self._changes: list[list[Any]] | None = None  # of the transaction that is under way
        self._removes = self._closed = False
        with explained(self.shown):
            _make(self.path, self.shown)
        self.claims = ClaimFiles(self.path / CLAIMS, lease, self.refresh, self.close)
        self._connection = self._emptied()
        try:
            self.read(lambda cursor: None)
        except InputError:
            self.close()
            raise

    def read(self, work: Callable[[Cursor], T]) -> T:
        with self._turn, explained(self.shown):
            self._bring_up_to_date()
            return work(self._cursor)

    def write(self, work: Callable[[Cursor], T], *, lasting: bool = True) -> T:
        with self._turn, explained(self.shown):
            while True:
                self._bring_up_to_date()
                if self._journal is None and len(self._ended - self._over) > MANY_JOURNALS:
                    self._make_base()
                answer, done = self._once(work)
                if done:
                    return answer

    def refresh(self) -> None:
        """Ask the file server for everything that was written before now, whatever this machine remembers."""
        with self._turn, explained(self.shown):
            self._bring_up_to_date(anew=True)

    def compact(self) -> None:
        """Nothing to do: what is removed is not in the new base."""

    def close(self) -> None:
        with self._turn:
            self._closed = True
            self._leave_journal(whole=True)
            self._connection.close()

    @property
    def _cursor(self) -> Cursor:
        return FolderCursor(SqliteCursor(self._connection), self.path / FILES)

    def _once(self, work: Callable[[Cursor], T]) -> tuple[T, bool]:
        """One transaction in memory, and in the journal before it ends; False where it has to be done again."""
        self._changes, self._removes = [], False
        self._connection.execute("BEGIN")
        try:
            answer = work(self._cursor)
            done = self._make_base() if self._removes else self._append(self._changes)
            self._connection.execute("COMMIT" if done else "ROLLBACK")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        finally:
            self._changes = None
        return answer, done

    def _append(self, changes: list[list[Any]]) -> bool:
        if not changes:
            return True
        if self._journal is None or self._journal.pid != os.getpid():
            self._journal = self._begun()
        self._at += 1
        try:
            self._journal.append({"at": self._at, "rows": changes})
        except OSError:
            self._leave_journal(whole=False)
            raise
        self._read_to[self._journal.path.name] = self._journal.size
        stamp = (self._at, self._journal.path.name)
        self._newest.update({_key(change): stamp for change in changes if change[0] in LAST})
        return True

    def _begun(self) -> FolderJournal:
        journal = FolderJournal(self.path / JOURNALS / secrets.token_hex(12))
        journal.append({"schema": SCHEMA, "at": self._at, "owner": claims.owner()})
        return journal

    def _leave_journal(self, *, whole: bool) -> None:
        journal, self._journal = self._journal, None
        if journal is not None and journal.pid == os.getpid():
            with suppress(OSError):
                if whole:
                    journal.append({"at": self._at, "ended": True})
            journal.close()

    def _emptied(self) -> sqlite3.Connection:
        """A database with nothing in it that tells of every change."""
        self._generation, self._at = 0, 0
        self._read_to: dict[str, int] = {}
        self._ended: set[str] = set()  # journals that will not grow any more, read to their ends
        self._over: set[str] = set()  # those of them that were in the base already
        self._owners: dict[str, str] = {}
        self._newest: dict[tuple[Any, ...], tuple[int, str]] = {}
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.create_function("now_seconds", 0, time.time)
        connection.create_function("holder", 1, lambda name: self.claims.holder((RUN, name)))
        connection.create_function("changed_row", -1, self._note)
        migrate(SqliteCursor(connection), 0, self.shown)
        connection.execute(_CLAIMS.format(run=RUN))
        self._columns = {
            table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]  # names of ours
            for table in KEYS
        }
        for table, columns in self._columns.items():
            new = f"SELECT changed_row('{table}', {', '.join(f'new.{name}' for name in columns)})"
            alike = f"WHEN NOT ({_SAME_RUN})" if table == "runs" else ""
            connection.execute(f"CREATE TEMP TRIGGER added_{table} AFTER INSERT ON main.{table} BEGIN {new}; END")
            connection.execute(
                f"CREATE TEMP TRIGGER changed_{table} AFTER UPDATE ON main.{table} {alike} BEGIN {new}; END"
            )
            connection.execute(
                f"CREATE TEMP TRIGGER removed_{table} AFTER DELETE ON main.{table}"
                " BEGIN SELECT changed_row('removed'); END"
            )
        connection.execute(
            f"CREATE TEMP TRIGGER touched AFTER UPDATE ON main.runs WHEN {_SAME_RUN}"
            " BEGIN SELECT changed_row('touched', new.changed, new.name); END"
        )
        return connection

    def _note(self, kind: str, *cells: Any) -> None:
        if self._changes is None:
            return
        if kind == "removed":
            self._removes = True
        else:
            self._changes.append([kind, *map(cell, cells)])

    def _bring_up_to_date(self, *, anew: bool = False) -> None:
        """Take in what others have written; from the beginning where there is a new base."""
        if self._closed:
            raise StoreError(f"the store {self.shown} is closed: open it again")
        for _ in range(100):
            with os.scandir(self.path / JOURNALS) as found:
                there = {entry.name: entry for entry in found}
            bases = [name for name in there if name.startswith(BASE)]
            try:
                newest = max(map(_number, bases), default=0)
                if newest > self._generation:
                    self._load(newest)
                with self._undamaged():
                    fresh = list(self._fresh(there, anew))
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ESTALE):
                    raise
                continue  # it is in a base now
            self._take_in(fresh)
            return
        raise StoreError(f"the store {self.shown} changes faster than it can be read: try again")

    def _fresh(self, there: dict[str, os.DirEntry[str]], anew: bool) -> Iterator[tuple[int, str, int, Json]]:
        """The entries that were not read yet, as (moment, journal, place behind it, entry)."""
        for name, file in there.items():
            if name.startswith((BASE, ".")) or name in self._ended:
                continue
            begun = self._read_to.get(name, 0)
            if (_size(Path(file.path)) if anew else file.stat(follow_symlinks=False).st_size) <= begun:
                continue
            for place, entry in entries(Path(file.path), begun):
                yield _count(entry["at"]), name, place, entry

    def _take_in(self, fresh: list[tuple[int, str, int, Json]]) -> None:
        """Bring what others have written into memory, in the order in which it was written."""
        if not fresh:
            return
        self._connection.execute("BEGIN")
        try:
            with self._undamaged():
                for at, name, place, entry in sorted(fresh, key=lambda each: each[:3]):
                    self._at = max(self._at, at)
                    self._apply(entry.get("rows", ()), (at, name))
                    self._read_to[name] = max(place, self._read_to.get(name, 0))
                    if "schema" in entry:
                        require_known(int(entry["schema"]), self.shown)
                        self._owners[name] = str(entry["owner"])
                    if "ended" in entry:
                        self._ended.add(name)
        finally:
            self._connection.execute("COMMIT")

    def _apply(self, rows: Iterable[Sequence[Any]], stamp: tuple[int, str]) -> None:
        for kind, together in itertools.groupby(rows, key=lambda row: str(row[0])):
            group = [[uncell(each) for each in row[1:]] for row in together]
            if kind == "touched":
                self._connection.executemany(_TOUCH, group)
                continue
            if kind in LAST:
                group = [row for row in group if self._newest.get(_key([kind, *row]), (-1, "")) < stamp]
                self._newest.update({_key([kind, *row]): stamp for row in group})
            self._connection.executemany(self._insertion(kind), group)

    def _insertion(self, table: str) -> str:
        columns = self._columns[table]
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608
        key, rest = columns[: KEYS[table]], columns[KEYS[table] :]
        ours = f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {', '.join(f'{n} = excluded.{n}' for n in rest)}"
        if table in LAST:
            return f"{sql}{ours}"
        order = sorted(rest, key=lambda name: name != "kept")
        theirs, here = (", ".join(f"ifnull({of}.{name}, 0)" for name in order) for of in ("excluded", table))
        return f"{sql}{ours} WHERE ({theirs}) < ({here})"

    def _load(self, number: int) -> None:
        """Begin anew with a base."""
        self._connection.close()
        self._connection = self._emptied()
        path = self.path / JOURNALS / f"{BASE}{number:06d}"
        self._connection.execute("BEGIN")
        about: Json = {}
        with self._undamaged():
            for _, entry in entries(path):
                if "schema" in entry:
                    require_known(int(entry["schema"]), self.shown)
                self._apply(entry.get("rows", ()), (0, ""))
                about |= entry
            if "whole" not in about:
                raise ValueError(f"{path.name} is cut off")
            self._at = _count(about["at"])
            self._read_to = {name: _count(each) for name, each in dict(about["read_to"]).items()}
            self._owners = {name: str(each) for name, each in dict(about["owners"]).items()}
            over = set(map(str, about["over"]))
            below(path.parent, *over)  # these are removed one day, so they may lead nowhere else
            self._ended, self._over = over, set(over)
            self._newest = {tuple(map(str, key)): (_count(at), str(name)) for *key, at, name in about["newest"]}
        self._connection.execute("COMMIT")
        self._generation = number

    @contextmanager
    def _undamaged(self) -> Iterator[None]:
        try:
            yield
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, sqlite3.Error) as error:
            raise StoreError(f"the store {self.shown} is damaged ({error}): give another one with --store") from error

    def _make_base(self) -> bool:
        """Write everything that is in memory as the next base; False where another process was first."""
        folder, number = self.path / JOURNALS, self._generation + 1
        over = self._ended | {name for name, owner in self._owners.items() if claims.gone(owner)}
        beside, path = folder / f".{secrets.token_hex(12)}", folder / f"{BASE}{number:06d}"
        try:
            with beside.open("xb") as file:
                for entry in self._all(over):
                    file.write(line_of(entry))
                file.flush()
                os.fsync(file.fileno())
            os.link(beside, path)
        except FileExistsError:
            return False
        finally:
            beside.unlink(missing_ok=True)
        sync_folder(folder)
        self._generation = number
        before = [old.name for old in folder.glob(f"{BASE}*") if _number(old.name) < number - 1]
        for name in (
            *self._over,
            *before,
        ):  # a base later: a listing may miss what is made meanwhile
            (folder / name).unlink(missing_ok=True)
        self._ended, self._over = over, set(over)
        return True

    def _all(self, over: set[str]) -> Iterator[Json]:
        there = set(os.listdir(self.path / JOURNALS))  # what is not there any more never comes back
        newest = [[*key, *stamp] for key, stamp in self._newest.items()]
        read_to, owners = (
            {name: each for name, each in known.items() if name in there} for known in (self._read_to, self._owners)
        )
        about = {"read_to": read_to, "owners": owners, "newest": newest, "over": sorted(over & there)}
        yield {"schema": SCHEMA, "at": self._at, **about}
        for table, columns in self._columns.items():
            found = self._connection.execute(f"SELECT {', '.join(columns)} FROM {table}")  # noqa: S608 - names of ours
            while page := found.fetchmany(GROUP):
                yield {"rows": [[table, *map(cell, row)] for row in page]}
        yield {"whole": True}


def holds_store(path: str | Path) -> bool:
    """Whether a folder is a store's."""
    return (Path(path).expanduser() / MARK).is_file()


def _key(change: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(change[: 1 + KEYS[change[0]]])


def _count(said: object) -> int:
    """A number of bytes or of moments, as a file says it; raises ValueError where it cannot be one."""
    if not isinstance(said, int) or not 0 <= said < 2**62:
        raise ValueError(f"{said!r:.40} counts nothing")
    return said


def _number(base: str) -> int:
    digits = base.removeprefix(BASE)
    return int(digits) if digits.isdecimal() else 0


def _size(path: Path) -> int:
    handle = open_plain(path)
    try:
        return os.fstat(handle).st_size
    finally:
        os.close(handle)


def _make(path: Path, shown: str) -> None:
    """Make or recognise a folder; several processes may come here at once."""
    path.mkdir(parents=True, exist_ok=True)
    mark = path / MARK
    if not os.path.lexists(mark):
        strange = sorted(name for name in os.listdir(path) if name not in (MARK, JOURNALS, CLAIMS, FILES))
        strange = [name for name in strange if not name.startswith(".")]
        if strange and not os.path.lexists(mark):
            raise InputError(f"{shown} holds {strange[0]!r} and no store: give an empty or new folder with --store")
        beside = path / f".{secrets.token_hex(12)}"
        try:
            beside.write_text(json.dumps({"kind": KIND, "schema": SCHEMA}) + "\n")
            with suppress(FileExistsError):
                os.link(beside, mark)
        finally:
            beside.unlink(missing_ok=True)
    for name in (JOURNALS, CLAIMS, FILES):
        (path / name).mkdir(exist_ok=True)
        if (path / name).is_symlink():
            raise StoreError(f"{path / name} is a link, not a folder of a store: give another one with --store")
    with os.fdopen(open_plain(mark), "rb") as file:
        text = file.read(1000)
    try:
        found = json.loads(text)
        kind, version = found["kind"], int(found["schema"])
    except (ValueError, KeyError, TypeError):
        kind, version = "", 0
    if kind != KIND:
        raise StoreError(f"{mark} is another program's file: give another folder with --store")
    require_known(version, shown)
