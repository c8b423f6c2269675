"""``trainless store``: what a store holds, out of it, into another, and less of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trainless.store import Count, RunEntry, Selection, SqlStore

store = typer.Typer(help="List, export, merge and clean up stores of scores.", no_args_is_help=True)

Place = Annotated[str, typer.Argument(metavar="STORE", help="A file or postgresql://…; the default store if left out.")]
Space = Annotated[str, typer.Option(help="Of this space alone, such as nb201.")]
Task = Annotated[str, typer.Option(help="Of this task's fingerprint alone.")]


def _kept_as(proxy: str) -> str:
    """The name under which a proxy's scores are kept; only one with options has another."""
    if "/" not in proxy:
        return proxy
    from trainless.proxies.proxy import canonical

    return canonical(proxy)


Proxy = Annotated[str, typer.Option(help="Of this proxy alone.", callback=_kept_as)]


@store.callback()
def _stores() -> None:
    """List, export, merge and clean up stores of scores."""


@store.command("list")
def listing(
    place: Place = "",
    space: Space = "",
    task: Task = "",
    proxy: Proxy = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Count the scores by space, task, proxy and setting, and name the runs."""
    import json

    from trainless.store import Selection

    with _there(place) as opened:
        counts, runs = opened.counts(Selection(space, task, proxy)), opened.runs.all()
    if as_json:
        held = [{"name": run.name, "lines": run.lines, "changed": run.changed, "state": _state(run)} for run in runs]
        typer.echo(json.dumps({"scores": [count._asdict() for count in counts], "runs": held}, indent=2))
    else:
        _print(counts, runs, opened.shown)


@store.command("export")
def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Ends in .csv or .parquet.")],
    place: Place = "",
    space: Space = "",
    task: Task = "",
    proxy: Proxy = "",
) -> None:
    """Write every score as a row of a CSV or Parquet file."""
    from trainless.store import Selection
    from trainless.store.sql import export as write

    with _there(place) as opened:
        rows = write(opened.rows(Selection(space, task, proxy)), file)
    typer.echo(f"{rows} scores are in {file}")


@store.command("merge")
def merge(
    source: Annotated[str, typer.Argument(metavar="FROM", help="A file or postgresql://…; it stays as it is.")],
    target: Annotated[str, typer.Argument(metavar="INTO", help="A file or postgresql://…; made if it is not there.")],
) -> None:
    """Copy the scores of one store into another; where both have one, the other's stays."""
    from trainless.core.errors import InputError
    from trainless.store import merge as copy
    from trainless.store import store_at

    if source == target:
        raise InputError(f"{source} was given twice; expected two stores")
    with _there(source) as old, store_at(target) as new:
        before = _total(new)
        seen = copy(old, new)
        added = _total(new) - before
        typer.echo(f"{added} of {seen} scores of {old.shown} were new to {new.shown}")


@store.command("gc")
def collect(
    place: Place = "",
    failures: Annotated[bool, typer.Option("--failures", help="Failures alone, so that they are tried again.")] = False,
    space: Space = "",
    task: Task = "",
    proxy: Proxy = "",
    version: Annotated[int | None, typer.Option(min=0, help="Of this version of --proxy alone.")] = None,
    older_than: Annotated[str, typer.Option(metavar="TIME", help="Kept longer ago than this: 90s, 12h, 30d.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how many, and remove nothing.")] = False,
) -> None:
    """Remove the scores that all given options describe, for good."""
    import time

    from trainless.core.errors import InputError
    from trainless.core.units import seconds_of
    from trainless.store import Selection

    if not (failures or space or task or proxy or older_than):
        raise InputError(
            "nothing to remove was named; expected --failures, --space, --task, --proxy (with --version) or"
            " --older-than"
        )
    if version is not None and not proxy:
        raise InputError(f"--version {version} was given without a proxy; expected --proxy too")
    before = time.time() - (seconds_of(older_than) or 0.0) if older_than else None
    chosen = Selection(space, task, proxy, version, failures, before)
    with _there(place) as opened:
        number = _total(opened, chosen) if dry_run else opened.drop(chosen)
    typer.echo(f"{number} scores {'would be' if dry_run else 'were'} removed from {opened.shown}")


def _there(place: str) -> SqlStore:
    """A store that exists: looking into one does not make one."""
    import os
    from pathlib import Path

    from trainless.core.errors import InputError
    from trainless.store import default_path, store_at

    named = place or os.environ.get("TRAINLESS_STORE") or str(default_path())
    if "://" not in named:
        path = Path(named).expanduser()
        if not path.is_file() or not path.stat().st_size:
            raise InputError(f"there is no store {named}: give the file of one, or postgresql://user@host/database")
    return store_at(named)


def _total(opened: SqlStore, selection: Selection | None = None) -> int:
    counts = opened.counts() if selection is None else opened.counts(selection)
    return sum(count.scores for count in counts)


def _print(counts: list[Count], runs: list[RunEntry], shown: str) -> None:
    from rich.table import Table
    from rich.text import Text

    from trainless.cli.table import console

    total = sum(count.scores for count in counts)
    table = Table(title=f"{total} scores in {shown}", title_justify="left")
    for name in ("space", "task", "proxy", "setting", "seeds", "scores", "failures"):
        table.add_column(name, justify="right" if name in ("scores", "failures") else "left", overflow="fold")
    merged: dict[tuple[str, str, str, str], list[Count]] = {}
    for count in counts:
        merged.setdefault((count.space, count.task, f"{count.proxy} v{count.version}", count.setting), []).append(count)
    for (space, task, proxy, setting), parts in merged.items():
        seeds = ",".join(str(part.seed) for part in parts[:8]) + ("…" if len(parts) > 8 else "")
        numbers = (sum(part.scores for part in parts), sum(part.failures for part in parts))
        table.add_row(*map(Text, (space, task[:12], proxy, setting, seeds)), *map(str, numbers))
    console().print(table)
    if runs:
        typer.echo("runs: " + ", ".join(f"{run.name} ({run.lines} lines, {_state(run)})" for run in runs))


def _state(run: RunEntry) -> str:
    """Whether a process works on a run, else how its last session ended; stopped where nobody has said."""
    from trainless.runs.folder import read_ending

    ending = read_ending(run.ending)
    return "running" if run.running else ending.end if ending else "stopped"
