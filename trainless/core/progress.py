"""Progress as arithmetic: a pace, and the time that is left at it."""

from __future__ import annotations

import math
from collections import deque

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
