"""What a search shows while it goes on: how far it is, the best so far, and how long it will take."""

from __future__ import annotations

import math
import time
from types import TracebackType
from typing import TYPE_CHECKING

import typer

from trainless.core.arch import Proposal, is_region

if TYPE_CHECKING:
    from trainless.runs.loop import Loop
    from trainless.searchers.stopping import Budget
    from trainless.spaces.protocol import Space

EVERY_SECONDS = 0.5
PATIENCE_SECONDS = 2.0


def remaining(done: int, elapsed: float, left: int | None, seconds_left: float | None) -> float:
    """Seconds that are left: at the mean pace of this session, or what the time budget leaves, whichever is less.

    Example:
        >>> remaining(10, 5.0, 100, None), remaining(10, 5.0, 100, 20.0), remaining(0, 5.0, 100, None)
        (50.0, 20.0, nan)
    """
    paced = left * elapsed / done if done and left is not None else math.nan
    if seconds_left is None:
        return paced
    return seconds_left if math.isnan(paced) else min(paced, seconds_left)


def clock(seconds: float) -> str:
    """A time for people.

    Example:
        >>> clock(75), clock(3700), clock(math.nan)
        ('1:15', '1:01:40', '?')
    """
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Bar:
    """A line on the error stream, there once two seconds have passed."""

    def __init__(self, space: Space, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._space = space
        self._start = self._last = time.monotonic()
        self._first: tuple[int, float] | None = None
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[count]}  left {task.fields[left]}  best {task.fields[best]}", markup=False),
            console=Console(stderr=True),
            auto_refresh=False,
        )
        self._row = self._bar.add_task(title, total=None, count="", left="?", best="")

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar.live.is_started:
            self._bar.stop()

    def show(self, loop: Loop, budget: Budget) -> None:
        """Draw the line again, at most twice a second."""
        now = time.monotonic()
        if self._first is None:
            self._first = (loop.spent.evaluations, now)
        if not self._due():
            return
        done, total = loop.spent.evaluations, budget.evaluations
        left = None if total is None else total - done
        seconds_left = None if budget.seconds is None else max(0.0, budget.seconds - loop.spent.seconds)
        self._bar.update(
            self._row,
            completed=done,
            total=total,
            count=f"{done}/{total}" if total else str(done),
            left=clock(remaining(done - self._first[0], now - self._start, left, seconds_left)),
            best=self._best(loop),
        )
        self._bar.refresh()

    def tried(self, name: str, count: int, least: float) -> None:
        """Show how many networks were made to see whether they keep a limit."""
        from trainless.scoring.costs import amount

        if self._due():
            text = f"{count} networks tried for {name}, the least {amount(least, name)}"
            self._bar.update(self._row, count=text)
            self._bar.refresh()

    def _due(self) -> bool:
        """Whether to draw now; the line appears when it is drawn first."""
        now = time.monotonic()
        if now - self._start < PATIENCE_SECONDS or now - self._last < EVERY_SECONDS:
            return False
        self._last = now
        if not self._bar.live.is_started:
            self._bar.start()
        return True

    def _best(self, loop: Loop) -> str:
        found, value = loop.signal.best()
        if not isinstance(found, Proposal) or math.isnan(value):
            return "–"
        name = "a region" if is_region(found.candidate) else self._space.format(found.arch)
        return f"{value:.5g} {name}"


def tell_interrupted() -> None:
    """Say what the first Ctrl-C does."""
    typer.echo("finishing what is in flight; Ctrl-C again stops at once", err=True)
