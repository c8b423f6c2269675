"""Intervals where all answers are right or wrong: never without width, and never missed more often than they may be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from trainless.cli.design import lines_of
from trainless.core.files import strict
from trainless.core.target import Target
from trainless.learn.intervals import MEANS, SHARES, auc_bounds, balanced_accuracy_bounds, f1_macro_bounds
from trainless.learn.metrics import bootstrap, evaluate

RIGHT = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.1, 0.9]])
Y = np.array([0, 0, 1, 1])


def test_four_right_answers_prove_little() -> None:
    """Four of four: the share whose fourth power is 2.5 %; two of two of a class: the root of it."""
    found = evaluate(Target("binary", 2), Y, RIGHT)
    for name, low in (("accuracy", 0.025**0.25), ("sensitivity", 0.025**0.5), ("specificity", 0.025**0.5)):
        assert (found[name].value, found[name].low, found[name].high) == pytest.approx((1, low, 1))
    assert (found["balanced_accuracy"].low, found["balanced_accuracy"].high) == pytest.approx((0.0125**0.5, 1))
    share = 0.0125**0.5  # of the two of a class or called so that are both
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
