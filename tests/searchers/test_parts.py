"""What searchers are made of, by hand."""

from __future__ import annotations

import math

import numpy as np

from trainless.searchers.hyperband import Density, brackets
from trainless.searchers.pareto import crowding, fronts
from trainless.searchers.policy import Adam, Policy, derived, draw, most_probable
from trainless.searchers.prune import gains, without
from trainless.searchers.searcher import Incumbent
from trainless.searchers.stopping import Patience, diversity, entropy
from trainless.spaces.nb201 import NasBench201


def test_fronts_and_crowding() -> None:
    assert fronts(np.array([[1.0, 3.0], [3.0, 1.0], [1.0, 1.0], [3.0, 1.0]])).tolist() == [0, 0, 1, 0]
    assert crowding(np.array([[0.0, 4.0], [1.0, 2.0], [4.0, 0.0]])).tolist() == [math.inf, 2.0, math.inf]


def test_brackets_and_densities() -> None:
    assert [counts for counts, _ in brackets(12 / 200, 3)] == [[9, 3, 1], [3, 1], [3]]
    density = Density(np.array([[0], [0], [1]]), np.array([2]), narrowest=0.3)
    assert density(np.array([[0], [1]])).round(2).tolist() == [0.53, 0.47]


def test_a_policy_and_its_step() -> None:
    gradient = Policy([2, 3]).gradient((0, 2)).round(2)
    assert gradient.tolist() == [[0.5, -0.5, 0.0], [-0.33, -0.33, 0.67]]
    assert Adam(0.1).step(np.array([3.0, -4.0])).round(6).tolist() == [0.1, -0.1]
    assert draw(np.array([[0.0, 1.0], [1.0, 0.0]]), np.random.default_rng(0)) == (1, 0)


def test_the_most_probable_arch_that_is_allowed() -> None:
    found = most_probable([np.array([0.6, 0.4]), np.array([0.9, 0.1])], lambda arch: arch != (0, 0))
    assert found == (1, 0)
    assert derived(NasBench201(), [np.array([0.1, 0.2, 0.4, 0.2, 0.1])] * 6, None) == (2,) * 6


def test_pruning_by_gains() -> None:
    assert without((frozenset({0, 1}), frozenset({2})), (0, frozenset({1}))) == (frozenset({0}), frozenset({2}))
    assert gains(np.array([-50.0, 100.0]), np.array([[-40.0, 90.0]])).tolist() == [[0.2, -0.1]]


def test_the_first_of_equals_stays_and_nan_is_worst() -> None:
    best = Incumbent()
    for arch, value in (((1,), math.nan), ((0,), 2.0), ((2,), 2.0)):
        best.see(arch, value)
    assert best.arch == (0,)


def test_what_stops_a_search() -> None:
    patience = Patience(2)
    assert [patience.over(value) for value in (1.0, 2.0, 2.0, 1.5)] == [False, False, False, True]
    assert math.isclose(entropy([np.full(5, 0.2)] * 6), 6 * math.log(5))
    assert math.isclose(diversity([(0, 0), (0, 1), (0, 1)]), 2 / 3)
