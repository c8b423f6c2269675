"""The benchmarks run, on a network small enough for a test."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch

from benchmarks import disagreement, durability, proxies
from benchmarks.teacup import composite
from benchmarks.teacup_report import compared, coverage
from trainless.core.task import Task
from trainless.proxies import registry
from trainless.runs.score_file import ScoreFile


@pytest.mark.slow
def test_the_quick_mode_measures_in_processes_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "deep" / "results.json"
    arguments = ["--quick", "--networks", "tiny", "--measures", "snip", "--output", str(path)]
    assert proxies.main(arguments) == 0
    found = json.loads(path.read_text())
    assert found["batch"] == 16
    assert found["environment"]["torch"] == torch.__version__
    assert found["environment"]["threads"] == 1
    cost = found["networks"]["tiny"]["costs"]["snip"]
    assert cost["fbe"] == pytest.approx(cost["ms"] / cost["unit_ms"])
    assert 0 < cost["before_mb"] <= cost["peak_mb"]
    assert not cost["failed"]
    assert "snip" in capsys.readouterr().out


@pytest.mark.slow
def test_all_proxies_run_together_on_one_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxies, "keep_warm", lambda: False)  # the process of the tests stays as it is
    cost = proxies.measure("tiny", proxies.measures()["suite"], batch=8, repeats=2, seconds=60)
    assert cost.repeats == 2
    assert cost.fbe is not None
    assert cost.fbe > 0
    assert not cost.failed


def test_an_error_in_the_process_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('out of memory')")
    monkeypatch.setattr(proxies, "__file__", str(broken))
    cost = proxies.measure_apart("tiny", "snip", batch=4, repeats=1, seconds=1)
    assert cost.fbe is None
    assert cost.error == "out of memory"


def test_measures_are_each_proxy_groups_and_the_suite_with_and_without_grasp() -> None:
    found = proxies.measures()
    every = {name for name, _ in found["suite"]}
    assert every <= set(found)
    assert every <= set(registry.names())
    assert {"params", "snip", "gradsign", "ntk_condition", "epsilon", "vkdnw", "grasp"} <= every
    assert every - {name for name, _ in found["suite without grasp"]} == {"grasp"}
    assert all(not options for _, options in found["suite"])  # the joint kernel is an option, and not in it


def test_networks_are_those_of_the_issue() -> None:
    shapes = {name: proxies.NETWORKS[name].shape for name in proxies.USUAL}
    assert list(shapes) == ["nb201-best", "nb201-median", "nb201-emptiest", "resnet50", "1d", "3d"]
    assert (len(shapes["1d"]), len(shapes["3d"])) == (2, 4)
    net = proxies.ResNet50(10)
    assert sum(tensor.numel() for tensor in net.parameters()) == 23_520_842  # He et al.'s 50 layers, 3×3 stem
    assert net(Task.noise((3, 32, 32)).batch(2, seed=0)[0]).shape == (2, 10)


def test_paired_differences_are_of_sets_and_seeds() -> None:
    """On one set better by 0.02 in AUC with either seed, on the other worse by 0.01; in loss, lower is better."""
    rows = []
    for name, gap in (("a", 0.02), ("b", -0.01)):
        for seed in (0, 1):
            for fold in (0, 1):
                base = {"set": name, "seed": seed, "fold": fold, "loss": 0.5, "auc": 0.8 + 0.01 * fold, "area": 0.9}
                rows.append({**base, "kind": "top"})
                rows.append({**base, "kind": "random", "auc": base["auc"] + gap, "loss": 0.5 + gap})
    found = {one["metric"]: one for one in disagreement.paired(rows)}
    assert found["auc"]["better"] == pytest.approx(0.005)
    assert found["loss"]["better"] == pytest.approx(-0.005)
    assert (found["auc"]["low"], found["auc"]["high"]) == (pytest.approx(-0.01), pytest.approx(0.02))
    assert found["area"]["better"] == found["area"]["low"] == found["area"]["high"] == 0
    assert found["auc"]["runs"] == 4


def test_a_study_of_disagreement_counts_what_is_complete(tmp_path: Path) -> None:
    """A fold counts once every network of every ensemble was trained on it; one architecture twice is two trainings."""
    arch = [0, 0, 0, 0, 0, 0, 0]
    chosen = {"top": [[arch, 0], [[1, *arch[1:]], 0]], "one": [[arch, 0], [arch, 1]]}
    plan = {"set": "toy.npz", "seed": 3, "folds": 2, "ensembles": chosen}
    (tmp_path / "toy.3.json").write_text(json.dumps(plan))
    jobs = list(disagreement.jobs_of(plan))
    assert len(jobs) == 2 * 3
    y = np.array([0, 1, 1, 0])
    p = np.array([[0.8, 0.2], [0.4, 0.6], [0.1, 0.9], [0.7, 0.3]])
    for job in jobs[:-1]:
        np.savez(tmp_path / job.file, p=p, y=y)
    rows = disagreement.table(tmp_path)
    assert {row["fold"] for row in rows} == {0}
    assert [row["kind"] for row in rows] == ["top", "one"]
    assert rows[0]["loss"] == pytest.approx(-np.mean(np.log([0.8, 0.6, 0.9, 0.7])))
    assert rows[0]["auc"] == 1.0
    assert disagreement._with_seeds([(1,), (2,), (1,)]) == [((1,), 0), ((2,), 0), ((1,), 1)]


def test_a_median_of_calls_is_in_milliseconds() -> None:
    assert durability.median_ms(lambda number: None, 3) < 100


def test_a_network_without_a_score_is_no_failure() -> None:
    names = ("length", "loss_ntk", "loss_synflow", "zico")
    values = np.ones((3, 4, 1))
    values[1, 3], values[2] = np.nan, np.nan
    codes = np.zeros(values.shape, np.uint16)
    codes[1, 3], codes[2] = 2, 1  # it failed in zico; it was not scored
    about = {"proxies": {name: {"higher_is_better": True} for name in names}}
    reasons = ("ok", "not asked for", "no gradient")
    file = ScoreFile(("a", "b", "c"), names, (0,), values, codes, reasons, settings=about)
    found = composite(file, ["a", "b", "c", "d"], 0)
    assert found[0] == pytest.approx(-1 / np.log(10))  # logarithms of one; SynFlow's value is a logarithm already
    assert found[1] == -np.inf
    assert np.isnan(found[2:]).all()


def test_rankings_are_compared_on_what_all_of_them_scored() -> None:
    rng = np.random.default_rng(0)
    truth, first, second = rng.normal(size=20), rng.normal(size=20), rng.normal(size=20)
    first[:4], second[6] = np.nan, -np.inf
    found = compared({"auc": truth.tolist()}, {"teacup": first, "trainless": second})
    for name, values in (("teacup", first), ("trainless", second)):
        expected = scipy.stats.spearmanr(np.maximum(values[4:], -99), truth[4:]).statistic
        assert found["of"][name]["auc"].value == pytest.approx(expected)
    assert (found["networks"], found["compared"]) == (20, 16)
    assert coverage(found) == " (16 of them compared; 4 not scored by teacup; 1 failed by trainless and are last)"
    few = compared({"auc": truth.tolist()}, {"teacup": np.full(20, np.nan), "trainless": second})
    assert list(few["of"]) == ["trainless"]
    assert (few["compared"], few["unscored"]["teacup"]) == (20, 20)
