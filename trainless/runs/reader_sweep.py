"""A sweep as it is read: its journals row by row while it goes on, and its merged scores."""

from __future__ import annotations

import csv
import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from trainless.core.errors import InputError
from trainless.core.files import parsed
from trainless.core.opening import changed_at, is_plain, read_bytes, read_text, whole_lines
from trainless.core.processes import began_at, exists
from trainless.core.progress import time_left
from trainless.core.text import printable, undamaged
from trainless.core.types import Json
from trainless.proxies.proxy import registry as proxies
from trainless.runs.folder import MERGED, SESSIONS, SETTINGS
from trainless.runs.reader import (
    OK,
    Best,
    Candidates,
    Measured,
    RunProgress,
    RunReader,
    RunState,
    space_of,
    table_of,
)
from trainless.runs.score_file import ABSENT, COLUMNS, ScoreFile, journals_in, read_scores

PORTION = 1 << 24
FRESH = 30.0  # seconds in which a sweep that writes nothing is still taken to be at work
SLACK = 2.0  # seconds by which the clocks of processes and of files may differ
_WRITER = re.compile(r"journal-w(\d+)-\d+\.csv")
_REMEDY = "delete it, and what it held is scored again"
_EXPECTED: dict[type[Any], str] = {dict: "settings by their names", list: "sessions, each with its figures"}


class SweepReader(RunReader):
    """Reads a sweep; the clock gives seconds since 1970."""

    kind = "sweep"

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._folder, self._clock = folder, clock
        self._settings = self._read(SETTINGS, dict)
        self.space = space_of({}, str(self._settings.get("space", "")))
        self._values: dict[str, dict[tuple[str, int], tuple[float, str]]] = {}
        self._asked: dict[str, None] = {}
        self._told: dict[str, list[float]] = {}
        self._offsets: dict[str, int] = {}
        self._merged, self._in_all = 0.0, 0
        self._sessions: tuple[float, list[Any]] = (0.0, [])
        self._rows = 0

    @property
    def settings(self) -> Json:
        shown = {name: value for name, value in self._settings.items() if name != "proxies"}
        return {**shown, "proxies": list(self._asked), "sessions": self._sessions[1]}

    def refresh(self) -> bool:
        written = changed_at(self._folder / MERGED)
        if written > self._merged:
            self._merged = written
            self._merge(read_scores(self._folder / MERGED))
        ended = changed_at(self._folder / SESSIONS)
        if ended > self._sessions[0]:
            self._sessions = (ended, self._read(SESSIONS, list))
        more = False
        for path in self._journals():
            more |= self._follow(path)
        self._pace.at(len(self._values), self._clock())
        return more

    def _journals(self) -> list[Path]:
        return journals_in(self._folder)

    def _read(self, name: str, kind: type[Any]) -> Any:
        path = self._folder / name
        if not is_plain(path):
            raise InputError(f"{self._folder} is no sweep: it has no {name}")
        with undamaged(path, "give another folder"):
            found = parsed(read_text(path))
            if not isinstance(found, kind) or (kind is list and not all(isinstance(each, dict) for each in found)):
                raise TypeError(f"expected {_EXPECTED[kind]}")
            for session in found if kind is list else ():
                for figure in ("seconds", "archs_per_s"):
                    float(session.get(figure, 0.0))
            return found

    def _merge(self, file: ScoreFile) -> None:
        self._in_all = len(file.archs)
        for p, proxy in enumerate(file.proxies):
            for s, seed in enumerate(file.seeds):
                values, codes = file.values[:, p, s].tolist(), file.codes[:, p, s].tolist()
                for arch, value, code in zip(file.archs, values, codes, strict=True):
                    if file.reasons[code] != ABSENT:
                        self._take(arch, proxy, seed, value, file.reasons[code])

    def _follow(self, path: Path) -> bool:
        """Read the whole rows that a journal has gained; whether there are more."""
        start = self._offsets.get(path.name, 0)
        portion = read_bytes(path, start, PORTION)
        whole = whole_lines(portion)
        self._offsets[path.name] = start + len(whole)
        with undamaged(path, _REMEDY):
            for row in csv.reader(whole.decode("utf-8", "replace").splitlines()):
                if len(row) == len(COLUMNS) and tuple(row) != COLUMNS:
                    arch, proxy, seed, value, status, _ = row
                    self._take(arch, proxy, int(seed), float(value), status)
        return len(portion) == PORTION and bool(whole)

    def _take(self, arch: str, proxy: str, seed: int, value: float, status: str) -> None:
        held = self._values.setdefault(arch, {})
        if (proxy, seed) in held:
            return
        held[proxy, seed] = (value, status)
        self._asked.setdefault(proxy)
        self._told.setdefault(proxy, []).append(value)
        self._rows += 1
        if status != OK:
            self._failures.add(arch, proxy, status)

    def progress(self) -> RunProgress:
        state, done = self._state(), len(self._values)
        total = max(done, self._in_all or int(self._settings.get("networks") or 0)) or None
        if state == "running" and total == done:
            total = None  # of this session nobody has said how many there are
        rate = self._pace.rate if state == "running" else float(self._last().get("archs_per_s", math.nan))
        left = time_left(done, total, rate, None) if state == "running" else math.nan
        seconds = sum(float(session.get("seconds", 0)) for session in self._sessions[1])
        if state == "running":
            seconds += max(0.0, self._clock() - max(self._sessions[0], changed_at(self._folder / SETTINGS)))
        changed = max(self._touched(), changed_at(self._folder / SETTINGS), self._sessions[0])
        return RunProgress(state, done, total, "networks", rate, seconds, left, changed)

    def _last(self) -> Json:
        return self._sessions[1][-1] if self._sessions[1] else {}

    def _touched(self) -> float:
        return max((changed_at(path) for path in self._journals()), default=0.0)

    def _state(self) -> RunState:
        """A sweep notes a session when it ends; journals that are newer are of one that goes on or was killed."""
        ended, began = self._sessions[0], changed_at(self._folder / SETTINGS)
        newer = [path for path in self._journals() if changed_at(path) > ended]
        written = max(self._touched(), began)
        if newer or not ended:
            alive = any(_alive(path) for path in newer)
            return "running" if alive or self._clock() - written < FRESH else "stopped"
        return "finished" if self._last().get("archs") == self._last().get("of") else "ended"

    def _mark(self) -> object:
        return self._rows

    def _candidates(self) -> Candidates:
        names, archs = list(self._asked), list(self._values)
        rows = [_means(self._values[arch], names) for arch in archs]
        status = [_failed(self._values[arch]) for arch in archs]
        columns = [Measured(name, self._up(name)) for name in names]
        return table_of(archs, columns, rows, status)

    def _up(self, name: str) -> bool:
        return bool(proxies[name].higher_is_better) if name in proxies else True

    def best(self) -> Best | None:
        table = self.table()  # a sweep has no order of its own: the best is by the first proxy
        values = table.values[:, 0] if table.columns else np.zeros(0)
        if not np.isfinite(values).any():
            return None
        name, up = table.columns[0]
        place = int(np.argmax(np.where(np.isfinite(values), values if up else -values, -np.inf)))
        return Best(table.archs[place], name, float(values[place]))

    def told(self, column: str) -> tuple[list[float], bool]:
        name = next((name for name in self._told if printable(name) == column), column)
        return self._told.get(name, []), self._up(name)


def _means(held: dict[tuple[str, int], tuple[float, str]], names: list[str]) -> list[float]:
    columns: dict[str, list[float]] = {}
    for (proxy, _), (value, _) in held.items():
        columns.setdefault(proxy, []).append(value)
    return [math.fsum(found) / len(found) if (found := columns.get(name)) else math.nan for name in names]


def _failed(held: dict[tuple[str, int], tuple[float, str]]) -> str:
    said = {f"{proxy}: {status}": None for (proxy, _), (_, status) in held.items() if status != OK}
    return "; ".join(said) or OK


def _alive(journal: Path) -> bool:
    """Whether the process of this machine that writes a journal lives; one that began later is another."""
    found = _WRITER.fullmatch(journal.name)
    return found is not None and exists(int(found[1])) and began_at(int(found[1])) <= changed_at(journal) + SLACK
