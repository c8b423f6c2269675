"""TEACUP's clinical figures from the reports of its study."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from trainless.bench.papers import compare, definitions
from trainless.bench.papers.clinical import (
    Clinical,
    ClinicalMetric,
    ClinicalPair,
    ClinicalRank,
    ClinicalRidge,
    ClinicalSpread,
    SettingSource,
)
from trainless.bench.papers.sources import Where
from trainless.bench.score_library import Missing, ScoreLibrary
from trainless.runs.score_file import ScoreFile

MEMBERS = {
    "size": 10,
    "members": {"auc": {"mean": 0.89, "std": 0.02, "best": 0.95}},
    "average": {"auc": {"value": 0.92, "low": 0.86, "high": 0.97}},
    "vote": {"auc": {"value": 0.90, "low": 0.83, "high": 0.95}},
    "confidence": {"shares": [0.3, 1.0], "accuracy": [1.0, 0.8]},
}
REPORT = {
    "groups": {"rl": MEMBERS},
    "rankings": {"networks": 40, "of": {"teacup": {"auc": {"value": 0.27, "low": -0.08, "high": 0.52}}}},
}


@pytest.fixture
def library(tmp_path: Path) -> ScoreLibrary:
    """A folder with the report of one task."""
    (tmp_path / "clinical").mkdir()
    (tmp_path / "clinical" / "breastmnist.json").write_text(json.dumps(REPORT))
    return ScoreLibrary(tmp_path)


def test_members_of_a_study_are_read(library: ScoreLibrary) -> None:
    found = Clinical("breastmnist", "rl").answer(library, Where()).out
    assert (found["mean"].value, found["std"].value) == (0.89, 0.02)
    assert (found["ensemble"].value, found["ensemble"].low, found["ensemble"].high) == (0.92, 0.86, 0.97)
    assert (found["accuracy_of_30%"].value, found["accuracy_of_100%"].value) == (1.0, 0.8)
    assert Clinical("breastmnist", "rl", joined="vote").answer(library, Where()).out["ensemble"].value == 0.90
    assert ClinicalRank("breastmnist", "teacup").answer(library, Where()).out["spearman"].low == -0.08


def test_a_metric_is_correlated_with_what_its_networks_reach(library: ScoreLibrary) -> None:
    reached = [0.5, 0.9, 0.7, 0.8]
    report = {**REPORT, "rankings": {**REPORT["rankings"], "truth": {"auc": reached}}}
    folder = library.folder / "clinical"
    (folder / "breastmnist.json").write_text(json.dumps(report))
    values = np.array([4.0, 1.0, 2.0, 3.0])[:, None, None]  # lower is better
    (folder / "scores" / "breastmnist").mkdir(parents=True)
    settings = {"proxies": {"length": {"higher_is_better": False}}}
    file = ScoreFile(("a", "b", "c", "d"), ("length",), (0,), values, np.zeros((4, 1, 1), np.uint16), settings=settings)
    file.write(folder / "scores" / "breastmnist" / "scores_published.npz")
    found = ClinicalMetric("breastmnist", "length").answer(library, Where(draws=0))
    assert found.out["spearman"].value == pytest.approx(1 - 6 * 2 / 60)  # ranks 1 4 3 2 against 1 4 2 3
    assert found.networks == 4
    with pytest.raises(Missing, match="zico is not among the scores of all random networks of breastmnist"):
        ClinicalMetric("breastmnist", "zico").answer(library, Where())


def test_metrics_of_untrained_networks_are_correlated_and_summed_up(library: ScoreLibrary) -> None:
    values = np.array([[4.0, 1.0], [2.0, 2.0], [3.0, 4.0], [9.0, np.nan]])[:, :, None]
    settings = {"proxies": {"zico": {"higher_is_better": True}, "loss_ntk": {"higher_is_better": False}}}
    codes = np.where(np.isnan(values), 2, 0).astype(np.uint16)
    reasons = ("ok", "not scored", "no kernel")
    file = ScoreFile(("a", "b", "c", "d"), ("zico", "loss_ntk"), (0,), values, codes, reasons, settings=settings)
    folder = library.folder / "clinical" / "scores" / "breastmnist"
    folder.mkdir(parents=True)
    file.write(folder / "scores_150.npz")
    found = ClinicalPair("breastmnist", "zico", "loss_ntk").answer(library, Where(draws=0))
    assert found.out["spearman"].value == pytest.approx(0.5)  # ranks 3 1 2 against 3 2 1: the fourth has no kernel
    assert found.networks == 3
    spread = ClinicalSpread("breastmnist", "loss_ntk").answer(library, Where())
    assert spread.out["mean"].value == pytest.approx(7 / 3)
    assert spread.out["std"].value == pytest.approx(np.std([1, 2, 4], ddof=1))
    assert spread.networks == 3
    with pytest.raises(Missing, match="length is not among the metrics of 150 networks"):
        ClinicalSpread("breastmnist", "length").answer(library, Where())
    with pytest.raises(Missing, match=r"NoduleMNIST3D is for the reader to bring: .*sample:150 .*--task nodulemnist3d"):
        ClinicalPair("nodulemnist3d", "zico", "loss_ntk").answer(library, Where())
    with pytest.raises(Missing, match="no metrics of this task are stored: trainless bench sweep"):
        ClinicalPair("digits", "zico", "loss_ntk").answer(library, Where())


def test_a_ridge_fit_finds_what_the_reward_is_made_of(library: ScoreLibrary) -> None:
    rng = np.random.default_rng(0)
    for task, (metric, networks) in {"cinc2017-windows": ("f1_macro", 40), "breastmnist": ("auc", 60)}.items():
        logs = rng.normal(size=(networks, 2))
        reached = 0.1 * (3 * logs[:, 0] - logs[:, 1]) + 0.01 * rng.normal(size=networks)
        report = {**REPORT, "rankings": {"truth": {metric: reached.tolist()}}}
        (library.folder / "clinical" / f"{task}.json").write_text(json.dumps(report))
        folder = library.folder / "clinical" / "scores" / task
        folder.mkdir(parents=True)
        codes = np.zeros((networks, 2, 1), np.uint16)
        archs = tuple(map(str, range(networks)))
        ScoreFile(archs, ("length", "zico"), (0,), 10 ** logs[:, :, None], codes).write(folder / "scores_published.npz")
    both = ("length", "zico")
    weights = [ClinicalRidge(both, proxy=name).answer(library, Where()).out["weight"] for name in both]
    assert [weight.value for weight in weights] == [pytest.approx(3, rel=0.05), pytest.approx(-1)]
    assert weights[0].low < weights[0].value < weights[0].high
    found = ClinicalRidge(both, "breastmnist").answer(library, Where())
    assert found.out["held_out"].value > 0.95
    assert 0 < found.out["held_out_std"].value < 0.1
    assert (found.networks, found.seeds) == (100, 2000)
    with pytest.raises(Missing, match=r"nodulemnist3d.npz"):
        ClinicalRidge(both, "nodulemnist3d").answer(library, Where())


def test_what_is_not_there_says_what_to_bring(library: ScoreLibrary) -> None:
    with pytest.raises(Missing, match="has no members of prune"):
        Clinical("breastmnist", "prune").answer(library, Where())
    with pytest.raises(Missing, match="has no values of zico"):
        ClinicalRank("breastmnist", "zico").answer(library, Where())
    with pytest.raises(Missing, match=r"nodulemnist3d.npz .*into medmnist/ .*python -m benchmarks.teacup all nodulemn"):
        Clinical("nodulemnist3d", "rl").answer(library, Where())
    sheet = compare(definitions()["teacup:figure6"], library, draws=0)
    assert sheet.rows[0][-1] == "no data here: no study of nodulemnist3d"
    assert sum("nodulemnist3d.npz" in note for note in sheet.notes) == 1


def test_recipes_have_the_papers_settings() -> None:
    found = SettingSource("teacup-breastmnist").answer(ScoreLibrary(Path()), Where()).out
    assert {name: each.value for name, each in found.items()} == {
        **{"lr": 0.001, "momentum": 0.99, "weight_decay": 0.001, "epochs": 200},
        "early_stop": 0,
    }
