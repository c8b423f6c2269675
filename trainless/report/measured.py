"""The numbers behind the pictures of a test: ROC curves, confusions, reliability, referral, the cases in doubt."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trainless.report.contents import Arrays, Floats

Labels = npt.NDArray[np.int64]
BINS = 10


def roc(positive: npt.NDArray[np.bool_], score: Floats) -> tuple[Floats, Floats]:
    """False and true positive rates from the strictest threshold to the laxest; equal scores are one step.

    Points on a straight stretch are left out.

    Example:
        >>> false, true = roc(np.array([True, False, True]), np.array([0.9, 0.8, 0.1]))
        >>> false.tolist(), true.tolist()
        ([0.0, 0.0, 1.0, 1.0], [0.0, 0.5, 0.5, 1.0])
    """
    _, group = np.unique(-score, return_inverse=True)
    group = group.reshape(-1)
    ups = np.bincount(group, positive).cumsum() / max(1, positive.sum())
    downs = np.bincount(group, ~positive).cumsum() / max(1, (~positive).sum())
    xs, ys = np.concatenate([[0.0], downs]), np.concatenate([[0.0], ups])
    first, second = np.diff(xs), np.diff(ys)
    turns = np.abs(first[:-1] * second[1:] - first[1:] * second[:-1]) > 1e-12
    kept = np.concatenate([[True], turns, [True]])
    return xs[kept], ys[kept]


def confusion(y: Labels, label: Labels, classes: int) -> Labels:
    """How often each true class (row) was taken for each class (column).

    Example:
        >>> confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).tolist()
        [[1, 1], [0, 1]]
    """
    return np.bincount(y * classes + label, minlength=classes * classes).reshape(classes, classes).astype(np.int64)


def reliability(p: Floats, y: Labels, bins: int = BINS) -> tuple[Floats, Floats, Labels]:
    """Mean stated probability, share that was right, and samples, of bins of equal width; NaN where a bin is empty.

    Example:
        >>> said, right, count = reliability(np.array([[0.3, 0.7], [0.1, 0.9], [0.95, 0.05]]), np.array([1, 1, 1]), 2)
        >>> round(float(said[1]), 2), round(float(right[1]), 2), count.tolist()
        (0.85, 0.67, [0, 3])
    """
    said, hit = p.max(1), p.argmax(1) == y
    place = np.minimum((said * bins).astype(np.int64), bins - 1)
    count = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        return np.bincount(place, said, bins) / count, np.bincount(place, hit, bins) / count, count.astype(np.int64)


def referral(doubt: Floats, correct: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Share of cases referred and share right among those answered, for every threshold; equal doubts go together.

    Example:
        >>> share, right = referral(np.array([0.1, 0.4, 0.2]), np.array([True, False, True]))
        >>> share.round(2).tolist(), right.round(2).tolist()
        ([0.67, 0.33, 0.0], [1.0, 1.0, 0.67])
    """
    _, group = np.unique(doubt, return_inverse=True)
    answered = np.bincount(group.reshape(-1)).cumsum()
    right = np.bincount(group.reshape(-1), correct).cumsum()
    return 1 - answered / len(doubt), right / answered


def error_curve(error: Floats, spread: Floats, shares: Floats) -> Floats:
    """Mean error of the surest share of cases: what an accuracy against confidence is for values.

    Example:
        >>> error_curve(np.array([1.0, 3.0]), np.array([0.1, 0.2]), np.array([0.5, 1.0])).tolist()
        [1.0, 2.0]
    """
    ranked = np.cumsum(error[np.argsort(spread, kind="stable")])
    taken = np.maximum(1, np.ceil(shares * len(error) - 1e-9).astype(int))
    return np.asarray(ranked[taken - 1] / taken)


def in_doubt(predictions: Arrays, most: int) -> npt.NDArray[np.intp]:
    """The cases that the ensemble is least sure of, the least sure first.

    For classes: the lowest probability of its answer, as referral goes by; of equals the greater entropy before
    calibration. For values: the widest interval, else the greatest variance across members.

    Example:
        >>> mean = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
        >>> in_doubt({"mean": mean, "label": mean.argmax(1), "total": np.zeros(3), "variance": np.zeros(3)}, 2).tolist()
        [1, 2]
    """
    columns: list[npt.NDArray[Any]] = [-predictions["variance"]]
    if "label" in predictions:
        columns += [-predictions["total"], predictions["mean"].max(1)]
    elif "high" in predictions:
        columns.append(-(predictions["high"] - predictions["low"]).max(1))
    return np.lexsort(columns)[:most]
