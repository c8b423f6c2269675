"""Exact intervals of shares, and of means of shares over classes.

They stay honest where all answers are right, or all wrong: a percentile bootstrap has no width there, since no draw
from four right answers holds a wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from trainless.core.types import Floats, Labels

Bounds = tuple[float, float]


def clopper_pearson(right: float, n: float, level: float = 0.95) -> Bounds:
    """The exact interval of a binomial share (Clopper & Pearson, 1934); NaN without samples.

    Example:
        >>> [round(end, 4) for end in clopper_pearson(10, 10)]
        [0.6915, 1.0]
    """
    if not n:
        return math.nan, math.nan
    tail = (1 - level) / 2
    low = float(beta.ppf(tail, right, n - right + 1)) if right else 0.0
    high = float(beta.ppf(1 - tail, right + 1, n - right)) if right < n else 1.0
    return low, high


def accuracy_bounds(y: Labels, p: Floats, level: float) -> Bounds:
    """Of the share of right answers.

    Example:
        >>> [round(end, 4) for end in accuracy_bounds(np.array([0, 1]), np.eye(2), 0.95)]
        [0.1581, 1.0]
    """
    return clopper_pearson(int((p.argmax(1) == y).sum()), len(y), level)


def sensitivity_bounds(y: Labels, p: Floats, level: float) -> Bounds:
    """Of the share of right answers among the second class of two."""
    return accuracy_bounds(y[y == 1], p[y == 1], level)


def specificity_bounds(y: Labels, p: Floats, level: float) -> Bounds:
    """Of the share of right answers among the first class of two."""
    return accuracy_bounds(y[y == 0], p[y == 0], level)


def balanced_accuracy_bounds(y: Labels, p: Floats, level: float) -> Bounds:
    """Of the mean recall: the recalls of the classes that are there are binomial shares."""
    hit, there, _ = _counts(y, p)
    return _mean_of_shares(hit, there, level)


def f1_macro_bounds(y: Labels, p: Floats, level: float) -> Bounds:
    """Of the mean F1.

    F1 = 2 J / (1 + J) with J = TP / (TP + FP + FN), and J is a binomial share: of the samples that are of a class or
    called so, those that are both.
    """
    hit, there, called = _counts(y, p)
    return _mean_of_shares(hit, there + called - hit, level, lambda share: 2 * share / (1 + share))


def auc_bounds(y: Labels, p: Floats, level: float) -> Bounds:
    """Of the area under the ROC curve, one against the rest: as if only disjoint pairs had been compared.

    The area is the share of pairs of one case of either kind that are in the right order, and m and n cases have
    min(m, n) pairs that share no case: these are independent. Where all pairs are in the right order, all in the wrong
    one or all tied, the interval is conservative; it is meant for nothing else.

    Example:
        >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.1, 0.9]])
        >>> [round(end, 4) for end in auc_bounds(np.array([0, 0, 1, 1]), p, 0.95)]
        [0.1581, 1.0]
    """
    columns = [1] if p.shape[1] == 2 else list(range(p.shape[1]))
    ups = np.array([(y == k).sum() for k in columns], np.float64)
    pairs = np.minimum(ups, len(y) - ups)
    right = np.array([_in_order(y == k, p[:, k]) for k in columns]) * pairs
    return _mean_of_shares(right, pairs, level)


Bounding = Callable[[Labels, Floats, float], Bounds]
SHARES: Mapping[str, Bounding] = MappingProxyType(
    {"accuracy": accuracy_bounds, "sensitivity": sensitivity_bounds, "specificity": specificity_bounds}
)
"""Metrics that are binomial shares: their intervals are always the exact ones."""
MEANS: Mapping[str, Bounding] = MappingProxyType(
    {"balanced_accuracy": balanced_accuracy_bounds, "f1_macro": f1_macro_bounds, "auc": auc_bounds}
)
"""Metrics whose intervals are these, wide ones, only where the bootstrap has none."""


def _mean_of_shares(
    right: Floats, n: Floats, level: float, read: Callable[[float], float] = lambda share: share
) -> Bounds:
    """Of the mean over classes of a growing function of a share; classes without samples are left out.

    Each class has its exact interval at the level 1 − (1 − level) / classes, so that all hold together (Bonferroni).
    """
    there = n > 0
    if not there.any():
        return math.nan, math.nan
    each = 1 - (1 - level) / int(there.sum())
    ends = [clopper_pearson(a, b, each) for a, b in zip(right[there].tolist(), n[there].tolist(), strict=True)]
    low, high = (float(np.mean([read(one[end]) for one in ends])) for end in (0, 1))
    return low, high


def _counts(y: Labels, p: Floats) -> tuple[Floats, Floats, Floats]:
    """Right answers, true samples and predictions of each class."""
    chosen, classes = p.argmax(1), p.shape[1]
    hit, there, called = (
        np.bincount(label, minlength=classes).astype(np.float64) for label in (y[y == chosen], y, chosen)
    )
    return hit, there, called


def _in_order(positive: npt.NDArray[np.bool_], score: Floats) -> float:
    """The share of pairs in the right order, ties counting one half; 0 where there is no pair."""
    below = np.sort(score[~positive])
    ups = score[positive]
    if not len(below) or not len(ups):
        return 0.0
    ranks = np.searchsorted(below, ups, "left") + np.searchsorted(below, ups, "right")
    return float(ranks.sum() / (2 * len(ups) * len(below)))
