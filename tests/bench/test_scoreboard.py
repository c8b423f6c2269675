"""The benchmark of the statistics runs, on few networks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.scoreboard import columns, main


def test_the_benchmark_writes_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "deep" / "scoreboard.json"
    assert main(["--proxies", "2", "--networks", "150", "--draws", "20", "--out", str(path)]) == 0
    found = json.loads(path.read_text())
    assert (found["proxies"], found["networks"], found["draws"], found["statistics"]) == (2, 150, 20, 12)
    assert found["processor_seconds"] >= 0
    assert found["environment"]["numpy"] == np.__version__
    assert '"proxies": 2' in capsys.readouterr().out


def test_every_column_has_failures_and_every_second_one_ties() -> None:
    scores, accuracy = columns(2, 2000)
    assert all(0 < np.isnan(each).sum() < 100 for each in scores.values())
    distinct = [len(np.unique(each[np.isfinite(each)])) for each in scores.values()]
    assert distinct[0] == np.isfinite(scores["proxy_00"]).sum()
    assert distinct[1] < np.isfinite(scores["proxy_01"]).sum()
    assert accuracy.max() <= 94
