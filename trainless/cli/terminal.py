"""What commands say in lines; tables, drawings and bars are of :mod:`trainless.core.terminal`."""

from __future__ import annotations

import typer

from trainless.core.text import printable


def say(*lines: str, err: bool = False) -> None:
    """Print lines, of which each stays one whatever names are in it."""
    for line in lines:
        typer.echo(printable(line), err=err)
