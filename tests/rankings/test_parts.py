"""What rankings are made of, by hand."""

from __future__ import annotations

import numpy as np

from trainless.rankings.gaussian_process import expected_improvement, fit_kernel, normal_scores, standardised
from trainless.rankings.incremental import Sorted
from trainless.rankings.products import agreeing
from trainless.rankings.ranking import clipped, is_logarithm, logarithms


def test_infinities_and_logarithms() -> None:
    infinite = np.array([1.0, np.inf, -np.inf, np.nan, 3.0])
    np.testing.assert_array_equal(clipped(infinite), [1.0, 3.0, 1.0, np.nan, 3.0])
    np.testing.assert_array_equal(logarithms(np.array([-10.0, 0.0, np.inf])), [1.0, np.nan, np.nan])
    assert [is_logarithm(name) for name in ("synflow", "snip", "my column")] == [True, False, False]


def test_what_contradicts_the_rest_is_silenced() -> None:
    up, down = np.arange(20.0), np.arange(20.0)[::-1]
    assert agreeing(np.array([up, down, up]), 0.2).tolist() == [True, False, True]


def test_sorted_counts_below_and_up_to() -> None:
    seen = Sorted()
    for value in (3.0, 1.0, 3.0):
        seen.add(value)
    assert (seen.below(3.0), seen.upto(3.0), len(seen)) == (1, 3, 3)


def test_features_of_the_gaussian_process() -> None:
    assert normal_scores([7.0, np.nan, 9.0]).round(2).tolist() == [0.0, -0.97, 0.97]
    assert standardised(np.array([[1.0, 5.0], [3.0, 5.0]])).tolist() == [[-1.0], [1.0]]
    sure = np.array([1e-9, 1e-9])
    assert expected_improvement(np.array([1.0, 3.0]), sure, 2.0).round(6).tolist() == [0.0, 1.0]
    x = np.linspace(-1, 1, 9)[:, None]
    assert fit_kernel([x], 2 * x[:, 0], 2 * x[:, 0]).noise < 0.15
