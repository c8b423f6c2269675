"""A search as it is read: its trajectory line by line while it goes on, and its leaderboard once it has ended."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from trainless.core.arch import Arch, is_region
from trainless.core.errors import TrainlessError
from trainless.core.progress import Pace, time_left
from trainless.core.text import printable, undamaged
from trainless.core.types import Floats, Json
from trainless.designs.reporting import space_of
from trainless.rankings import registry as rankings
from trainless.runs.loop import Step
from trainless.runs.signals import scores_of, signal_for
from trainless.runs.trajectory import step_of
from trainless.scoring.measures import Outcome
from trainless.spaces.protocol import Space
from trainless.ui.progress import Best, Failure, Failures, Kind, Progress, State
from trainless.ui.sources import Source
from trainless.ui.table import NOTHING, OK, Column, Table, table_of

STATE_LINE = '{"state": '
DECISIVE = ("space", "decisions", "higher_is_better", "ranking")  # another run in the same place has others
FIXED = ("rank", "arch", "fidelity", "status")
_REMEDY = "give another run"


class SearchReader:
    """Reads a search.

    Args:
        source: Where it is.
    """

    kind: Kind = "search"

    def __init__(self, source: Source) -> None:
        self._source = source
        self._open(source.configuration())

    def _open(self, configuration: Json) -> None:
        self._settings = configuration
        with undamaged("the run's configuration", _REMEDY):
            self._directions = {str(n): bool(up) for n, up in self._settings["higher_is_better"].items()}
            self._ranking = str(self._settings.get("ranking") or "")
            self._decisions = {str(n): [str(o) for o in each] for n, each in self._settings["decisions"].items()}
            self._space = space_of(self._settings, str(self._settings["space"]))
        self._begin()

    def _begin(self) -> None:
        self._top: dict[Arch, tuple[float, Outcome]] = {}
        self._told: dict[str, list[float]] = {name: [] for name in self._directions}
        self._spent: tuple[int, float] = (0, 0.0)
        self._lines, self._regions = 0, 0
        self._pace = Pace()
        self._failures = Failures()
        self._made: tuple[object, Table] = (None, NOTHING)
        self._whole: tuple[object, bool] = (None, False)

    @property
    def settings(self) -> Json:
        """What was asked for."""
        return self._settings

    @property
    def space(self) -> Space | None:
        """The space, where it is a registered one."""
        return self._space

    @property
    def failures(self) -> Failures:
        """What could not be measured."""
        return self._failures

    def refresh(self) -> bool:
        """Take in what was written since."""
        configuration = self._source.configuration()
        if any(configuration.get(name) != self._settings.get(name) for name in DECISIVE):
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
        for proposal, outcome in zip(step.proposals, step.outcomes, strict=True):
            twin = None if is_region(proposal.candidate) else self._twin(proposal.arch)
            for column, reason in outcome.failures.items():
                text = "a region" if twin is None else self._text(twin)
                self._failures.add(Failure(text, str(column), str(reason)))
            if twin is None:
                self._regions += 1
                continue
            for name, values in self._told.items():
                values.append(outcome.values.get(name, math.nan))
            held = self._top.get(twin)
            if held is None or proposal.fidelity > held[0]:
                self._top[twin] = (proposal.fidelity, outcome)
        self._spent = (int(step.spent.evaluations), float(step.spent.seconds))
        self._pace.at(*self._spent)

    def _twin(self, arch: Arch) -> Arch:
        return arch if self._space is None else self._space.canonical(arch)

    def _text(self, arch: Arch) -> str:
        """The space's notation, or the options by their names."""
        if self._space is not None:
            return self._space.format(arch)
        pairs = zip(self._decisions.items(), arch, strict=True)
        return ", ".join(f"{name}={options[option]}" for (name, options), option in pairs)

    def progress(self) -> Progress:
        """By the trajectory and the budget."""
        done, seconds = self._spent
        with undamaged("the run's budget", _REMEDY):
            budget = self._settings.get("budget", {})
            total = None if budget.get("evaluations") is None else int(budget["evaluations"])
            limit = None if budget.get("seconds") is None else float(budget["seconds"])
        state = self._state(total, limit)
        going = state == "running"
        return Progress(
            state,
            done,
            total,
            "evaluations",
            self._pace.rate if going or not seconds else done / seconds,
            seconds,
            time_left(done, total, self._pace.rate, None if limit is None else limit - seconds) if going else math.nan,
            self._source.changed(),
            self._detail(going),
        )

    def _detail(self, going: bool) -> str:
        """What there is to say of it beside the numbers."""
        said = [f"{self._regions} regions pruned"] if self._regions else []
        ending = None if going else self._source.ending()
        if ending is not None and not ending.concluded:
            said.append(f"{ending.end}: {ending.reason}" if ending.reason else ending.end)
        return "; ".join(said)

    def _state(self, total: int | None, limit: float | None) -> State:
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

    def table(self) -> Table:
        """The leaderboard: the one that the run wrote at its end, before that the same order of what is there."""
        final = "" if self._source.running() else self._published()
        mark = (self._lines, final)
        if self._made[0] != mark:
            with undamaged("the leaderboard", _REMEDY):
                self._made = (mark, self._final(final) if final else self._live())
        return self._made[1]

    def _live(self) -> Table:
        twins = list(self._top)
        rows = [[outcome.values.get(name, math.nan) for name in self._directions] for _, outcome in self._top.values()]
        status = [_status(outcome.failures) for _, outcome in self._top.values()]
        standing = self._standing(rows)
        if standing is None:
            return table_of([self._text(twin) for twin in twins], self._scored(), rows, status)
        shares = np.array([share for share, _ in self._top.values()])
        standing = np.where(np.isnan(standing), -np.inf, standing)
        order = np.lexsort((np.arange(len(twins)), -standing, -shares)).tolist()
        return self._joined([twins[at] for at in order], [rows[at] for at in order], [status[at] for at in order])

    def _joined(self, twins: Sequence[Arch], rows: list[list[float]], status: list[str]) -> Table:
        return self._with_standing([self._text(twin) for twin in twins], self._scored(), rows, status)

    def _final(self, text: str) -> Table:
        found = list(csv.reader(text.splitlines()))
        head, body = (found[0], found[1:]) if found else ([], [])
        numbers = [name for name in head if name not in FIXED]
        at = {name: place for place, name in enumerate(head)}
        rows = [[_number(row[at[name]]) for name in numbers] for row in body]
        columns = [Column(name, self._directions.get(name, False)) for name in numbers]
        return self._with_standing(
            [row[at["arch"]] for row in body], columns, rows, [row[at["status"]] for row in body]
        )

    def _with_standing(
        self, archs: list[str], columns: list[Column], rows: list[list[float]], status: list[str]
    ) -> Table:
        """With the value that decides the order, where it is not one of the columns."""
        if len(self._directions) > 1 and rows:
            places = [[column.name for column in columns].index(name) for name in self._directions]
            standing = self._standing([[row[place] for place in places] for row in rows])
            if standing is not None:
                columns = [Column(self._ranking or "sum of ranks", True), *columns]
                rows = [[float(value), *row] for value, row in zip(standing, rows, strict=True)]
        return table_of(archs, columns, rows, status, ranked=True)

    def _scored(self) -> list[Column]:
        return [Column(name, up) for name, up in self._directions.items()]

    def _standing(self, rows: Sequence[Sequence[float]]) -> Floats | None:
        """What the order goes by; None where the ranking is code of the user's own."""
        if not rows or (self._ranking and self._ranking not in rankings):
            return None
        named = {str(at): dict(zip(self._directions, row, strict=True)) for at, row in enumerate(rows)}
        try:
            signal = signal_for(rankings[self._ranking] if self._ranking else None, self._directions)
            return signal.standing(scores_of(named, self._directions))
        except TrainlessError:
            return None

    def best(self) -> Best | None:
        """The first of the leaderboard, with the value that puts it there."""
        table = self.table()
        if not len(table) or not table.ranked or np.isnan(table.values[0, 0]):
            return None
        return Best(table.archs[0], table.columns[0].name, float(table.values[0, 0]))

    def told(self, column: str) -> tuple[list[float], bool]:
        """Every value in the order of the evaluations."""
        name = next((name for name in self._told if printable(name) == column), column)
        return self._told.get(name, []), self._directions.get(name, True)


def _status(failures: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in failures.items()) or OK


def _number(cell: str) -> float:
    return float(cell) if cell else math.nan
