"""Deferral keeps its promise over random data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from trainless.core.errors import InputError
from trainless.core.files import from_json, to_json
from trainless.learn.deferral import Deferral, check_deferral, fit_deferral


def doubtful(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    doubt = random.random(n)
    return doubt, random.random(n) > 0.4 * doubt**2


def test_deferral_keeps_its_promise() -> None:
    """Of the rules from 200 draws, at most a tenth break the promise; the true accuracy up to t is 1 − 0.4 t² / 3."""
    broken = promised = 0
    for seed in range(200):
        rule = fit_deferral(*doubtful(seed, 1000), 0.95, confidence=0.9, seed=seed)
        if rule.promised:
            promised += 1
            broken += 1 - 0.4 * min(rule.threshold, 1) ** 2 / 3 < 0.95
    assert promised > 150
    assert broken <= binom.ppf(0.999, 200, 0.1)


def test_deferral_without_information_still_keeps_it() -> None:
    """Uncertainty that means nothing, accuracy below the promise: hardly ever a promise."""
    random = np.random.default_rng(0)
    wrong = sum(fit_deferral(random.random(300), random.random(300) < 0.94, 0.95, seed=k).promised for k in range(200))
    assert wrong <= binom.ppf(0.999, 200, 0.1)


def test_deferral_finds_nearly_the_best_threshold() -> None:
    rule = fit_deferral(*doubtful(1, 20_000), 0.95)
    best = math.sqrt(0.05 * 3 / 0.4)
    assert best - 0.1 < rule.threshold < best
    assert str(rule).startswith("at 95% accuracy on what it answers, it refers ")
    check = check_deferral(rule, *doubtful(2, 20_000))
    assert check.holds
    assert check.accuracy.value >= 0.95
    assert check.referred == pytest.approx(rule.referred, abs=0.02)
    assert from_json(Deferral, to_json(rule)) == rule


def test_deferral_without_promise_refers_everything() -> None:
    few = fit_deferral(np.linspace(0, 1, 20), np.ones(20, bool))
    assert not few.promised
    assert "it takes at least 45 cases to test it, and there are 14" in few.reason
    assert few.refer(np.array([0.0, 1.0])).all()
    assert from_json(Deferral, to_json(few)) == few
    bad = fit_deferral(np.linspace(0, 1, 600), np.arange(600) % 2 == 0)
    assert "wrong too often" in str(bad)
    assert math.isnan(check_deferral(bad, np.zeros(3), np.ones(3, bool)).accuracy.value)
    with pytest.raises(InputError, match=r"accuracy=2 was given"):
        fit_deferral(np.zeros(5), np.ones(5, bool), 2)
    with pytest.raises(InputError, match="2 uncertainties and 3 answers"):
        fit_deferral(np.zeros(2), np.ones(3, bool))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("accuracy", [0.01, 0.95])
def test_hardly_any_samples_promise_nothing_and_say_so(n: int, accuracy: float) -> None:
    rule = fit_deferral(np.linspace(0, 1, n), np.ones(n, bool), accuracy)
    if n < 3 or accuracy > 0.5:  # one right answer of 1 % chance is proof enough; 45 of 95 % are
        assert not rule.promised
        assert f"no promise of {accuracy:.0%} accuracy: it takes at least" in str(rule)
        assert f"and there are {n - n // 3};" in str(rule)
        assert str(rule).endswith("everything is referred")
        assert rule.refer(np.array([0.0])).all()


def test_constant_uncertainty_answers_all_or_nothing() -> None:
    rule = fit_deferral(np.zeros(400), np.arange(400) % 100 > 0, 0.95)
    assert rule.promised
    assert rule.referred == 0
    assert Deferral(0.9, 0.9, 0.5, True, 0.0).refer(np.array([math.nan])).tolist() == [True]
