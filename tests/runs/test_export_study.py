"""A run as an Optuna study."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.runs.export_study import export_study
from trainless.runs.search import search
from trainless.runs.settings import SearchSettings
from trainless.runs.trajectory import read
from trainless.scoring.measures import Lookup
from trainless.spaces.moves import enumerate_archs
from trainless.spaces.nb201 import NasBench201

SPACE, TASK = NasBench201(2, 1), Task.noise((3, 8, 8))


def test_a_run_becomes_a_study_for_the_dashboard(tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    archs = list(enumerate_archs(SPACE))
    run, file = tmp_path / "run", tmp_path / "study.db"
    values = np.array([math.nan if arch[1] == 3 else float(sum(arch)) for arch in archs])
    measure = Lookup("loss", archs, {1.0: values}, np.ones(len(archs)), higher_is_better=False)
    search(TASK, SPACE, "random", evaluations=12, out=run, settings=SearchSettings(measure=measure))
    before = sorted((path.name, path.read_bytes()) for path in run.iterdir())
    export_study(run, file)
    assert sorted((path.name, path.read_bytes()) for path in run.iterdir()) == before
    study = optuna.load_study(study_name="run", storage=f"sqlite:///{file}")
    lines = [line.step for line in read(run / "trajectory.jsonl") if line.step]
    told = [tuple(candidate) for step in lines for candidate in step["candidates"]]
    names = [[d.options[option] for d, option in zip(SPACE.decisions, arch, strict=True)] for arch in told]
    assert [list(trial.params.values()) for trial in study.trials] == names
    losses = [values[archs.index(SPACE.canonical(arch))] for arch in told]
    assert [trial.value for trial in study.trials] == [None if math.isnan(loss) else loss for loss in losses]
    assert any(map(math.isnan, losses))
    assert study.best_value == np.nanmin(losses)
    assert study.metric_names == ["loss"]
    assert [trial.user_attrs["step"] for trial in study.trials] == list(range(1, 13))


def test_what_cannot_become_a_study_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no run"):
        export_study(tmp_path, tmp_path / "study.db")
    search(TASK, SPACE, "prune", proxies="params", evaluations=25, out=tmp_path / "run")
    with pytest.raises(InputError, match="has evaluated no architecture yet"):
        export_study(tmp_path / "run", tmp_path / "study.db")
    search(TASK, SPACE, "random", proxies="params", evaluations=1, out=tmp_path / "one")
    with pytest.raises(InputError, match=r"the folder .* does not exist"):
        export_study(tmp_path / "one", tmp_path / "no" / "study.db")
