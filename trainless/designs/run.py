"""A design under way: its folder, its settings, and what a store keeps of it, so that another machine can resume it.

A design's searches are runs of their own in a store. Beside them go the configuration, the plan, the mark that the time
is used up, the choice of later members, and every trained member as its safetensors and JSON; checkpoints of trainings
that are under way stay where they are. A member is in the store as soon as it is trained, its JSON last, so that what
has one is complete.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from trainless.core.errors import InputError
from trainless.core.files import read_json, write_atomic
from trainless.core.opening import folders_in, is_there, read_bytes, status_of
from trainless.core.progress import Told
from trainless.core.task import Task
from trainless.core.text import undamaged
from trainless.core.types import Json
from trainless.designs.settings import DesignSettings
from trainless.learn.members import MEMBER, WEIGHTS, member_folder
from trainless.runs.folder import CONFIGURATION, MEMBERS, PLAN, open_folder, read_configuration, settings_of
from trainless.spaces import registry as spaces
from trainless.spaces.protocol import Space
from trainless.store import SqlStore, store_at
from trainless.store.claims import log

CHOICE = "learned.json"  # the later members, once they are chosen by the first ones
LATE = "late"  # a file that says that no further member is begun
DIVERSE = "diverse.json"  # members that were chosen to disagree
ONCE = (LATE, CHOICE, DIVERSE)  # files that are written once
MOST = 256 * 2**20  # bytes of one member's weights, beyond which they stay where they are
_MEMBER = re.compile(rf"members/([A-Za-z0-9_-]+)/({re.escape(WEIGHTS)}|{re.escape(MEMBER)})")


@dataclass(frozen=True, eq=False)
class DesignRun:
    """A design under way: what every stage is given.

    The ladder has the spaces to choose a width from, the thinnest first; ``keep`` is called when there is something
    that another machine could resume from.
    """

    folder: Path
    task: Task
    settings: DesignSettings
    ladder: list[Space]
    started: float
    progress: Told
    keep: Callable[[], None] = lambda: None

    @property
    def left(self) -> float:
        """Seconds of the time budget that this session has left; infinite without one."""
        seconds = self.settings.seconds
        return math.inf if seconds is None else seconds - (time.monotonic() - self.started)

    @property
    def chosen(self) -> Space | None:
        """The space, where it is not a registered one."""
        return None if self.settings.space in spaces else self.ladder[0]


def write_settings(run: DesignRun) -> None:
    """Write ``run.json``, or compare it where the run is resumed."""
    task = {"name": run.task.name, "fingerprint": run.task.fingerprint}
    asked = {"verb": "design", "task": task, **run.settings.described()}
    open_folder(run.folder, asked, {"seconds": run.settings.seconds})


@contextmanager
def stored(run: DesignRun) -> Iterator[DesignRun]:
    """The run with what a store has of it, and with a place there for what comes."""
    if not run.settings.store:
        yield run
        return
    with store_at(run.settings.store) as store:
        kept = StoredDesign(store, run.folder)
        with kept.held():
            kept.fetch()
            kept.keep()
            yield replace(run, keep=kept.keep)
            kept.keep()


class StoredDesign:
    """A design in a store, called there as its folder is."""

    def __init__(self, store: SqlStore, folder: Path) -> None:
        self._runs, self._shown, self._folder = store.runs, store.shown, folder
        self._name = folder.resolve().name
        self._there: set[str] = set()
        self._plan: bytes | None = None

    def held(self) -> AbstractContextManager[None]:
        """Keep the design to this process, among all machines."""
        return self._runs.hold(self._name)

    def fetch(self) -> None:
        """Bring what the store has and the folder lacks, and the configuration to the store."""
        self._there = set(self._runs.files(self._name))
        theirs = self._read(CONFIGURATION)
        if theirs is None:
            self._runs.put(self._name, CONFIGURATION, read_bytes(self._folder / CONFIGURATION))
        elif settings_of(theirs) != settings_of(read_configuration(self._folder)):
            raise InputError(
                f"{self._shown} has another design called {self._name!r}: a design in a store is called by the last"
                " part of --out; give another"
            )
        self._fetch_plan()
        for name in sorted(self._there, reverse=True):  # weights before what says that they are complete
            found = _MEMBER.fullmatch(name)
            path = member_folder(self._folder, found[1]) / found[2] if found else self._folder / name
            if (found or name in ONCE) and not is_there(path):
                write_atomic(path, self._runs.file(self._name, name) or b"")

    def keep(self) -> None:
        """Write down what is new: the plan, what is written once, and members that are trained."""
        plan = self._folder / PLAN
        if is_there(plan) and (content := read_bytes(plan)) != self._plan:
            self._plan = content
            self._runs.put(self._name, PLAN, self._plan)
        for name in ONCE:
            if is_there(self._folder / name):
                self._put(name, self._folder / name)
        for name in folders_in(self._folder / MEMBERS, MEMBER):
            about = self._folder / MEMBERS / name / MEMBER
            place = f"members/{about.parent.name}"
            if f"{place}/{MEMBER}" in self._there or not self._fits(about.with_name(WEIGHTS), place):
                continue
            self._put(f"{place}/{WEIGHTS}", about.with_name(WEIGHTS))
            self._put(f"{place}/{MEMBER}", about)

    def _put(self, name: str, path: Path) -> None:
        if name not in self._there:
            self._runs.put(self._name, name, read_bytes(path))
            self._there.add(name)

    def _fits(self, weights: Path, place: str) -> bool:
        held = status_of(weights)
        size = held.st_size if held else 0
        if size > MOST:
            self._there.add(f"{place}/{MEMBER}")  # said once
            log.warning(
                "%s is too large for the store (%.0f MB): another machine trains it again", weights.parent, size / 1e6
            )
        return size <= MOST

    def _fetch_plan(self) -> None:
        """The plan that is settled, where one of both is."""
        path, theirs = self._folder / PLAN, self._read(PLAN)
        if theirs is None:
            return
        ours = read_json(path, "give another folder with --out") if is_there(path) else None
        if ours is not None and ours != theirs and ours.get("settled") and theirs.get("settled"):
            raise InputError(
                f"the design in {self._folder} and the design {self._name!r} in {self._shown} went on apart from each"
                " other: give another folder with --out to resume the store's"
            )
        if ours is None or (theirs.get("settled") and not ours.get("settled")):
            write_atomic(path, self._runs.file(self._name, PLAN) or b"")

    def _read(self, name: str) -> Json | None:
        content = self._runs.file(self._name, name)
        with undamaged(f"the design {self._name!r} in {self._shown}", "give another --out"):
            found = None if content is None else json.loads(content)
        return found if isinstance(found, dict) else None
