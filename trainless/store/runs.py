"""Runs that live in a store: their configuration, trajectory line by line, leaderboard, ending, and files.

Any machine sees them live, and any machine can resume them; only one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple

from trainless.core.processes import Wait
from trainless.store.claims import FIRST_PAUSE, LONGEST_PAUSE, Claims, Place, gone, log
from trainless.store.keys import StoreError
from trainless.store.schema import Cursor, Database

LONGEST_NAME = 200
RUN = 0  # the context of claims on runs
LOCAL_PATIENCE = 2.0
PAGE = 500

_ONE = (
    "SELECT r.name, r.configuration, r.leaderboard, (SELECT count(*) FROM steps s WHERE s.run = r.name), r.changed,"
    " r.ending, COALESCE((SELECT c.owner FROM claims c WHERE c.context = 0 AND c.arch = r.name"
    " AND c.until >= now_seconds()), '') FROM runs r WHERE r.name = ?"
)
_ALL = _ONE.replace("WHERE r.name = ?", "ORDER BY r.name")
_SAVE = (
    "INSERT INTO runs (name, configuration, leaderboard, changed) VALUES (?, ?, '', now_seconds())"
    " ON CONFLICT (name) DO UPDATE SET configuration = excluded.configuration, changed = excluded.changed, ending = ''"
)
_PUBLISH = "UPDATE runs SET leaderboard = ?, ending = ?, changed = now_seconds() WHERE name = ?"
_TOUCH = "UPDATE runs SET changed = now_seconds() WHERE name = ?"
_APPEND = "INSERT INTO steps VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_PUT = "INSERT INTO files VALUES (?, ?, ?) ON CONFLICT (run, name) DO UPDATE SET content = excluded.content"
_FILES = "SELECT name FROM files WHERE run = ? ORDER BY name"
_FILE = "SELECT content FROM files WHERE run = ? AND name = ?"
_LINES = "SELECT number, line FROM steps WHERE run = ? AND number > ? ORDER BY number LIMIT ?"


class RunEntry(NamedTuple):
    """A run: its configuration as JSON, its leaderboard as CSV, the lines of its trajectory, and its last change.

    ``ending`` says how its last session ended, and is empty while one goes on or where it was killed; ``owner`` is the
    process that holds the run, as far as its claim is not void.
    """

    name: str
    configuration: str
    leaderboard: str
    lines: int
    changed: float
    ending: str = ""
    owner: str = ""

    @property
    def running(self) -> bool:
        """Whether a process works on it: of this machine it is looked for, of another its claim has to be renewed."""
        return bool(self.owner) and not gone(self.owner)


class Runs:
    """The runs of a store; one whose machine is gone may be resumed elsewhere after the lease.

    Example:
        >>> from trainless.store import SqliteStore
        >>> runs = SqliteStore(":memory:").runs
        >>> runs.save("first", "{}")
        >>> runs.append("first", 1, ["one", "two"])
        >>> [entry.lines for entry in runs.all()], list(runs.lines("first", after=1))
        ([2], ['two'])
    """

    def __init__(self, database: Database, claims: Claims, lease: float) -> None:
        self._database, self._claims, self._lease = database, claims, lease

    def all(self) -> list[RunEntry]:
        return [RunEntry(*row) for row in self._database.rows(_ALL)]

    def find(self, name: str) -> RunEntry | None:
        rows = self._database.rows(_ONE, name)
        return RunEntry(*rows[0]) if rows else None

    def save(self, name: str, configuration: str) -> None:
        """Write a run's configuration down; a run that is there gets the new one."""
        if not 0 < len(name) <= LONGEST_NAME or "\x00" in name:
            raise StoreError(f"the run name {name!r} was given; expected 1 to {LONGEST_NAME} characters")
        self._database.change(_SAVE, name, configuration)

    def publish(self, name: str, leaderboard: str, ending: str = "") -> None:
        """Write down what a session came to: the leaderboard, and how it ended; the next session forgets the latter."""
        self._database.change(_PUBLISH, leaderboard, ending, name)

    def append(self, name: str, number: int, lines: Sequence[str]) -> None:
        """Add lines to a trajectory, the first of them as this number; lines that are there stay."""
        rows = [(name, place, line) for place, line in zip(count(number), lines, strict=False)]

        def work(cursor: Cursor) -> None:
            cursor.each(_APPEND, rows)
            cursor.run(_TOUCH, (name,))

        self._database.write(work)

    def lines(self, name: str, after: int = 0) -> Iterator[str]:
        """The lines of a trajectory after a number, some of them in memory at a time."""
        while page := self._database.rows(_LINES, name, after, PAGE):
            yield from (line for _, line in page)
            after = page[-1][0]

    def put(self, name: str, file: str, content: bytes) -> None:
        """Keep a file with a run, in the place of one of the same name."""
        self._database.change(_PUT, name, file, content)

    def files(self, name: str) -> list[str]:
        return [str(file) for (file,) in self._database.rows(_FILES, name)]

    def file(self, name: str, file: str) -> bytes | None:
        rows = self._database.rows(_FILE, name, file)
        return bytes(rows[0][0]) if rows else None

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Keep a run to this process; after a machine was lost, another waits until its claim is void."""
        place, waiting, pause = (RUN, name), Wait(), FIRST_PAUSE
        while not self._claims.take([place]):
            patience = self._patience(place)
            if waiting.seconds > patience:
                raise StoreError(
                    f"another process is working on the run {name!r} in {self._database.shown}: wait for it, or give"
                    " another --out"
                )
            if pause == FIRST_PAUSE:
                log.warning("the run %r is held by another process; waiting %.0f s for it", name, patience)
            waiting.pause(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        try:
            yield
        finally:
            self._claims.free([place])

    def _patience(self, place: Place) -> float:
        """Somewhat longer than a lease, after which a claim ends by itself; less where its process is seen to live."""
        return LOCAL_PATIENCE if self._claims.is_held_here(place) else 1.2 * self._lease
