"""Ranks of told columns: what several signals have in common is their order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trainless.searchers.searcher import Floats


def nan_last(values: Floats) -> Floats:
    """The values with NaN below everything, for sorting."""
    return np.where(np.isnan(values), -np.inf, values)


def order(values: Floats) -> npt.NDArray[np.intp]:
    """Indices from best to worst; equals keep their order, NaN comes last, below −∞ too.

    Example:
        >>> order(np.array([1.0, np.nan, 3.0, -np.inf])).tolist()
        [2, 0, 3, 1]
    """
    return np.lexsort((-nan_last(values), np.isnan(values)))


def dense_ranks(values: Floats) -> npt.NDArray[np.intp]:
    """Rank 0 for the best value; equal values share a rank and no rank is left out; NaN is last.

    Example:
        >>> dense_ranks(np.array([5.0, 7.0, 5.0, np.nan])).tolist()
        [1, 0, 1, 2]
    """
    _, inverse = np.unique(np.where(np.isnan(values), np.inf, -values), return_inverse=True)
    ranks: npt.NDArray[np.intp] = inverse.reshape(-1)
    return ranks


def rank_sum(matrix: Floats) -> npt.NDArray[np.intp]:
    """The sum over columns of dense ranks: the lowest is the best (TEG-NAS, section 5.2.2).

    Example:
        >>> rank_sum(np.array([[1.0, 9.0], [2.0, 8.0], [3.0, 9.0]])).tolist()
        [2, 2, 0]
    """
    ranks = [dense_ranks(column) for column in matrix.T]
    total: npt.NDArray[np.intp] = np.sum(ranks, axis=0, dtype=np.intp)
    return total
