from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import log_loss

import trainless.learn.yardsticks as module
from trainless.core.target import Target
from trainless.core.task import Part, Task
from trainless.core.types import Array
from trainless.learn.yardsticks import simple_features, yardsticks
from trainless.tasks import task

NAMES = ["the prior", "a linear model", "trees"]


def ring(n: int, seed: int) -> tuple[Array, Array]:
    """Two classes by their distance from the centre, one in four of the first: no linear model finds them."""
    random = np.random.default_rng(seed)
    y = (random.random(n) < 0.75).astype(np.int64)
    x = random.normal(size=(n, 4))
    x *= (1 + 2 * y / 2)[:, None] / np.linalg.norm(x, axis=1, keepdims=True)
    return (x + 0.05 * random.normal(size=x.shape))[:, None].astype(np.float32), y


RING = Task("ring", (1, 4), Target("binary", 2), *(Part(*ring(n, seed)) for seed, n in enumerate((300, 200, 200))))


def test_each_beats_the_one_before_it_where_it_should() -> None:
    found = yardsticks(task("digits"), seconds=60)
    assert [one.name for one in found] == NAMES
    y = np.asarray(task("digits").part("test").y)
    for one in found:
        assert one.test is not None
        assert one.test.shape == (len(y), 10)
        assert np.allclose(one.test.sum(1), 1)
        assert len(one.valid) == len(task("digits").part("valid"))
    accuracy = [float((one.test.argmax(1) == y).mean()) for one in found if one.test is not None]
    assert accuracy[0] < 0.2
    assert accuracy[1] > 0.9
    assert accuracy[2] > 0.94


def test_trees_find_what_is_not_linear_at_the_training_prior() -> None:
    _, linear, trees = yardsticks(RING, seconds=60)
    y = np.asarray(RING.part("test").y)
    assert trees.test is not None
    assert linear.test is not None
    assert (trees.test.argmax(1) == y).mean() > 0.95
    assert log_loss(y, trees.test) < log_loss(y, linear.test)
    assert trees.test[:, 1].mean() == pytest.approx(0.75, abs=0.08)
    x = [simple_features(RING.tensors(part)[0]) for part in ("train", "test")]  # type: ignore[arg-type]
    forest = ExtraTreesClassifier(300, random_state=0, max_features="sqrt").fit(x[0], RING.part("train").y)
    counts = np.bincount(RING.part("train").y)
    known = (300 * forest.predict_proba(x[1]) + (counts + 0.5) / 301) / 301
    assert np.abs(trees.test - known).max() < 0.12  # grown ten at a time: other draws


def test_the_prior_is_that_of_the_training_part() -> None:
    (prior,) = yardsticks(RING, seconds=0)
    counts = np.bincount(RING.part("train").y)
    assert np.allclose(prior.valid, (counts + 0.5) / (counts.sum() + 1))


def test_the_seed_decides() -> None:
    first, again, other = (yardsticks(RING, seed, 60)[2].valid for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_values_have_the_mean_as_their_prior() -> None:
    random = np.random.default_rng(0)
    xs = [random.normal(size=(n, 1, 5)).astype(np.float32) for n in (200, 50, 50)]
    parts = [Part(x, (2 * x[:, 0, :1] + 3).astype(np.float32)) for x in xs]
    mean, linear, trees = yardsticks(Task("values", (1, 5), Target("regression", 1), *parts), seconds=60)
    truth = np.asarray(parts[1].y)
    errors = [float(np.square(one.valid - truth).mean()) for one in (mean, linear, trees)]
    assert np.allclose(mean.valid, np.asarray(parts[0].y).mean())
    assert errors[1] < 1e-3
    assert errors[2] < 0.5 * errors[0]


def test_windows_of_a_recording_have_one_answer() -> None:
    x, y = ring(120, 0)
    parts = [Part(x, np.repeat(y[::3], 3), records=np.repeat(np.arange(40), 3)) for _ in range(3)]
    found = yardsticks(Task("windows", (1, 4), Target("binary", 2), *parts), seconds=60)
    assert all(one.test is not None and one.valid.shape == one.test.shape == (40, 2) for one in found)


def test_a_class_without_samples_and_no_test_part_are_no_trouble() -> None:
    x, y = ring(60, 0)
    found = yardsticks(Task("three", (1, 4), Target("multiclass", 3), Part(x, y), Part(x, y)), seconds=60)
    assert [one.test for one in found] == [None] * 3
    assert all(one.valid.shape == (60, 3) and (one.valid[:, 2] < 0.1).all() for one in found)
    assert all((one.valid > 0).all() for one in found)


def test_time_is_kept() -> None:
    random = np.random.default_rng(0)
    parts = [Part(random.normal(size=(n, 1, 28, 28)).astype(np.float32), random.integers(0, 2, n)) for n in (3000, 50)]
    begun = time.process_time()
    found = yardsticks(Task("noise", (1, 28, 28), Target("binary", 2), *parts), seconds=0.5)
    assert "the prior" in [one.name for one in found]
    assert time.process_time() - begun < 12


def test_where_time_is_short_fewer_rows_teach_and_all_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features that take 1 ms a row: of half a second half is for them, 50 rows of which are answered."""
    clock, seen = [0.0], list[int]()
    real = module.simple_features

    def slow(x: torch.Tensor) -> np.ndarray:
        clock[0] += 0.001 * len(x)
        seen.append(len(x))
        return real(x)

    monkeypatch.setattr(module, "simple_features", slow)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    random = np.random.default_rng(0)
    parts = [Part(random.normal(size=(n, 1, 8)).astype(np.float32), np.arange(n) % 2) for n in (2000, 30, 50)]
    task = Task("slow", (1, 8), Target("binary", 2), *parts)
    found = yardsticks(task, seconds=0.5, valid=False)
    assert [one.name for one in found] == ["the prior", "a linear model", "trees"]
    assert sum(seen) == module.TRIED + 200 + 50  # the rows that timed it, the training rows and the test part
    assert all(one.test is not None and len(one.test) == 50 and len(one.valid) == 0 for one in found)
    assert [one.name for one in yardsticks(task, seconds=0.15, valid=False)] == ["the prior"]


@pytest.mark.parametrize("shape", [(1, 9000), (12, 3000), (3, 224, 224), (1, 28, 28, 28), (5,), (2, 1)])
def test_features_of_any_size_are_few(shape: tuple[int, ...]) -> None:
    found = simple_features(torch.randn(2, *shape))
    assert found.shape[0] == 2
    assert found.shape[1] <= 1024 + shape[0] * (2 * 7 + 16)
    assert np.isfinite(found).all()
