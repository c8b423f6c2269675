from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainless.core.errors import InputError
from trainless.tasks.split import FRACTIONS, grouped, stratified

labels = st.lists(st.integers(0, 4), min_size=6, max_size=200).map(np.array)


@given(labels, st.integers(0, 50))
@settings(max_examples=60, deadline=None)
def test_stratified_is_a_partition_with_the_classes_in_proportion(y: np.ndarray, seed: int) -> None:
    parts = stratified(y, seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(y)))
    for label in np.unique(y):
        n = int((y == label).sum())
        counts = [int((y[part] == label).sum()) for part in parts]
        assert counts[0] >= 1
        if n >= 3:
            assert min(counts) >= 1
            for count, fraction in zip(counts, FRACTIONS, strict=True):
                assert abs(count - fraction * n) < 1.2


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 15)), min_size=10, max_size=120), st.integers(0, 50))
@settings(max_examples=60, deadline=None)
def test_grouped_is_a_partition_that_splits_no_group(pairs: list[tuple[int, int]], seed: int) -> None:
    y, groups = np.array(pairs).T
    if len(np.unique(groups)) < 3:
        with pytest.raises(InputError, match="groups were given; expected at least 3"):
            grouped(y, groups, seed)
        return
    parts = grouped(y, groups, seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(y)))
    assert all(len(part) for part in parts)
    owners = [set(groups[part].tolist()) for part in parts]
    assert sum(map(len, owners)) == len(set().union(*owners))


def test_grouped_is_nearly_stratified_when_groups_are_small() -> None:
    random = np.random.default_rng(0)
    y = random.choice(3, 1200, p=[0.6, 0.3, 0.1])
    groups = random.integers(0, 300, 1200)
    for part, fraction in zip(grouped(y, groups, 0), FRACTIONS, strict=True):
        for label in range(3):
            assert (y[part] == label).sum() == pytest.approx(fraction * (y == label).sum(), rel=0.1, abs=3)


def test_grouped_keeps_a_class_of_one_group_in_training() -> None:
    for seed in range(20):
        y = np.array([0] * 30 + [1] * 2)
        groups = np.array([*np.repeat(np.arange(10), 3), 99, 99])
        assert 99 in groups[grouped(y, groups, seed)[0]]


def test_splits_depend_on_the_seed_alone() -> None:
    y = np.arange(300) % 3
    same = [np.array_equal(a, b) for a, b in zip(stratified(y, 5), stratified(y, 5), strict=True)]
    other = [np.array_equal(a, b) for a, b in zip(stratified(y, 5), stratified(y, 6), strict=True)]
    assert all(same)
    assert not any(other)
