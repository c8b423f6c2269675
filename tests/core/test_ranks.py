"""Ranks by hand: ties, failures and rows that come one at a time."""

from __future__ import annotations

import numpy as np

from trainless.core.ranks import RankTable, average_ranks, better_counts, dense_ranks, rank_sum

VALUES = np.array([5.0, np.nan, 7.0, 5.0])


def test_ties_share_and_failures_are_last() -> None:
    assert dense_ranks(VALUES).tolist() == [1, 2, 0, 1]
    assert average_ranks(VALUES).tolist() == [2.5, 1.0, 4.0, 2.5]
    assert better_counts(VALUES).tolist() == [1.0, 3.0, 0.0, 1.0]


def test_columns_are_added_up() -> None:
    assert rank_sum(np.array([[1.0, 9.0], [2.0, 8.0], [3.0, 9.0]])).tolist() == [2, 2, 0]
    table = RankTable()
    for row in ([1.0, 5.0], [2.0, 4.0], [3.0, 6.0]):
        table.add(row)
    assert np.exp(table.scores()).round().tolist() == [2.0, 2.0, 9.0]
