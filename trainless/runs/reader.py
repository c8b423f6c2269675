"""The one reader of a run, whichever kind it is: the page, the terminal, the report and the exports go by it.

It says how far the run is, has its candidates as a table, and what could not be measured.
"""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from trainless.core.errors import InputError
from trainless.core.files import read_json
from trainless.core.markup import card
from trainless.core.opening import is_plain, without_links
from trainless.core.progress import Pace, clock
from trainless.core.text import printable
from trainless.core.types import Floats, Json
from trainless.runs.folder import CONFIGURATION, LOCK, MERGED, SESSIONS, SETTINGS
from trainless.runs.plots import RunPlots, lacking, table_rows
from trainless.spaces import registry as spaces
from trainless.spaces import space as find_space
from trainless.spaces.protocol import Space

RunState = Literal["running", "finished", "ended", "stopped"]
RunKind = Literal["search", "sweep", "design"]
MEMBER_OF = "member "  # how the column of a training that failed begins
_ERROR = re.compile(r"[A-Za-z_.]*(Error|Exception|Exit|Interrupt|Timeout|Warning)\b|it took longer|the worker")
KEPT = 2000  # failures that are kept with their architecture
OK = "ok"
SUM_OF_RANKS = "sum of ranks"  # what decides an order where no ranking is named
MEANINGS: dict[RunState, str] = {
    "running": "a process works on it",
    "finished": "it came to its end",
    "ended": "it stopped before all was done; nobody noted why",
    "stopped": "no process works on it: the same command resumes it",
}


class RunStage(NamedTuple):
    """A part of a run: its name, and how much of how much is done."""

    name: str
    done: float
    total: float


@dataclass(frozen=True)
class RunProgress:
    """Progress of a run.

    ``total`` is None, ``rate`` (per second, lately) and ``left`` (seconds) are NaN where nobody knows; ``changed`` is
    in seconds since 1970; ``detail`` says what it does now, and ``scope`` what the time that is left is of, where it is
    not the whole run.
    """

    state: RunState
    done: int
    total: int | None
    unit: str
    rate: float
    seconds: float
    left: float
    changed: float
    detail: str = ""
    scope: str = ""
    stages: tuple[RunStage, ...] = ()


class Failure(NamedTuple):
    """A measurement that failed, and why."""

    arch: str
    column: str
    reason: str


class Best(NamedTuple):
    """The best so far: a column, its value and whose it is."""

    arch: str
    column: str
    value: float


@dataclass
class Failures:
    """Every failure counted by its reason, and the last of them."""

    last: deque[Failure] = field(default_factory=lambda: deque(maxlen=KEPT))
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, arch: str, column: str, reason: str) -> None:
        self.last.append(Failure(arch, column, reason))
        self.reasons[column, reason] += 1

    @property
    def total(self) -> int:
        return self.reasons.total()

    @property
    def errors(self) -> int:
        """How many went wrong; the others are scores that a network has not, such as a dead one, which is ordinary.

        Example:
            >>> found = Failures()
            >>> found.add("a", "zico", "the gradient is zero")
            >>> found.add("a", "snip", "RuntimeError: out of memory")
            >>> found.total, found.errors
            (2, 1)
        """
        return sum(n for (where, why), n in self.reasons.items() if _ERROR.match(why) or where.startswith(MEMBER_OF))


class Measured(NamedTuple):
    """A column of numbers; ``higher_is_better`` is None where neither is."""

    name: str
    higher_is_better: bool | None


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidates as a table, in their order where ``ranked``.

    Names are empty where the architecture, in the space's notation, is its name. Values are ``(candidates, columns)``
    and NaN where there is none; the status is ``ok``, or why a value is missing.
    """

    names: tuple[str, ...]
    archs: tuple[str, ...]
    columns: tuple[Measured, ...]
    values: Floats
    status: tuple[str, ...]
    ranked: bool = False

    def __len__(self) -> int:
        return len(self.archs)

    def column(self, name: str) -> Floats:
        for place, column in enumerate(self.columns):
            if column.name == name:
                return self.values[:, place]
        known = ", ".join(column.name for column in self.columns) or "none"
        raise InputError(f"the column {name!r} was asked for; expected one of {known}")


NOTHING = Candidates((), (), (), np.zeros((0, 0)), ())


def table_of(
    archs: Sequence[str],
    columns: Sequence[Measured],
    rows: Sequence[Sequence[float]],
    status: Sequence[str],
    *,
    names: Sequence[str] = (),
    ranked: bool = False,
) -> Candidates:
    """A table from rows; texts are made printable, so that whoever asks for one by what was shown finds it."""
    values = np.array(rows, np.float64).reshape(len(archs), len(columns))
    named = tuple(Measured(printable(column.name), column.higher_is_better) for column in columns)
    shown, texts, said = (tuple(map(printable, each)) for each in (names, archs, status))
    return Candidates(shown, texts, named, values, said, ranked)


def status_of(failures: Mapping[str, str]) -> str:
    """Reasons by column as one text; ``ok`` where there are none."""
    return "; ".join(f"{name}: {reason}" for name, reason in failures.items()) or OK


class RunReader(RunPlots, ABC):
    """Reads one run again and again; it never writes, and it may be behind for a while on a large one.

    Attributes:
        kind: What it is a run of.
        space: The space; None where it is code of the user's own, which is not run here.
    """

    kind: ClassVar[RunKind]
    space: Space | None = None

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """Begin with the first line again."""
        self._failures, self._pace = Failures(), Pace()
        self._made: tuple[object, Candidates] = (None, NOTHING)

    def __repr__(self) -> str:
        """What it is a run of, how far it is, and the best of it; failures first."""
        return f"Run({'; '.join([*self._alarms(), *self._facts()])})"

    def _repr_html_(self) -> str:
        facts = self._facts()
        return card(f"Run: {facts[0]}", "; ".join(facts[1:]), alarms=self._alarms(), **table_rows(self.table()))

    def _facts(self) -> list[str]:
        now, best = self.progress(), self.best()
        of = "" if now.total is None else f" of {now.total:,}"
        facts = [f"{self.kind}, {now.state}", f"{now.done:,}{of} {now.unit} in {clock(now.seconds)}"]
        if best is not None:
            facts.append(f"best: {best.arch} ({best.column} {best.value:.4g})")
        said, alarming = lacking(self.table())
        return facts if alarming else [*facts, *said]

    def _alarms(self) -> list[str]:
        state = self.progress().state
        said, alarming = lacking(self.table())
        return [*([MEANINGS[state]] if state in ("ended", "stopped") else []), *(said if alarming else [])]

    @property
    @abstractmethod
    def settings(self) -> Json: ...

    @property
    def failures(self) -> Failures:
        return self._failures

    @abstractmethod
    def refresh(self) -> bool:
        """Read what is new; whether there is more to be read at once."""

    @abstractmethod
    def progress(self) -> RunProgress: ...

    def table(self) -> Candidates:
        """The candidates; the same object as long as nothing is new."""
        mark = self._mark()
        if self._made[0] != mark:
            self._made = (mark, self._candidates())
        return self._made[1]

    @abstractmethod
    def _mark(self) -> object:
        """Differs whenever the table has to be made anew."""

    @abstractmethod
    def _candidates(self) -> Candidates:
        """The table, made anew."""

    @abstractmethod
    def best(self) -> Best | None: ...


def space_of(settings: Mapping[str, Any], text: str) -> Space | None:
    """The space of a run from what it is called, such as ``nb201(channels=8, cells=1)``; None if it is not known.

    Example:
        >>> from trainless.spaces.protocol import key
        >>> key(space_of({}, "nb201(channels=8, cells=1)"))
        'nb201(channels=8, cells=1)'
    """
    reference = str(settings.get("space", ""))
    if ":" in reference:  # code of the user's own, which runs only where the command line names it
        return None
    found = re.fullmatch(r"([\w-]+)\((.*)\)", text, re.DOTALL)
    if not found or found[1] not in spaces:
        return None
    try:
        call = ast.parse(f"_({found[2]})", mode="eval").body
        given = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}  # type: ignore[attr-defined]
        return find_space(found[1], **given)
    except (SyntaxError, ValueError, InputError):
        return None


def is_sweep(folder: Path) -> bool:
    """Whether a folder is that of ``bench sweep``."""
    return is_plain(folder / SETTINGS) and not is_plain(folder / CONFIGURATION)


def is_run(files: Collection[str]) -> bool:
    """Whether a folder that holds these files is that of a search, a design or a sweep.

    Other programs call files ``settings.json``, too; a sweep has its lock, sessions, scores or journals beside it.

    Example:
        >>> is_run({"run.json"}), is_run({"settings.json", "scores.npz"}), is_run({"settings.json", "extensions.json"})
        (True, True, False)
    """
    beside = {LOCK, SESSIONS, MERGED}.intersection(files) or any(name.startswith("journal-") for name in files)
    return CONFIGURATION in files or (SETTINGS in files and bool(beside))


def settings_in(folder: Path) -> Json:
    """What was asked for of a run, by its configuration alone; with ``verb``, the kind of run that it is."""
    name = CONFIGURATION if is_plain(folder / CONFIGURATION) else SETTINGS
    found = read_json(folder / name)
    design = found.get("verb") == "design"
    return {**found, "verb": "sweep" if name == SETTINGS else "design" if design else "search"}


def reader_at(place: str | Path, *, keep: bool = False) -> RunReader:
    """A reader of a folder of ``search``, ``bench sweep`` or ``design``; to ``keep`` keeps every step of a search.

    The folder itself may be reached through links of the user's own, and nothing in it.
    """
    from trainless.runs.reader_design import DesignReader
    from trainless.runs.reader_search import FolderSource, SearchReader
    from trainless.runs.reader_sweep import SweepReader

    folder = without_links(place)
    if is_sweep(folder):
        return SweepReader(folder)
    source = FolderSource(folder)
    configuration = source.configuration()
    if configuration.get("verb") == "design":
        return DesignReader(folder, keep=keep)
    if "searcher" not in configuration:
        raise InputError(f"{folder} is no folder of trainless search, design or bench sweep: give one of those")
    return SearchReader(source, keep=keep)


def open_run(folder: str | Path) -> RunReader:
    """Open a run folder to look at it: its table, its failures, its plots; nothing is written there.

    Args:
        folder: Of ``trainless search``, ``trainless design`` or ``trainless bench sweep``, also while it goes on
            (:meth:`RunReader.refresh` reads what is new).

    Raises:
        InputError: It is no such folder.
    """
    return catch_up(reader_at(Path(folder)))


def catch_up(reader: RunReader) -> RunReader:
    """Read all that there is by now."""
    while reader.refresh():
        pass
    return reader
