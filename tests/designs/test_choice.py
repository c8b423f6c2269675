"""How much each family of members counts, by what it says of cases held out."""

from __future__ import annotations

import numpy as np

from trainless.core.target import Target
from trainless.designs.choice import family_weights

TWO = Target("binary", 2)


def said(right: float, y: np.ndarray, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """Probabilities that give the truth so much, give or take."""
    p = np.clip(right + noise * np.random.default_rng(seed).normal(size=len(y)), 0.01, 0.99)
    found = np.empty((len(y), 2))
    found[np.arange(len(y)), y], found[np.arange(len(y)), 1 - y] = p, 1 - p
    return found


def test_a_family_that_is_clearly_worse_is_left_out() -> None:
    y = np.arange(60) % 2
    weights = family_weights(np.stack([said(0.9, y), said(0.9, y), said(0.2, y)]), y, ["a", "a", "b"], TWO)
    assert weights.tolist() == [0.5, 0.5, 0.0]


def test_families_that_cannot_be_told_apart_count_by_their_members_up_to_three() -> None:
    y = np.arange(40) % 2
    members = np.stack([said(0.7, y, 0.2, seed) for seed in range(5)])
    assert family_weights(members[:4], y, ["a", "a", "a", "b"], TWO).tolist() == [0.25] * 4
    assert family_weights(members, y, ["a", "a", "a", "a", "b"], TWO).tolist() == [0.1875] * 4 + [0.25]


def test_nothing_is_chosen_by_a_handful_of_cases() -> None:
    y = np.arange(6) % 2
    assert family_weights(np.stack([said(0.9, y), said(0.2, y)]), y, ["a", "b"], TWO).tolist() == [0.5, 0.5]


def test_only_cases_that_all_families_spoke_of_are_compared() -> None:
    y = np.arange(40) % 2
    good, bad = said(0.9, y), said(0.3, y)
    good[20:] = np.nan
    bad[:5] = np.nan
    assert family_weights(np.stack([good, bad]), y, ["a", "b"], TWO).tolist() == [1.0, 0.0]
    good[:25] = np.nan
    assert family_weights(np.stack([good, bad]), y, ["a", "b"], TWO).tolist() == [0.5, 0.5]


def test_values_are_chosen_by_their_squared_error() -> None:
    y = np.linspace(-1, 1, 30)
    members = np.stack([y[:, None] + 0.01, 3 + 0 * y[:, None]])
    assert family_weights(members, y, ["a", "b"], Target("regression", 1)).tolist() == [1.0, 0.0]
