"""``trainless list``: what there is, by name."""

from __future__ import annotations

import json

import typer


def listing(
    kind: str = typer.Argument(help="proxies, rankings, searchers, spaces, tables or tasks."),
    pattern: str = typer.Argument("*", help="Only names that match, such as 'ntk*'."),
    as_json: bool = typer.Option(False, "--json", help="Print a list of objects with name and meaning."),
) -> None:
    """List what there is: proxies, rankings, searchers, spaces, tables or tasks."""
    from trainless.catalogue import describe, registry_of
    from trainless.core.errors import UnknownName

    names = registry_of(kind).names(pattern)
    if not names:
        raise UnknownName(f"no {registry_of(kind).kind} matches {pattern!r} (trainless list {kind})")
    rows = [(name, describe(kind, name)) for name in names]
    if as_json:
        typer.echo(json.dumps([{"name": name, "meaning": meaning} for name, meaning in rows], indent=2))
        return
    width = max(map(len, names))
    for name, meaning in rows:
        typer.echo(f"{name:<{width}}  {meaning}".rstrip())
