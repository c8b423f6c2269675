"""An exported ensemble in onnxruntime: what it says, what its metadata hold, and inputs on another scale."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from trainless.core.errors import InputError
from trainless.core.seeds import seeded
from trainless.core.target import Target
from trainless.core.task import Part, Task
from trainless.learn.drift import InputStatistics, statistics
from trainless.learn.export import about, check_input, export_onnx, read_about, run_onnx
from trainless.learn.graph import InputGraph
from trainless.learn.predictor import Predictor, calibrate
from trainless.learn.reading import ReadingSettings

runtime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


def pictures(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Grey pictures from 0 to 255; the malignant ones, one in three, are lighter."""
    random = np.random.default_rng(seed)
    y = (np.arange(n) % 3 == 0).astype(np.int64)
    x = random.integers(0, 160, (n, 1, 8, 8)) + 60 * y[:, None, None, None] + random.integers(0, 36, (n, 1, 1, 1))
    return x.astype(np.uint8), y


def made(kind: str = "binary") -> Predictor:
    x, y = pictures(240, 0)
    target = Target("binary", 2, ("benign", 'mali"gnant ü')) if kind == "binary" else Target("regression", 1)
    labels = y if kind == "binary" else x.mean((1, 2, 3)).astype(np.float32)
    parts = [Part(x[a:b], labels[a:b]) for a, b in ((0, 100), (100, 240))]
    mean, std = float(x[:100].mean()), float(x[:100].std())
    task = Task("pictures", (1, 8, 8), target, *parts, mean=(mean,), std=(std,))
    nets = []
    for seed in range(2):
        with seeded(seed):
            nets.append(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, target.outputs)))
    return calibrate(tuple(nets), np.array([1.0, 2.0]), task, np.arange(140), accuracy=0.6)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Predictor, Path]:
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    predictor = made().reading(ReadingSettings(positive='mali"gnant ü', sensitivity=0.8))
    export_onnx(predictor, path)
    return predictor, path


def test_the_graph_says_what_pytorch_says(exported: tuple[Predictor, Path]) -> None:
    predictor, path = exported
    x = pictures(37, 5)[0].astype(np.float32)
    found, said = run_onnx(path, x), predictor.predict(x)
    assert said.screen is not None
    assert np.allclose(found["probabilities"], said.mean, atol=1e-5)
    assert np.array_equal(found["label"], said.label)
    assert np.array_equal(found["balanced_label"], said.alike)
    assert (found["balanced_label"] != found["label"]).any()
    assert np.array_equal(found["screen"], said.screen)
    assert not found["wrong_scale"].any()
    assert (found["like_inputs"] > 0.01).mean() > 0.8


def test_the_metadata_say_what_a_program_has_to_know(exported: tuple[Predictor, Path]) -> None:
    predictor, path = exported
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    raw = session.get_modelmeta().custom_metadata_map  # as a program without trainless reads it
    found = {key: json.loads(value) for key, value in raw.items()}
    assert found["format"] == 1
    assert found["producer"].startswith("trainless ")
    assert found["class_names"] == ["benign", 'mali"gnant ü']
    assert found["positive_class"] == 'mali"gnant ü'
    assert found["class_shares"] == pytest.approx([0.66, 0.34])
    assert (found["input_shape"], found["input_layout"]) == ([1, 8, 8], ["batch", "channels", "height", "width"])
    x = pictures(240, 0)[0][:100]
    assert found["input_range"] == [[pytest.approx(x.min(), abs=1e-3)], [pytest.approx(x.max(), abs=1e-3)]]
    assert found["input_mean"] == [pytest.approx(x.mean())]
    assert predictor.screening is not None
    assert found["thresholds"]["screening"]["threshold"] == pytest.approx(predictor.screening.threshold)
    assert set(found["thresholds"]) == {"sets", "deferral", "screening"}
    assert len(found["drift"]["reference"]) == 140
    assert read_about(path) == found


@pytest.mark.parametrize("scale", ["divided by 255", "normalised", "times 255"])
def test_inputs_on_another_scale_are_refused(exported: tuple[Predictor, Path], scale: str) -> None:
    _, path = exported
    x = pictures(20, 7)[0].astype(np.float32)
    wrong = {"divided by 255": x / 255, "normalised": (x - x.mean()) / x.std(), "times 255": x * 255}[scale]
    with pytest.raises(InputError, match=r"20 of 20 inputs vary .* times as much as the training data, which"):
        check_input(read_about(path), wrong)
    found = run_onnx(path, wrong)
    assert found["wrong_scale"].all()
    assert np.isnan(found["probabilities"]).all()
    assert (found["label"] == -1).all()
    assert (found["balanced_label"] == -1).all()
    assert found["sets"].all()
    assert found["refer"].all()
    assert found["screen"].all()
    assert (found["like_inputs"] <= 1 / 141 + 1e-9).all()
    assert (check_input(read_about(path), x) > 1 / 141).mean() > 0.8
    mixed = run_onnx(path, np.concatenate([x[:2], wrong[:1]]))  # each by itself
    assert mixed["wrong_scale"].tolist() == [False, False, True]
    assert np.isfinite(mixed["probabilities"][:2]).all()


def test_other_mistakes_of_inputs(exported: tuple[Predictor, Path]) -> None:
    known = read_about(exported[1])
    with pytest.raises(InputError, match=r"shape \(2, 8, 8, 1\) were given; expected \(N, 1, 8, 8\): channels 1"):
        check_input(known, np.zeros((2, 8, 8, 1)))
    with pytest.raises(InputError, match="NaN or infinite"):
        check_input(known, np.full((2, 1, 8, 8), np.nan))
    with pytest.raises(InputError, match="is of format 7; expected 1"):
        changed(exported[1], exported[1].with_name("other.onnx"))
    assert np.isnan(check_input({**known, "drift": None}, np.zeros((2, 1, 8, 8)))).all()


def changed(path: Path, to: Path) -> None:
    import onnx

    model = onnx.load(str(path))
    onnx.helper.set_model_props(model, {"format": "7"})
    onnx.save(model, str(to))
    read_about(to)


@pytest.mark.parametrize("shape", [(3, 40), (1, 7), (2, 8, 8), (1, 4, 5, 6), (9,)])
def test_statistics_in_the_graph_are_those_of_drift(shape: tuple[int, ...]) -> None:
    """Numpy's quantiles are the oracle, and an identity for axes makes the distance theirs."""
    x = torch.randn(6, *shape, generator=torch.Generator().manual_seed(0))
    found = statistics(x)
    size = found.shape[1]
    distances = np.sort(np.linalg.norm(found, axis=1))
    known = InputStatistics(np.zeros(size), np.eye(size), distances[:-1] + 1e-9, np.array([0.5, 2.0]), np.zeros((2, 1)))
    like, wrong = InputGraph(known)(x)
    assert like.numpy() == pytest.approx(known.p_values(found))
    assert sorted(like.tolist()) == pytest.approx([rank / 6 for rank in range(1, 7)])
    assert np.array_equal(wrong.numpy(), known.wrong_scale(found))
    assert InputGraph(known)(x * 100)[1].all()
    assert InputGraph(known)(x / 100)[1].all()


@pytest.mark.slow
def test_values_and_another_prevalence(tmp_path: Path) -> None:
    x = pictures(9, 3)[0].astype(np.float32)
    values = made("regression")
    assert export_onnx(values, tmp_path / "v.onnx") == [
        "values",
        "variance",
        "low",
        "high",
        "like_inputs",
        "wrong_scale",
    ]
    found = run_onnx(tmp_path / "v.onnx", np.concatenate([x, x[:1] / 255]))
    said = values.predict(x)
    assert found["values"][:9] == pytest.approx(said.mean, rel=1e-4)
    assert found["low"][:9] == pytest.approx(said.low, rel=1e-4)
    assert math.isnan(found["values"][9, 0])
    assert about(values)["class_names"] == []
    elsewhere = made().reading(ReadingSettings(prevalence=0.01))
    assert "refer" not in export_onnx(elsewhere, tmp_path / "p.onnx")
    assert np.allclose(run_onnx(tmp_path / "p.onnx", x)["probabilities"], elsewhere.predict(x).mean, atol=1e-5)
    assert read_about(tmp_path / "p.onnx")["prevalence"] == 0.01
    bare = replace(made(), inputs=None)
    assert "wrong_scale" not in export_onnx(bare, tmp_path / "b.onnx")
