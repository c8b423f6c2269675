"""Ensembles as arithmetic on members' predictions: averages, votes, greedy selection.

Members' predictions are one array ``(members, samples, outputs)``: probabilities, or values for regression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.types import Floats, Labels


def require_members(members: Floats, weights: Floats | None = None) -> None:
    """Raise InputError where members cannot be put together: none, diverged, or weights that do not fit."""
    if members.ndim != 3 or not members.size:
        raise InputError(f"members' predictions have shape {members.shape}; expected (members, samples, outputs)")
    for number, member in enumerate(members):
        if not np.isfinite(member).all():
            raise InputError(f"member {number} has predictions that are not finite: leave it out or train it again")
    if weights is not None and (weights.shape != (len(members),) or weights.min() < 0 or not weights.sum() > 0):
        raise InputError(
            f"weights {weights.tolist()} were given for {len(members)} members; expected one each, not negative"
        )


def average(members: Floats, weights: Floats | None = None) -> Floats:
    """The weighted mean over members.

    Example:
        >>> average(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), np.array([3.0, 1.0])).tolist()
        [[0.75, 0.25]]
    """
    require_members(members, weights)
    return np.asarray(np.average(members, axis=0, weights=weights))


def vote(members: Floats, weights: Floats | None = None) -> Labels:
    """The class that most members choose; of tied ones that with the higher mean probability.

    Example:
        >>> vote(np.array([[[0.6, 0.4]], [[0.6, 0.4]], [[0.0, 1.0]]])).tolist()
        [0]
    """
    shares = votes(members, weights)
    tied = np.isclose(shares, shares.max(1, keepdims=True), rtol=0, atol=1e-12)
    return np.asarray(np.where(tied, average(members, weights), -1.0).argmax(1))


def votes(members: Floats, weights: Floats | None = None) -> Floats:
    """The share of members that choose each class, ``(samples, classes)``.

    Example:
        >>> votes(np.array([[[0.6, 0.4]], [[0.1, 0.9]]])).tolist()
        [[0.5, 0.5]]
    """
    require_members(members, weights)
    chosen = np.eye(members.shape[2])[members.argmax(2)]
    return np.asarray(np.average(chosen, axis=0, weights=weights))


@dataclass(frozen=True, eq=False)
class Selection:
    """Which members of a library to use: how often each was taken, their weights and the value on validation data."""

    counts: Labels
    value: float

    @property
    def weights(self) -> Floats:
        """One weight per member of the library; they add up to 1."""
        return np.asarray(self.counts / self.counts.sum())


Goodness = Callable[[Floats], float]


def greedy(library: Floats, goodness: Goodness, *, size: int = 20) -> Selection:
    """Forward selection with replacement (Caruana et al., 2004).

    Starts from the best single member and adds, ``size`` members in all, the one that makes the average the best;
    ends with the best of all averages on the way, so that it is never worse on these data than the best member.
    Caruana's bagging and sorted start of several models are left out.

    Args:
        library: Predictions ``(members, samples, outputs)`` on validation data.
        goodness: What to make large, from predictions ``(samples, outputs)``.
        size: The most members, counted as often as they are taken.

    Example:
        >>> library = np.array([[[0.9, 0.1], [0.6, 0.4]], [[0.4, 0.6], [0.1, 0.9]]])
        >>> y = np.array([0, 1])
        >>> greedy(library, lambda p: float((p.argmax(1) == y).mean())).counts.tolist()
        [1, 1]
    """
    require_members(library)
    if size < 1:
        raise InputError(f"size={size} was given; expected at least 1")
    values = [goodness(member) for member in library]
    first = int(np.argmax(values))
    counts = np.bincount([first], minlength=len(library))
    best = Selection(counts, values[first])
    total = library[first].copy()
    for taken in range(1, size):
        values = [goodness((total + member) / (taken + 1)) for member in library]
        chosen = int(np.argmax(values))
        counts = counts + np.bincount([chosen], minlength=len(library))
        total += library[chosen]
        if values[chosen] > best.value:
            best = Selection(counts, values[chosen])
    return best


def log_likelihood(y: Labels, floor: float = 1e-12) -> Goodness:
    """Mean log-probability of the true classes: the usual goodness for ``greedy``.

    Example:
        >>> log_likelihood(np.array([0]))(np.array([[1.0, 0.0]]))
        0.0
    """
    rows = np.arange(len(y))
    return lambda p: float(np.log(np.maximum(p[rows, y], floor)).mean())


def negative_squared_error(y: Floats) -> Goodness:
    """Minus the mean squared error: the goodness for regression."""
    return lambda v: -float(np.square(v - y.reshape(v.shape)).mean())


def most_common(archs: Sequence[Arch]) -> Arch:
    """The arch that searches ended with most often, of tied ones the first (the baseline of TEACUP 7.7).

    Example:
        >>> most_common([(0, 1), (2, 2), (2, 2)])
        (2, 2)
    """
    if not archs:
        raise InputError("no archs were given; expected the results of at least one search")
    return Counter(archs).most_common(1)[0][0]
