"""Recordings from the command line: design and predict answer by recording, from files of every such kind."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_design import SMALL
from tests.tasks.test_signal_files import wfdb
from trainless.cli.app import run
from trainless.learn.predictor import load_predictor
from trainless.tasks import task

QUICK = ("--ranking", "fewest-cli", *SMALL)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_wfdb_recordings_of_different_lengths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    folder = tmp_path / "ecg"
    folder.mkdir()
    lines = ["record,rhythm,patient"]
    for place in range(40):
        signal = random.integers(-50, 50, (2, 40 + 30 * (place % 4))) + 400 * (place // 2 % 2)
        wfdb(folder, f"r{place:02}", signal)
        lines.append(f"r{place:02},{'af' if place // 2 % 2 else 'sinus'},p{place // 2}")
    (folder / "labels.csv").write_text("\n".join(lines).replace("record,", "file,", 1))
    out = tmp_path / "run"
    options = ("--label", "rhythm", "--group", "patient", "--window", "40", "--classes", "sinus,af")
    assert run(("design", str(folder), "--out", str(out), *options, *QUICK)) == 0
    said = capsys.readouterr()
    assert "answers are by recording" in said.err
    assert run(("predict", str(out), str(folder), "--csv", str(tmp_path / "new.csv"))) == 0
    rows = rows_of(tmp_path / "new.csv")
    assert [row["case"] for row in rows] == [f"r{place:02}.hea" for place in range(40)]
    assert set(rows[0]) >= {"label", "p_sinus", "p_af", "set", "refer"}
    with np.load(out / "predictions.npz") as held:
        made = task(folder, label="rhythm", group="patient", window=40, classes="sinus,af")
        test = made.part("test")
        names = [str(name) for name in np.asarray(test.names)[test.first]]
        ours = {row["case"]: float(row["p_af"]) for row in rows}
        np.testing.assert_allclose([ours[name] for name in names], held["mean"][:, 1], rtol=1e-4)
        np.testing.assert_array_equal(held["y"], test.truth)
    assert load_predictor(out).task.target.names == ("sinus", "af")


def test_an_archive_set_and_its_test_file(tmp_path: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = (data_dir / "ucr" / f"ECG200_{part}.ts.gz" for part in ("TRAIN", "TEST"))
    out = tmp_path / "run"
    assert run(("design", str(train), "--out", str(out), *QUICK)) == 0
    assert "ECG200_TEST.ts.gz beside ECG200_TRAIN.ts.gz is the test part" in capsys.readouterr().err
    assert run(("predict", str(out), str(test), "--csv", str(tmp_path / "new.csv"))) == 0
    with np.load(out / "predictions.npz") as held:
        found = [float(row["p_1"]) for row in rows_of(tmp_path / "new.csv")]
        np.testing.assert_allclose(found, held["mean"][:, 1], rtol=1e-4)
