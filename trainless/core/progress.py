"""Progress: a pace, the time that is left at it, and bars on a terminal for whatever takes more than two seconds."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")
PATIENCE_SECONDS, EVERY_SECONDS = 2.0, 0.5
WINDOW = 60.0  # seconds over which a pace is taken


class Pace:
    """Units per second over the last minute."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, float]] = deque()

    def at(self, done: float, seconds: float) -> None:
        """Note that so many were done after so many seconds; a clock that was set back begins anew."""
        if self._marks and seconds < self._marks[-1][1]:
            self._marks.clear()
        self._marks.append((done, seconds))
        while len(self._marks) > 2 and seconds - self._marks[1][1] > WINDOW:
            self._marks.popleft()

    @property
    def rate(self) -> float:
        """NaN before there are two marks."""
        if len(self._marks) < 2:
            return math.nan
        (first, began), (last, ended) = self._marks[0], self._marks[-1]
        return (last - first) / (ended - began) if ended > began else math.nan


def time_left(done: float, total: float | None, rate: float, seconds_left: float | None = None) -> float:
    """Seconds that are left at a pace, or what a time budget leaves, whichever is less; NaN where nobody knows.

    Example:
        >>> time_left(10, 110, 2.0), time_left(10, 110, 2.0, 20.0), time_left(10, None, 2.0)
        (50.0, 20.0, nan)
    """
    paced = max(0.0, total - done) / rate if total is not None and rate > 0 else math.nan
    if seconds_left is None:
        return paced
    return max(0.0, seconds_left if math.isnan(paced) else min(paced, seconds_left))


def clock(seconds: float) -> str:
    """A time as a clock shows it.

    Example:
        >>> clock(75), clock(3700), clock(math.nan)
        ('1:15', '1:01:40', '?')
    """
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Bars:
    """A bar per row on the error stream, with its count, the time it took and the time that is left.

    Args:
        patience: Seconds before anything appears; two by default.
    """

    def __init__(self, patience: float | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[count]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("left {task.fields[left]}  {task.fields[detail]}", markup=False),
            console=Console(stderr=True),
            refresh_per_second=4,
        )
        self._rows: dict[str, tuple[TaskID, Pace]] = {}
        self._drawn: dict[str, float] = {}
        self._due: dict[str, Callable[[], None]] = {}
        self._patience = PATIENCE_SECONDS if patience is None else patience
        self._began = time.monotonic()
        self._appear = threading.Timer(self._patience, self._bar.start)  # also while the first item takes its time
        self._appear.daemon = True

    def __enter__(self) -> Bars:
        self._appear.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._appear.cancel()
        self._appear.join()
        if self._bar.live.is_started:
            for draw in self._due.values():
                draw()
            self._bar.stop()

    def show(
        self,
        name: str,
        done: float,
        total: float | None,
        detail: Callable[[], str] | str = "",
        *,
        count: str = "",
        seconds_left: float | None = None,
    ) -> None:
        """Draw a row as far as it is, at most twice a second.

        Args:
            name: The row.
            done: How much is done.
            total: Of how much; None where nobody knows.
            detail: What else there is to say; a function is called only when the row is drawn.
            count: What stands for ``done/total``.
            seconds_left: What a time budget leaves.
        """
        now = time.monotonic()
        if name not in self._rows:
            self._rows[name] = (self._bar.add_task(name, total=total, count="", left="?", detail=""), Pace())
        row, pace = self._rows[name]
        pace.at(done, now)

        def draw() -> None:
            left = clock(time_left(done, total, pace.rate, seconds_left))
            shown = count or (f"{done:g}/{total:g}" if total else f"{done:g}")
            said = detail if isinstance(detail, str) else detail()
            self._bar.update(row, completed=done, total=total, count=shown, left=left, detail=said)

        self._due[name] = draw
        if done == total or now - self._drawn.get(name, -EVERY_SECONDS) >= EVERY_SECONDS:
            if now - self._began >= self._patience:
                self._bar.start()
            self._drawn[name] = now
            self._due.pop(name)()

    def say(self, text: str) -> None:
        """Leave a line above the bars."""
        self._bar.console.print(text, markup=False)


def tracked(items: Iterable[T], total: int | None, title: str) -> Iterator[T]:
    """Hand the items on, with a bar once two seconds have passed; ``total`` is None where nobody knows it.

    Example:
        >>> list(tracked([1, 2], total=2, title="counting"))
        [1, 2]
    """
    with Bars() as bars:
        bars.show(title, 0, total)
        for done, item in enumerate(items, start=1):
            yield item
            bars.show(title, done, total)


def on_a_terminal() -> bool:
    """Whether a bar would be seen: on a terminal or in a notebook, and not in the log of a program."""
    from rich.console import Console

    console = Console(stderr=True)
    return console.is_terminal or console.is_jupyter


def tell_interrupted() -> None:
    """Say what the first Ctrl-C does."""
    sys.stderr.write("finishing what is in flight; Ctrl-C again stops at once\n")
    sys.stderr.flush()
