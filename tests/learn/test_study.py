"""The study in ``benchmarks/teacup.py``: its figures by hand, and all its stages on a few thin networks."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from benchmarks import members, teacup
from benchmarks.teacup_report import judge, page
from trainless.runs.score_file import ScoreFile

SHARED = {"task": "t", "space": {}, "recipe": "nb201", "epochs": 0, "batch": 0, "width": 64, "status": "ok"}


def jobs(*roles: str) -> list[dict[str, Any]]:
    return [{**SHARED, "role": role, "arch": f"a{number}", "seconds": 60.0} for number, role in enumerate(roles)]


@pytest.mark.slow
def test_figures_by_hand() -> None:
    random = np.random.default_rng(0)
    y = {part: np.arange(n) % 2 for part, n in (("valid", 40), ("test", 60))}
    listed = jobs("rl", "rl", "prune", "single", "single", "resnet18", *["random"] * 8)
    listed[1]["status"] = "diverged"
    arrays: dict[str, Any] = {f"t_{part}": labels for part, labels in y.items()}
    for number in range(len(listed)):
        for part, labels in y.items():
            z = 1 / (1 + np.exp(-random.normal(scale=2, size=len(labels)) - (2 * labels - 1) * 0.3 * (number + 1)))
            arrays[f"{number}_{part}"] = np.stack([1 - z, z], 1)
    values = {"good": np.arange(8.0), "bad": np.full(8, np.nan)}
    found = judge("t", listed, arrays, values)
    assert found["unsound"] == {"diverged": 1}
    assert found["groups"]["searched"]["size"] == 2
    assert {name: group["size"] for name, group in found["groups"].items()}["single"] == 2
    hits = [(arrays[f"{number}_test"].argmax(1) == y["test"]).mean() for number in (3, 4)]
    assert found["groups"]["single"]["members"]["accuracy"]["mean"] == pytest.approx(np.mean(hits))
    truth = found["rankings"]["truth"]["auc"]
    positive, negative = (arrays["6_test"][y["test"] == label, 1] for label in (1, 0))
    assert truth[0] == pytest.approx((positive[:, None] > negative).mean())
    assert found["rankings"]["of"]["good"]["auc"]["value"] == pytest.approx(spearmanr(np.arange(8), truth)[0])
    assert found["rankings"]["less_first"]["good"]["auc"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    reverse = judge("t", listed, arrays, {"good": np.arange(8.0), "reverse": -np.arange(8.0)})["rankings"]
    assert reverse["less_first"]["reverse"]["auc"]["value"] == pytest.approx(-2 * reverse["of"]["good"]["auc"]["value"])
    assert reverse["less_first"]["reverse"]["auc"]["high"] == pytest.approx(-2 * reverse["of"]["good"]["auc"]["low"])
    promised = found["promises"]["searched"]
    assert (promised["pooled"], promised["calibration"], promised["held_out"]) == (["valid", "test"], 50, 50)
    assert promised["coverage"]["expected"] == pytest.approx(46 / 51)
    assert promised["coverage"]["bare_within_three_errors"]
    assert json.loads(json.dumps(found)) == found
    assert "| searched | 2 |" in page(found)


def test_a_run_looks_up_its_own_seed_where_it_has_one() -> None:
    names = ("length", "loss_ntk", "loss_synflow", "zico")
    values = np.ones((3, 4, 2))
    values[:, 2] = 0.0  # a logarithm already
    values[:, 3, 0] = [1000.0, 100.0, 10.0]
    values[:, :, 1] = np.nan
    values[:2, 2, 1], values[:2, [0, 1], 1] = 0.0, 1.0
    values[:2, 3, 1] = [1e5, 1e6]
    file = ScoreFile(("a", "b", "c"), names, (0, 1), values, np.isnan(values).astype(np.uint16))
    assert teacup.run_values(file, file.archs, 0).tolist() == pytest.approx([3, 2, 1])
    assert teacup.run_values(file, file.archs, 1).tolist() == pytest.approx([5 - 3, 6 - 3, 1])  # the shift is 3
    assert teacup.run_values(file, file.archs, 2).tolist() == pytest.approx([3, 2, 1])


@pytest.mark.slow
def test_all_stages_and_going_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = tmp_path / "packed", tmp_path / "study"
    teacup.main(["pack", "digits", "--data", str(data)])
    few = "--channels 2 --cells 1 --sample 12 --again 2 --others 6 --runs 2 --evaluations 10 --methods rl,genetic"
    fewer = "--single 2 --resnets 1 --random 4 --width 2 --epochs 1 --batch 256"
    asked = ["digits", "--data", str(data), "--out", str(out), *few.split(), *fewer.split()]
    teacup.main(["all", *asked])
    found = json.loads((out / "report.json").read_text())
    assert {name: group["size"] for name, group in found["groups"].items()} == {
        **{"searched": 4, "rl": 2, "genetic": 2},
        **{"single": 2, "resnet18": 1, "random": 4},
    }
    assert found["rankings"]["networks"] == 4
    assert math.isfinite(found["groups"]["searched"]["average"]["auc"]["value"])
    assert {path.name for path in out.iterdir()} == {
        *("scores_paper.npz", "scores_own.npz", "jobs.json", "members.npz", "report.json", "report.md")
    }
    capsys.readouterr()
    again = members.train_all(json.loads((out / "jobs.json").read_text())["jobs"], data, out / "members.npz")
    assert all(job["status"] == "ok" for job in again)
    assert capsys.readouterr().out == ""  # nothing was left to train
