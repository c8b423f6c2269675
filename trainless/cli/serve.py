"""``trainless serve``: a finished design answers files, on a page and for programs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from trainless.cli.options import with_settings
from trainless.cli.watch import PageSettings
from trainless.core.errors import InputError
from trainless.core.machine import AUTO, device_named
from trainless.core.settings import setting
from trainless.core.vocabulary import common
from trainless.learn.reading import ReadingSettings

PORT, SHORTEST = 8502, 16


@dataclass(frozen=True)
class ServeSettings(PageSettings):
    """Where a server listens, and to whom it answers."""

    port: int = common("port", PORT)
    limit: int = setting(64, "The largest file that is taken, in MB.", least=1)
    token: str = setting(
        "", "What everybody has to know who asks; beyond this machine one is made where none is given.", metavar="TEXT"
    )
    space: str = common("space", "", shown="the run's, where it is a built-in one")
    device: str = common("device", AUTO)


@with_settings
def serve(
    run: Annotated[Path, typer.Argument(help="The run folder of trainless design.")],
    settings: ServeSettings,
    reading: ReadingSettings,
) -> None:
    """Answer files: a page to drop one on, and JSON for programs (POST /api/predict, its name as x-file-name)."""
    import os
    import secrets

    from trainless.cli.predict import open_predictor
    from trainless.ui.security import is_loopback
    from trainless.ui.serve import Answering, server
    from trainless.ui.server import listening

    token = settings.token or os.environ.get("TRAINLESS_TOKEN", "")
    if token and len(token) < SHORTEST:
        raise InputError(f"a token of {len(token)} signs was given; expected at least {SHORTEST}")
    if not token and not is_loopback(settings.host):
        token = secrets.token_urlsafe(24)
    answering = Answering(open_predictor(run, settings.space).reading(reading), device=device_named(settings.device))
    with listening(settings.host, settings.port) as socket:
        number = socket.getsockname()[1]
        shown = f"[{settings.host}]" if ":" in settings.host else settings.host
        if not is_loopback(settings.host):
            typer.echo(
                "warning: this is not this machine's own address: files and answers travel in plain text; put a server"
                " with TLS before it, or leave out --host and come through ssh -L",
                err=True,
            )
        typer.echo(f"{run} answers at http://{shown}:{number}/{f'#token={token}' if token else ''} (Ctrl-C ends it)")
        with suppress(KeyboardInterrupt):
            server(answering, settings.host, limit=settings.limit * 10**6, token=token).run(sockets=[socket])
