"""How sure an ensemble is, against naive loops and what figures say."""

from __future__ import annotations

import numpy as np
import pytest

from trainless.learn.deferral import referral
from trainless.report.doubt import error_curve, in_doubt, reliability

RANDOM = np.random.default_rng(3)


def test_reliability_of_each_bin() -> None:
    p = RANDOM.dirichlet(np.ones(3), 300)
    y = RANDOM.integers(3, size=300)
    said, right, count = reliability(p, y, bins=5)
    for place in range(5):
        inside = [k for k in range(300) if min(int(p[k].max() * 5), 4) == place]
        assert count[place] == len(inside)
        if inside:
            assert said[place] == pytest.approx(np.mean([p[k].max() for k in inside]))
            assert right[place] == pytest.approx(np.mean([p[k].argmax() == y[k] for k in inside]))


def test_referral_is_a_threshold() -> None:
    doubt, correct = RANDOM.random(60).round(1), RANDOM.random(60) < 0.7
    shares, right = referral(doubt, correct)
    for threshold, share, accuracy in zip(np.unique(doubt), shares, right, strict=True):
        answered = doubt <= threshold
        assert share == pytest.approx(1 - answered.mean())
        assert accuracy == pytest.approx(correct[answered].mean())


def test_the_error_of_the_surest() -> None:
    error, spread = RANDOM.random(40), RANDOM.random(40)
    half = error[np.argsort(spread)[:20]].mean()
    assert error_curve(error, spread, np.array([0.5, 1.0])).tolist() == pytest.approx([half, error.mean()])


def test_the_widest_interval_is_in_doubt() -> None:
    low = np.zeros((4, 1))
    said = {"variance": np.ones(4), "low": low, "high": np.array([[1.0], [3.0], [2.0], [0.5]]), "mean": low}
    assert in_doubt(said, 2).tolist() == [1, 2]
