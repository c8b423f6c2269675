"""``trainless watch``, ``ui`` and ``report``: a run in the terminal while it goes on, on a page, and as a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trainless.cli.options import with_settings
from trainless.cli.terminal import say
from trainless.core.settings import setting
from trainless.core.terminal import console
from trainless.core.vocabulary import common

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trainless.runs.reader import RunProgress, RunReader

FAILURES, BEST, COLUMNS = 5, 5, 5
STYLES = {"running": "cyan", "finished": "green", "ended": "yellow", "stopped": "red"}


@dataclass(frozen=True)
class ReportSettings:
    """Where a run is."""

    store: str = common("store", "", shown="none: it is a folder", read=lambda text: "" if text == "none" else text)


@dataclass(frozen=True)
class WatchSettings(ReportSettings):
    """Where a run is, and how it is looked at."""

    every: float = setting(1.0, "Seconds between two looks.", least=0.1)
    once: bool = setting(False, "Show it once and leave.")


@with_settings
def watch(
    run: Annotated[str, typer.Argument(help="The folder of a search, a sweep or a design; with --store a run's name.")],
    settings: WatchSettings,
) -> None:
    """Show a live run: progress, pace, the best so far, the last failures, the time left; ends when the run ends."""
    import time

    from rich.live import Live

    from trainless.core.text import undamaged
    from trainless.runs.reader import catch_up

    with undamaged(run, "look at its folder"), _reader(run, settings.store) as reader:
        catch_up(reader)
        if settings.once or reader.progress().state != "running":
            console().print(frame(reader, run))
            return
        with suppress(KeyboardInterrupt), Live(frame(reader, run), console=console(), auto_refresh=False) as live:
            while reader.progress().state == "running":
                time.sleep(settings.every)
                catch_up(reader)
                live.update(frame(reader, run), refresh=True)


@contextmanager
def _reader(run: str, store: str) -> Iterator[RunReader]:
    from trainless.runs.reader import reader_at
    from trainless.ui.run_list import runs_at

    if not store:
        yield reader_at(Path(run))
        return
    with closing(runs_at(store)) as listed:
        yield listed.opened(run)


def frame(reader: RunReader, title: str) -> RenderableType:
    """A run at a moment, as it is drawn."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    from trainless.core.text import counted, printable

    progress, failures = reader.progress(), reader.failures
    parts: list[RenderableType] = [_bars(progress), Text(_pace(progress), style="dim")]
    if len(reader.table()):
        parts.append(_best(reader))
    elif best := reader.best():
        parts.append(Text(printable(f"Best so far: {best.column} {best.value:.6g}, {best.arch}"), overflow="fold"))
    if failures.total:
        ordinary = failures.total - failures.errors
        counts = [counted(failures.errors, "failure")] if failures.errors else []
        counts += [f"{counted(ordinary, 'score')} that a network has not, such as a dead one"] if ordinary else []
        parts.append(Text(f"{'; '.join(counts)}. The last:", style="bold"))
        for arch, column, reason in list(failures.last)[-FAILURES:][::-1]:
            parts.append(
                Text(
                    printable(f"  {column}: {reason}  ({arch})"),
                    style="red" if failures.errors else "dim",
                    overflow="fold",
                )
            )
    style = STYLES[progress.state]
    head = Text(f"{reader.kind} {printable(title)}: {progress.state}", style=f"bold {style}")
    return Panel(Group(*parts), title=head, title_align="left", border_style=style)


def _bars(progress: RunProgress) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    if not progress.stages:
        going = progress.total is None and progress.state == "running"
        of = f" of {progress.total:,}" if progress.total else ""
        full = progress.total or max(1, progress.done)
        bar = ProgressBar(total=full, completed=0 if going else progress.done, width=32, pulse=going)
        grid.add_row(progress.unit, bar, f"{progress.done:,}{of}")
    for name, done, total in progress.stages:
        grid.add_row(name, ProgressBar(total=total, completed=done, width=32), f"{done:.3g} of {total:.3g}")
    return grid


def _pace(progress: RunProgress) -> str:
    import math

    from trainless.core.text import printable
    from trainless.report.page import duration

    known = math.isfinite(progress.seconds)
    words = [f"{progress.seconds:.1f} s" if progress.seconds < 10 else duration(progress.seconds)] if known else []
    if math.isfinite(progress.rate):
        words.append(f"{progress.rate:.3g} {progress.unit}/s")
    if progress.state == "running":
        left = duration(progress.left) if math.isfinite(progress.left) else "?"
        words.append(f"left {left} {progress.scope}".rstrip())
    return " · ".join([*words, *filter(None, [printable(progress.detail)])])


def _best(reader: RunReader) -> RenderableType:
    """The first rows; every column keeps its width, and the architecture takes what is left."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from trainless.cli.table import number
    from trainless.ui.table import chosen, ordered

    table = reader.table()
    by, up = ("", False) if table.ranked else (table.columns[0].name, bool(table.columns[0].higher_is_better))
    places = ordered(table, chosen(table), by, descending=up)[:BEST].tolist()
    columns = [("name", [table.names[place] for place in places])] if table.names else []
    for at, column in enumerate(table.columns[:COLUMNS]):
        columns.append((column.name, [number(float(table.values[place, at])) for place in places]))
    shown = Table(title="Best so far", title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for at, (name, cells) in enumerate(columns):
        width = min(24, max(map(len, (name, *cells))))
        side: Literal["left", "right"] = "left" if table.names and at == 0 else "right"
        shown.add_column(Text(name), justify=side, min_width=width, no_wrap=True, overflow="ellipsis")
    shown.add_column("architecture", min_width=12, overflow="ellipsis")
    for row, place in enumerate(places):
        arch = Text(table.archs[place], no_wrap=True, overflow="ellipsis")
        shown.add_row(*(Text(cells[row]) for _, cells in columns), arch)
    return Group(shown, Text(f"The best is {table.archs[places[0]]}", overflow="fold"))


@dataclass(frozen=True)
class PageSettings:
    """Where a page is shown."""

    host: str = common("host")
    port: int = common("port")
    token: str = setting(
        "", "What everybody has to know who asks; beyond this machine one is made where none is given.", metavar="TEXT"
    )


@with_settings
def ui(
    settings: PageSettings,
    place: Annotated[
        str,
        typer.Argument(metavar="PLACE", help="A run, a folder of runs, or a store: a folder or postgresql://…."),
    ] = ".",
) -> None:
    """Show runs as a web page on this machine: progress, leaderboard, plots, drawings, failures, comparison."""
    from trainless.ui.run_list import OpenRuns, runs_at
    from trainless.ui.security import token_for
    from trainless.ui.server import listening, serve

    host, token = settings.host, token_for(settings.host, settings.token)
    with closing(runs_at(place)) as listed, listening(host, settings.port) as socket:
        say(f"{listed.title} is shown at {address(host, socket.getsockname()[1], token)} (Ctrl-C ends it)")
        with suppress(KeyboardInterrupt):
            serve(OpenRuns(listed), host, token).run(sockets=[socket])


def address(host: str, port: int, token: str) -> str:
    """The address to open, with its token; warns where it is not this machine's own."""
    from trainless.ui.security import is_loopback

    if not is_loopback(host):
        say(
            f"warning: {host} is not this machine's own address: everything, the token too, travels in plain text; put"
            " a server with TLS before it, or leave out --host and come through ssh -L",
            err=True,
        )
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/{f'?token={token}' if token else ''}"


@with_settings
def report(
    run: Annotated[Path, typer.Argument(help="The run folder of trainless design or trainless search.")],
    settings: ReportSettings,
) -> None:
    """Make the report of a run again, as one self-contained HTML file in its folder.

    With --store a search is taken from there, as far as it is.
    """
    from trainless.report.report import write_report

    if settings.store:
        from trainless.cli.store import existing_store
        from trainless.core.opening import without_links
        from trainless.runs.folder import Shared, locked

        with existing_store(settings.store) as opened, locked(without_links(run)):
            Shared(opened, run.resolve().name, without_links(run)).copy()
    say(f"The report is in {write_report(run)}.")
