"""Answers by recording: predictions, promises and judgement see one row per recording."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.designs.tiny import small
from trainless.core.target import Target
from trainless.core.task import Part, Task
from trainless.designs.holdout import hold_back
from trainless.designs.pipeline import design
from trainless.learn.export import export_onnx, read_about, run_onnx
from trainless.learn.loop import train
from trainless.learn.predictor import LEAST_SAMPLES, Predictor, calibrate, predict_part, watched
from trainless.learn.recipe import recipe
from trainless.learn.validation import validated
from trainless.tasks.recordings import Recordings, from_recordings
from trainless.tasks.settings import Reading


def recordings(count: int = 120, seed: int = 0) -> Task:
    """Recordings of 16 to 70 samples whose mean tells the class."""
    random = np.random.default_rng(seed)
    y = np.arange(count) % 2
    signals = [random.normal(size=(1, random.integers(16, 70))).astype(np.float32) + label for label in y]
    names = np.array([f"r{place}" for place in range(count)])
    return from_recordings("told", {"train": Recordings(signals, y, names=names)}, Reading(window=16))


class Mean(nn.Module):
    """Logits from the mean of the input."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.last = nn.Linear(1, 2)
        with torch.no_grad():
            self.last.weight.copy_(torch.tensor([[-scale], [scale]]))
            self.last.bias.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(x.mean((1, 2))[:, None])


def by_hand(task: Task, part: Part, scale: float) -> np.ndarray:
    """The mean over each recording's windows of the network's probabilities, in plain loops."""
    found = []
    assert part.records is not None
    for record in dict.fromkeys(part.records.tolist()):
        rows = []
        for place in np.flatnonzero(part.records == record):
            mean = ((part.x[place : place + 1][0] - task.mean[0]) / task.std[0]).mean()
            rows.append(1 / (1 + np.exp(-2 * scale * mean)))
        found.append(np.mean(rows))
    return np.array(found)


def test_predictions_are_the_means_over_windows() -> None:
    task = recordings()
    test = task.part("test")
    assert len(test) > test.cases
    predictor = Predictor(task, (Mean(1.0), Mean(2.0)), np.array([0.5, 0.5]))
    said = predictor.predict_part("test")
    expected = [by_hand(task, test, scale) for scale in (1.0, 2.0)]
    np.testing.assert_allclose(said.members[:, :, 1], expected, rtol=1e-5)
    np.testing.assert_allclose(said.mean[:, 1], np.mean(expected, 0), rtol=1e-5)
    np.testing.assert_allclose(predict_part(Mean(1.0), task, "test")[:, 1], expected[0], rtol=1e-5)
    raw = predictor.predict(np.asarray(test.x), records=test.records)
    np.testing.assert_allclose(raw.mean, said.mean, rtol=1e-6)
    assert len(raw.mean) == test.cases == len(test.truth)


def test_calibration_is_by_recording_whatever_the_order_of_windows() -> None:
    task = recordings(400)
    valid = task.part("valid")
    index = hold_back(task, recipe("default"), seed=0).held[0]
    assert sorted(index) == list(range(len(valid)))
    assert valid.records is not None
    changes = np.count_nonzero(np.diff(valid.records[index]))
    assert changes == valid.cases - 1  # windows of a recording stand together
    nets, weights = (Mean(1.0),), np.ones(1)
    made = calibrate(nets, weights, task, index, coverage=0.8)
    assert made.sets is not None
    assert made.sets.samples == valid.cases - valid.cases // 3
    assert made.prior == pytest.approx(np.bincount(task.part("train").truth) / task.part("train").cases)
    assert made.sets.thresholds[0] == pytest.approx(expected_threshold(task, index, 0.8), rel=1e-5)


def expected_threshold(task: Task, index: np.ndarray, coverage: float) -> float:
    """The conformal quantile of 1 − p of the truth over the recordings after the first third, by hand."""
    valid = task.part("valid")
    assert valid.records is not None
    second = dict(zip(dict.fromkeys(valid.records.tolist()), by_hand(task, valid, 1.0), strict=True))
    order = list(dict.fromkeys(valid.records[index].tolist()))
    truth = dict(zip(valid.records.tolist(), valid.y.tolist(), strict=True))
    p = np.array([[1 - second[record], second[record]] for record in order])
    y = np.array([truth[record] for record in order])
    third = len(y) // 3
    from trainless.learn.calibration import fit_temperature, sharpen  # the temperature is not what is tested

    p = sharpen(p, fit_temperature(p[:third], y[:third]))
    scores = np.sort(1 - p[np.arange(len(y)), y][third:])
    return float(scores[int(np.ceil((len(scores) + 1) * coverage)) - 1])


def test_halves_of_the_validation_part_share_no_recording() -> None:
    task = recordings(200)
    held = hold_back(task, recipe("default", keep="best"), seed=1)
    stopping, valid = held.fold(0).part("valid"), task.part("valid")
    assert stopping.names is not None
    assert valid.names is not None
    other = set(np.asarray(valid.names)[held.held[0]].tolist())
    assert not set(stopping.names.tolist()) & other
    assert stopping.cases + len(other) == valid.cases


@pytest.mark.slow
def test_a_design_judges_recordings(tmp_path: Path) -> None:
    task = recordings(80)
    found = design(task, tmp_path / "run", settings=small(baseline=1))
    test = task.part("test")
    with np.load(tmp_path / "run" / "predictions.npz") as said:
        np.testing.assert_array_equal(said["y"], test.truth)
        assert said["mean"].shape == (test.cases, 2)
        assert said["single"].shape[1] == test.cases
    assert found.summary["test"]["samples"] == test.cases
    assert found.summary["task"]["samples"]["train"] == task.part("train").cases
    assert (tmp_path / "run" / "report.html").exists()


def test_without_records_nothing_changes() -> None:
    task = recordings()
    plain = replace(task, test=replace(task.part("test"), records=None))
    predictor = Predictor(task, (Mean(1.0),), np.ones(1))
    assert len(predictor.predict_part("test", task=plain).mean) == len(task.part("test"))
    assert Task("x", (1, 4), Target("binary", 2)).train is None


def test_validation_is_by_recording() -> None:
    task = recordings()
    valid = task.part("valid")
    answers = Mean(1.5)(task.tensors("valid")[0]).detach()
    loss, accuracy = validated(task, answers, task.tensors("valid")[1])
    p, y = by_hand(task, valid, 1.5), valid.truth
    assert loss == pytest.approx(-np.mean(np.log(np.where(y == 1, p, 1 - p))), rel=1e-5)
    assert accuracy == np.mean((p > 0.5) == (y == 1))
    windows = float(task.target.losses(answers, task.tensors("valid")[1]).mean())
    assert abs(windows - loss) > 1e-3  # where windows counted, the loss would be another
    trained = train(Mean(0.1), task, recipe("default", epochs=1))
    said = predict_part(trained.net, task, "valid")
    expected = -np.mean(np.log(said[np.arange(len(y)), y]))
    assert trained.history[-1].valid_loss == pytest.approx(expected, rel=1e-5)
    assert trained.history[-1].valid_accuracy == np.mean(said.argmax(1) == y)


def test_values_of_recordings_too() -> None:
    part = Part(np.zeros((3, 1, 4)), np.array([1.0, 1.0, 5.0]), records=np.array([0, 0, 1]))
    task = Task("values", (1, 4), Target("regression", 1), part, part)
    loss, accuracy = validated(task, torch.tensor([[0.0], [4.0], [3.0]]), torch.tensor([1.0, 1.0, 5.0]))
    assert loss == pytest.approx(((2 - 1) ** 2 + (3 - 5) ** 2) / 2)
    assert np.isnan(accuracy)


@pytest.mark.slow
def test_an_exported_ensemble_answers_a_recording(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    task = recordings()
    index = hold_back(task, recipe("default"), seed=0).held[0]
    predictor = calibrate((Mean(1.0), Mean(0.3)), np.array([1.0, 2.0]), task, index, accuracy=0.6)
    export_onnx(predictor, tmp_path / "model.onnx")
    about = read_about(tmp_path / "model.onnx")
    assert about["answers"].startswith("one recording")
    assert about["windows"]["length"] == 16
    test, said = task.part("test"), predictor.predict_part("test")
    longest = np.bincount(test.records).argmax()
    place = np.flatnonzero(np.asarray(test.records)[test.first] == longest)[0]
    windows = np.asarray(test.x)[test.records == longest].astype(np.float32)
    assert len(windows) > 2
    found = run_onnx(tmp_path / "model.onnx", windows)
    np.testing.assert_allclose(found["probabilities"], said.mean[[place]], atol=1e-5)
    assert found["refer"].tolist() == [said.refer[place]]
    assert len(found["wrong_scale"]) == len(windows)
    flat = run_onnx(tmp_path / "model.onnx", windows / 1e6)
    assert np.isnan(flat["probabilities"]).all()
    assert flat["label"].tolist() == [-1]


def test_what_is_learnt_of_training_samples_fits_its_time() -> None:
    """Without any time a few hundred are looked at, of all that there are with enough."""
    x = np.random.default_rng(0).normal(size=(900, 1, 6)).astype(np.float32)
    parts = [Part(x[:700], np.arange(700) % 2), Part(x[700:], np.arange(200) % 2)]
    bare = Predictor(Task("many", (1, 6), Target("binary", 2), *parts), (Mean(1.0),), np.ones(1))
    few, all_of_them = (watched(bare, bare.task, 0, "cpu", seconds=seconds) for seconds in (0.0, 1e6))
    assert few.neighbours is not None
    assert all_of_them.neighbours is not None
    assert (len(few.neighbours.y), len(all_of_them.neighbours.y)) == (LEAST_SAMPLES, 700)
