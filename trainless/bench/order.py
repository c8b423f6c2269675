"""Networks in order, best first, each counted several times: what every statistic and its bootstrap start from.

A bootstrap draw is a column of counts: how often each network was drawn. Sorting is done once, and a statistic is
computed for many draws at a time from counts in sorted order; the statistic itself is the draw of all ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Order:
    """An order with ties.

    Attributes:
        best_first: The indices of the networks, the best first.
        starts: Where each group of equals starts in ``best_first``.
        group: The group of each network, 0 for the best.
    """

    best_first: Ints
    starts: Ints
    group: Ints

    @property
    def untied(self) -> bool:
        """Whether no two networks are equal."""
        return len(self.starts) == len(self.best_first)

    @property
    def sizes(self) -> Ints:
        """The number of networks in each group."""
        return np.diff(self.starts, append=len(self.best_first))


def order_of(values: Floats) -> Order:
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
class Counted:
    """An order in which every network is there ``weights[network, draw]`` times."""

    order: Order
    weights: Floats

    @cached_property
    def sizes(self) -> Floats:
        """How many networks each group has: groups × draws."""
        ordered = self.weights[self.order.best_first]
        return ordered if self.order.untied else np.add.reduceat(ordered, self.order.starts, axis=0)

    @cached_property
    def ends(self) -> Floats:
        """How many networks are in a group or in better ones: groups × draws."""
        ends: Floats = np.cumsum(self.sizes, axis=0)
        return ends

    @cached_property
    def begins(self) -> Floats:
        """How many networks are in better groups: groups × draws."""
        return self.ends - self.sizes

    @property
    def total(self) -> Floats:
        """How many networks there are in each draw."""
        total: Floats = self.ends[-1]
        return total

    def sums(self, values: Floats, groups: int | None = None) -> Floats:
        """The sum of values over each of the first groups: groups × draws."""
        starts = self.order.starts[:groups]
        stop = None if groups is None or groups >= len(self.order.starts) else self.order.starts[groups]
        members = self.order.best_first[:stop]
        weighted = self.weights[members]
        weighted *= values[members, None]
        return weighted if self.order.untied else np.add.reduceat(weighted, starts, axis=0)

    def reach(self, count: Floats | int) -> int:
        """How many groups, from the best on, have a member among the first ``count`` networks of some draw."""
        return max(1, int(np.count_nonzero((self.begins < count).any(axis=1))))


@dataclass(frozen=True, eq=False)
class Sample:
    """Scores and truth of the same networks in many draws."""

    scores: Order
    truth: Order
    accuracy: Floats
    weights: Floats

    @cached_property
    def by_score(self) -> Counted:
        """The networks by their scores."""
        return Counted(self.scores, self.weights)

    @cached_property
    def by_truth(self) -> Counted:
        """The networks by their accuracies."""
        return Counted(self.truth, self.weights)


def sample_of(scores: Floats, accuracy: Floats, weights: Floats | None = None) -> Sample:
    """Scores (higher is better, NaN last) and accuracies; one draw of everything where no weights are given."""
    ones = np.ones((len(accuracy), 1))
    return Sample(order_of(scores), order_of(accuracy), accuracy, ones if weights is None else weights)
