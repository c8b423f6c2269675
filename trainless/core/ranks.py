"""Ranks: what several signals have in common is their order. Higher is better, a failure (NaN) is worst."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from trainless.core.types import Floats, Indices


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
    """Rank 0 for the best value; equal values share a rank and no rank is left out; NaN is last.

    Example:
        >>> dense_ranks(np.array([5.0, 7.0, 5.0, np.nan])).tolist()
        [1, 0, 1, 2]
    """
    _, inverse = np.unique(np.where(np.isnan(values), np.inf, -values), return_inverse=True)
    ranks: Indices = inverse.reshape(-1)
    return ranks


def rank_sum(matrix: Floats) -> Indices:
    """The sum over columns of dense ranks: the lowest is the best (TEG-NAS, section 5.2.2).

    Example:
        >>> rank_sum(np.array([[1.0, 9.0], [2.0, 8.0], [3.0, 9.0]])).tolist()
        [2, 2, 0]
    """
    ranks = [dense_ranks(column) for column in matrix.T]
    total: Indices = np.sum(ranks, axis=0, dtype=np.intp)
    return total


def average_ranks(values: Floats) -> Floats:
    """Ascending ranks from 1, ties the mean of theirs, NaN below everything.

    Example:
        >>> average_ranks(np.array([5.0, np.nan, 7.0, 5.0]))
        array([2.5, 1. , 4. , 2.5])
    """
    ranks: Floats = rankdata(nan_last(values))
    return ranks


def better_counts(values: Floats) -> Floats:
    """How many values are higher.

    Example:
        >>> better_counts(np.array([5.0, np.nan, 7.0, 5.0]))
        array([1., 3., 0., 1.])
    """
    counts: Floats = len(values) - rankdata(nan_last(values), method="max").astype(np.float64)
    return counts
