"""How far a run is, in numbers that the terminal and the page show alike."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from trainless.core.types import Json
from trainless.spaces.protocol import Space
from trainless.ui.table import Table

State = Literal["running", "finished", "ended", "stopped"]
Kind = Literal["search", "sweep", "design"]
KEPT = 2000  # failures that are kept with their architecture

MEANINGS: dict[State, str] = {
    "running": "a process works on it",
    "finished": "it came to its end",
    "ended": "it stopped before all was done; nobody noted why",
    "stopped": "no process works on it: the same command goes on with it",
}


@dataclass(frozen=True)
class Stage:
    """A part of a run: its name, and how much of how much is done."""

    name: str
    done: float
    total: float


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Args:
        state: Whether it goes on (:data:`MEANINGS`).
        done: Candidates so far.
        total: How many there will be; None where nobody knows.
        unit: What is counted.
        rate: Of them per second, lately; NaN where it is not known.
        seconds: What it took so far.
        left: Seconds that are left; NaN where nobody knows.
        changed: When it wrote something last, in seconds since 1970.
        detail: What it does now.
        scope: What the time that is left is of, where it is not the whole run.
        stages: Its parts, where it has some.
    """

    state: State
    done: int
    total: int | None
    unit: str
    rate: float
    seconds: float
    left: float
    changed: float
    detail: str = ""
    scope: str = ""
    stages: tuple[Stage, ...] = ()


class Failure(NamedTuple):
    """What could not be measured, and why."""

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
    """Every failure counted by its reason, and the last of them.

    Example:
        >>> failures = Failures()
        >>> failures.add(Failure("a", "snip", "not finite"))
        >>> failures.total, failures.reasons.most_common()
        (1, [(('snip', 'not finite'), 1)])
    """

    last: deque[Failure] = field(default_factory=lambda: deque(maxlen=KEPT))
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, failure: Failure) -> None:
        """One more."""
        self.last.append(failure)
        self.reasons[failure.column, failure.reason] += 1

    @property
    def total(self) -> int:
        """How many."""
        return self.reasons.total()


class Reader(Protocol):
    """Reads one run again and again; it never writes, and it may be behind for a while on a large one."""

    kind: Kind

    @property
    def settings(self) -> Json:
        """What was asked for."""
        ...

    @property
    def space(self) -> Space | None:
        """The space; None where it is code of the user's own, which is not run here."""
        ...

    @property
    def failures(self) -> Failures:
        """What could not be measured."""
        ...

    def refresh(self) -> bool:
        """Read what is new; whether there is more to be read at once."""
        ...

    def progress(self) -> Progress:
        """How far it is."""
        ...

    def table(self) -> Table:
        """The candidates; the same object as long as nothing is new."""
        ...

    def best(self) -> Best | None:
        """The best so far."""
        ...

    def told(self, column: str) -> tuple[list[float], bool]:
        """Every value of a column in the order in which they came, and whether higher is better."""
        ...
