"""A run folder as an Optuna study, so that Optuna's dashboard shows it (extra ``optuna``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trainless.core.arch import Decision, is_region
from trainless.core.errors import InputError
from trainless.core.text import undamaged
from trainless.runs.reader import catch_up, reader_at
from trainless.runs.reader_search import SearchReader
from trainless.searchers.optuna_sampler import to_study


def export_study(run: str | Path, storage: str | Path, name: str = "") -> Any:
    """Make an Optuna study of a run: one trial per evaluated architecture in its order, one objective per score.

    Parameters are the space's decisions, values the names of their options. A trial knows its step and its fidelity;
    a candidate without a score is a failed trial that says why. The regions that pruning evaluates are no trials.
    ``storage`` is a file of a new or present SQLite database, or an address that Optuna opens; the study is called as
    the folder by default.
    """
    source, address = Path(run), str(storage)
    reader = reader_at(source, keep=True)
    if not isinstance(reader, SearchReader):
        raise InputError(f"{run} is a {reader.kind}: expected the run folder of trainless search")
    catch_up(reader)
    steps = [(step.number, *told) for step in reader.steps for told in zip(step.proposals, step.outcomes, strict=True)]
    told = [(number, proposal, outcome) for number, proposal, outcome in steps if not is_region(proposal.candidate)]
    if not told:
        raise InputError(f"{run} has evaluated no architecture yet (pruning evaluates regions): nothing to export")
    if "://" not in address:
        if not Path(storage).parent.is_dir():
            raise InputError(f"{storage} cannot be written: the folder {Path(storage).parent} does not exist")
        address = f"sqlite:///{Path(storage).as_posix()}"
    with undamaged(source, "give another run"):
        higher = reader.settings["higher_is_better"]
        return to_study(
            [Decision(each, tuple(options)) for each, options in reader.settings["decisions"].items()],
            [proposal.arch for _, proposal, _ in told],
            {column: np.array([outcome.values[column] for _, _, outcome in told]) for column in higher},
            higher_is_better=higher,
            attributes=[{"step": step, "fidelity": one.fidelity, **dict(got.failures)} for step, one, got in told],
            storage=address,
            name=name or source.resolve().name,
        )
