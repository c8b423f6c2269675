"""Metrics against scikit-learn and closed forms; intervals that are never without width, nor missed too often."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest
from sklearn import metrics as oracle

from trainless.cli.design import lines_of
from trainless.core.errors import InputError
from trainless.core.files import strict
from trainless.core.target import Target
from trainless.learn.metrics import (
    MEANS,
    SHARES,
    accuracy_bounds,
    auc_bounds,
    balanced_accuracy_bounds,
    bootstrap,
    clopper_pearson,
    evaluate,
    f1_macro_bounds,
    metrics_for,
)

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


RIGHT = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.1, 0.9]])
Y = np.array([0, 0, 1, 1])


def test_four_right_answers_prove_little() -> None:
    """Four of four: the share whose fourth power is 2.5 %; two of two of a class: the root of it."""
    found = evaluate(Target("binary", 2), Y, RIGHT)
    for name, low in (("accuracy", 0.025**0.25), ("sensitivity", 0.025**0.5), ("specificity", 0.025**0.5)):
        assert (found[name].value, found[name].low, found[name].high) == pytest.approx((1, low, 1))
    assert (found["balanced_accuracy"].low, found["balanced_accuracy"].high) == pytest.approx((0.025**0.25, 1))
    share = 0.025**0.5  # of the two of a class or called so that are both
    assert (found["f1_macro"].low, found["f1_macro"].high) == pytest.approx((2 * share / (1 + share), 1))
    assert (found["auc"].low, found["auc"].high) == pytest.approx((0.025**0.5, 1))  # two disjoint pairs


def test_all_wrong_is_the_mirror_image() -> None:
    right, wrong = (evaluate(Target("binary", 2), Y, p) for p in (RIGHT, RIGHT[:, ::-1]))
    for name in right:
        assert wrong[name].low == 0 == wrong[name].value
        assert 0 < wrong[name].high < 1
        if name != "f1_macro":
            assert wrong[name].high == pytest.approx(1 - right[name].low)


@pytest.mark.parametrize("n", [1, 4, 269])
@pytest.mark.parametrize("classes", [2, 3])
def test_no_interval_has_no_width(n: int, classes: int) -> None:
    y = np.arange(n) % classes
    for p in (np.eye(classes)[y], np.eye(classes)[(y + 1) % classes], np.full((n, classes), 1 / classes)):
        kind = "binary" if classes == 2 else "multiclass"
        for name, one in evaluate(Target(kind, classes), y, p, draws=50).items():  # type: ignore[arg-type]
            assert math.isnan(one.value) or one.low <= one.value <= one.high, name
            assert math.isnan(one.value) or one.low < one.high, name


@pytest.mark.parametrize("true", [0.5, 0.9, 0.99])
def test_perfect_answers_miss_the_truth_rarely(true: float) -> None:
    """The chance that all answers are right and the bound yet above the truth is at most 2.5 %, whatever the truth."""
    for n in (2, 10, 60):
        y = np.arange(n) % 2
        p = np.eye(2)[y]
        low, _ = balanced_accuracy_bounds(y, p, 0.95)
        assert low <= true or true**n <= 0.025  # all of n right, each with the chance that balanced accuracy is
        low, _ = auc_bounds(y, p, 0.95)
        assert low <= true or true ** (n // 2) <= 0.025
        low, _ = f1_macro_bounds(y, p, 0.95)
        share = true / (2 - true)
        assert low <= true or share**n <= 0.025


@pytest.mark.parametrize(("first", "second"), [(3, 3), (1, 9), (40, 2), (130, 139)])
def test_the_bound_of_perfect_answers_is_the_least_that_can_be(first: int, second: int) -> None:
    """By brute force: of all pairs of recalls that answer everything rightly with 2.5 %, the least mean."""
    y = np.array([0] * first + [1] * second)
    low, high = balanced_accuracy_bounds(y, np.eye(2)[y], 0.95)
    one = np.linspace(0.01, 1, 200_001)
    other = np.minimum(1.0, (0.025 / one**first) ** (1 / second))
    there = one**first * other**second >= 0.025 - 1e-12
    assert low == pytest.approx(((one + other) / 2)[there].min(), abs=1e-4)
    assert high == 1


@pytest.mark.parametrize(("classes", "each"), [(2, 40), (3, 20), (10, 27)])
def test_the_bound_of_a_perfect_area_is_the_least_that_can_be(classes: int, each: int) -> None:
    """Of classes alike in size: where a share of all samples is spoiled, each above and below all others, a pair is in
    the right order with the chance that neither is spoiled, (1 − share)², and all of n samples are with (1 − share)ⁿ.
    """
    y = np.arange(classes * each) % classes
    low, high = auc_bounds(y, np.eye(classes)[y], 0.95)
    least = 0.025 ** (2 / len(y))  # (1 − share)² where (1 − share)ⁿ is 2.5 %
    assert least - 0.003 < low <= least + 1e-12
    assert high == 1


@given(st.lists(st.tuples(st.integers(1, 30), st.floats(0, 0.9)), min_size=2, max_size=6))
def test_perfect_areas_miss_the_truth_rarely(classes: list[tuple[int, float]]) -> None:
    """Whatever the sizes, and whichever share of each class is spoiled: above all others in every area but its own.

    Of classes k and j a pair is in the right order with the chance (1 − share_k) (1 − share_j).
    """
    sizes, whole = np.array([size for size, _ in classes]), 1 - np.array([share for _, share in classes])
    rest = sizes.sum() - sizes
    true = float(np.mean(whole * ((sizes * whole).sum() - sizes * whole) / rest))
    y = np.repeat(np.arange(len(sizes)), sizes)
    low, _ = auc_bounds(y, np.eye(len(sizes))[y], 0.95)
    assert low <= true + 1e-9 or (whole**sizes).prod() <= 0.025


@pytest.mark.parametrize("share", [0.02, 0.08])
def test_coverage_of_an_area_by_simulation(share: float) -> None:
    """Three classes of 20, of which this share is spoiled as above: the area is (1 − share)²."""
    random, y, held = np.random.default_rng(0), np.arange(60) % 3, []
    for _ in range(200):
        p = np.eye(3)[y]
        bad = random.random(60) < share
        p[bad] = 1.5 - 2 * p[bad]
        found = evaluate(Target("multiclass", 3), y, p, draws=100)["auc"]
        held.append(found.low <= (1 - share) ** 2 <= found.high)
    assert np.mean(held) >= 0.9  # where faults are few a percentile bootstrap keeps somewhat less than it says


def test_coverage_of_a_share_is_at_least_what_it_says() -> None:
    n, true = 30, 0.93
    held = 0.0
    for right in range(n + 1):
        p = np.eye(2)[(np.arange(n) >= right).astype(int)]
        low, high = SHARES["accuracy"](np.zeros(n, np.int64), p, 0.95)
        held += binom.pmf(right, n, true) * (low <= true <= high)
    assert held >= 0.95


def test_the_bootstrap_stays_where_it_has_width() -> None:
    random = np.random.default_rng(0)
    y = np.arange(200) % 2
    p = random.dirichlet(np.ones(2), 200)
    found = evaluate(Target("binary", 2), y, p, draws=200)
    for name in MEANS:
        low, high = MEANS[name](y, p, 0.95)
        assert low < found[name].low < found[name].high < high, name


def test_draws_that_agree_have_no_bounds() -> None:
    one = bootstrap(lambda weights: 0.25, 8)
    assert one.value == 0.25
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    alone = evaluate(Target("regression", 1), np.array([2.0]), np.array([[1.0]]))
    assert alone["mae"].value == 1
    assert math.isnan(alone["mae"].low)


def test_what_a_user_reads() -> None:
    found = {"samples": 4, "ensemble": evaluate(Target("binary", 2), Y, RIGHT), "main": "accuracy"}
    found["members_mean"] = dict.fromkeys(found["ensemble"], 1.0)  # type: ignore[arg-type]
    said = "\n".join(lines_of(strict(found)))
    assert "1.000 [0.398, 1.000]" in said  # Clopper & Pearson's for four of four
    assert "[1.000, 1.000]" not in said


@pytest.mark.parametrize(("right", "n"), [(0, 7), (7, 7), (3, 9), (95, 100)])
def test_clopper_pearson_is_scipys(right: int, n: int) -> None:
    wanted = binomtest(right, n).proportion_ci(0.95, method="exact")
    assert clopper_pearson(right, n) == pytest.approx((wanted.low, wanted.high))


def test_bounds_of_two_right_answers_and_the_metrics_of_values() -> None:
    assert [round(end, 4) for end in accuracy_bounds(np.array([0, 1]), np.eye(2), 0.95)] == [0.1581, 1.0]
    assert list(metrics_for(Target("regression", 1))) == ["mae", "rmse", "r2"]
