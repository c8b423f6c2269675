"""Who computes what, where many processes on many machines share a store.

Whoever is to compute a score claims it first; the others wait for the result and go on with what nobody has claimed. A
claim ends with the result, when it is given back, when its process is gone (seen at once on the same machine), or when
it was not renewed for a while, which a machine that lost power or its network does not do.
"""

from __future__ import annotations

import functools
import logging
import os
import platform
import threading
import time
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Protocol

from trainless.core.errors import TrainlessError
from trainless.core.processes import Wait, exists
from trainless.store.keys import Key, Result, Store
from trainless.store.schema import Cursor, Database

Place = tuple[int, str]
"""A context's number and an arch."""

_CLAIM = (
    "INSERT INTO claims (context, arch, owner, until) VALUES (?, ?, ?, now_seconds() + ?)"
    " ON CONFLICT (context, arch) DO UPDATE SET owner = excluded.owner, until = excluded.until"
    " WHERE claims.until < now_seconds() OR claims.owner = excluded.owner RETURNING context"
)
_HOLDER = "SELECT owner, until < now_seconds() FROM claims WHERE context = ? AND arch = ?"
_FORGET = "DELETE FROM claims WHERE owner = ?"
_FREE = "DELETE FROM claims WHERE context = ? AND arch = ? AND owner = ?"
_RENEW = "UPDATE claims SET until = now_seconds() + ? WHERE owner = ?"
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0
LEASE_SECONDS = 60.0
SAY_SECONDS = 30.0
log = logging.getLogger("trainless.store")


def turns(store: Store | None, keys: Iterable[Key]) -> Generator[tuple[dict[Key, Result], list[Key]], None, None]:
    """Yield what is known and what to compute now, again and again until every key had its turn.

    Whatever of a turn's keys was not kept is given back when the next turn is asked for, or when the turns end early.

    Example:
        >>> from trainless.store import SqliteStore
        >>> key = Key("space", "0,1", "snip", 1, "own", "cafe", 0)
        >>> store = SqliteStore(":memory:")
        >>> for known, mine in turns(store, [key]):
        ...     store.keep([(each, Result(2.5, "ok", 1.0, 1.0)) for each in mine])
        >>> [(len(known), len(mine)) for known, mine in turns(store, [key])]
        [(1, 0)]
    """
    left = list(dict.fromkeys(keys))
    if store is None:
        yield {}, left
        return
    pause, since, waiting = FIRST_PAUSE, time.monotonic(), Wait()
    while left:
        known = store.find(left)
        left = [key for key in left if key not in known]
        won = store.claim(left) if left else set()
        mine = [key for key in left if key in won]
        if known or mine:
            try:
                yield known, mine
            finally:
                store.release(mine)
            pause, since, waiting = FIRST_PAUSE, time.monotonic(), Wait()
        left = [key for key in left if key not in won]
        if left:
            waiting.pause(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            if since and time.monotonic() - since > SAY_SECONDS:
                log.warning("waiting for %d scores that another process is computing", len(left))
                since = 0.0


def owner() -> str:
    """This process, as no other process on any machine is called."""
    pid = os.getpid()
    return f"{_machine()} {pid} {_started(pid)}"


def gone(name: str) -> bool:
    """Whether an owner was a process of this machine that does not live any more."""
    machine, _, process = name.rpartition(" ")[0].partition(" ")
    if machine != _machine() or not process.isdecimal():
        return False
    return _started(int(process)) != name.rpartition(" ")[2]


def lives_here(name: str) -> bool:
    """Whether an owner is a process of this machine that lives."""
    return name.startswith(f"{_machine()} ") and not gone(name)


@functools.cache
def _machine() -> str:
    """This boot of this machine and, in a container, its own numbering of processes."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    if not boot.exists():
        return platform.node() or "here"
    return f"{boot.read_text().strip()}/{os.readlink('/proc/self/ns/pid')}".replace(" ", "")


def _started(pid: int) -> str:
    """When a process began, in the machine's own count; ``"-"`` where it is gone."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "?" if not Path("/proc/self/stat").exists() and exists(pid) else "-"
    return "-" if state in "ZX" else rest[18]


class Claims(Protocol):
    """The claims of this process, renewed while it lives."""

    def take(self, places: Iterable[Place]) -> set[Place]:
        """Claim what is free, what is void and what a process that is gone had; those that are ours now."""

    def is_held_here(self, place: Place) -> bool:
        """Whether a process of this machine that lives has claimed it."""

    def end(self, cursor: Cursor, places: Iterable[Place]) -> None:
        """Give claims back within a transaction that keeps their results; say so by ``ended`` after it."""

    def ended(self, places: Iterable[Place]) -> None:
        """The transaction with ``end`` is done."""

    def free(self, places: Iterable[Place]) -> None:
        """Give claims back."""

    def close(self) -> None:
        """Stop renewing and let go of the database, also where that does not answer."""


class ClaimTable(Claims):
    """Claims in a table of a database, renewed by a thread.

    A claim that is not renewed is void after so many seconds: a machine that was started again, or another container on
    it, cannot tell whether a process before it still lives.
    """

    def __init__(self, database: Database, lease: float) -> None:
        self._database, self._lease = database, lease
        self._held: set[Place] = set()
        self._closed = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="claims", daemon=True)

    def take(self, places: Iterable[Place]) -> set[Place]:
        wanted = sorted(set(places))
        holders = self._database.read(lambda cursor: cursor.each(_HOLDER, wanted))  # takes no lock that others wait for
        void = {name for rows in holders for name, ended in rows if ended or name == owner() or gone(name)}
        free = [place for place, rows in zip(wanted, holders, strict=True) if not rows or rows[0][0] in void]
        dead = sorted(name for name in void if gone(name))
        if not free:
            return set()
        won = self._database.write(lambda cursor: self._tried(cursor, free, dead), lasting=False)
        if won and self._renewing.ident is None:
            self._renewing.start()
        self._held |= won
        return won

    def _tried(self, cursor: Cursor, wanted: list[Place], dead: list[str]) -> set[Place]:
        cursor.each(_FORGET, [(name,) for name in dead])
        answers = cursor.each(_CLAIM, [(*place, owner(), self._lease) for place in wanted])
        return {place for place, rows in zip(wanted, answers, strict=True) if rows}

    def is_held_here(self, place: Place) -> bool:
        rows = self._database.rows(_HOLDER, *place)
        return any(lives_here(name) for name, _ in rows)

    def end(self, cursor: Cursor, places: Iterable[Place]) -> None:
        ours = sorted(self._held.intersection(places))
        if ours:
            cursor.each(_FREE, [(*place, owner()) for place in ours])

    def ended(self, places: Iterable[Place]) -> None:
        self._held.difference_update(places)

    def free(self, places: Iterable[Place]) -> None:
        """Give claims back; where the database does not answer they are void after the lease."""
        ours = self._held.intersection(places)
        if ours:
            try:
                self._database.write(lambda cursor: self.end(cursor, ours), lasting=False)
            except TrainlessError as error:
                log.debug("claims were not given back: %s", error)
            self.ended(ours)

    def close(self) -> None:
        self._closed.set()
        self._database.close()
        if self._renewing.ident is not None:
            self._renewing.join()

    def _renew(self) -> None:
        while not self._closed.wait(self._lease / 4):
            try:
                if self._held:
                    self._database.change(_RENEW, self._lease, owner())
            except TrainlessError as error:
                log.debug("claims were not renewed: %s", error)  # whoever uses the store next hears of it
