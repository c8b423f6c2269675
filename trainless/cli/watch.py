"""``trainless watch``: a run in the terminal while it goes on, whichever process it is in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from trainless.ui.progress import Progress, Reader

FAILURES, BEST, COLUMNS = 5, 5, 5


def watch(
    run: Annotated[str, typer.Argument(help="The folder of a search, a sweep or a design; with --store a run's name.")],
    once: Annotated[bool, typer.Option("--once", help="Show it once and leave.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    store: Annotated[str, typer.Option(metavar="PLACE", help="The run lives in this store: postgresql://…")] = "",
) -> None:
    """Show a live run: progress, pace, the best so far, the last failures, the time left; ends when the run ends."""
    import time

    from rich.console import Console
    from rich.live import Live

    with _reader(run, store) as reader:
        _catch_up(reader)
        console = Console()
        if once or reader.progress().state != "running":
            console.print(frame(reader, run))
            return
        with suppress(KeyboardInterrupt), Live(frame(reader, run), console=console, auto_refresh=False) as live:
            while reader.progress().state == "running":
                time.sleep(every)
                _catch_up(reader)
                live.update(frame(reader, run), refresh=True)


@contextmanager
def _reader(run: str, store: str) -> Iterator[Reader]:
    from pathlib import Path

    from trainless.ui.run_list import reader_at, shelf_at

    if not store:
        yield reader_at(Path(run))
        return
    with closing(shelf_at(store)) as shelf:
        yield shelf.opened(run)


def _catch_up(reader: Reader) -> None:
    while reader.refresh():
        pass


def frame(reader: Reader, title: str) -> RenderableType:
    """What is shown of a run at a moment."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    from trainless.core.text import printable

    progress, parts = reader.progress(), []
    parts.append(_bars(progress))
    parts.append(Text(_pace(progress), style="dim"))
    if len(reader.table()):
        parts.append(_best(reader))
    elif best := reader.best():
        parts.append(Text(printable(f"Best so far: {best.column} {best.value:.6g}, {best.arch}"), overflow="fold"))
    if reader.failures.total:
        parts.append(_failures(reader))
    style = {"running": "cyan", "finished": "green", "ended": "yellow", "stopped": "red"}[progress.state]
    head = Text(f"{reader.kind} {printable(title)}: {progress.state}", style=f"bold {style}")
    return Panel(Group(*parts), title=head, title_align="left", border_style=style)


def _bars(progress: Progress) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    stages = progress.stages
    if not stages:
        going = progress.total is None and progress.state == "running"
        of = f" of {progress.total:,}" if progress.total else ""
        full = progress.total or max(1, progress.done)
        bar = ProgressBar(total=full, completed=0 if going else progress.done, width=32, pulse=going)
        grid.add_row(progress.unit, bar, f"{progress.done:,}{of}")
    for stage in stages:
        bar = ProgressBar(total=stage.total, completed=stage.done, width=32)
        grid.add_row(stage.name, bar, f"{stage.done:.3g} of {stage.total:.3g}")
    return grid


def _pace(progress: Progress) -> str:
    import math

    from trainless.core.text import printable
    from trainless.report.markup import duration

    words = [f"{progress.seconds:.1f} s" if progress.seconds < 10 else duration(progress.seconds)]
    if math.isfinite(progress.rate):
        words.append(f"{progress.rate:.3g} {progress.unit}/s")
    if progress.state == "running":
        left = duration(progress.left) if math.isfinite(progress.left) else "?"
        words.append(f"left {left} {progress.scope}".rstrip())
    if progress.detail:
        words.append(printable(progress.detail))
    return " · ".join(words)


def _best(reader: Reader) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from trainless.cli.table import number
    from trainless.core.text import printable
    from trainless.ui.table import chosen, ordered

    table = reader.table()
    by, up = ("", False) if table.ranked else (table.columns[0].name, bool(table.columns[0].higher_is_better))
    places = ordered(table, chosen(table), by, descending=up)[:BEST].tolist()
    shown = Table(title="Best so far", title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    if table.names:
        _column(shown, "name", [table.names[place] for place in places], "left")
    for at, column in enumerate(table.columns[:COLUMNS]):
        _column(shown, column.name, [number(float(table.values[place, at])) for place in places], "right")
    shown.add_column("architecture", min_width=12, overflow="ellipsis")
    for place in places:
        name = [Text(printable(table.names[place]))] if table.names else []
        values = [number(float(value)) for value in table.values[place, :COLUMNS]]
        shown.add_row(*name, *values, Text(printable(table.archs[place]), no_wrap=True, overflow="ellipsis"))
    first = Text(f"The best is {printable(table.archs[places[0]])}", overflow="fold")
    return Group(shown, first)


def _column(shown: Table, name: str, cells: list[str], side: Literal["left", "right"]) -> None:
    """A column that keeps its width; the architecture takes what is left."""
    from rich.text import Text

    from trainless.core.text import printable

    width = min(24, max(map(len, (name, *cells))))
    shown.add_column(Text(printable(name)), justify=side, min_width=width, no_wrap=True, overflow="ellipsis")


def _failures(reader: Reader) -> RenderableType:
    from rich.text import Text

    from trainless.core.text import printable

    failures = reader.failures
    lines = [Text(f"Failures: {failures.total:,}, the last of them", style="bold")]
    for arch, column, reason in list(failures.last)[-FAILURES:][::-1]:
        lines.append(Text(printable(f"  {column}: {reason}  ({arch})"), style="red", overflow="fold"))
    return Text("\n").join(lines)
