"""``trainless serve``: a finished design answers files, on a page and for programs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from trainless.cli.options import with_settings
from trainless.cli.terminal import say
from trainless.cli.watch import PageSettings, address
from trainless.core.machine import AUTO, device_named
from trainless.core.settings import setting
from trainless.core.vocabulary import common
from trainless.learn.reading import ReadingSettings

PORT = 8502


@dataclass(frozen=True)
class ServeSettings(PageSettings):
    """Where a server listens, and to whom it answers."""

    port: int = common("port", PORT)
    limit: int = setting(64, "The largest file that is taken, in MB.", least=1)
    space: str = common("space", "", shown="the run's, where it is a built-in one")
    device: str = common("device", AUTO)


@with_settings
def serve(
    run: Annotated[Path, typer.Argument(help="The run folder of trainless design.")],
    settings: ServeSettings,
    reading: ReadingSettings,
) -> None:
    """Answer files: a page to drop one on, and JSON for programs (POST /api/predict, its name as x-file-name)."""
    from trainless.cli.predict import open_predictor
    from trainless.ui.security import token_for
    from trainless.ui.serve import Answering, server
    from trainless.ui.server import listening

    token = token_for(settings.host, settings.token)
    answering = Answering(open_predictor(run, settings.space).reading(reading), device=device_named(settings.device))
    with listening(settings.host, settings.port) as socket:
        place = address(settings.host, socket.getsockname()[1], token)
        say(f"{run} answers at {place} (Ctrl-C ends it)")
        with suppress(KeyboardInterrupt):
            server(answering, settings.host, limit=settings.limit * 10**6, token=token).run(sockets=[socket])
