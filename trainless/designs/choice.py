"""The choice of members: how much each family of networks counts, by what its members say of samples held out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from trainless.core.target import Target
from trainless.core.types import Array, Floats

PARTS = 4  # weights of families are quarters
COUNTED = 3  # members at most that a family begins with
LEAST = 10  # cases that all families spoke of, below which nothing is chosen
TINY = 1e-6  # the least probability that counts


def family_weights(held: Floats, y: Array, families: Sequence[str], target: Target) -> Floats:
    """The weight of each member: its family's, shared equally among the family.

    A family begins with its number of members, up to three. The weights in quarters with the lowest mean loss on the
    cases that every family spoke of win; among those that are not worse than the best by more than one standard error
    of the paired difference, the ones nearest to the beginning do. So little is chosen, by all cases, that the same
    cases can still be calibrated on.

    Args:
        held: What each member says of each case ``(members, cases, outputs)``; NaN where it was trained on it.
        y: The truth.
        families: The family of each member.
        target: What is predicted: log loss for classes, squared error for values.

    Example:
        >>> good, bad = np.tile([0.9, 0.1], (20, 1)), np.tile([0.3, 0.7], (20, 1))
        >>> y = np.zeros(20, int)
        >>> family_weights(np.stack([good, bad, good]), y, ["a", "b", "a"], Target("binary", 2)).tolist()
        [0.5, 0.0, 0.5]
    """
    names = list(dict.fromkeys(families))
    size = {name: list(families).count(name) for name in names}
    said = np.stack([_mean(held[[family == name for family in families]]) for name in names])
    known = np.isfinite(said).all((0, 2))
    begin = np.array([min(size[name], COUNTED) for name in names], np.float64)
    chosen = begin / begin.sum()
    if len(names) > 1 and known.sum() >= LEAST:
        chosen = _best(said[:, known], np.asarray(y)[known], target, chosen)
    return np.array([chosen[names.index(family)] / size[family] for family in families])


def _mean(members: Floats) -> Floats:
    """The mean over the members that speak of a case; NaN where none does."""
    there = np.isfinite(members)
    count = there.sum(0)
    total = np.where(there, members, 0.0).sum(0)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def _best(said: Floats, y: Array, target: Target, begin: Floats) -> Floats:
    grid = [np.array(each) / PARTS for each in itertools.product(range(PARTS + 1), repeat=len(said))]
    grid = [begin, *(weights for weights in grid if abs(weights.sum() - 1) < 1e-9)]
    losses = np.stack([_losses(np.einsum("f,fnk->nk", weights, said), y, target) for weights in grid])
    best = losses[losses.mean(1).argmin()]
    differences = losses - best
    error = differences.std(1, ddof=1) / np.sqrt(len(y))
    fine = np.flatnonzero(differences.mean(1) <= error)
    return grid[min(fine, key=lambda place: float(np.square(grid[place] - begin).sum()))]


def _losses(mean: Floats, y: Array, target: Target) -> Floats:
    if target.kind == "regression":
        return np.asarray(np.square(mean - y.reshape(mean.shape)).sum(1))
    return np.asarray(-np.log(np.maximum(mean[np.arange(len(y)), y.astype(np.int64)], TINY)))
