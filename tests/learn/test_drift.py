"""Drift: uniform p-values without it, and shifts that are seen."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from trainless.core.errors import InputError
from trainless.learn.drift import Drift, drift_warning, fit_drift, last_features, statistics


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


def test_too_few_samples_are_counted() -> None:
    assert Drift(np.zeros(1), np.eye(1), np.arange(8.0)).too_few().endswith("(8, and 19 are needed)")
