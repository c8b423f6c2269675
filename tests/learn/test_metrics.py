"""Metrics against scikit-learn and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as oracle

from trainless.core.errors import InputError
from trainless.core.target import Target
from trainless.learn.metrics import bootstrap, evaluate

seeds = st.integers(0, 10_000)


def drawn(seed: int, classes: int, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes), random.integers(classes, size=n)])
    p = random.dirichlet(np.ones(classes), len(y)).round(1) + 1e-3
    return y, p / p.sum(1, keepdims=True)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_binary(seed: int) -> None:
    y, p = drawn(seed, 2)
    found = {name: estimate.value for name, estimate in evaluate(Target("binary", 2), y, p, draws=0).items()}
    label = p.argmax(1)
    assert found == pytest.approx(
        {
            "accuracy": oracle.accuracy_score(y, label),
            "balanced_accuracy": oracle.balanced_accuracy_score(y, label),
            "f1_macro": oracle.f1_score(y, label, average="macro"),
            "auc": oracle.roc_auc_score(y, p[:, 1]),
            "sensitivity": oracle.recall_score(y, label),
            "specificity": oracle.recall_score(y, label, pos_label=0),
        }
    )


@given(seeds, st.integers(3, 6))
@settings(max_examples=20, deadline=None)
def test_multiclass(seed: int, classes: int) -> None:
    y, p = drawn(seed, classes)
    found = evaluate(Target("multiclass", classes), y, p, draws=0)
    assert found["f1_macro"].value == pytest.approx(oracle.f1_score(y, p.argmax(1), average="macro"))
    assert found["auc"].value == pytest.approx(oracle.roc_auc_score(y, p, multi_class="ovr"))


@given(seeds, st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_regression(seed: int, outputs: int) -> None:
    random = np.random.default_rng(seed)
    y, v = random.normal(size=(30, outputs)), random.normal(size=(30, outputs))
    found = {name: value.value for name, value in evaluate(Target("regression", outputs), y, v, draws=0).items()}
    assert found == pytest.approx(
        {
            "mae": oracle.mean_absolute_error(y, v),
            "rmse": math.sqrt(oracle.mean_squared_error(y, v)),
            "r2": oracle.r2_score(y, v),
        }
    )


def test_bootstrap_is_the_normal_interval_of_a_share() -> None:
    hit = (np.arange(400) % 4 > 0).astype(float)
    estimate = bootstrap(lambda weights: float(weights @ hit / weights.sum()), 400, draws=2000)
    half = 1.96 * math.sqrt(0.75 * 0.25 / 400)
    assert estimate.value == 0.75
    assert (estimate.low, estimate.high) == pytest.approx((0.75 - half, 0.75 + half), abs=0.006)


def test_permutation_changes_nothing() -> None:
    y, p = drawn(3, 4)
    order = np.random.default_rng(0).permutation(len(y))
    first = evaluate(Target("multiclass", 4), y, p, draws=0)
    again = evaluate(Target("multiclass", 4), y[order], p[order], draws=0)
    assert {name: value.value for name, value in first.items()} == pytest.approx(
        {name: value.value for name, value in again.items()}
    )


def test_missing_class_is_left_out_and_one_class_has_no_auc() -> None:
    y, p = drawn(1, 3)
    there = y != 2
    found = evaluate(Target("multiclass", 3), y[there], p[there], draws=20)
    wanted = np.mean([oracle.roc_auc_score(y[there] == k, p[there, k]) for k in (0, 1)])
    assert found["auc"].value == pytest.approx(wanted)
    assert math.isnan(evaluate(Target("binary", 2), np.zeros(5, int), np.full((5, 2), 0.5), draws=5)["auc"].value)


def test_thousand_classes() -> None:
    random = np.random.default_rng(0)
    y = random.integers(1000, size=300)
    p = random.dirichlet(np.ones(1000), 300)
    found = evaluate(Target("multiclass", 1000), y, p, draws=2)
    assert found["accuracy"].value == oracle.accuracy_score(y, p.argmax(1))


def test_errors_say_what_is_wrong() -> None:
    with pytest.raises(InputError, match=r"shape \(3, 3\) were given for 2 labels"):
        evaluate(Target("multiclass", 3), np.zeros(2, int), np.ones((3, 3)))
    with pytest.raises(InputError, match="not finite"):
        evaluate(Target("regression", 1), np.zeros(2), np.full((2, 1), np.nan))
    with pytest.raises(InputError, match="tokens have no metrics"):
        evaluate(Target("tokens", 5), np.zeros(2, int), np.ones((2, 5)))


def test_many_samples_have_fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainless.learn.metrics.DRAWN", 20_000)
    for n, wanted in ((10, 1001), (50, 401), (1000, 101)):
        calls: list[int] = []
        bootstrap(lambda weights, calls=calls: float(len(calls.append(1) or calls)), n)  # type: ignore[misc]
        assert len(calls) == wanted
