"""Thresholds for a sensitivity keep their promise; prevalence follows Bayes' rule; classes match scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta
from sklearn import metrics as oracle

from trainless.core.errors import InputError
from trainless.core.target import Target
from trainless.learn.metrics import class_table, clopper_pearson, evaluate
from trainless.learn.reading import ReadingSettings, class_index
from trainless.learn.screening import at_prevalence, check_screening, fit_screening, predictive_values


def two(scores: np.ndarray) -> np.ndarray:
    return np.stack([1 - scores, scores], 1)


@pytest.mark.parametrize(("n", "wanted"), [(22, 0.9), (59, 0.95), (120, 0.8), (300, 0.95)])
def test_the_promise_holds_over_calibration_data(n: int, wanted: float) -> None:
    """The scores of the class are uniform, so the true sensitivity of a threshold t is 1 − t, known exactly."""
    random, kept = np.random.default_rng(n), 0
    for _ in range(400):
        rule = fit_screening(two(random.uniform(size=n)), np.ones(n, int), 1, wanted)
        assert rule.promised
        kept += 1 - rule.threshold >= wanted
    assert kept / 400 >= 0.9 - 3 * math.sqrt(0.9 * 0.1 / 400)


@pytest.mark.parametrize(("n", "wanted"), [(59, 0.95), (100, 0.9)])
def test_the_threshold_is_the_highest_that_can_be_promised(n: int, wanted: float) -> None:
    """By the law of an order statistic, independently of the binomial law that the code uses."""
    scores = np.sort(np.random.default_rng(0).uniform(size=n))
    rank = int(np.searchsorted(scores, fit_screening(two(scores), np.ones(n, int), 1, wanted).threshold)) + 1
    assert beta.cdf(1 - wanted, rank, n - rank + 1) >= 0.9
    assert beta.cdf(1 - wanted, rank + 1, n - rank) < 0.9


def test_too_few_cases_say_what_they_keep() -> None:
    random, n, kept = np.random.default_rng(1), 7, 0
    for _ in range(400):
        rule = fit_screening(two(random.uniform(size=n)), np.ones(n, int), 1, 0.95)
        kept += 1 - rule.threshold >= rule.least
    assert not rule.promised
    assert rule.least == pytest.approx(0.1 ** (1 / 7))
    assert kept / 400 == pytest.approx(0.9, abs=0.05)
    assert "too few calibration cases" in rule.statement("malignant")
    assert "(7, and 45 are needed)" in rule.statement("malignant")  # 0.95⁴⁵ < 0.1 < 0.95⁴⁴
    none = fit_screening(two(np.ones(3)), np.zeros(3, int), 1, 0.95)
    assert none.flag(two(np.zeros(2))).all()
    assert "everything is called so" in none.statement("malignant")


def test_a_threshold_on_test_data() -> None:
    y = np.array([1] * 40 + [0] * 60)
    scores = np.concatenate([np.linspace(0.3, 1, 40), np.linspace(0, 0.6, 60)])
    rule = fit_screening(two(scores[:40]), np.ones(40, int), 1, 0.9)
    found = check_screening(rule, two(scores), y)
    called = scores >= rule.threshold
    assert found.sensitivity.value == oracle.recall_score(y, called)
    assert found.specificity.value == oracle.recall_score(y, called, pos_label=0)
    assert (found.sensitivity.low, found.sensitivity.high) == clopper_pearson(int(called[:40].sum()), 40)
    assert found.holds
    assert not check_screening(rule, two(np.where(y == 1, 0.0, scores)), y).holds


@given(st.floats(0.02, 0.98), st.floats(0.02, 0.98), st.floats(-2, 2), st.integers(2, 5))
@settings(max_examples=60, deadline=None)
def test_prevalence_is_bayes_rule(prior: float, new: float, x: float, classes: int) -> None:
    """Normal classes with known densities: the posterior at both prevalences is known."""
    rest = np.full(classes - 1, 1 / (classes - 1))
    densities = np.exp(-0.5 * (x - np.arange(classes)) ** 2)

    def posterior(share: float) -> np.ndarray:
        joint = np.concatenate([[share], (1 - share) * rest]) * densities
        return joint / joint.sum()

    shares = np.concatenate([[prior], (1 - prior) * rest])
    found = at_prevalence(posterior(prior)[None], shares, 0, new)[0]
    assert found == pytest.approx(posterior(new), abs=1e-9)


def test_predictive_values_are_counts() -> None:
    """Of 1,000 people 20 are ill; 18 are found, 98 of the others called."""
    assert predictive_values(0.9, 0.9, 0.02) == pytest.approx((18 / 116, 882 / 884))


@given(st.integers(0, 10_000), st.integers(2, 5))
@settings(max_examples=25, deadline=None)
def test_the_table_of_classes_is_scikit_learns(seed: int, classes: int) -> None:
    random = np.random.default_rng(seed)
    y, label = random.integers(classes, size=30), random.integers(classes, size=30)
    wanted = oracle.precision_recall_fscore_support(y, label, labels=range(classes), zero_division=np.nan)
    for k, one in enumerate(class_table(y, label, [str(k) for k in range(classes)])):
        assert (one.name, one.support) == (str(k), wanted[3][k])
        assert one.precision.value == pytest.approx(wanted[0][k], nan_ok=True)
        assert one.recall.value == pytest.approx(wanted[1][k], nan_ok=True)
        if one.support or one.called:
            assert one.f1.value == pytest.approx(wanted[2][k])
        if one.support:
            assert (one.recall.low, one.recall.high) == clopper_pearson(
                int(((y == k) & (label == k)).sum()), one.support
            )


@pytest.mark.parametrize("positive", [0, 1, 2])
def test_sensitivity_of_a_named_class(positive: int) -> None:
    random = np.random.default_rng(0)
    y, p = random.integers(3, size=60), random.dirichlet(np.ones(3), 60)
    found = evaluate(Target("multiclass", 3), y, p, draws=0, positive=positive)
    ill, called = y == positive, p.argmax(1) == positive
    assert found["sensitivity"].value == oracle.recall_score(ill, called)
    assert found["specificity"].value == oracle.recall_score(~ill, ~called)
    assert (found["specificity"].low, found["specificity"].high) == clopper_pearson(
        int((~called & ~ill).sum()), int((~ill).sum())
    )


def test_mistakes_say_what_is_expected() -> None:
    with pytest.raises(InputError, match="there is no class 'malign'; expected one of: benign, malignant"):
        class_index(["benign", "malignant"], "malign")
    with pytest.raises(InputError, match=r"sensitivity=95.0 was given; expected a number between 0 and 1"):
        ReadingSettings(sensitivity=95.0).check_reading()
    with pytest.raises(InputError, match=r"prevalence=0.0 was given"):
        ReadingSettings(prevalence=0.0).check_reading()
    with pytest.raises(InputError, match="has no share in the training data"):
        at_prevalence(np.full((1, 2), 0.5), np.array([1.0, 0.0]), 1, 0.1)
