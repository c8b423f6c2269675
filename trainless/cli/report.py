"""``trainless report``: one page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(help="The run folder of trainless design or trainless search.")],
    store: Annotated[str, typer.Option(metavar="PLACE", help="Take a search from this store, as far as it is.")] = "",
) -> None:
    """Make the report of a run again, as one self-contained HTML file in its folder."""
    from trainless.designs.reporting import write_report

    if store:
        from trainless.runs.stored import Shared
        from trainless.store import store_at

        with store_at(store) as opened:
            Shared(opened, run.resolve().name, run).copy()
    typer.echo(f"The report is in {write_report(run)}.")
