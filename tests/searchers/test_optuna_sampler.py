from __future__ import annotations

import math

import numpy as np
import pytest

from tests.searchers.toys import Toy
from trainless.core.errors import InputError
from trainless.searchers.optuna_sampler import OptunaSearcher, to_study
from trainless.searchers.searcher import Told, reseeded

optuna = pytest.importorskip("optuna")


@pytest.mark.parametrize("sampler", ["RandomSampler", "TPESampler", "NSGAIISampler"])
def test_samplers_search(sampler) -> None:
    searcher = OptunaSearcher(Toy(), sampler=sampler, seed=0)
    for _ in range(40):
        proposals = searcher.ask()
        searcher.tell(Told.of(proposals, [float(sum(p.arch)) for p in proposals]))
    assert searcher.best() == (1, 2, 3, 0)


def test_a_finished_run_becomes_a_study(tmp_path) -> None:
    archs = [(0, 0, 0, 0), (1, 2, 3, 0), (0, 1, 0, 0)]
    columns = {"score": np.array([1.0, 3.0, math.nan]), "flops": np.array([5.0, 9.0, 2.0])}
    storage = f"sqlite:///{tmp_path}/run.db"
    higher = {"score": True, "flops": False}
    to_study(Toy().decisions, archs, columns, higher_is_better=higher, storage=storage, name="run")
    study = optuna.load_study(study_name="run", storage=storage)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "COMPLETE", "FAIL"]
    assert study.trials[1].params == {"p": "b", "q": "c", "r": "d", "fixed": "a"}
    assert study.trials[1].values == [3.0, 9.0]
    assert [d.name for d in study.directions] == ["MAXIMIZE", "MINIMIZE"]
    with pytest.raises(InputError, match="has a study 'run' already: give another name or file"):
        to_study(Toy().decisions, archs, columns, higher_is_better=higher, storage=storage, name="run")


def test_mistakes_are_named() -> None:
    with pytest.raises(InputError, match=r"Optuna has no sampler 'TPE'; it has .*TPESampler"):
        OptunaSearcher(Toy(), sampler="TPE")
    searcher = OptunaSearcher(Toy(), sampler="RandomSampler")
    with pytest.raises(InputError, match=r"1 objectives and 2 columns were told .*: say objectives=2"):
        searcher.tell(Told(tuple(searcher.ask()), {"a": np.ones(1), "b": np.ones(1)}))
    with pytest.raises(InputError, match="cannot be forked"):
        reseeded(searcher.state(), 1)
