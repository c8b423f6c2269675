"""``trainless ui``: runs as a local web page."""

from __future__ import annotations

from typing import Annotated

import typer

LOOPBACK, PORT = "127.0.0.1", 8501


def ui(
    place: Annotated[
        str, typer.Argument(metavar="PLACE", help="A run, a folder of runs, or postgresql://… [default: this folder]")
    ] = ".",
    host: Annotated[str, typer.Option(help="The address to listen at.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")] = PORT,
) -> None:
    """Show runs as a web page on this machine: progress, leaderboard, plots, drawings, failures, comparison."""
    from contextlib import closing, suppress

    from trainless.ui.run_list import Desk, shelf_at
    from trainless.ui.security import is_loopback
    from trainless.ui.server import listening, serve

    with closing(shelf_at(place)) as shelf, listening(host, port) as socket:
        desk = Desk(shelf)
        number = socket.getsockname()[1]
        if not is_loopback(host):
            typer.echo(
                f"warning: {host} is not this machine's own address: whoever can reach it sees these runs, without a"
                " password and in plain text; leave out --host, and reach this page through ssh -L instead",
                err=True,
            )
        shown = f"[{host}]" if ":" in host else host
        typer.echo(f"{desk.shelf.title} is shown at http://{shown}:{number}/ (Ctrl-C ends it)")
        with suppress(KeyboardInterrupt):
            serve(desk, host).run(sockets=[socket])
