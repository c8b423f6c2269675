"""Ctrl-C: once to finish what is in flight, twice to stop at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def one_interrupt(notice: Callable[[], None] = lambda: None) -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C be asked for instead of raised; the second is raised as ever.

    Example:
        >>> with one_interrupt() as stopping:
        ...     stopping()
        False
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def remember(number: int, frame: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        notice()

    previous = signal.signal(signal.SIGINT, remember)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
