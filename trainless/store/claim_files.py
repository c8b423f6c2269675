"""Claims in a folder that many machines share, by what every shared file system has: a link that is made once.

A process has one *ticket*, a file with its name, whose time of change it renews; a claim is a hard link to the ticket,
made where nobody else's is, so one renewal is for all claims of the process. How old a ticket is says the file
server's own clock. The claims of a process that is gone or silent are taken away by one process at a time, which holds
a claim of that very task; a process that was silent itself looks whether its claims are still its own before it lets
go of them.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import math
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from trainless.core.errors import TrainlessError
from trainless.store import claims
from trainless.store.claims import LEASE_SECONDS, Claims, Place
from trainless.store.journal import explained, open_plain
from trainless.store.keys import StoreError
from trainless.store.schema import Cursor

log = logging.getLogger("trainless.store")
_CLAIM, _BURIAL, _TICKET = "claim-", "burial-", "ticket-"
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EXDEV)
_NAME = re.compile(f"{_TICKET}[0-9a-f]{{24}}")
_LONGEST_TICKET = 10_000  # bytes
LONGEST_LEASE = 86_400.0


def clock() -> float:
    """Seconds of this machine, which also pass while it sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if "CLOCK_BOOTTIME" in dir(time) else time.monotonic()


class Ticket(NamedTuple):
    """A process as its claims name it: who it is, for how many seconds a renewal holds, and when the last one was."""

    name: str
    owner: str
    lease: float
    renewed: float


class ClaimFiles(Claims):
    """The claims of this process in a folder.

    Args:
        folder: Where tickets and claims are.
        lease: Seconds without a renewal after which a claim is void.
        refresh: Called after a claim was won, so that what its last owner has written is seen.
        let_go: Called when all is closed.
    """

    def __init__(self, folder: Path, lease: float, refresh: Callable[[], None], let_go: Callable[[], None]) -> None:
        self._folder, self._lease, self._refresh, self._closing = folder, lease, refresh, let_go
        self._held: dict[Place, str] = {}  # by the name of the ticket
        self._mine: dict[str, str] = {}  # names of tickets by owner: a process that was forked has another
        self._renewed = -math.inf  # by clock()
        self._ahead = time.time() - clock()  # of the file server's clock, as far as it is known
        self._turn = threading.RLock()
        self._closed = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="claims", daemon=True)

    def take(self, places: Iterable[Place]) -> set[Place]:
        wanted = sorted(set(places))
        if not wanted:
            return set()
        with self._turn, explained(self._folder.parent):
            mine = self._ticket()
            won = {place for place in wanted if self._taken(self._at(place), mine)}
            self._held |= dict.fromkeys(won, mine)
            if won and self._renewing.ident is None:
                self._renewing.start()
        if won:
            self._refresh()
        return won

    def is_held_here(self, place: Place) -> bool:
        holder = self._read(self._at(place))
        return holder is not None and claims.lives_here(holder.owner)

    def holder(self, place: Place) -> str:
        """The owner of a claim that is not void by its age; empty where there is none."""
        found = self._read(self._at(place))
        return found.owner if found and not self._is_silent(found) else ""

    def end(self, cursor: Cursor, places: Iterable[Place]) -> None:
        """Nothing yet: others may compute what is free, so it is free once the results are written."""

    def ended(self, places: Iterable[Place]) -> None:
        self.free(places)

    def free(self, places: Iterable[Place]) -> None:
        with self._turn, explained(self._folder.parent):
            mine = self._mine.get(claims.owner())
            self._let_go([place for place in set(places) if mine and self._held.get(place) == mine])

    def close(self) -> None:
        self._closed.set()
        if self._renewing.ident is not None:
            self._renewing.join()
        with self._turn, suppress(OSError):
            mine = self._mine.get(claims.owner())
            self._let_go([place for place, name in self._held.items() if name == mine])
            for name in self._mine.values():
                (self._folder / name).unlink(missing_ok=True)
        self._closing()

    def _at(self, place: Place) -> Path:
        text = json.dumps(place).encode()
        return self._folder / f"{_CLAIM}{hashlib.blake2b(text, digest_size=16).hexdigest()}"

    def _ticket(self) -> str:
        """The name of this process's ticket, which is made where there is none or where it was taken away."""
        owner = claims.owner()
        name = self._mine.get(owner)
        if name is not None and (clock() - self._renewed < self._lease / 4 or self._touch(name)):
            return name
        self._renewed = -math.inf
        name = f"{_TICKET}{secrets.token_hex(12)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self._folder / name, flags, 0o666), "w") as file:
            json.dump({"owner": owner, "lease": self._lease, "ticket": name}, file)
        self._mine[owner] = name
        self._touch(name)
        return name

    def _touch(self, name: str) -> bool:
        """Renew all claims of a ticket and learn the file server's clock; whether the ticket is still there."""
        began = clock()
        try:
            if self._lease < began - self._renewed < math.inf:  # others may have found it void, so it is given up
                (self._folder / name).unlink()
                raise FileNotFoundError
            os.utime(self._folder / name)
            self._ahead = (self._folder / name).stat().st_mtime - began
        except FileNotFoundError:
            self._held = {place: ticket for place, ticket in self._held.items() if ticket != name}
            self._mine = {owner: ticket for owner, ticket in self._mine.items() if ticket != name}
            return False
        self._renewed = began
        return True

    def _taken(self, path: Path, mine: str) -> bool:
        """Whether a claim is ours now."""
        if self._link(path, mine):
            return True
        holder = self._read(path)
        if holder is not None and not self._is_void(holder):
            return holder.owner == claims.owner()
        return (holder is None or self._bury(path, holder, mine)) and self._link(path, mine)

    def _link(self, path: Path, mine: str) -> bool:
        try:
            os.link(self._folder / mine, path)
        except FileExistsError:
            with suppress(OSError):  # a file server may have done it and lost its answer
                return path.samefile(self._folder / mine)
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            raise StoreError(
                f"{self._folder.parent} is on a file system without hard links ({error.strerror}), by which processes"
                " claim their work: give a folder on another one, or postgresql://user@host/database"
            ) from error
        return True

    def _read(self, path: Path) -> Ticket | None:
        """Whose claim it is; None where there is none."""
        try:
            handle = open_plain(path)
        except FileNotFoundError:
            return None
        try:
            renewed = os.fstat(handle).st_mtime
            text = os.read(handle, _LONGEST_TICKET)
        finally:
            os.close(handle)
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            found = json.loads(text)
            ticket = Ticket(str(found["ticket"]), str(found["owner"]), float(found["lease"]), renewed)
            if _NAME.fullmatch(ticket.name) and 0 < ticket.lease <= LONGEST_LEASE:
                return ticket
        name = f"{_TICKET}{hashlib.blake2b(text, digest_size=12).hexdigest()}"
        return Ticket(name, "", LEASE_SECONDS, renewed)  # cut off by a loss of power: void after a while

    def _is_void(self, holder: Ticket) -> bool:
        return claims.gone(holder.owner) or self._is_silent(holder)

    def _is_silent(self, holder: Ticket) -> bool:
        return clock() + self._ahead - holder.renewed > holder.lease

    def _bury(self, path: Path, holder: Ticket, mine: str) -> bool:
        """Take away every claim of a holder that is gone or silent; False where another process is at it."""
        burial = self._folder / f"{_BURIAL}{holder.name}"
        if not self._link(burial, mine):
            other = self._read(burial)
            if other is None or (other.name != mine and not self._is_void(other)):
                return False
            if other.name != mine and not (self._bury(burial, other, mine) and self._link(burial, mine)):
                return False
        try:
            again = self._read(path)
            if again is None or again.name != holder.name or not self._is_void(again):
                return again is None
            (self._folder / holder.name).unlink(missing_ok=True)  # a holder that wakes up sees it by this
            with os.scandir(self._folder) as found:
                names = [entry.name for entry in found if entry.name.startswith((_CLAIM, _BURIAL))]
            for name in names:
                theirs = self._read(self._folder / name)
                if theirs is not None and theirs.name == holder.name:
                    (self._folder / name).unlink(missing_ok=True)
        finally:
            burial.unlink(missing_ok=True)
        return True

    def _let_go(self, places: Collection[Place]) -> None:
        late = clock() - self._renewed > self._lease / 2
        for place in places:
            path, name = self._at(place), self._held.pop(place)
            holder = self._read(path) if late else None
            if not late or (holder is not None and holder.name == name):
                path.unlink(missing_ok=True)

    def _renew(self) -> None:
        while not self._closed.wait(self._lease / 4):
            try:
                with self._turn:
                    name = self._mine.get(claims.owner())
                    if name is not None and self._held:
                        self._touch(name)
            except (TrainlessError, OSError) as error:
                log.debug("claims were not renewed: %s", error)  # whoever uses the store next hears of it
