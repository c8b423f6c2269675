"""``trainless list``: what there is, by name."""

from __future__ import annotations

import json

import typer

from trainless.catalogue import REGISTRIES
from trainless.cli.options import AsJson
from trainless.cli.terminal import tell

KINDS = tuple(REGISTRIES)
MARGIN = 20  # characters that a description's further lines are indented by at most


def listing(
    kind: str = typer.Argument(help=f"What to list: {', '.join(KINDS[:-1])} or {KINDS[-1]}."),
    pattern: str = typer.Argument("*", help="Only names that match, such as 'ntk*'."),
    as_json: AsJson = False,
) -> None:
    """List what there is of a kind, by name, with what each is."""
    from trainless.catalogue import describe, registry_of
    from trainless.core.errors import UnknownName

    names = registry_of(kind).names(pattern)
    if not names:
        raise UnknownName(f"no {registry_of(kind).kind} matches {pattern!r} (trainless list {kind})")
    rows = [
        {"name": name, **(_sizes(name) if kind == "spaces" else {}), "meaning": describe(kind, name)} for name in names
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    texts = [[_text(value) for value in row.values()] for row in rows]
    if kind == "spaces":
        texts.insert(0, ["", "combinations", "valid", "different", ""])
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for text in texts:
        first, *numbers, meaning = text
        cells = [f"{number:>{width}}" for number, width in zip(numbers, widths[1:], strict=False)]
        head = "  ".join([f"{first:<{widths[0]}}", *cells, ""])
        tell(f"{head}{meaning}".rstrip(), hang=min(len(head), MARGIN))


def _sizes(name: str) -> dict[str, int | None]:
    """How many archs a space has, None where nobody knows."""
    import dataclasses

    from trainless.spaces import space
    from trainless.spaces.moves import extent

    return dataclasses.asdict(extent(space(name)))


def _text(value: str | int | None) -> str:
    """A cell of the table.

    Example:
        >>> _text(423_624), _text(58_366_651_170_721_628_160_000), _text(None)
        ('423,624', '5.8e+22', '?')
    """
    if value is None:
        return "?"
    if isinstance(value, str):
        return value
    return f"{value:,}" if value < 10**9 else f"{value:.2g}"
