"""Signals, which a searcher is told: one value, several columns, or a rank among everything seen.

A signal takes candidates one after the other, each once, in the order in which they are told. So what is told does not
depend on the size of batches, on the number of workers or on interruptions.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

import numpy as np

from trainless.core.errors import InputError
from trainless.core.scores import Record, Scores
from trainless.core.types import Floats
from trainless.rankings import Incremental, RankAggregate, Ranking, RankSum

Values = Mapping[str, float]


class Signal(Protocol):
    """From measured values to told columns, all of them higher is better."""

    def tell(self, key: Hashable, values: Values) -> dict[str, float]:
        """The columns to tell of a candidate; a key that was seen before is not taken in again."""

    def standing(self, scores: Scores) -> Floats:
        """One number per candidate of a whole table, higher is better: the final order."""

    def best(self) -> tuple[Hashable, float]:
        """The best seen so far and its present value."""


class Pointwise:
    """A value of a candidate alone: a proxy with its sign, or a ranking that looks at one candidate at a time."""

    def __init__(self, what: str | Ranking, higher_is_better: Mapping[str, bool], name: str = "") -> None:
        self._what, self._directions = what, dict(higher_is_better)
        self._name = what if isinstance(what, str) else name or "ranking"
        self._best: tuple[Hashable, float] = (None, math.nan)

    def tell(self, key: Hashable, values: Values) -> dict[str, float]:
        """The value; −∞ of a ranking becomes NaN, because that is what a missing value is to a searcher."""
        value = float(self.standing(_table([values], self._directions))[0])
        value = value if math.isfinite(value) else math.nan
        if math.isnan(self._best[1]) or value > self._best[1]:
            self._best = (key, value)
        return {self._name: value}

    def standing(self, scores: Scores) -> Floats:
        if isinstance(self._what, str):
            column = scores.column(self._what)
            return column if self._directions[self._what] else -column
        return self._what(scores)

    def best(self) -> tuple[Hashable, float]:
        return self._best


class Relative:
    """A rank among everything seen so far, as it is when a candidate arrives.

    What is told has to compare early candidates with late ones, so a rank becomes the share of the space that it makes
    one expect: of n seen, the one with b better ones is expected to have (b + 1)/(n + 1) of all above it. A sum of
    ranks is told as −Σ_p (b_p + 1)/(n + 1), a product as Σ_p log(rank_p/(n + 1)); so the first candidate is average,
    not the best there can be. The order at any moment is the ranking's own, and so is the final one.
    """

    def __init__(self, ranking: RankAggregate, higher_is_better: Mapping[str, bool], name: str = "") -> None:
        self._ranking = ranking
        self._seen = Incremental(self._ranking, higher_is_better)
        self._places: dict[Hashable, int] = {}
        self._name = name or "ranking"

    def tell(self, key: Hashable, values: Values) -> dict[str, float]:
        if key not in self._places:
            self._places[key] = len(self._places)
            value = self._seen.add(values)
        else:
            value = self._seen.value(self._places[key])
        return {self._name: self._ranking.expected(value, len(self._seen))}

    def standing(self, scores: Scores) -> Floats:
        return self._ranking(scores)

    def best(self) -> tuple[Hashable, float]:
        if not self._places:
            return None, math.nan
        values = self._seen.values()
        place = int(np.argmax(values))
        return list(self._places)[place], float(values[place])


class Whole:
    """Any other ranking, computed anew on everything seen for every candidate."""

    def __init__(self, ranking: Ranking, higher_is_better: Mapping[str, bool], name: str = "") -> None:
        self._ranking, self._directions, self._name = ranking, dict(higher_is_better), name or "ranking"
        self._seen: dict[Hashable, Values] = {}

    def tell(self, key: Hashable, values: Values) -> dict[str, float]:
        self._seen.setdefault(key, dict(values))
        return {self._name: float(self._now()[list(self._seen).index(key)])}

    def standing(self, scores: Scores) -> Floats:
        return self._ranking(scores)

    def best(self) -> tuple[Hashable, float]:
        if not self._seen:
            return None, math.nan
        values = self._now()
        place = int(np.argmax(np.where(np.isnan(values), -np.inf, values)))
        return list(self._seen)[place], float(values[place])

    def _now(self) -> Floats:
        return self._ranking(_table(list(self._seen.values()), self._directions))


class SeveralColumns:
    """Several values at once, each turned so that higher is better; by default the sum of their ranks is the order."""

    def __init__(self, higher_is_better: Mapping[str, bool], order: Signal | None = None) -> None:
        self._directions = dict(higher_is_better)
        self._order = order or Relative(RankSum(tuple(self._directions)), self._directions)

    def tell(self, key: Hashable, values: Values) -> dict[str, float]:
        self._order.tell(key, values)
        return {name: values[name] if up else -values[name] for name, up in self._directions.items()}

    def standing(self, scores: Scores) -> Floats:
        return self._order.standing(scores)

    def best(self) -> tuple[Hashable, float]:
        return self._order.best()


def signal_for(
    ranking: Ranking | None, higher_is_better: Mapping[str, bool], *, columns: bool = False, name: str = ""
) -> Signal:
    """The signal of a ranking, or of the measured values where that is None.

    With ``columns`` the ranking's proxies are told instead of the ranking, to a searcher that ranks by itself.

    Example:
        >>> type(signal_for(None, {"snip": True})).__name__
        'Pointwise'
    """
    if ranking is None:
        if len(higher_is_better) == 1:
            return Pointwise(next(iter(higher_is_better)), higher_is_better)
        return SeveralColumns(higher_is_better)
    missing = [proxy for proxy in ranking.proxies if proxy not in higher_is_better]
    if missing:
        raise InputError(
            f"the ranking needs {missing[0]!r}, which is not measured: measure {', '.join(ranking.proxies)}"
        )
    signal: Signal
    if ranking.pointwise:
        signal = Pointwise(ranking, higher_is_better, name)
    elif (aggregate := ranking.by_ranks()) is not None:
        signal = Relative(aggregate, higher_is_better, name)
    else:
        signal = Whole(ranking, higher_is_better, name)
    return SeveralColumns(ranking.directions(higher_is_better), signal) if columns else signal


def scores_of(rows: Mapping[str, Values], up: Mapping[str, bool]) -> Scores:
    """A table of scores from values by candidate, and the direction of each column."""
    cells = [(name, proxy, value) for name, values in rows.items() for proxy, value in values.items() if proxy in up]
    return Scores([Record(name, proxy, value, up[proxy], "ok") for name, proxy, value in cells])


def _table(rows: Sequence[Values], higher_is_better: Mapping[str, bool]) -> Scores:
    return scores_of({str(place): values for place, values in enumerate(rows)}, higher_is_better)
