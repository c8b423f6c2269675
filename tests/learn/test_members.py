"""Members and ensembles: made, trained, written, read again without the search code."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from trainless.core.errors import InputError
from trainless.core.files import from_json, to_json
from trainless.core.target import Target
from trainless.core.task import Part, Task
from trainless.learn.checkpoint import Trained
from trainless.learn.loop import train
from trainless.learn.members import (
    Member,
    build,
    finish_member,
    load_member,
    member_folder,
    member_of,
    of_architectures,
    save_member,
)
from trainless.learn.predictor import ENSEMBLE, Predictor, calibrate, load_predictor, save_predictor
from trainless.learn.recipe import recipe
from trainless.spaces import registry, space
from trainless.spaces.moves import sample
from trainless.tasks import task as load

TINY = space("nb201", channels=4, cells=1)
ARCHS = [(3, 1, 0, 1, 3, 2), (1, 3, 2, 0, 1, 3)]
QUICK = recipe("default", epochs=4, lr=0.1)


@pytest.fixture(scope="module")
def digits() -> Task:
    return load("digits")


def trained_by(member: Member, task: Task) -> Trained:
    return train(build(member, task), task, member.recipe, seed=member.seed)


@pytest.fixture(scope="module")
def predictor(digits: Task) -> Predictor:
    nets = tuple(trained_by(member, digits).net for member in of_architectures(TINY, ARCHS, QUICK))
    index = np.random.default_rng(0).permutation(len(digits.part("valid")))
    return calibrate(nets, np.array([2.0, 1.0]), digits, index, accuracy=0.8)


def saved(folder: Path, digits: Task, predictor: Predictor) -> Path:
    for name, member, net in zip("ab", of_architectures(TINY, ARCHS, QUICK), predictor.nets, strict=True):
        save_member(member_folder(folder, name), member, Trained(net, ()), digits)
    save_predictor(folder, predictor, ["a", "b"])
    return folder


def test_prediction_says_everything(digits: Task, predictor: Predictor) -> None:
    found = predictor.predict_part("test")
    y = np.asarray(digits.part("test").y)
    assert (found.label == y).mean() > 0.8
    assert found.mean.sum(1) == pytest.approx(1)
    assert found.sets is not None
    assert found.sets[np.arange(len(y)), y].mean() > 0.8
    assert found.refer is not None
    assert predictor.deferral is not None
    assert (found.label == y)[~found.refer].mean() >= 0.8
    assert found.total == pytest.approx(found.aleatoric + found.epistemic)
    assert found.drift is not None
    assert (found.drift <= 0.05).mean() < 0.15
    raw = predictor.predict(np.asarray(digits.part("test").x))
    assert np.array_equal(raw.mean, found.mean)
    noise = np.random.default_rng(0).uniform(0, 200, (50, 1, 8, 8))
    assert (predictor.predict(noise).drift <= 0.05).mean() > 0.9
    with pytest.raises(InputError, match=r"inputs of shape \(3, 8, 8\) were given; expected \(N, 1, 8, 8\)"):
        predictor.predict(np.zeros((3, 8, 8)))
    with pytest.raises(InputError, match="at least one sample"):
        predictor.predict(np.zeros((0, 1, 8, 8)))


def test_files_bring_back_the_same_predictions(digits: Task, predictor: Predictor, tmp_path: Path) -> None:
    folder = saved(tmp_path, digits, predictor)
    x = np.asarray(digits.part("test").x)
    one, two = predictor.predict(x), load_predictor(folder).predict(x)
    for name, value in vars(one).items():
        other = vars(two)[name]
        assert (value is None and other is None) or np.array_equal(value, other), name
    assert not [path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".json", ".safetensors")]


@pytest.mark.slow
def test_loading_needs_no_search_code(digits: Task, predictor: Predictor, tmp_path: Path) -> None:
    saved(tmp_path, digits, predictor)
    code = (
        "import sys, pathlib; from trainless.learn.predictor import load_predictor;"
        f"load_predictor(pathlib.Path({str(tmp_path)!r}));"
        "bad = [m for m in sys.modules if m.startswith(('trainless.searchers', 'trainless.scoring',"
        " 'trainless.proxies', 'trainless.rankings', 'trainless.bench', 'trainless.probe', 'sklearn', 'pandas'))];"
        "sys.exit(' '.join(bad) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_member_remembers_status_and_history(digits: Task, tmp_path: Path) -> None:
    member = member_of(TINY, ARCHS[0], recipe("default", epochs=1), seed=3)
    trained = trained_by(member, digits)
    save_member(tmp_path, member, replace(trained, status="diverged: so it goes"), digits)
    again, read, task = load_member(tmp_path)
    assert again == member
    assert read.history == trained.history
    assert (trained.failed, read.failed, read.status) == (False, True, "diverged: so it goes")
    assert task.target == digits.target
    assert task.fingerprint == digits.fingerprint


def test_finished_members_are_not_trained_again(digits: Task, tmp_path: Path) -> None:
    member = member_of(TINY, ARCHS[0], recipe("default", epochs=2))
    epochs: list[int] = []

    class Stop:
        def log(self, step: int, values: Mapping[str, float]) -> None:
            epochs.append(step)
            if len(epochs) == 1:
                raise KeyboardInterrupt

        def end(self, status: str) -> None:
            pass

    with pytest.raises(KeyboardInterrupt):
        finish_member(tmp_path, member, digits, interval=0, callbacks=[Stop()])
    first = finish_member(tmp_path, member, digits, callbacks=[Stop()])
    assert epochs == [0, 0, 1]  # the break came before the epoch was written
    again = finish_member(tmp_path, member, digits, callbacks=[Stop()])
    assert len(epochs) == 3
    assert all(torch.equal(a, b) for a, b in zip(first.net.parameters(), again.net.parameters(), strict=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["member.json", "weights.safetensors"]
    with pytest.raises(InputError, match="holds another member"):
        finish_member(tmp_path, replace(member, seed=9), digits)


def test_every_registered_space_is_described_by_plain_data() -> None:
    for name in registry.names():
        chosen = registry[name]()
        arch = sample(chosen, np.random.default_rng(0))
        member = member_of(chosen, arch, QUICK)
        assert from_json(Member, json.loads(json.dumps(to_json(member)))) == member
        assert space(member.space, **dict(member.parameters)) == chosen


def test_initialisations_differ_and_repeat(digits: Task) -> None:
    one, two = (build(member, digits) for member in of_architectures(TINY, [ARCHS[0]] * 2, QUICK))
    again = build(of_architectures(TINY, ARCHS[:1], QUICK)[0], digits)
    weight = "classifier.weight"
    assert not torch.equal(one.state_dict()[weight], two.state_dict()[weight])
    assert torch.equal(one.state_dict()[weight], again.state_dict()[weight])


def test_foreign_or_broken_files_are_refused(digits: Task, predictor: Predictor, tmp_path: Path) -> None:
    folder = saved(tmp_path, digits, predictor)
    whole = json.loads((folder / ENSEMBLE).read_text())
    for members in (["../a"], ["/etc"], [""]):
        (folder / ENSEMBLE).write_text(json.dumps({**whole, "members": members, "weights": [1.0]}))
        with pytest.raises(InputError, match="cannot name a part of"):
            load_predictor(folder)
    (folder / ENSEMBLE).write_text(json.dumps({**whole, "version": 99}))
    with pytest.raises(InputError, match="not of version 1"):
        load_predictor(folder)
    with pytest.raises(InputError, match="expected a folder that trainless wrote"):
        load_predictor(folder / "nowhere")
    data = json.loads((folder / "members" / "a" / "member.json").read_text())
    data["member"]["parameters"]["channels"] = 8
    (folder / "members" / "a" / "member.json").write_text(json.dumps(data))
    with pytest.raises(InputError, match="do not fit its architecture"):
        load_member(folder / "members" / "a")
    for parameters, said in (
        ({"cells": 900_000}, r"damaged \(ValueError: a network of more than [\d,]+ modules, and \d+ tensors"),
        ({"channels": 12_000}, r"damaged \(ValueError: a network that is far larger than its weights are"),
        ({"cells": 10**300}, "cells was given as a number beyond 1,000,000; expected at most that"),
    ):
        data["member"]["parameters"] |= {"channels": 4, "cells": 1, **parameters}
        (folder / "members" / "a" / "member.json").write_text(json.dumps(data))
        with pytest.raises(InputError, match=said):
            load_member(folder / "members" / "a")


def test_regression_has_intervals(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 1, 8, 8)).astype(np.float32)
    y = x.mean((1, 2, 3)) * 8
    part = Part(x[:100], y[:100])
    task = Task(
        "values", (1, 8, 8), Target("regression", 1), part, Part(x[100:160], y[100:160]), Part(x[160:], y[160:])
    )
    members = of_architectures(TINY, [ARCHS[0]] * 2, recipe("default", epochs=2))
    nets = tuple(trained_by(member, task).net for member in members)
    made = calibrate(nets, np.ones(2), task, np.arange(60))
    found = made.predict_part("test")
    assert found.low is not None
    assert found.high is not None
    assert ((found.low <= y[160:, None]) & (y[160:, None] <= found.high)).mean() > 0.75
    for name, member, net in zip("ab", members, nets, strict=True):
        save_member(member_folder(tmp_path, name), member, Trained(net, ()), task)
    save_predictor(tmp_path, made, ["a", "b"])
    assert np.array_equal(load_predictor(tmp_path).predict(x[160:]).low, found.low)


def test_too_few_calibration_samples_promise_nothing(digits: Task, predictor: Predictor) -> None:
    few = calibrate(predictor.nets, predictor.weights, digits, np.arange(4))
    found = few.predict_part("test")
    assert found.sets is not None
    assert found.sets.all()
    assert found.refer is not None
    assert found.refer.all()
