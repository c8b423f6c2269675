"""Networks in order, best first, each counted several times: what every statistic and its bootstrap start from.

A bootstrap draw is a column of counts: how often each network was drawn. Sorting is done once, and a statistic is
computed for many draws at a time from counts in sorted order; the statistic itself is the draw of all ones. Draws are
in single precision, which holds counts exactly.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from trainless.core.types import AnyFloats, Indices


@dataclass(frozen=True, eq=False)
class Order:
    """An order with ties: networks, the best first, where each group of equals starts, and each network's group."""

    best_first: Indices
    starts: Indices
    group: Indices

    @property
    def untied(self) -> bool:
        """Whether no two networks are equal."""
        return len(self.starts) == len(self.best_first)

    @cached_property
    def listed(self) -> bool:
        """Whether the networks are given in this order."""
        return bool((self.best_first[1:] > self.best_first[:-1]).all())

    @property
    def sizes(self) -> Indices:
        """The number of networks in each group."""
        return np.diff(self.starts, append=len(self.best_first))

    def first(self, groups: int) -> Indices:
        """The networks of the first groups."""
        return self.best_first[: self.starts[groups] if groups < len(self.starts) else None]


def order_of(values: AnyFloats) -> Order:
    """Order by values, the highest first; NaN comes last, as one group.

    Example:
        >>> order = order_of(np.array([1.0, np.nan, 3.0, 1.0]))
        >>> order.best_first, order.group
        (array([2, 0, 3, 1]), array([1, 2, 0, 1]))
    """
    best_first = np.argsort(-values, kind="stable")
    ordered = values[best_first]
    new = (ordered[1:] != ordered[:-1]) & ~np.isnan(ordered[:-1])
    starts = np.flatnonzero(np.concatenate([[True], new]))
    group = np.empty(len(values), np.intp)
    group[best_first] = np.concatenate([[0], np.cumsum(new)])
    return Order(best_first, starts, group)


@dataclass(frozen=True, eq=False)
class WeightedOrder:
    """An order in which every network is there ``weights[network, draw]`` times."""

    order: Order
    weights: AnyFloats

    @cached_property
    def ordered(self) -> AnyFloats:
        """The weights in this order, the best first."""
        return self.weights if self.order.listed else self.weights.take(self.order.best_first, axis=0)

    @cached_property
    def sizes(self) -> AnyFloats:
        """How many networks each group has: groups × draws."""
        if self.order.untied:
            return self.ordered
        return added(self.ordered, np.arange(len(self.ordered)), self.order.starts)

    def sums(self, values: AnyFloats) -> AnyFloats:
        """The sum of values (networks × draws) over each group: groups × draws."""
        if self.order.untied:
            return values if self.order.listed else values.take(self.order.best_first, axis=0)
        return added(values, self.order.best_first, self.order.starts)

    @cached_property
    def ends(self) -> AnyFloats:
        """How many networks are in a group or in better ones: groups × draws."""
        return running(self.sizes)

    @cached_property
    def begins(self) -> AnyFloats:
        """How many networks are in better groups: groups × draws."""
        return self.ends - self.sizes

    @property
    def total(self) -> AnyFloats:
        """How many networks there are in each draw."""
        total: AnyFloats = self.ends[-1]
        return total

    def expected(self, chance: AnyFloats, values: AnyFloats) -> AnyFloats:
        """Σ chance · value of each draw, where one of a group's networks is taken, each as likely as the others.

        The chance of each of the first groups (groups × draws) and values (kinds × networks) give kinds × draws.
        """
        members = self.order.first(len(chance))
        if not self.order.untied:
            sizes = self.sizes[: len(chance)]
            chance = np.divide(chance, sizes, out=np.zeros_like(chance), where=sizes > 0)
            chance = chance.take(self.order.group[members], axis=0) * self.ordered[: len(members)]
        total: AnyFloats = values[:, members] @ chance
        return total

    def reach(self, count: AnyFloats | int) -> int:
        """How many groups, from the best on, have a member among the first ``count`` networks of some draw."""
        beyond = bisect_left(self.begins, True, key=lambda row: bool((row >= count).all()))
        return max(1, beyond)


def added(weights: AnyFloats, members: Indices, starts: Indices) -> AnyFloats:
    """The sum over each group of the rows of its members: groups × draws.

    Example:
        >>> added(np.array([[1.0], [2.0], [4.0]]), np.array([2, 0, 1]), np.array([0, 2]))
        array([[5.],
               [2.]])
    """
    parts = (np.ones(len(members), weights.dtype), members, np.append(starts, len(members)))
    sums: Any = sparse.csr_array(parts, shape=(len(starts), len(weights))) @ weights
    return np.asarray(sums)


def running(values: AnyFloats) -> AnyFloats:
    """Running sums down the rows, as ``np.cumsum(values, axis=0)``, but √n rows at a time, which is much faster.

    Example:
        >>> running(np.ones((5, 1))).ravel()
        array([1., 2., 3., 4., 5.])
    """
    size = max(1, math.isqrt(len(values)))
    whole = len(values) // size * size
    sums = np.empty_like(values)
    blocks, found = (each[:whole].reshape(-1, size, values.shape[1]) for each in (values, sums))
    found[:, 0] = blocks[:, 0]
    for place in range(1, size):
        np.add(found[:, place - 1], blocks[:, place], out=found[:, place])
    for block in range(1, len(found)):
        found[block] += found[block - 1, -1]
    for row in range(whole, len(values)):
        np.add(sums[row - 1], values[row], out=sums[row])
    return sums


@dataclass(frozen=True, eq=False)
class Sample:
    """Scores and truth of the same networks in many draws."""

    scores: Order
    truth: Order
    accuracy: AnyFloats
    weights: AnyFloats

    @cached_property
    def by_score(self) -> WeightedOrder:
        """The networks by their scores."""
        return WeightedOrder(self.scores, self.weights)

    @cached_property
    def by_truth(self) -> WeightedOrder:
        """The networks by their accuracies."""
        return WeightedOrder(self.truth, self.weights)


def sample_of(scores: AnyFloats, accuracy: AnyFloats, weights: AnyFloats | None = None) -> Sample:
    """Scores (higher is better, NaN last) and accuracies; one draw of everything where no weights are given."""
    ones = np.ones((len(accuracy), 1))
    return Sample(order_of(scores), order_of(accuracy), accuracy, ones if weights is None else weights)
