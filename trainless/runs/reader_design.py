"""A design as it is read: its searches, the members that were trained, and which stage it is in."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trainless.core.opening import below, changed_at, folders_in, is_plain
from trainless.core.text import undamaged
from trainless.core.types import Json
from trainless.learn.members import MEMBER, read_document
from trainless.runs.folder import (
    CONFIGURATION,
    MEMBERS,
    PLAN,
    REPORT,
    RESULT,
    SEARCHES,
    SUMMARY,
    is_held,
    read_configuration,
)
from trainless.runs.plots import DesignPlots
from trainless.runs.reader import (
    MEMBER_OF,
    OK,
    Best,
    Candidates,
    Failures,
    Measured,
    RunProgress,
    RunReader,
    RunStage,
    RunState,
    space_of,
    table_of,
)
from trainless.runs.reader_search import FolderSource, SearchReader

_HIGHER = {"valid_loss": False, "valid_accuracy": True, "epochs": None, "seconds": None}
COLUMNS = tuple(Measured(*each) for each in _HIGHER.items())
SECONDS = 3
_REMEDY = "give another folder"


class DesignReader(RunReader, DesignPlots):
    """Reads a design; its searches keep their steps where asked, and the clock gives seconds since 1970."""

    kind = "design"

    def __init__(self, folder: Path, *, keep: bool = False, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self.folder, self._keep, self._clock = folder, keep, clock
        self.searches: dict[str, SearchReader] = {}
        self._settings: Json = read_configuration(folder)
        self._plan: Mapping[str, Any] = {}
        self._planned = 0.0
        self._members: dict[str, Mapping[str, Any]] = {}
        self.summary: Mapping[str, Any] = {}

    @property
    def settings(self) -> Json:
        planned = {name: value for name, value in self._plan.items() if name != "version"}
        return {**self._settings, **({"plan": planned} if planned else {})}

    @property
    def failures(self) -> Failures:
        found = Failures()
        for name, reader in self.searches.items():
            for arch, column, reason in reader.failures.last:
                found.add(arch, f"{name}: {column}", reason)
        for name, about in self._members.items():
            if about["status"] != OK:
                found.add(str(about["arch"]), f"{MEMBER_OF}{name}", str(about["status"]))
        return found

    def refresh(self) -> bool:
        planned = changed_at(self.folder / PLAN)
        if planned > self._planned:
            self._planned = planned
            self._plan = read_document(self.folder / PLAN)
            self.space = space_of(self._settings, str(self._plan.get("space", "")))
        more = False
        for name in folders_in(self.folder / SEARCHES, CONFIGURATION):
            if name not in self.searches:
                self.searches[name] = SearchReader(FolderSource(self.folder / SEARCHES / name), keep=self._keep)
            more |= self.searches[name].refresh()
        for name in folders_in(self.folder / MEMBERS, MEMBER):
            if name not in self._members:
                about = read_document(self.folder / MEMBERS / name / MEMBER)
                with undamaged(self.folder / MEMBERS / name, _REMEDY):
                    self._members[name] = _member(about)
        if not self.summary and is_plain(self.folder / SUMMARY):
            self.summary = read_document(self.folder / SUMMARY)
        return more

    def progress(self) -> RunProgress:
        stages = self._stages()
        state = self._state()
        done = sum(reader.progress().done for reader in self.searches.values())
        changed = self._changed()
        began = changed_at(self.folder / CONFIGURATION)
        seconds = max(0.0, self._clock() - began) if state == "running" else self._spent()
        now = next((stage for stage in stages if stage.done < stage.total), None)
        left, detail, scope = self._left(now) if state == "running" and now else (math.nan, "", "")
        rate = next((r.progress().rate for r in self.searches.values() if r.progress().state == "running"), math.nan)
        return RunProgress(state, done, None, "evaluations", rate, seconds, left, changed, detail, scope, tuple(stages))

    def _spent(self) -> float:
        """Seconds of wall time, as the summary has it, else from the first to the last result; NaN where unknown."""
        with undamaged(self.folder / SUMMARY, _REMEDY):
            known = self.summary.get("spent", {}).get("seconds")
            took = self._worked() - changed_at(self.folder / CONFIGURATION) if known is None else float(known)
        return took if took >= 0 else math.nan

    def _stages(self) -> list[RunStage]:
        trials = self._plan.get("searches", [])
        with undamaged(self.folder / PLAN, _REMEDY):
            shares = [self._share(str(trial["name"]), trial.get("evaluations")) for trial in trials]
            trained = sum(about["status"] == OK for about in self._members.values())
            wanted = int(self._plan.get("members", 0)) + int(self._plan.get("baseline", 0))
        joined = is_plain(self.folder / SUMMARY)
        return [
            RunStage("planning", float(bool(self._plan)), 1.0),
            RunStage("searching", float(sum(shares)), float(max(1, len(trials)))),
            RunStage("training", float(wanted or 1) if joined else float(trained), float(wanted or 1)),
            RunStage("calibrating", float(joined), 1.0),
            RunStage("reporting", float(is_plain(self.folder / REPORT)), 1.0),
        ]

    def _share(self, name: str, evaluations: int | None) -> float:
        if is_plain(below(self.folder, SEARCHES, name) / RESULT):
            return 1.0
        reader = self.searches.get(name)
        done = reader.progress().done if reader else 0
        return min(0.99, done / evaluations) if evaluations else 1 - 1 / (1 + done / 50)

    def _left(self, stage: RunStage) -> tuple[float, str, str]:
        """Seconds that are left, what is done now, and what that time is of."""
        if stage.name == "searching":
            running = [name for name, each in self.searches.items() if each.progress().state == "running"]
            left = self.searches[running[0]].progress().left if running else math.nan
            return left, f"searching: {running[0]}" if running else "searching", "of this search"
        if stage.name == "training" and self._members:
            took = [float(about["values"][SECONDS]) for about in self._members.values()]
            return (stage.total - stage.done) * sum(took) / len(took), "training members", "of the training"
        return math.nan, stage.name, "of this stage"

    def _changed(self) -> float:
        return max(self._worked(), changed_at(self.folder / REPORT))

    def _worked(self) -> float:
        """When something was worked out last; a report may be made again at any time."""
        here = [changed_at(self.folder / name) for name in (CONFIGURATION, PLAN, SUMMARY)]
        members = [changed_at(self.folder / MEMBERS / name / MEMBER) for name in self._members]
        return max(*here, *members, *(reader.progress().changed for reader in self.searches.values()))

    def _state(self) -> RunState:
        if is_held(self.folder):
            return "running"
        return "finished" if is_plain(self.folder / SUMMARY) else "stopped"

    def _mark(self) -> object:
        return len(self._members)

    def _candidates(self) -> Candidates:
        names = list(self._members)
        rows = [self._members[name]["values"] for name in names]
        archs = [str(self._members[name]["arch"]) for name in names]
        status = [str(self._members[name]["status"]) for name in names]
        return table_of(archs, COLUMNS, rows, status, names=names)

    def best(self) -> Best | None:
        table = self.table()
        losses = [value if math.isfinite(value) else math.inf for value in table.values[:, 0]] if len(table) else []
        if losses and min(losses) < math.inf:
            place = losses.index(min(losses))
            return Best(table.archs[place], "valid_loss", losses[place])
        return next((found for reader in self.searches.values() if (found := reader.best())), None)

    def told(self, column: str) -> tuple[list[float], bool]:
        table = self.table()
        up = next((each.higher_is_better for each in table.columns if each.name == column), True)
        return (table.column(column).tolist() if len(table) else []), bool(up)


def _member(about: Mapping[str, Any]) -> dict[str, Any]:
    """The row of the table from ``member.json``."""
    history = about["history"]
    best: Mapping[str, Any] = min(history, key=lambda epoch: _number(epoch.get("valid_loss")), default={})
    loss, accuracy = (_number(best.get(name), math.nan) for name in ("valid_loss", "valid_accuracy"))
    values = [loss, accuracy, float(len(history)), float(sum(epoch["seconds"] for epoch in history))]
    return {"arch": str(about["text"]), "status": str(about["status"]), "values": values}


def _number(value: Any, otherwise: float = math.inf) -> float:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else otherwise
