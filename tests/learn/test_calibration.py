"""Temperature, calibration error, conformal sets and intervals against closed forms, loops and their promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from trainless.core.errors import InputError
from trainless.core.files import from_json, to_json
from trainless.learn.calibration import (
    RANGE,
    SPREAD,
    ConformalIntervals,
    ConformalSets,
    calibration_error,
    fit_intervals,
    fit_sets,
    fit_temperature,
    reliability,
    sharpen,
)


def classified(seed: int, n: int, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Labels drawn from the very probabilities, so that they are calibrated."""
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.full(classes, 0.5), n)
    return p, (random.random((n, 1)) > p.cumsum(1)).sum(1).clip(0, classes - 1)


def test_temperature_has_the_root_of_its_derivative() -> None:
    p, y = classified(0, 400)
    sharp = sharpen(p, 0.5)
    logs, rows = np.log(sharp), np.arange(len(y))

    def slope(t: float) -> float:
        q = np.exp(logs / t)
        q /= q.sum(1, keepdims=True)
        data = float((logs[rows, y] - (q * logs).sum(1)).sum()) / t  # of Σ −log p by log T
        return data + math.log(t) / SPREAD**2

    assert fit_temperature(sharp, y) == pytest.approx(brentq(slope, 0.2, 10), rel=1e-3)
    assert fit_temperature(sharp, y) == pytest.approx(2.0, rel=0.2)
    assert sharpen(sharpen(p, 0.5), 2.0) == pytest.approx(p)


def test_answers_that_are_all_right_do_not_make_it_certain() -> None:
    """Of n samples without an error, the next is wrong with about 1 / (n + 2): no fitted doubt is far below that."""
    for n in (10, 50, 250, 1000):
        for sure in (0.6, 0.9, 0.99):
            p = np.tile([sure, 1 - sure], (n, 1))
            temperature = fit_temperature(p, np.zeros(n, int))
            doubt = sharpen(p, temperature)[0, 1]
            assert RANGE[0] * 1.1 < temperature < 1
            assert doubt > min(0.2 / (n + 2), (1 - sure) / 4)
            assert doubt < 1 - sure


def test_data_that_say_nothing_leave_the_temperature() -> None:
    assert fit_temperature(np.full((50, 4), 0.25), np.arange(50) % 4) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("truth", [0.4, 1.0, 2.5])
def test_the_prior_gives_way_to_data(truth: float) -> None:
    p, y = classified(3, 20_000)
    assert fit_temperature(sharpen(p, 1 / truth), y) == pytest.approx(truth, rel=0.05)


def test_temperature_of_degenerate_predictions() -> None:
    assert math.isfinite(fit_temperature(np.array([[1.0, 0.0]]), np.array([0])))
    assert math.isfinite(fit_temperature(np.array([[1.0, 0.0]]), np.array([1])))
    with pytest.raises(InputError, match="at least one"):
        fit_temperature(np.empty((0, 2)), np.empty(0, int))


def test_calibration_error_by_loops() -> None:
    p, y = classified(1, 300)
    confidence, hit = p.max(1), p.argmax(1) == y
    wanted = 0.0
    for k in range(15):
        inside = (confidence >= k / 15) & (confidence < (k + 1) / 15 + (k == 14))
        if inside.any():
            wanted += inside.mean() * abs(hit[inside].mean() - confidence[inside].mean())
    found = calibration_error(p, y, draws=200)
    assert found.value == pytest.approx(wanted)
    assert found.low < found.high
    assert calibration_error(sharpen(p, 0.3), y, draws=0).value > found.value
    assert reliability(p, y, by="mass", bins=10).share == pytest.approx(np.full(10, 0.1))


@pytest.mark.parametrize("by_class", [False, True])
def test_sets_cover_over_random_splits(by_class: bool) -> None:
    hits, of_class, trials, class_trials = 0, 0, 0, 0
    for seed in range(40):
        p, y = classified(seed, 400)
        sets = fit_sets(p[:200], y[:200], 0.9, by_class=by_class).sets(p[200:])
        inside = sets[np.arange(200), y[200:]]
        hits, trials = hits + inside.sum(), trials + 200
        of_class, class_trials = of_class + inside[y[200:] == 0].sum(), class_trials + (y[200:] == 0).sum()
    slack = 4 * math.sqrt(0.09 / trials + 0.09 / 8000)  # of test data and of 40 × 200 calibration samples
    assert hits / trials > 0.9 - slack
    if by_class:
        assert of_class / class_trials > 0.9 - 2 * slack
    else:
        assert hits / trials < 0.9 + 1 / 200 + slack


def test_sets_of_few_samples_hold_everything() -> None:
    p, y = classified(0, 5)
    assert fit_sets(p, y, 0.9).sets(p).all()
    there = y != 3
    assert fit_sets(p[there], y[there], 0.5, by_class=True).sets(p)[:, 3].all()
    many = fit_sets(*classified(0, 50, classes=1000), 0.9)
    assert many.sets(classified(1, 5, classes=1000)[0]).any(1).all()
    assert from_json(ConformalSets, to_json(fit_sets(p, y, 0.9))) == fit_sets(p, y, 0.9)
    with pytest.raises(InputError, match=r"coverage=1.5 was given"):
        fit_sets(p, y, 1.5)


def test_intervals_cover_over_random_splits() -> None:
    hits = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        spread = random.uniform(0.1, 2, (400, 2))
        mean = random.normal(size=(400, 2))
        y = mean + spread * random.standard_t(3, (400, 2))
        rule = fit_intervals(mean[:200], spread[:200], y[:200], 0.8, floor=0.05)
        low, high = rule.bounds(mean[200:], spread[200:])
        hits += ((low <= y[200:]) & (y[200:] <= high)).sum()
    assert hits / 16000 == pytest.approx(0.8, abs=0.03)
    assert from_json(ConformalIntervals, to_json(rule)) == rule
    assert math.isinf(fit_intervals(mean[:3], spread[:3], y[:3], 0.9, floor=1.0).widths[0])
    with pytest.raises(InputError, match="floor=0 was given"):
        fit_intervals(mean, spread, y, floor=0)
