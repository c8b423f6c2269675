"""A progress bar for whatever takes more than two seconds."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
PATIENCE_SECONDS = 2.0


def tracked(items: Iterable[T], total: int, title: str) -> Iterator[T]:
    """Hand the items on, with a bar on the error stream once two seconds have passed.

    Example:
        >>> list(tracked([1, 2], total=2, title="counting"))
        [1, 2]
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    row = bar.add_task(title, total=total)
    appear = threading.Timer(PATIENCE_SECONDS, bar.start)
    appear.daemon = True
    appear.start()
    try:
        for item in items:
            yield item
            bar.advance(row)
    finally:
        appear.cancel()
        appear.join()
        if bar.live.is_started:
            bar.stop()
