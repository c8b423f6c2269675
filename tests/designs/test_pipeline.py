"""The whole of a design on very small data."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands import said_by
from tests.designs.tiny import blobs, small, values
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.designs.pipeline import design, designed
from trainless.designs.settings import DesignSettings
from trainless.learn.predictor import load_predictor
from trainless.tasks import task as load

KILLED = """
import os, signal, sys
import torch
torch.set_num_threads(1)
from tests.designs.tiny import blobs, small
from trainless.designs.pipeline import design

def session(after):
    calls = 0
    def progress(*what):
        nonlocal calls
        calls += 1
        if calls > after:
            os.kill(os.getpid(), signal.SIGKILL)
    design(blobs(), sys.argv[1], settings=small(baseline=1, interval=0.0), progress=progress)

after = kills = 0
while True:
    child = os.fork()
    if not child:
        session(after)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
    kills += 1
    after += 1 + after // 3
print(kills)
"""


def arrays(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / "predictions.npz") as file:
        return {name: file[name] for name in file.files}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("design") / "run"
    design(blobs(), folder, settings=small(baseline=1))
    return folder


def test_everything_is_in_the_folder(plain: Path) -> None:
    summary = json.loads((plain / "summary.json").read_text())
    assert {path.name for path in plain.iterdir()} >= {"run.json", "plan.json", "searches", "members", "ensemble.json"}
    assert [member["name"] for member in summary["members"]] == ["00", "01", "single-00"]
    assert summary["task"]["stopping"] + summary["task"]["calibration"] == summary["task"]["samples"]["valid"]
    assert (plain / "searches" / "genetic-00" / "scores.sqlite").exists()
    kept = arrays(plain)
    assert kept["members"].shape == (2, summary["test"]["samples"], 2)
    assert np.allclose(kept["mean"].sum(1), 1)
    hits = float((kept["mean"].argmax(1) == kept["y"]).mean())
    assert summary["test"]["ensemble"]["accuracy"]["value"] == pytest.approx(hits)
    assert {"sets", "deferral", "drift", "confidence_curve", "single", "by_searcher"} <= set(summary["test"])


@pytest.mark.slow
def test_the_same_seed_gives_the_same_predictions(plain: Path, tmp_path: Path) -> None:
    design(blobs(), tmp_path / "again", settings=small(baseline=1))
    one, two = arrays(plain), arrays(tmp_path / "again")
    assert one.keys() == two.keys()
    for name, array in one.items():
        assert np.array_equal(array, two[name]), name


def test_a_saved_design_says_the_same(plain: Path) -> None:
    said = load_predictor(plain).predict_part("test", task=blobs())
    with pytest.raises(
        InputError, match=r"an ensemble keeps no data: give the task, as in predict_part\('test', task=task\)"
    ):
        load_predictor(plain).predict_part("test")
    assert np.array_equal(said.mean, arrays(plain)["mean"])
    assert designed(plain).summary["version"] == 1


@pytest.mark.slow
def test_killed_anywhere_it_ends_with_the_same(plain: Path, tmp_path: Path) -> None:
    assert int(said_by(KILLED, tmp_path, str(tmp_path / "run"))) >= 5
    one, two = arrays(plain), arrays(tmp_path / "run")
    for name, array in one.items():
        assert np.array_equal(array, two[name]), name
    assert (plain / "ensemble.json").read_text() == (tmp_path / "run" / "ensemble.json").read_text()


def test_other_settings_do_not_mix(plain: Path) -> None:
    with pytest.raises(InputError, match="holds a run with seed 0, and seed 1 was asked for"):
        design(blobs(), plain, seed=1, settings=small(baseline=1))


@pytest.mark.slow
def test_values_come_in_their_own_unit(tmp_path: Path) -> None:
    task = values()
    found = design(task, tmp_path / "run", settings=small(epochs=8))
    test = found.summary["test"]
    spread = float(np.std(task.part("test").y))
    assert test["ensemble"]["mae"]["value"] < spread
    said = found.predictor.predict_part("test", task=task)
    assert abs(float(said.mean.mean()) - 5000) < 1000
    assert test["intervals"]["promised"] == 0.9


@pytest.mark.slow
def test_a_time_budget_is_planned_once(tmp_path: Path) -> None:
    found = design(blobs(), tmp_path / "run", time=20.0, settings=small())
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert plan["begin"] > 0
    assert plan["round"] > 0
    assert plan["pilot"]["score"] > 0
    assert plan["recipe"]["patience"] == 0
    assert found.summary["plan"] == plan


@pytest.mark.slow
def test_pruning_that_is_left_out_is_said(tmp_path: Path) -> None:
    both = small(methods=("genetic", "prune"))
    told: list[str] = []
    found = design(blobs(), tmp_path / "run", settings=both, progress=lambda *what: told.append(what[3]))
    assert [search["name"] for search in found.summary["searches"]] == ["genetic-00"]
    note = "pruning was left out: it takes 57 evaluations, and a search was to have 5 at most"
    assert found.summary["plan"]["notes"] == [note]
    assert note in told
    assert note in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert found.summary["spent"]["evaluations"] == 5


def test_twenty_samples_in_all(tmp_path: Path) -> None:
    found = design(blobs(20), tmp_path / "run", settings=small())
    test = found.summary["test"]
    assert test["samples"] > 0
    assert not test["deferral"]["promised"]
    assert test["deferral"]["referred"] == 1
    assert test["deferral"]["rule"].endswith("everything is referred")
    assert test["drift"]["unlike"] == 0
    assert test["drift"]["text"].startswith("too few calibration samples to tell")
    assert all(one["low"] < one["high"] for one in test["ensemble"].values())
    said = found.predictor.predict_part("test", task=blobs(20))
    assert said.refer is not None
    assert said.refer.all()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"coverage": 1.5}, "coverage=1.5 was given"),
        ({"coverage": 0.0}, "coverage=0.0 was given"),
        ({"accuracy": 2}, "accuracy=2 was given"),
        ({"time": "0s"}, "a time budget of 0s was given; expected more than 0"),
        ({"time": -3.0}, "a time budget of -3.0 was given"),
    ],
)
def test_promises_that_cannot_be_are_refused_before_anything_is_done(
    wrong: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=words):
        design("no such data", tmp_path / "run", settings=small(**wrong))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_class_that_is_missing_in_a_part(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    y = {"train": np.arange(60) % 3, "val": np.arange(20) % 2, "test": np.arange(20) % 2}
    x = {name: random.normal(size=(len(labels), 8, 8)) for name, labels in y.items()}
    file = tmp_path / "gap.npz"
    np.savez(file, **{f"x_{name}": part for name, part in x.items()}, **{f"y_{name}": part for name, part in y.items()})
    found = design(str(file), tmp_path / "run", settings=small())
    assert any("no sample of class" in note for note in found.summary["task"]["notes"])


@pytest.mark.slow
def test_a_thousand_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainless.designs.ensemble.CHEAP", 0.5)  # seconds for trees, which would use them all
    found = design(blobs(3000, classes=1000, side=4), tmp_path / "run", settings=small(epochs=1, members=1))
    assert found.summary["task"]["outputs"] == 1000


def test_constant_inputs_fail_in_one_line(tmp_path: Path) -> None:
    y = np.arange(80) % 2
    with pytest.raises(InputError, match="all inputs of the train part are the same"):
        design((np.ones((80, 8, 8)), y), tmp_path / "run", settings=small())


def test_images_of_two_by_two_fail_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too small for nb201"):
        design(blobs(side=2, dims=2), tmp_path / "run", settings=small())
    assert not (tmp_path / "run").exists()


def test_too_few_samples_and_tokens_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="samples in the train part; expected at least"):
        design(Task.noise((1, 8, 8), 2), tmp_path / "run")
    with pytest.raises(InputError, match="predicts tokens"):
        design(load("tiny-text"), tmp_path / "run")
    with pytest.raises(InputError, match="members=0 was given"):
        design(blobs(), tmp_path / "run", settings=small(members=0))


@pytest.mark.slow
def test_memory_mapped_signals_are_never_loaded_whole(tmp_path: Path) -> None:
    from trainless.core.task import Rows

    random = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", random.normal(size=(60, 500)).astype(np.float32))
    np.save(tmp_path / "y.npy", np.arange(60) % 2)

    task = load((np.load(tmp_path / "x.npy", mmap_mode="r"), np.arange(60) % 2), dims=1)
    assert isinstance(task.part("train").x, Rows)
    found = design(task, tmp_path / "run", settings=small(epochs=1, members=1))
    assert found.summary["members"][0]["epochs"] == 1


def waves(n: int = 90) -> Task:
    """Signals whose frequency tells the class."""
    random = np.random.default_rng(0)
    y = np.arange(n) % 2
    phase = 2 * np.pi * random.random((n, 1))
    x = np.sin((0.4 + 0.5 * y[:, None]) * np.arange(32) + phase) + 0.3 * random.normal(size=(n, 32))
    return load((x.astype(np.float32), y), dims=1)


COMPETING = {"space": "residual", "space_args": {}, "plain": True, "classical": True, "folds": 3, "members": 3}


def test_plain_searched_and_classical_networks_compete(tmp_path: Path) -> None:
    task = waves()
    found = design(task, tmp_path / "run", settings=small(**COMPETING, evaluations=3), report=False)
    members = found.summary["members"]
    origins = [member["search"] for member in members]
    assert origins.count("plain") == 2
    assert origins.count("genetic-00") == 1
    assert origins.count("rocket") == 12  # four kinds on three folds
    assert {member["fold"] for member in members if member["search"] == "rocket"} == {0, 1, 2}
    assert sum(member["weight"] for member in members) == pytest.approx(1)
    counted = [member for member in members if member["weight"]]
    assert len(found.predictor.nets) == len(counted)
    assert {member["space"] for member in members} == {"residual", "rocket"}
    names = [one["name"] for one in found.summary["test"]["yardsticks"]]
    assert "a plain residual network" in names
    assert "trees" in names
    assert found.summary["test"]["ensemble"]["auc"]["value"] > 0.9
    assert found.summary["task"]["folds"] == 3
    assert found.summary["task"]["calibration"] == task.part("train").cases + task.part("valid").cases
    again = load_predictor(tmp_path / "run").predict_part("test", task=task)
    assert np.array_equal(again.mean, arrays(tmp_path / "run")["mean"])


@pytest.mark.slow
def test_a_time_budget_is_kept_and_resumed(tmp_path: Path) -> None:
    """Cut in the middle of training and begun again, it keeps its plan, and neither part exceeds the budget."""
    task, seconds = waves(), 30.0
    own = small(**COMPETING, evaluations=3)

    def cut(stage: str, done: float, total: float, detail: str) -> None:
        if detail.startswith("member plain-00 is"):
            raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        design(task, tmp_path / "run", time=seconds, settings=own, progress=cut, report=False)
    before = json.loads((tmp_path / "run" / "plan.json").read_text())
    found = design(task, tmp_path / "run", time=seconds, settings=own, report=False)
    assert time.monotonic() - start < 1.2 * seconds
    assert found.summary["plan"] == before
    assert before["begin"] >= 0
    assert not found.summary["left_out"]


@pytest.mark.slow
def test_a_table_has_trees_among_its_members(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 9)) * 10.0 ** (np.arange(9) % 4) + 5 * 10.0 ** (np.arange(9) % 4)
    high = x > x.mean(0)
    y = (high[:, 0] & high[:, 5]).astype(int)
    settings = DesignSettings(members=3, epochs=1, evaluations=4)
    found = design(load((x.astype(np.float32), y)), tmp_path / "run", settings=settings, report=False)
    assert found.predictor.task.input_shape == (9,)
    members = {name: member for member in found.summary["members"] for name in [member["folder"]]}
    assert {member["space"] for member in members.values()} == {"trees", "mlp"}
    assert sum(member["weight"] for name, member in members.items() if name.startswith("trees")) > 0.5
    again = load_predictor(tmp_path / "run")
    new = np.asarray(x[:5], np.float32)
    np.testing.assert_array_equal(again.predict(new).mean, found.predictor.predict(new).mean)
