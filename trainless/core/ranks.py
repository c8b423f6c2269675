"""Ranks: what several signals have in common is their order. Higher is better, a failure (NaN) is worst."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

from trainless.core.errors import InputError
from trainless.core.types import Floats, Index, Indices


def nan_last(values: Floats) -> Floats:
    """The values with NaN below everything, for sorting."""
    return np.where(np.isnan(values), -np.inf, values)


def order(values: Floats) -> Indices:
    """Indices from best to worst; equals keep their order, NaN comes last, below −∞ too.

    Example:
        >>> order(np.array([1.0, np.nan, 3.0, -np.inf])).tolist()
        [2, 0, 3, 1]
    """
    return np.lexsort((-nan_last(values), np.isnan(values)))


def dense_ranks(values: Floats) -> Indices:
    """Rank 0 for the best value; equal values share a rank and no rank is left out; NaN is last."""
    _, inverse = np.unique(np.where(np.isnan(values), np.inf, -values), return_inverse=True)
    ranks: Indices = inverse.reshape(-1)
    return ranks


def rank_sum(matrix: Floats) -> Indices:
    """The sum over columns of dense ranks: the lowest is the best (TEG-NAS, section 5.2.2)."""
    ranks = [dense_ranks(column) for column in matrix.T]
    total: Indices = np.sum(ranks, axis=0, dtype=np.intp)
    return total


def average_ranks(values: Floats) -> Floats:
    """Ascending ranks from 1, ties the mean of theirs, NaN below everything."""
    ranks: Floats = rankdata(nan_last(values))
    return ranks


def better_counts(values: Floats) -> Floats:
    """How many values are higher."""
    counts: Floats = len(values) - rankdata(nan_last(values), method="max").astype(np.float64)
    return counts


class RankTable:
    """Rows of columns and Σ_c log rank_c over everything seen so far, kept up to date row by row.

    Ranks ascend, so that a higher sum is better; ties share their average rank, NaN is last. A new row costs one pass
    over the history instead of a new sort of it.
    """

    def __init__(self) -> None:
        self._n = 0
        self._values: Floats = np.empty((0, 0))
        self._doubled: Index = np.empty((0, 0), dtype=np.int64)
        self._logs: Floats = np.empty(0)

    def __len__(self) -> int:
        return self._n

    def add(self, row: Sequence[float]) -> None:
        """Take in one row; ranks are kept doubled so that averages of ties are whole numbers."""
        self._grow(len(row))
        values, doubled = self._values[:, : self._n], self._doubled[:, : self._n]
        new = nan_last(np.array(row))[:, None]
        above, equal = values > new, values == new
        doubled += 2 * above + equal
        ties = equal.sum(axis=1)
        self._values[:, self._n] = new[:, 0]
        self._doubled[:, self._n] = 2 * (self._n - above.sum(axis=1) - ties) + ties + 2
        self._n += 1

    def _grow(self, columns: int) -> None:
        if self._n and columns != len(self._values):
            raise InputError(f"{columns} columns were told after {len(self._values)}: tell the same ones every time")
        if self._n < self._values.shape[1]:
            return
        room_for = max(64, 2 * self._n)
        values, doubled = np.empty((columns, room_for)), np.zeros((columns, room_for), dtype=np.int64)
        if self._n:
            values[:, : self._n], doubled[:, : self._n] = self._values, self._doubled
        self._values, self._doubled = values, doubled
        self._logs = np.log(np.maximum(np.arange(2 * room_for + 2), 1) / 2)

    def scores(self) -> Floats:
        """Σ_c log rank_c of every row."""
        total: Floats = self._logs[self._doubled[:, : self._n]].sum(axis=0)
        return total
