"""Ranks of candidates that come one at a time: no search has to rank the world again at every step."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from trainless.core.errors import InputError
from trainless.core.types import Floats
from trainless.rankings.products import Part, RankAggregate
from trainless.rankings.ranking import clipped

Value: TypeAlias = float | tuple[float, float]
_BLOCK = 1024
GROWTH = 1.1


class Sorted:
    """Numbers or pairs in ascending order, in short blocks so that an insertion moves little."""

    def __init__(self) -> None:
        self._blocks: list[list[Value]] = []
        self._last: list[Value] = []
        self._sizes: list[int] = []

    def __len__(self) -> int:
        return sum(self._sizes)

    def add(self, value: Value) -> None:
        if not self._blocks:
            self._blocks, self._last, self._sizes = [[value]], [value], [1]
            return
        place = min(bisect_left(self._last, value), len(self._blocks) - 1)
        block = self._blocks[place]
        insort(block, value)
        self._last[place] = block[-1]
        self._sizes[place] += 1
        if len(block) > 2 * _BLOCK:
            self._split(place)

    def _split(self, place: int) -> None:
        block = self._blocks[place]
        left, right = block[:_BLOCK], block[_BLOCK:]
        self._blocks[place : place + 1] = [left, right]
        self._last[place : place + 1] = [left[-1], right[-1]]
        self._sizes[place : place + 1] = [len(left), len(right)]

    def below(self, value: Value) -> int:
        place = bisect_left(self._last, value)
        return self._before(place, bisect_left(self._blocks[place], value) if place < len(self._blocks) else 0)

    def upto(self, value: Value) -> int:
        place = bisect_right(self._last, value)
        return self._before(place, bisect_right(self._blocks[place], value) if place < len(self._blocks) else 0)

    def _before(self, place: int, within: int) -> int:
        return sum(self._sizes[:place]) + within

    @property
    def extremes(self) -> tuple[Value, Value] | None:
        """The lowest and the highest value; None where there is none."""
        return (self._blocks[0][0], self._last[-1]) if self._blocks else None


class _Column:
    """What has been seen of one part: values in order, infinities and failures apart."""

    def __init__(self, part: Part, higher_is_better: Mapping[str, bool]) -> None:
        names = (part,) if isinstance(part, str) else part.proxies
        if missing := [name for name in names if name not in higher_is_better]:
            raise InputError(f"the direction of {missing[0]!r} is not known: add it to higher_is_better")
        self._signs = {name: 1.0 if higher_is_better[name] else -1.0 for name in names}
        self._values = Sorted()
        self._lowest = self._highest = self._failed = 0
        self.history: list[Value] = []

    def read(self, values: Mapping[str, float]) -> Value:
        """A candidate's value, higher is better; NaN where a score failed."""
        found = tuple(sign * values[name] for name, sign in self._signs.items())
        if any(math.isnan(value) for value in found):
            return math.nan
        return found[0] if len(found) == 1 else (found[0], found[1])

    def add(self, value: Value) -> None:
        self.history.append(value)
        if value == math.inf:
            self._highest += 1
        elif value == -math.inf:
            self._lowest += 1
        elif _failed(value):
            self._failed += 1
        else:
            self._values.add(value)

    def place(self, value: Value) -> tuple[int, int]:
        """How many candidates seen are better, and how many are equal."""
        seen = len(self.history)
        if _failed(value):
            return seen - self._failed, self._failed
        extremes = self._values.extremes
        if extremes is None:
            return (0, self._highest) if value == math.inf else (self._highest, self._lowest)
        value = min(max(value, extremes[0]), extremes[1]) if isinstance(value, float) else value
        below = self._values.below(value) + (0 if value == extremes[0] else self._lowest)
        upto = self._values.upto(value) + self._lowest + (self._highest if value == extremes[1] else 0)
        return seen - self._failed - upto, upto - below

    def column(self) -> Floats:
        """Everything seen, as one number each."""
        if not any(isinstance(value, tuple) for value in self.history):
            return clipped(np.array(self.history, np.float64))
        pairs = np.array([value if isinstance(value, tuple) else (math.nan, math.nan) for value in self.history])
        known = ~np.isnan(pairs).any(axis=1)
        column = np.full(len(pairs), np.nan)
        column[known] = np.unique(pairs[known], axis=0, return_inverse=True)[1].reshape(-1)
        return column


def _failed(value: Value) -> bool:
    return isinstance(value, float) and math.isnan(value)


class Incremental:
    """A rank-based ranking of everything seen so far; it grows by one candidate at a time.

    Adding a candidate and placing one cost microseconds, however many have been seen. All candidates together are
    ranked anew by ``values``, at the cost of one sort per proxy. Which parts a ``Consensus`` hears is found again
    whenever a tenth more has been seen; ``values`` always finds it anew.

    Example:
        >>> from trainless.rankings import RankSum
        >>> seen = Incremental(RankSum(("flops",)), {"flops": True})
        >>> [seen.add({"flops": value}) for value in (3.0, 5.0, 4.0)]
        [0.0, 0.0, -1.0]
        >>> seen.values()
        array([-2.,  0., -1.])
    """

    def __init__(self, ranking: RankAggregate, higher_is_better: Mapping[str, bool]) -> None:
        self.ranking = ranking
        self._columns = [_Column(part, higher_is_better) for part in ranking.parts]
        self._fresh: Floats | None = None
        self._voices = np.full(len(self._columns), True)
        self._heard_at = 0

    def __len__(self) -> int:
        return len(self._columns[0].history)

    def add(self, values: Mapping[str, float]) -> float:
        """Take in a candidate by its scores; its value among all seen so far, itself included."""
        self._fresh = None
        for column in self._columns:
            column.add(column.read(values))
        if len(self) >= GROWTH * self._heard_at:
            self._voices = self.ranking.voices([column.column() for column in self._columns])
            self._heard_at = len(self)
        return self.value(len(self) - 1)

    def value(self, index: int) -> float:
        """The present value of the candidate that was added as number ``index``."""
        terms = [self.ranking.term(*column.place(column.history[index]), len(self)) for column in self._columns]
        failed = [_failed(column.history[index]) for column in self._columns]
        optional = self.ranking.optional
        if any(optional[failed]):
            others = [term for term, may_lack in zip(terms, optional, strict=True) if not may_lack]
            mean = sum(others) / len(others)
            terms = [mean if lost and free else term for term, lost, free in zip(terms, failed, optional, strict=True)]
        heard = [term for term, voice in zip(terms, self._voices, strict=True) if voice]
        return sum(heard) * len(self._columns) / len(heard)

    def values(self) -> Floats:
        """The present value of every candidate, in the order in which they were added."""
        if self._fresh is None:
            self._fresh = self.ranking.combine([column.column() for column in self._columns])
        return self._fresh
