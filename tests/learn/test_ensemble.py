"""Averages, votes, variance and entropies, the confidence curve."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from trainless.core.errors import InputError
from trainless.learn.ensemble import (
    average,
    confidence_curve,
    curve_of,
    entropies,
    most_common,
    variance,
    vote,
)

seeds = st.integers(0, 10_000)


def drawn(seed: int, members: int = 5, n: int = 30, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.dirichlet(np.ones(classes), (members, n)), random.integers(classes, size=n)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_vote_is_the_plain_count(seed: int) -> None:
    members, _ = drawn(seed)
    for sample, chosen in enumerate(vote(members)):
        counts = Counter(int(member[sample].argmax()) for member in members)
        most = max(counts.values())
        tied = [label for label, count in counts.items() if count == most]
        assert chosen == max(tied, key=lambda label: members[:, sample, label].mean())


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_order_of_members_and_samples_is_nothing(seed: int) -> None:
    members, y = drawn(seed)
    random = np.random.default_rng(seed)
    shuffled, rows = random.permutation(len(members)), random.permutation(len(y))
    again = members[shuffled][:, rows]
    assert np.allclose(average(members)[rows], average(again))
    assert np.allclose(variance(members)[rows], variance(again))
    assert (vote(members)[rows] == vote(again)).all()
    rounded = variance(members).round(2)  # with ties
    one = confidence_curve(members, y, uncertainty=rounded)
    two = confidence_curve(again, y[rows], uncertainty=rounded[rows])
    assert np.allclose(one.accuracy, two.accuracy)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_entropies_and_variance_by_loops(seed: int) -> None:
    members, _ = drawn(seed, members=4, n=6)
    weights = np.random.default_rng(seed).random(4) + 0.1
    share = weights / weights.sum()
    parts = entropies(members, weights)
    for n in range(6):
        mean = sum(w * member[n] for w, member in zip(share, members, strict=True))
        total = entropy(mean)
        alea = sum(w * entropy(member[n]) for w, member in zip(share, members, strict=True))
        assert (parts.total[n], parts.aleatoric[n], parts.epistemic[n]) == pytest.approx((total, alea, total - alea))
        wanted = sum(w * ((member[n] - mean) ** 2).sum() for w, member in zip(share, members, strict=True))
        assert variance(members, weights)[n] == pytest.approx(wanted)


def test_binary_variance_is_twice_numpys() -> None:
    members, _ = drawn(0, members=10, classes=2)
    assert np.allclose(variance(members), 2 * members[:, :, 1].var(axis=0))


def test_confidence_curve_by_hand() -> None:
    correct = np.array([True] * 10 + [False] * 10)
    curve = curve_of(correct, np.arange(20.0))
    assert curve.shares[0] == 0.05
    assert curve.accuracy.tolist() == [1.0] * 10 + [10 / taken for taken in range(11, 21)]
    assert curve.area == pytest.approx((10 + sum(10 / taken for taken in range(11, 21))) / 20)
    level = curve_of(correct, np.zeros(20))
    assert np.allclose(level.accuracy, 0.5)


def test_most_common() -> None:
    assert most_common([(1,), (2,), (2,), (1,), (2,)]) == (2,)
    with pytest.raises(InputError, match="at least one search"):
        most_common([])


def test_diverged_members_are_refused() -> None:
    members, _ = drawn(0)
    members[2, 0, 0] = math.nan
    for call in (average, vote):
        with pytest.raises(InputError, match="member 2 has predictions that are not finite"):
            call(members)
    with pytest.raises(InputError, match="expected one each"):
        average(drawn(0)[0], np.ones(2))
    with pytest.raises(InputError, match="expected \\(members, samples, outputs\\)"):
        average(np.empty((0, 3, 2)))
