"""``trainless export-study``: a run for Optuna's dashboard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export_study(
    run: Annotated[Path, typer.Argument(help="A run folder of trainless search.")],
    study: Annotated[str, typer.Argument(help="A SQLite file such as study.db, or an address of Optuna's.")],
    name: Annotated[str, typer.Option(help="The study's name; the folder's by default.")] = "",
) -> None:
    """Make an Optuna study of a run, for optuna-dashboard to show."""
    from trainless.runs.export_study import export_study as export

    made = export(run, study, name)
    typer.echo(f"{len(made.trials)} trials of {run} are in the study {made.study_name!r} of {study}.")
