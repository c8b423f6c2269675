"""``trainless store``: what a store holds, out of it, into another, and less of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from trainless.cli.options import AsJson, with_settings
from trainless.cli.terminal import say
from trainless.core.settings import setting
from trainless.core.terminal import console
from trainless.core.vocabulary import common

if TYPE_CHECKING:
    from trainless.store import Count, RunEntry, Selection, SqlStore

store = typer.Typer(help="List, export, merge and clean up stores of scores.", no_args_is_help=True)

Place = Annotated[
    str, typer.Argument(metavar="STORE", help="A file, folder/ or postgresql://…; the default store if left out.")
]


def _kept_as(proxy: str) -> str:
    """The name under which a proxy's scores are kept; only one with options has another."""
    if "/" not in proxy:
        return proxy
    from trainless.proxies.proxy import canonical

    return canonical(proxy)


@dataclass(frozen=True)
class WhichScores:
    """The scores that are meant: those that all given options describe."""

    space: str = common("space", "", shown="all")
    fingerprint: str = setting("", "The fingerprint of the task, as store list shows it.", shown="all")
    proxy: str = common("proxy", "", shown="all", read=_kept_as)


@store.callback()
def _stores() -> None:
    """List, export, merge and clean up stores of scores."""


@store.command("list", short_help="Count the scores and name the runs.")
@with_settings
def listing(
    which: WhichScores,
    place: Place = "",
    as_json: AsJson = False,
) -> None:
    """Count the scores by space, task, proxy and setting, and name the runs."""
    import json

    from trainless.store import Selection

    with existing_store(place) as opened:
        counts, runs = opened.counts(Selection(which.space, which.fingerprint, which.proxy)), opened.runs.all()
    if as_json:
        held = [{"name": run.name, "lines": run.lines, "changed": run.changed, "state": _state(run)} for run in runs]
        typer.echo(json.dumps({"scores": [count._asdict() for count in counts], "runs": held}, indent=2))
    else:
        _print(counts, runs, opened.shown)


@store.command("export")
@with_settings
def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Ends in .csv or .parquet.")],
    which: WhichScores,
    place: Place = "",
) -> None:
    """Write every score as a row of a CSV or Parquet file."""
    from trainless.core.text import counted
    from trainless.store import Selection
    from trainless.store.sql import export as write

    with existing_store(place) as opened:
        rows = write(opened.rows(Selection(which.space, which.fingerprint, which.proxy)), file)
    say(f"{counted(rows, 'score')} {'is' if rows == 1 else 'are'} in {file}")


@store.command("merge", short_help="Copy the scores of one store into another.")
def merge(
    source: Annotated[str, typer.Argument(metavar="FROM", help="A file, folder/ or postgresql://…; it stays as is.")],
    target: Annotated[
        str, typer.Argument(metavar="INTO", help="A file, folder/ or postgresql://…; made if not there.")
    ],
) -> None:
    """Copy the scores of one store into another; where both have one, the other's stays."""
    from trainless.core.errors import InputError
    from trainless.store import merge as copy
    from trainless.store import store_at

    if source == target:
        raise InputError(f"{source} was given twice; expected two stores")
    with existing_store(source) as old, store_at(target) as new:
        before = _total(new)
        seen = copy(old, new)
        added = _total(new) - before
        say(f"{added} of {seen} scores of {old.shown} were new to {new.shown}")


@store.command("gc", short_help="Remove the scores that the options describe.")
@with_settings
def collect(
    which: WhichScores,
    place: Place = "",
    failures: Annotated[bool, typer.Option("--failures", help="Failures alone, so that they are tried again.")] = False,
    version: Annotated[int | None, typer.Option(min=0, help="Of this version of --proxy alone.")] = None,
    older_than: Annotated[str, typer.Option(metavar="TIME", help="Kept longer ago than this: 90s, 12h, 30d.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how many, and remove nothing.")] = False,
) -> None:
    """Remove the scores that all given options describe, for good."""
    import time

    from trainless.core.errors import InputError
    from trainless.core.text import counted
    from trainless.core.units import seconds_of
    from trainless.store import Selection

    if not (failures or which != WhichScores() or older_than):
        raise InputError(
            "nothing to remove was named; expected --failures, --space, --fingerprint, --proxy (with --version) or"
            " --older-than"
        )
    if version is not None and not which.proxy:
        raise InputError(f"--version {version} was given without a proxy; expected --proxy too")
    before = time.time() - (seconds_of(older_than) or 0.0) if older_than else None
    chosen = Selection(which.space, which.fingerprint, which.proxy, version, failures, before)
    with existing_store(place) as opened:
        number = _total(opened, chosen) if dry_run else opened.drop(chosen)
    happened = "would be" if dry_run else "was" if number == 1 else "were"
    say(f"{counted(number, 'score')} {happened} removed from {opened.shown}")


def existing_store(place: str) -> SqlStore:
    """A store that exists: looking into one does not make one."""
    import os
    from pathlib import Path

    from trainless.core.errors import InputError
    from trainless.store import default_path, scheme_of, store_at
    from trainless.store.folder import holds_store

    named = place or os.environ.get("TRAINLESS_STORE") or str(default_path())
    if not scheme_of(named):
        path = Path(named).expanduser()
        if not holds_store(path) and not (path.is_file() and path.stat().st_size):
            raise InputError(
                f"there is no store {named}: give the file or folder of one, or postgresql://user@host/database"
            )
    return store_at(named)


def _total(opened: SqlStore, selection: Selection | None = None) -> int:
    counts = opened.counts() if selection is None else opened.counts(selection)
    return sum(count.scores for count in counts)


def _print(counts: list[Count], runs: list[RunEntry], shown: str) -> None:
    from rich.table import Table
    from rich.text import Text

    total = sum(count.scores for count in counts)
    table = Table(title=f"{total} scores in {shown}", title_justify="left")
    for name in ("space", "task", "proxy", "setting", "seeds", "scores", "failures"):
        table.add_column(name, justify="right" if name in ("scores", "failures") else "left", overflow="fold")
    merged: dict[tuple[str, str, str, str], list[Count]] = {}
    for count in counts:
        merged.setdefault((count.space, count.task, f"{count.proxy} v{count.version}", count.setting), []).append(count)
    for (space, task, proxy, how), parts in merged.items():
        seeds = ",".join(str(part.seed) for part in parts[:8]) + ("…" if len(parts) > 8 else "")
        numbers = (sum(part.scores for part in parts), sum(part.failures for part in parts))
        table.add_row(*map(Text, (space, task[:12], proxy, how, seeds)), *map(str, numbers))
    console().print(table)
    if runs:
        say("runs: " + ", ".join(f"{run.name} ({run.lines} lines, {_state(run)})" for run in runs))


def _state(run: RunEntry) -> str:
    """Whether a process works on a run, else how its last session ended; stopped where nobody has said."""
    from trainless.runs.folder import read_ending

    ending = read_ending(run.ending)
    return "running" if run.running else ending.end if ending else "stopped"
