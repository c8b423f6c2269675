"""A run that lives in a store as well as in its folder, so that any machine sees it live and can resume it.

The store has the configuration, every line of the trajectory, the leaderboard and how the last session ended; the
folder is a copy of it that is made where there is none. A line is in the store before it is in the folder, so a folder
is never ahead of the store unless it went on without it, and then the store is brought up to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from trainless.core.errors import InputError
from trainless.core.files import write_atomic
from trainless.core.text import undamaged
from trainless.core.types import Json
from trainless.runs.folder import CONFIGURATION, ENDING, TRAJECTORY, Ending, read_configuration
from trainless.store import SqlStore

OWN = ("budget", "environment")  # what may differ between the places where a run goes on


class Shared:
    """A run in a store, under its name there, and in its folder here."""

    def __init__(self, store: SqlStore, name: str, path: Path) -> None:
        self._runs, self._shown, self._name, self._path = store.runs, store.shown, name, path
        self._lines = 0

    def held(self) -> AbstractContextManager[None]:
        """Keep the run to this process, among all machines."""
        return self._runs.hold(self._name)

    def fetch(self) -> None:
        """Make the folder's configuration where the store knows the run and the folder does not."""
        entry = self._runs.find(self._name)
        if entry is None:
            return
        file = self._path / CONFIGURATION
        if not file.exists():
            write_atomic(file, entry.configuration)
        elif settings_of(read_configuration(self._path)) != settings_of(self._read(entry.configuration)):
            raise InputError(
                f"{self._path} holds another run than {self._name!r} in {self._shown}: give another folder with --out"
            )

    @contextmanager
    def refusing(self, fresh: bool) -> Iterator[None]:
        """Say so where the run that is asked for is not the store's."""
        try:
            yield
        except InputError as error:
            if not fresh or not (self._path / CONFIGURATION).exists():
                raise
            raise InputError(
                f"{self._shown} has another run called {self._name!r} ({error}). A run in a store is called by the last"
                " part of --out: give another"
            ) from error

    def settle(self) -> None:
        """Write the configuration down, and bring the trajectories of store and folder to the longer of both."""
        self._runs.save(self._name, (self._path / CONFIGURATION).read_text())
        file = self._path / TRAJECTORY
        text = file.read_text() if file.exists() else ""
        here, there = text[: text.rfind("\n") + 1].splitlines(), list(self._runs.lines(self._name))
        both = min(len(here), len(there))
        if here[:both] != there[:both]:
            raise InputError(
                f"the run in {self._path} and the run {self._name!r} in {self._shown} went on apart from each other:"
                f" remove {file} to resume the store's"
            )
        if len(there) > both:
            write_atomic(file, "\n".join(there) + "\n")
        elif len(here) > both:
            self._runs.append(self._name, both + 1, here[both:])
        self._lines = max(len(here), len(there))

    def copy(self) -> None:
        """Bring the folder to where the store is, and change nothing in the store."""
        entry = self._runs.find(self._name)
        if entry is None:
            raise InputError(f"{self._shown} has no run called {self._name!r}: trainless watch --store lists its runs")
        self.fetch()
        write_atomic(self._path / TRAJECTORY, "".join(f"{line}\n" for line in self._runs.lines(self._name)))
        (self._path / ENDING).unlink(missing_ok=True)
        if entry.ending:
            write_atomic(self._path / ENDING, entry.ending)

    def write(self, text: str) -> None:
        lines = text.splitlines()
        self._runs.append(self._name, self._lines + 1, lines)
        self._lines += len(lines)

    def publish(self, leaderboard: str, ending: Ending) -> None:
        self._runs.publish(self._name, leaderboard, ending.to_json())

    def _read(self, configuration: str) -> Json:
        with undamaged(f"the run {self._name!r} in {self._shown}", "give another --out"):
            found = json.loads(configuration)
        return found if isinstance(found, dict) else {}


def settings_of(configuration: Json) -> Json:
    """The part of a configuration that has to be the same wherever a run is resumed."""
    return {name: value for name, value in configuration.items() if name not in OWN}
