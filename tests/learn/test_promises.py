"""Calibration, conformal sets and intervals, deferral and drift: closed forms and coverage over random draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import binom, binomtest

from trainless.core.errors import InputError
from trainless.learn.calibration import RANGE, SPREAD, calibration_error, fit_temperature, reliability, sharpen
from trainless.learn.conformal import fit_intervals, fit_sets, intervals_from_json, sets_from_json
from trainless.learn.deferral import Deferral, check_deferral, deferral_from_json, fit_deferral
from trainless.learn.drift import drift_warning, fit_drift, last_features, statistics
from trainless.learn.intervals import clopper_pearson


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
    assert sets_from_json(fit_sets(p, y, 0.9).to_json()) == fit_sets(p, y, 0.9)
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
    assert intervals_from_json(rule.to_json()) == rule
    assert math.isinf(fit_intervals(mean[:3], spread[:3], y[:3], 0.9, floor=1.0).widths[0])
    with pytest.raises(InputError, match="floor=0 was given"):
        fit_intervals(mean, spread, y, floor=0)


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
    assert deferral_from_json(rule.to_json()) == rule


def test_deferral_without_promise_refers_everything() -> None:
    few = fit_deferral(np.linspace(0, 1, 20), np.ones(20, bool))
    assert not few.promised
    assert "14 samples test it, and 45 right answers" in few.reason
    assert few.refer(np.array([0.0, 1.0])).all()
    assert deferral_from_json(few.to_json()) == few
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
        assert f"no promise of {accuracy:.0%} accuracy: {n - n // 3} samples test it" in str(rule)
        assert str(rule).endswith("everything is referred")
        assert rule.refer(np.array([0.0])).all()


def test_constant_uncertainty_answers_all_or_nothing() -> None:
    rule = fit_deferral(np.zeros(400), np.arange(400) % 100 > 0, 0.95)
    assert rule.promised
    assert rule.referred == 0
    assert Deferral(0.9, 0.9, 0.5, True, 0.0).refer(np.array([math.nan])).tolist() == [True]


@pytest.mark.parametrize(("right", "n"), [(0, 7), (7, 7), (3, 9), (95, 100)])
def test_clopper_pearson_is_scipys(right: int, n: int) -> None:
    wanted = binomtest(right, n).proportion_ci(0.95, method="exact")
    assert clopper_pearson(right, n) == pytest.approx((wanted.low, wanted.high))


def test_drift_p_values_are_uniform_and_shifts_are_seen() -> None:
    random = np.random.default_rng(0)
    mix = random.normal(size=(6, 6))
    train, valid, same = (random.normal(size=(n, 6)) @ mix for n in (500, 400, 4000))
    drift = fit_drift(train, valid)
    p = drift.p_values(same)
    for level in (0.05, 0.2, 0.5):
        assert (p <= level).mean() == pytest.approx(level, abs=4 * math.sqrt(level / 400))
    assert not drift_warning(drift, p[:100]).warn
    moved = drift_warning(drift, drift.p_values(same[:100] + 5 * np.abs(mix).max()))
    assert moved.warn
    assert "do not trust" in str(moved)
    assert drift.p_values(np.full((1, 6), np.nan)).tolist() == [1 / 401]


@pytest.mark.parametrize(("n", "tells"), [(1, False), (8, False), (18, False), (19, True), (40, True)])
def test_drift_is_told_only_where_the_least_p_value_is_small_enough(n: int, tells: bool) -> None:
    """1 / (n + 1) ≤ 5 % from 19 calibration samples on; below, nothing is marked and it says so."""
    random = np.random.default_rng(0)
    drift = fit_drift(random.normal(size=(50, 2)), random.normal(size=(n, 2)))
    far = drift.p_values(np.full((8, 2), 100.0))
    assert far == pytest.approx(np.full(8, 1 / (n + 1)))
    marked, warning = drift.unlike(far), drift_warning(drift, far)
    assert (marked is not None and bool(marked.all())) == tells
    assert warning.warn == tells
    assert warning.unlike == (8 if tells else 0)
    assert ("too few calibration samples to tell" in str(warning)) != tells
    assert "usual" not in str(warning)


def test_drift_of_constant_and_few_features() -> None:
    still = fit_drift(np.ones((5, 30)), np.ones((4, 30)))
    assert still.p_values(np.ones((1, 30))).tolist() == [1.0]
    assert still.p_values(np.full((1, 30), 1.1)).tolist() == [0.2]
    with pytest.raises(InputError, match="1 training and 4 validation"):
        fit_drift(np.ones((1, 3)), np.ones((4, 3)))


def test_features() -> None:
    x = torch.randn(4, 2, 5, 5, generator=torch.Generator().manual_seed(0))
    found = statistics(x)
    assert found[:, :2] == pytest.approx(x.mean((2, 3)).numpy(), abs=1e-6)
    assert found[:, 2:4] == pytest.approx(x.std((2, 3), unbiased=False).numpy(), abs=1e-6)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(50, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    with last_features(net) as seen:
        net(x)
        assert seen(4) == pytest.approx(net[:3](x).detach().numpy())
    with last_features(torch.nn.ReLU()) as nothing:
        assert nothing(4).shape == (4, 0)
