"""Sample weights as repetition: a sample of weight 3 is there three times, and is one case all the same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from trainless.core.types import Array, Floats, Index

MANY = 64  # different samples, from which on those that are equal are taken for one
MOST, ROOM = 8.0, 2**26  # samples, for each that is there, and values, up to which whole weights are kept exactly
FINE = 4.0  # samples, for each that is there, that other weights are rounded to


@dataclass(frozen=True, eq=False)
class RepeatedRows:
    """The samples that weights come to.

    Args:
        rows: The row of each, in an order that depends neither on that of the data nor on how often a row is there.
        times: How often it is there.
        cases: Whether each time is a case of its own, not a copy.
    """

    rows: Index
    times: Index
    cases: bool


def repeated(x: Array, y: Array, weight: Floats) -> RepeatedRows:
    """Weigh samples by repetition: twice the weight is the same as twice in the data, whatever the order.

    Equal samples are one case with as many copies, so that none is learnt from and held out at once. They are cases of
    their own where samples say too little for that: where there are few different ones, or where equal inputs have
    different labels. Weights that are no whole numbers cannot be counts, and always make copies.

    Args:
        x: Inputs ``(N, …)``.
        y: Labels or values ``(N, …)``.
        weight: One for each sample, 0 or more; 0 leaves it out.

    Example:
        >>> x, y = np.array([[1.0], [2.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
        >>> found = repeated(x, y, np.array([1.0, 1.0, 1.0, 0.0]))
        >>> sorted(zip(found.rows.tolist(), found.times.tolist())), found.cases
        ([(0, 2), (1, 1)], True)
    """
    there = np.flatnonzero(weight > 0)
    _, first, place = np.unique(_keys(x[there], y[there]), return_index=True, return_inverse=True)
    rows, sums = there[first], np.bincount(place.reshape(-1), weight[there]).astype(np.float64)
    most = max(MOST * len(rows), ROOM / max(1, x[0].size))
    if (sums == np.floor(sums)).all() and sums.sum() <= most:
        alike = len(rows) < MANY or len(np.unique(_keys(x[rows], y[:0]))) < len(rows)
        counts = sums.astype(np.int64)
        return RepeatedRows(rows, counts if alike else counts // np.gcd.reduce(counts), alike)
    times = rounded(sums)
    return RepeatedRows(rows[times > 0], times[times > 0], cases=False)


def rounded(weight: Floats) -> Index:
    """How often each sample is there, in proportion to positive weights; one of little weight may not be there.

    Any run of neighbouring samples has its share to within one. Example:
        >>> rounded(np.array([0.3, 0.3, 0.6])).tolist(), rounded(np.array([0.5, 0.5])).tolist()
        ([3, 3, 6], [1, 1])
    """
    if (weight == weight[0]).all():
        return np.ones(len(weight), np.int64)
    ends = np.cumsum(weight) / weight.sum() * FINE * len(weight)
    times: Index = np.diff(np.floor(ends + 0.5), prepend=0).astype(np.int64)
    return times


def _keys(x: Array, y: Array) -> Array:
    """For each sample the same as for an equal one and no other; without labels where there are none.

    The last byte is none of those that NumPy's strings lose.
    """
    labels = [np.ascontiguousarray(label).tobytes() for label in y] or [b""] * len(x)
    digests = [
        hashlib.blake2b(np.ascontiguousarray(row).tobytes() + label, digest_size=15).digest() + b"."
        for row, label in zip(x, labels, strict=True)
    ]
    return np.array(digests, "S16")
