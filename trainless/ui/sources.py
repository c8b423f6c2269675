"""Where a search is read from: its folder, or a store that many machines share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

from trainless.core.errors import InputError
from trainless.core.types import Json
from trainless.designs.candidates import RESULT
from trainless.runs.folder import (
    CONFIGURATION,
    ENDING,
    LEADERBOARD,
    TRAJECTORY,
    Ending,
    read_configuration,
    read_ending,
)
from trainless.store import RunEntry, SqlStore
from trainless.ui.run_files import changed_at, is_held, is_plain, read_bytes

PORTION = 1 << 22  # bytes that are read at a time
TAIL = 200  # bytes before the place where reading goes on, by which a trajectory that was replaced is known
LINES = 5000


class Source(Protocol):
    """A search that somebody writes and we read."""

    def configuration(self) -> Json:
        """What was asked for."""
        ...

    def more(self) -> tuple[bool, list[str], bool]:
        """Whether the lines begin anew, further whole lines of the trajectory, and whether there are more at once."""
        ...

    def rewind(self) -> None:
        """Begin with the first line again."""
        ...

    def leaderboard(self) -> tuple[str, bool]:
        """The leaderboard as CSV, and whether it was surely written after the last step."""
        ...

    def running(self) -> bool:
        """Whether a process works on it."""
        ...

    def ending(self) -> Ending | None:
        """How its last session ended, where that was noted."""
        ...

    def changed(self) -> float:
        """When it was written last, in seconds since 1970."""
        ...


class FolderSource:
    """A search in its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / TRAJECTORY
        self._offset, self._tail = 0, b""

    def configuration(self) -> Json:
        if not is_plain(self._folder / CONFIGURATION):
            raise InputError(f"{self._folder} is no run: it has no {CONFIGURATION}")
        return read_configuration(self._folder)

    def more(self) -> tuple[bool, list[str], bool]:
        if not is_plain(self._file):
            anew, self._offset = self._offset > 0, 0
            return anew, [], False
        anew = self._offset > 0 and self._tail != read_bytes(
            self._file, self._offset - len(self._tail), len(self._tail)
        )
        if anew:
            self._offset = 0
        portion = read_bytes(self._file, self._offset, PORTION)
        if len(portion) == PORTION and b"\n" not in portion:
            portion = read_bytes(self._file, self._offset)  # one line that is longer than all that
        whole = portion[: portion.rfind(b"\n") + 1]
        self._offset += len(whole)
        self._tail = whole[-TAIL:] or self._tail
        return anew, whole.decode("utf-8", "replace").split("\n")[:-1], len(portion) == PORTION

    def rewind(self) -> None:
        self._offset = 0

    def leaderboard(self) -> tuple[str, bool]:
        path = self._folder / LEADERBOARD
        if not is_plain(path):
            return "", False
        return read_bytes(path).decode("utf-8", "replace"), changed_at(path) >= changed_at(self._file)

    def running(self) -> bool:
        return is_held(self._folder)

    def ending(self) -> Ending | None:
        if is_plain(self._folder / ENDING):
            return read_ending(read_bytes(self._folder / ENDING, 0, TAIL * 10).decode("utf-8", "replace"))
        return Ending("finished") if is_plain(self._folder / RESULT) else None

    def changed(self) -> float:
        return max(changed_at(self._folder / name) for name in (CONFIGURATION, TRAJECTORY, LEADERBOARD))


class StoreSource:
    """A search that lives in a store."""

    def __init__(self, store: SqlStore, name: str) -> None:
        self._store, self._name = store, name
        self._lines = 0
        self._seen: RunEntry | None = None

    def configuration(self) -> Json:
        try:
            found = json.loads(self._entry().configuration)
        except (ValueError, RecursionError) as error:
            raise InputError(f"the run {self._name!r} in {self._store.shown} is damaged ({error})") from error
        return found if isinstance(found, dict) else {}

    def more(self) -> tuple[bool, list[str], bool]:
        entry = self._entry()
        anew = entry.lines < self._lines
        if anew:
            self._lines = 0
        lines = [line for line, _ in zip(self._store.runs.lines(self._name, self._lines), range(LINES), strict=False)]
        self._lines += len(lines)
        return anew, lines, len(lines) == LINES

    def rewind(self) -> None:
        self._lines = 0

    def leaderboard(self) -> tuple[str, bool]:
        return (self._seen.leaderboard, bool(self._seen.ending)) if self._seen else ("", False)

    def running(self) -> bool:
        return self._seen is not None and self._seen.running

    def ending(self) -> Ending | None:
        return read_ending(self._seen.ending) if self._seen else None

    def changed(self) -> float:
        return self._seen.changed if self._seen else 0.0

    def _entry(self) -> RunEntry:
        self._seen = self._store.runs.find(self._name)
        if self._seen is None:
            raise InputError(f"{self._store.shown} has no run {self._name!r}: trainless store list names them")
        return self._seen
