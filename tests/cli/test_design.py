"""design, predict and export from the command line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainless import rankings
from trainless.cli.app import run
from trainless.core.task import Rows
from trainless.designs import settings as presets
from trainless.learn.predictor import load_predictor
from trainless.learn.recipe import recipe
from trainless.learn.recipe import registry as recipes

SMALL = ("--preset", "tiny-cli", "--space-args", "channels=3,cells=1", "--workers", "1", "--device", "cpu")
if "tiny-cli" not in presets.registry:
    TINY = replace(presets.registry["fast"], searches=1, evaluations=5, members=2, epochs=2, baseline=0)
    TINY = replace(TINY, space="nb201", plain=False, classical=False, folds=1)
    presets.registry.add("tiny-cli", replace(TINY, preset="tiny-cli", methods=("genetic",), searcher_args={}))
if "fewest-cli" not in rankings.registry:
    rankings.registry.add("fewest-cli", rankings.RankSum(("params",)))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("cli")
    random = np.random.default_rng(0)
    y = np.arange(300) % 2
    x = (random.normal(size=(300, 8, 8)) + 2.0 * y[:, None, None]).astype(np.float32)
    np.savez(folder / "data.npz", x=x, y=y, class_names=np.array(["no", "yes"]))
    assert run(("design", str(folder / "data.npz"), "--out", str(folder / "run"), *SMALL)) == 0
    return folder / "run", folder / "data.npz"


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_summary_says_where_everything_is(made: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("design", str(made[1]), "--out", str(made[0]), *SMALL)) == 0
    said = capsys.readouterr().out
    for words in (
        "accuracy",
        "sets that promise 90%",
        "deferral",
        "drift",
        f"Look at {made[0] / 'report.html'}.",
        "summary.json",
    ):
        assert words in said
    assert run(("design", str(made[1]), "--out", str(made[0]), *SMALL, "--json")) == 0
    assert json.loads(capsys.readouterr().out)["test"]["samples"] > 0


def test_predictions_of_new_cases(made: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder, data = made
    assert run(("predict", str(run_folder), str(data), "--csv", str(tmp_path / "out.csv"))) == 0
    assert "300 cases" in capsys.readouterr().out
    rows = rows_of(tmp_path / "out.csv")
    x = np.load(data)["x"]
    said = load_predictor(run_folder).predict(x[:, None])
    assert len(rows) == 300
    assert said.label is not None
    for row, p, label in zip(rows, said.mean, said.label, strict=True):
        assert float(row["p_no"]) == pytest.approx(p[0], abs=1e-6)
        assert float(row["p_yes"]) == pytest.approx(p[1], abs=1e-6)
        assert row["label"] == ("no", "yes")[label]
        assert row["label"] in row["set"].split(" | ")
        assert row["refer"] in ("yes", "no")
        assert row["unlike_training"] in ("yes", "no")
        assert row["unlike_training"] == "no" or float(row["like_training_p"]) < 0.1
        assert float(row["variance"]) >= 0


def test_channels_may_be_last_and_drift_is_said(
    made: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "strange.npy", np.full((30, 8, 8, 1), 1000.0, np.float32))
    assert run(("predict", str(made[0]), str(tmp_path / "strange.npy"), "--csv", str(tmp_path / "out.csv"))) == 0
    assert "do not trust these predictions" in capsys.readouterr().err
    assert all(row["unlike_training"] == "yes" for row in rows_of(tmp_path / "out.csv"))


@pytest.mark.slow
def test_predict_reads_what_design_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder of images by class, then one image that is white; answers name the files."""
    random = np.random.default_rng(0)
    for label, light in (("dark", 0), ("light", 120)):
        (tmp_path / "imgs" / label).mkdir(parents=True)
        for number in range(24):
            pixels = (random.integers(0, 120, (10, 12, 3)) + light).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "imgs" / label / f"{number:02d}.png")
    ranking = ("--ranking", "fewest-cli", "--epochs", "10")
    assert run(("design", str(tmp_path / "imgs"), "--out", str(tmp_path / "run"), "--size", "8", *ranking, *SMALL)) == 0
    assert f"Next: trainless predict {tmp_path / 'run'} new-images/ --csv" in capsys.readouterr().out.replace("\n", " ")
    out = tmp_path / "out.csv"
    assert run(("predict", str(tmp_path / "run"), str(tmp_path / "imgs"), "--csv", str(out))) == 0
    rows = rows_of(out)
    assert [row["case"] for row in rows[22:26]] == ["dark/22.png", "dark/23.png", "light/00.png", "light/01.png"]
    assert np.mean([row["label"] == row["case"].split("/")[0] for row in rows]) > 0.8
    assert {row["refer"] for row in rows} == {"yes"}  # so few cases promise nothing
    assert {row["unlike_training"] for row in rows} == {"unknown"}
    one = str(tmp_path / "imgs" / "light" / "07.png")
    assert run(("predict", str(tmp_path / "run"), one, "--csv", str(out))) == 0
    assert float(rows_of(out)[0]["p_light"]) == pytest.approx(float(rows[31]["p_light"]), abs=1e-5)
    assert rows_of(out)[0]["case"] == "07.png"


def test_mistakes_are_one_line(trainless: Callable[..., Any], made: tuple[Path, Path], tmp_path: Path) -> None:
    np.savez(tmp_path / "wrong.npz", x=np.zeros((3, 9, 9)))
    np.savez(tmp_path / "many.npz", a=np.zeros(3), b=np.zeros(3))
    np.savez(tmp_path / "nan.npz", x=np.full((3, 8, 8), np.nan))
    cases = (
        (("predict", str(made[0]), "wrong.npz", "--csv", "o.csv"), "expected (N, 1, 8, 8)"),
        (("predict", str(made[0]), "many.npz", "--csv", "o.csv"), "expected one called x"),
        (("predict", str(made[0]), "nan.npz", "--csv", "o.csv"), "NaN or infinite"),
        (("predict", str(made[0]), "none.npz", "--csv", "o.csv"), "there is no file"),
        (("predict", str(tmp_path), "wrong.npz", "--csv", "o.csv"), "is no run"),
        (("design", "digits", "--out", "r", "--preset", "slow"), "no preset is called 'slow'"),
        (("design", "digits", "--out", "r", "--time", "soon"), "expected a time such as"),
        (
            ("design", "digits", "--out", "r", "--time", "0s"),
            "a time budget of 0s was given; expected",
        ),
        (("design", "digits", "--out", "r", "--coverage", "1.5"), "--coverage 1.5 was given; expected a number"),
        (("design", "digits", "--out", "r", "--accuracy", "2"), "--accuracy 2.0 was given; expected a number"),
        (("design", "digits", "--out", "r", "--accuracy", "nan"), "--accuracy nan was given; expected a number"),
    )
    for arguments, words in cases:
        answer = trainless(*arguments)
        assert answer.code == 2, arguments
        assert words in answer.err
        assert len(answer.err.strip().splitlines()[-1]) < 400


@pytest.mark.slow
def test_a_large_file_of_signals_is_never_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every read of the mapped file is seen; none is more than a quarter of it, and no part is held in memory."""
    rows, length = 60_000, 600
    file = np.lib.format.open_memmap(tmp_path / "signals.npy", mode="w+", dtype=np.int16, shape=(rows, length + 1))
    y = np.arange(rows) % 2
    file[:, :8] = np.random.default_rng(0).normal(size=(rows, 8)) * 100 + 50 * y[:, None]
    file[:, -1] = y
    file.flush()
    del file
    reads: list[int] = []
    plain = Rows.__getitem__

    def seen(self: Rows, key: Any) -> Any:
        found = plain(self, key)
        reads.append(found.size)
        return found

    monkeypatch.setattr(Rows, "__getitem__", seen)
    monkeypatch.setattr("trainless.designs.ensemble.CHEAP", 0.5)  # seconds for trees, which would use them all
    if "few-cli" not in recipes:
        recipes.add("few-cli", replace(recipe("default"), name="few-cli", samples=2000))
    few = ("--evaluations", "3", "--members", "1", "--epochs", "1", "--baseline", "0", "--recipe", "few-cli")
    thin = ("--space-args", "channels=2,cells=1", "--workers", "1", "--device", "cpu", "--json", "--preset", "tiny-cli")
    assert run(("design", str(tmp_path / "signals.npy"), "--out", str(tmp_path / "run"), *few, *thin)) == 0
    summary = json.loads(capsys.readouterr().out)
    assert sum(summary["task"]["samples"].values()) == rows
    assert sum(reads) > rows * length  # the checks and the fingerprint do see all of it, piece by piece
    assert max(reads) < rows * length / 4
    shown = np.load(tmp_path / "run" / "shown.npz")
    assert sum(shown[name].size for name in shown.files) < rows


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "methods"), [("teacup", ("rl", "genetic", "prune")), ("thorough", ("genetic",))])
def test_the_larger_presets_complete(
    preset: str, methods: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One run of each method and few of everything; the rest is the preset's own."""
    small = f"small-{preset}"
    if small not in presets.registry:
        own = presets.registry[preset]
        two_left = {"first": ("none", "skip_connect", "avg_pool_3x3")}  # of five options: one round, 1 + 6 · 2 regions
        pruning = {**own.searcher_args, "prune": two_left}
        presets.registry.add(small, replace(own, preset=small, searches=1, methods=methods, searcher_args=pruning))
    few = ("--evaluations", "13" if "prune" in methods else "6", "--members", "3", "--epochs", "1", "--baseline", "1")
    thin = ("--space-args", "channels=2,cells=1") if preset == "teacup" else ()
    thin += ("--workers", "1", "--device", "cpu", "--json")
    out = tmp_path / "run"
    assert run(("design", "digits", "--out", str(out), "--preset", small, *few, *thin)) == 0
    summary = json.loads(capsys.readouterr().out)
    assert [search["name"] for search in summary["searches"]] == [f"{method}-00" for method in methods]
    assert [member["search"] for member in summary["members"]].count("single") == 1
    assert summary["test"]["single"]["size"] == 1
    trained = [member["search"] for member in summary["members"] if member["search"] != "single"]
    assert len(trained) == 3
    assert trained.count("plain") == (2 if preset == "thorough" else 0)
    assert len(load_predictor(out).nets) == sum(member["weight"] > 0 for member in summary["members"])
    assert "<svg" in (out / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_exported_graph_says_the_same(made: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from trainless.learn.export import run_onnx

    assert run(("export", str(made[0]), "--onnx", str(tmp_path / "model.onnx"))) == 0
    predictor = load_predictor(made[0])
    for size in (1, 37):
        x = np.random.default_rng(size).normal(size=(size, 1, 8, 8)).astype(np.float32) + 1
        found, said = run_onnx(tmp_path / "model.onnx", x), predictor.predict(x)
        assert np.allclose(found["probabilities"], said.mean, atol=1e-5)
        for name in ("variance", "total", "aleatoric", "epistemic"):
            assert np.allclose(found[name], getattr(said, name), atol=1e-5)
        assert np.array_equal(found["label"], said.label)
        assert found["sets"].shape == (size, 2)
        assert found["refer"].shape == (size,)
    assert list(tmp_path.iterdir()) == [tmp_path / "model.onnx"]
