"""A search as it is read: its trajectory line by line while it goes on, and its leaderboard once it has ended.

It is read from its folder, or from a store that many machines share.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from trainless.core.arch import Arch, is_region
from trainless.core.errors import InputError, TrainlessError
from trainless.core.opening import changed_at, is_plain, read_bytes, whole_lines
from trainless.core.progress import time_left
from trainless.core.text import printable, undamaged
from trainless.core.types import Floats, Json
from trainless.rankings import registry as rankings
from trainless.runs.folder import (
    CONFIGURATION,
    ENDING,
    LEADERBOARD,
    RESULT,
    TRAJECTORY,
    Ending,
    is_held,
    read_configuration,
    read_ending,
)
from trainless.runs.loop import Step
from trainless.runs.reader import (
    SUM_OF_RANKS,
    Best,
    Candidates,
    Measured,
    RunProgress,
    RunReader,
    RunState,
    space_of,
    status_of,
    table_of,
)
from trainless.runs.signals import scores_of, signal_for
from trainless.runs.trajectory import step_of
from trainless.scoring.measures import Outcome
from trainless.store import RunEntry, SqlStore

PORTION = 1 << 22  # bytes that are read at a time
TAIL = 200  # bytes before the place where reading goes on, by which a trajectory that was replaced is known
LINES = 5000
STATE_LINE = '{"state": '
DECISIVE = ("space", "decisions", "higher_is_better", "ranking")  # another run in the same place has others
FIXED = ("rank", "arch", "fidelity", "status")
_REMEDY = "give another run"


class SearchSource(Protocol):
    """A search that somebody writes and we read."""

    def configuration(self) -> Json: ...

    def more(self) -> tuple[bool, list[str], bool]:
        """Whether the lines begin anew, further whole lines of the trajectory, and whether there are more at once."""

    def rewind(self) -> None:
        """Begin with the first line again."""

    def leaderboard(self) -> tuple[str, bool]:
        """The leaderboard as CSV, and whether it was surely written after the last step."""

    def running(self) -> bool: ...

    def ending(self) -> Ending | None:
        """The end of its last session, where that was noted."""

    def changed(self) -> float:
        """When it was written last, in seconds since 1970."""


class FolderSource:
    """A search in its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / TRAJECTORY
        self._offset, self._tail = 0, b""

    def configuration(self) -> Json:
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
        whole = whole_lines(portion)
        self._offset += len(whole)
        self._tail = whole[-TAIL:] or self._tail
        return anew, whole.decode("utf-8", "replace").split("\n")[:-1], len(portion) == PORTION and bool(whole)

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
        with undamaged(f"the run {self._name!r} in {self._store.shown}", _REMEDY):
            found = json.loads(self._entry().configuration)
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


class SearchReader(RunReader):
    """Reads a search, and keeps every step in :attr:`steps` for who needs more than the table."""

    kind = "search"

    def __init__(self, source: SearchSource, *, keep: bool = False) -> None:
        self._source, self._keep = source, keep
        self._open(source.configuration())

    @property
    def settings(self) -> Json:
        return self._settings

    def _open(self, configuration: Json) -> None:
        self._settings = configuration
        with undamaged("the run's configuration", _REMEDY):
            self._directions = {str(n): bool(up) for n, up in self.settings["higher_is_better"].items()}
            self._ranking = str(self.settings.get("ranking") or "")
            self._decisions = {str(n): [str(o) for o in each] for n, each in self.settings["decisions"].items()}
            self.space = space_of(self.settings, str(self.settings["space"]))
        self._begin()

    def _begin(self) -> None:
        super()._begin()
        self.steps: list[Step] = []
        self._top: dict[Arch, tuple[float, Outcome]] = {}
        self._came: list[Arch] = []
        self._told: dict[str, list[float]] = {name: [] for name in self._directions}
        self._spent: tuple[int, float] = (0, 0.0)
        self._lines, self._regions = 0, 0
        self._whole: tuple[object, bool] = (None, False)

    def refresh(self) -> bool:
        configuration = self._source.configuration()
        if any(configuration.get(name) != self.settings.get(name) for name in DECISIVE):
            self._open(configuration)
            self._source.rewind()
        self._settings = configuration
        anew, lines, more = self._source.more()
        if anew:
            self._begin()
        for line in lines:
            self._lines += 1
            if not line.startswith(STATE_LINE):
                with undamaged(f"line {self._lines} of the trajectory", _REMEDY):
                    self._take(step_of(json.loads(line)))
        return more

    def _take(self, step: Step) -> None:
        if self._keep:
            self.steps.append(step)
        for proposal, outcome in zip(step.proposals, step.outcomes, strict=True):
            twin = None if is_region(proposal.candidate) else self._twin(proposal.arch)
            for column, reason in outcome.failures.items():
                text = "a region" if twin is None else self._text(twin)
                self._failures.add(text, str(column), str(reason))
            if twin is None:
                self._regions += 1
                continue
            self._came.append(twin)
            for name, values in self._told.items():
                values.append(outcome.values.get(name, math.nan))
            held = self._top.get(twin)
            if held is None or proposal.fidelity > held[0]:
                self._top[twin] = (proposal.fidelity, outcome)
        self._spent = (int(step.spent.evaluations), float(step.spent.seconds))
        self._pace.at(*self._spent)

    def _twin(self, arch: Arch) -> Arch:
        return arch if self.space is None else self.space.canonical(arch)

    def _text(self, arch: Arch) -> str:
        """The space's notation, or the options by their names."""
        if self.space is not None:
            return self.space.format(arch)
        pairs = zip(self._decisions.items(), arch, strict=True)
        return ", ".join(f"{name}={options[option]}" for (name, options), option in pairs)

    def progress(self) -> RunProgress:
        done, seconds = self._spent
        with undamaged("the run's budget", _REMEDY):
            budget = self.settings.get("budget", {})
            total = None if budget.get("evaluations") is None else int(budget["evaluations"])
            limit = None if budget.get("seconds") is None else float(budget["seconds"])
        state = self._state(total, limit)
        going, rate, changed = state == "running", self._pace.rate, self._source.changed()
        left = time_left(done, total, rate, None if limit is None else limit - seconds) if going else math.nan
        pace = rate if going or not seconds else done / seconds
        return RunProgress(state, done, total, "evaluations", pace, seconds, left, changed, self._detail(going))

    def _detail(self, going: bool) -> str:
        """Notes beside the numbers."""
        said = [f"{self._regions} regions pruned"] if self._regions else []
        ending = None if going else self._source.ending()
        if ending is not None and not ending.concluded:
            said.append(f"{ending.end}: {ending.reason}" if ending.reason else ending.end)
        return "; ".join(said)

    def _state(self, total: int | None, limit: float | None) -> RunState:
        done, seconds = self._spent
        if self._source.running():
            return "running"
        ending = self._source.ending()
        if ending is not None:
            return "finished" if ending.concluded else "stopped"
        if not self._published():
            return "stopped"
        used = (total is not None and done >= total) or (limit is not None and seconds >= limit)
        return "finished" if used else "ended"

    def _published(self) -> str:
        """The leaderboard, where it has all candidates; the files of a copied folder may be of any age."""
        text, sure = self._source.leaderboard()
        mark = (self._lines, text, sure)
        if self._whole[0] != mark:
            held = {row[1] for row in csv.reader(text.splitlines()) if len(row) > 1}
            self._whole = (mark, bool(text) and (sure or {self._text(twin) for twin in self._top} <= held))
        return text if self._whole[1] else ""

    def _mark(self) -> tuple[int, str]:
        return self._lines, "" if self._source.running() else self._published()

    def _candidates(self) -> Candidates:
        final = self._mark()[1]
        with undamaged("the leaderboard", _REMEDY):
            return self._final(final) if final else self._live()

    def _live(self) -> Candidates:
        twins = list(self._top)
        rows = [[outcome.values.get(name, math.nan) for name in self._directions] for _, outcome in self._top.values()]
        status = [status_of(outcome.failures) for _, outcome in self._top.values()]
        standing = self._standing(rows)
        if standing is None:
            return table_of([self._text(twin) for twin in twins], self._scored(), rows, status)
        shares = np.array([share for share, _ in self._top.values()])
        standing = np.where(np.isnan(standing), -np.inf, standing)
        order = np.lexsort((np.arange(len(twins)), -standing, -shares)).tolist()
        texts = [self._text(twins[at]) for at in order]
        return self._with_standing(texts, self._scored(), [rows[at] for at in order], [status[at] for at in order])

    def _final(self, text: str) -> Candidates:
        found = list(csv.DictReader(text.splitlines()))
        numbers = [name for name in found[0] if name not in FIXED] if found else []
        rows = [[_number(row[name]) for name in numbers] for row in found]
        columns = [Measured(name, self._directions.get(name, False)) for name in numbers]
        return self._with_standing([row["arch"] for row in found], columns, rows, [row["status"] for row in found])

    def _with_standing(
        self, archs: list[str], columns: list[Measured], rows: list[list[float]], status: list[str]
    ) -> Candidates:
        """With the value that decides the order, where it is not one of the columns."""
        if len(self._directions) > 1 and rows:
            places = [[column.name for column in columns].index(name) for name in self._directions]
            standing = self._standing([[row[place] for place in places] for row in rows])
            if standing is not None:
                columns = [Measured(self._ranking or SUM_OF_RANKS, True), *columns]
                rows = [[float(value), *row] for value, row in zip(standing, rows, strict=True)]
        return table_of(archs, columns, rows, status, ranked=True)

    def _scored(self) -> list[Measured]:
        return [Measured(name, up) for name, up in self._directions.items()]

    def _standing(self, rows: Sequence[Sequence[float]]) -> Floats | None:
        """The value that decides the order; None where the ranking is code of the user's own."""
        if not rows or (self._ranking and self._ranking not in rankings):
            return None
        named = {str(at): dict(zip(self._directions, row, strict=True)) for at, row in enumerate(rows)}
        try:
            signal = signal_for(rankings[self._ranking] if self._ranking else None, self._directions)
            return signal.standing(scores_of(named, self._directions))
        except TrainlessError:
            return None

    def leaderboard(self, most: int) -> list[tuple[str, dict[str, float]]]:
        """The first rows of the leaderboard that the run wrote, with their scores; none before it did."""
        rows = csv.DictReader(self._source.leaderboard()[0].splitlines())
        with undamaged("the leaderboard", _REMEDY):
            return [
                (row["arch"], {name: _number(row.get(name, "")) for name in self._directions})
                for row, _ in zip(rows, range(most), strict=False)
            ]

    def best(self) -> Best | None:
        table = self.table()
        if not len(table) or not table.ranked or np.isnan(table.values[0, 0]):
            return None
        return Best(table.archs[0], table.columns[0].name, float(table.values[0, 0]))

    def told(self, column: str) -> tuple[list[float], bool]:
        if len(self._directions) > 1 and column == printable(self._ranking or SUM_OF_RANKS):
            table = self.table()
            standing = dict(zip(table.archs, table.values[:, 0].tolist(), strict=True))
            return [standing.get(printable(self._text(twin)), math.nan) for twin in self._came], True
        name = next((name for name in self._told if printable(name) == column), column)
        return self._told.get(name, []), self._directions.get(name, True)


def _number(cell: str) -> float:
    return float(cell) if cell else math.nan
