"""Progress: a pace, the time that is left at it, and bars for whatever takes more than two seconds.

Bars are drawn on a terminal by rich, and in a notebook by rich into one output that is replaced, once a second.
"""

from __future__ import annotations

import contextvars
import importlib
import io
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from trainless.core.terminal import console

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")
Told = Callable[[str, float, float, str], None]
"""Called with a stage, how much of it is done, of how much, and a detail."""

PATIENCE_SECONDS, EVERY_SECONDS = 2.0, 0.5
NOTEBOOK_SECONDS, NOTEBOOK_WIDTH = 1.0, 110
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


class TerminalOutput:
    """Bars on the error stream, as rich draws them."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars

    @property
    def is_started(self) -> bool:
        return self._bars.live.is_started

    def start(self) -> None:
        self._bars.start()

    def stop(self) -> None:
        self._bars.stop()


class NotebookOutput:
    """One output of a notebook's cell, in which bars are drawn anew once a second.

    Rich's own needs ipywidgets, and is drawn by every change.
    """

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._handle: Any = None
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=contextvars.copy_context().run, args=(self._ticks,), daemon=True)

    @property
    def is_started(self) -> bool:
        return self._handle is not None

    def start(self) -> None:
        display: Any = importlib.import_module("IPython.display").display
        with self._lock:
            if self._handle is None:
                self._handle = display(self._drawn(), raw=True, display_id=True)
                self._thread.start()

    def stop(self) -> None:
        """Draw how it ended, which stays."""
        self._over.set()
        self._thread.join()
        self._handle.update(self._drawn(), raw=True)

    def _ticks(self) -> None:
        while not self._over.wait(NOTEBOOK_SECONDS):
            self._handle.update(self._drawn(), raw=True)

    def _drawn(self) -> dict[str, str]:
        from rich.console import Console

        page = Console(file=io.StringIO(), record=True, width=NOTEBOOK_WIDTH, force_jupyter=False)
        page.print(self._bars.get_renderable())
        plain = page.export_text(clear=False)
        frame = "<pre style='margin:0'>{code}</pre>"
        return {"text/plain": plain, "text/html": page.export_html(inline_styles=True, code_format=frame)}


class Bars:
    """A bar per row on the error stream or in a notebook, with its count, the time it took and the time that is left.

    Args:
        patience: Seconds before anything appears; two by default.
    """

    def __init__(self, patience: float | None = None) -> None:
        from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[count]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("left {task.fields[left]}  {task.fields[detail]}", markup=False),
            console=console(stderr=True),
            refresh_per_second=4,
        )
        self._place = (NotebookOutput if self._bar.console.is_jupyter else TerminalOutput)(self._bar)
        self._rows: dict[str, tuple[TaskID, Pace]] = {}
        self._drawn: dict[str, float] = {}
        self._due: dict[str, Callable[[], None]] = {}
        self._patience = PATIENCE_SECONDS if patience is None else patience
        self._began = time.monotonic()
        known = contextvars.copy_context()  # of a notebook: which cell it is that runs
        self._appear = threading.Timer(self._patience, known.run, [self._place.start])  # also while the first one runs
        self._appear.daemon = True

    def __enter__(self) -> Bars:
        self._appear.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._appear.cancel()
        self._appear.join()
        if self._place.is_started:
            for draw in self._due.values():
                draw()
            self._place.stop()

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
                self._place.start()
            self._drawn[name] = now
            self._due.pop(name)()

    def stage(self, name: str, done: float, total: float, detail: str) -> None:
        """Draw a stage as a share of its whole; what diverged stays above the bars."""
        if "diverged" in detail:
            self.say(detail)
        self.show(name, done, total, detail, count=f"{100 * done / total:.0f} %")

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


def watched(items: Sequence[T], title: str) -> Iterator[T]:
    """Hand the items on, with a bar where somebody would see it and two seconds have passed.

    Example:
        >>> list(watched([1, 2], "counting"))
        [1, 2]
    """
    return tracked(items, len(items), title) if on_a_terminal() else iter(items)


def silent(stage: str, done: float, total: float, detail: str) -> None:
    """Tell nobody how far a stage is."""


@contextmanager
def seen(progress: Told | None) -> Iterator[Told]:
    """What was given to be told how far stages are, or bars where somebody would see them."""
    if progress is not None or not on_a_terminal():
        yield progress or silent
        return
    with Bars() as bars:
        yield bars.stage


def on_a_terminal() -> bool:
    """Whether a bar would be seen: on a terminal or in a notebook, and not in the log of a program."""
    place = console(stderr=True)
    return place.is_terminal or place.is_jupyter


def tell_interrupted() -> None:
    """Say what the first Ctrl-C does."""
    sys.stderr.write("finishing what is in flight; Ctrl-C again stops at once\n")
    sys.stderr.flush()
