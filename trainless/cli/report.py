"""``trainless report``: one page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(help="The run folder of trainless design or trainless search.")],
) -> None:
    """Make the report of a run again, as one self-contained HTML file in its folder."""
    from trainless.run.reporting import write_report

    typer.echo(f"The report is in {write_report(run)}.")
