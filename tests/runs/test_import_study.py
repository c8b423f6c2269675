"""Studies as runs, and searchers in studies."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.runs.export_study import export_study
from trainless.runs.import_study import import_study
from trainless.runs.search import search
from trainless.runs.settings import SearchSettings
from trainless.scoring.measures import Lookup
from trainless.searchers import make
from trainless.searchers.optuna_study import as_sampler, suggest
from trainless.searchers.searcher import Told
from trainless.spaces.moves import enumerate_archs
from trainless.spaces.nb201 import NasBench201

optuna = pytest.importorskip("optuna")
optuna.logging.set_verbosity(optuna.logging.WARNING)
SPACE, TASK = NasBench201(2, 1), Task.noise((3, 8, 8))


def worth(arch: tuple[int, ...]) -> float:
    return float(np.dot(arch, [1, 5, 25, 125, 625, 3125]))


@pytest.mark.parametrize("name", ["evolution", "random"])
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_a_study_goes_the_way_of_the_searcher_itself(name: str, direction: str) -> None:
    sign = 1 if direction == "maximize" else -1
    tried: list[Any] = []

    def objective(trial: Any) -> float:
        tried.append(suggest(trial, SPACE))
        return sign * worth(tried[-1])

    optuna.create_study(direction=direction, sampler=as_sampler(make(name, SPACE, seed=4))).optimize(objective, 150)
    alone, expected = make(name, SPACE, seed=4), []
    for _ in range(150):
        (proposal,) = alone.ask(1)
        expected.append(proposal.arch)
        alone.tell(Told.of([proposal], [worth(proposal.arch)]))
    assert tried == expected


def test_several_objectives_failures_and_other_parameters() -> None:
    searcher = make("nsga2", SPACE, seed=0, population=6)

    def objective(trial: Any) -> tuple[float, float]:
        arch = suggest(trial, SPACE)
        rate = trial.suggest_float("rate", 0.0, 1.0)
        if trial.number % 5 == 3:
            raise RuntimeError("no")
        return worth(arch) + rate, -worth(arch)

    study = optuna.create_study(directions=["maximize", "minimize"], sampler=as_sampler(searcher))
    study.optimize(objective, 30, catch=(RuntimeError,))
    assert [trial.state.name for trial in study.trials].count("FAIL") == 6
    best = searcher.best()
    assert worth(best) >= np.median([trial.values[0] for trial in study.trials if trial.values]) - 1


def test_searchers_of_regions_and_fidelities_are_refused() -> None:
    with pytest.raises(InputError, match="Prune proposes regions, which are no trials"):
        as_sampler(make("prune", SPACE))
    study = optuna.create_study(sampler=as_sampler(make("hyperband", SPACE, seed=0)))
    with pytest.raises(InputError, match="of fidelities cannot sample a study"):
        study.optimize(lambda trial: worth(suggest(trial, SPACE)), 2)


def leaderboard(run: Path) -> list[list[str]]:
    return list(csv.reader((run / "leaderboard.csv").read_text().splitlines()))


def test_a_run_that_went_through_optuna_has_the_same_leaderboard(tmp_path: Path) -> None:
    archs = list(enumerate_archs(SPACE))
    values = np.array([math.nan if arch[1] == 3 else worth(arch) for arch in archs])
    measure = Lookup("loss", archs, {1.0: values}, np.ones(len(archs)), higher_is_better=False)
    settings = SearchSettings(measure=measure)
    search(TASK, SPACE, "exhaustive", evaluations=40, out=tmp_path / "run", settings=settings)
    export_study(tmp_path / "run", tmp_path / "study.db")
    found, left_out = import_study("run", SPACE, tmp_path / "again", storage=tmp_path / "study.db", task=TASK)
    rows = leaderboard(tmp_path / "run")
    assert leaderboard(tmp_path / "again") == rows
    assert (len(found.places), left_out) == (len(rows) - 1, 40 - (len(rows) - 1))


def test_what_is_no_study_of_the_space_is_refused(tmp_path: Path) -> None:
    study = optuna.create_study(study_name="mine")
    with pytest.raises(InputError, match="the study 'mine' has no finished trial"):
        import_study(study, SPACE, tmp_path / "run")
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), 1)
    with pytest.raises(InputError, match=r"trial 0 has None for 0->1; expected one of .*: is it a study of"):
        import_study(study, SPACE, tmp_path / "run")
    with pytest.raises(InputError, match="is no file: expected a SQLite file"):
        import_study("mine", SPACE, tmp_path / "run", storage=tmp_path / "none.db")
    file = f"sqlite:///{tmp_path}/two.db"
    for name in ("a", "b"):
        optuna.create_study(study_name=name, storage=file)
    with pytest.raises(InputError, match="has no single study '': expected one of 'a', 'b'"):
        import_study("", SPACE, tmp_path / "run", storage=tmp_path / "two.db")
    with pytest.raises(InputError, match="has no single study 'c': expected one of 'a', 'b'"):
        import_study("c", SPACE, tmp_path / "run", storage=tmp_path / "two.db")
