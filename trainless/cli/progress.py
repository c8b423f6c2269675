"""What a command says while it is interrupted."""

from __future__ import annotations


def tell_interrupted() -> None:
    """Say what the first Ctrl-C does."""
    import typer

    typer.echo("finishing what is in flight; Ctrl-C again stops at once", err=True)
