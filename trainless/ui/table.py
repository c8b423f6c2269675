"""Candidates sorted, filtered, and as points of a plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from trainless.core.types import Indices
from trainless.runs.reader import OK, Candidates

Kept = Literal["all", "ok", "failed"]


class Within(NamedTuple):
    """Rows whose value in a column is within bounds; None is no bound."""

    column: str
    low: float | None
    high: float | None


class RowFilter(NamedTuple):
    """Rows in which all words occur, with or without failures, and whose values are within bounds."""

    words: str = ""
    kept: Kept = "all"
    limits: Sequence[Within] = ()


EVERY = RowFilter()


def chosen(table: Candidates, rows: RowFilter = EVERY) -> Indices:
    """The rows that a filter leaves: all words occur in them, and all values are within their limits.

    Example:
        >>> from trainless.runs.reader import Measured, table_of
        >>> table = table_of(["conv,skip", "skip"], [Measured("snip", True)], [[2.0], [5.0]], ["ok", "ok"])
        >>> chosen(table, RowFilter("SKIP", limits=[Within("snip", 3.0, None)]))
        array([1])
    """
    left = np.ones(len(table), bool)
    for word in rows.words.casefold().split():
        found = (word in text.casefold() for text in _texts(table))
        left &= np.fromiter(found, bool, len(table))
    if rows.kept != "all":
        left &= np.fromiter(((status == OK) == (rows.kept == "ok") for status in table.status), bool, len(table))
    for limit in rows.limits:
        values = table.column(limit.column)
        left &= ~np.isnan(values)
        left &= values >= (-math.inf if limit.low is None else limit.low)
        left &= values <= (math.inf if limit.high is None else limit.high)
    return np.flatnonzero(left)


def _texts(table: Candidates) -> list[str]:
    if not table.names:
        return list(table.archs)
    return [f"{name} {arch}" for name, arch in zip(table.names, table.archs, strict=True)]


def ordered(table: Candidates, places: Indices, by: str = "", *, descending: bool = False) -> Indices:
    """Rows by a column, those without a value last; without a column in the table's own order.

    Example:
        >>> from trainless.runs.reader import Measured, table_of
        >>> table = table_of(["a", "b", "c"], [Measured("x", True)], [[1.0], [math.nan], [3.0]], ["ok"] * 3)
        >>> ordered(table, np.arange(3), "x", descending=True)
        array([2, 0, 1])
    """
    if not by:
        return places[::-1] if descending else places
    if by in ("arch", "name", "status"):
        texts = {"arch": table.archs, "name": table.names or table.archs, "status": table.status}[by]
        return np.array(sorted(places.tolist(), key=lambda place: texts[place], reverse=descending), np.intp)
    values = table.column(by)[places]
    keys = -values if descending else values
    return places[np.lexsort((places, keys, np.isnan(values)))]


def points(table: Candidates, x: str, y: str, most: int) -> Indices:
    """The rows that are drawn: those with both values; where they are too many, the first and a fair sample.

    Example:
        >>> from trainless.runs.reader import Measured, table_of
        >>> table = table_of(["a", "b"], [Measured("x", True), Measured("y", True)], [[1, 2], [3, math.nan]], "ab")
        >>> points(table, "x", "y", 10)
        array([0])
    """
    there = np.flatnonzero(np.isfinite(table.column(x)) & np.isfinite(table.column(y)))
    if len(there) <= most:
        return there
    first = most // 10
    rest = np.random.default_rng(0).choice(there[first:], most - first, replace=False)
    return np.sort(np.concatenate([there[:first], rest]))


def best_so_far(values: Sequence[float], higher_is_better: bool, most: int = 400) -> list[tuple[int, float]]:
    """The best value so far: pairs of candidates and value at each improvement and at the end.

    Example:
        >>> best_so_far([2.0, math.nan, 1.0, 3.0, 0.0], True)
        [(1, 2.0), (4, 3.0), (5, 3.0)]
        >>> best_so_far([math.nan, math.nan, 1.0], True)
        [(3, 1.0)]
    """
    sign = 1.0 if higher_is_better else -1.0
    signed = np.where(np.isfinite(values), sign * np.asarray(values, np.float64), -np.inf)
    if not len(signed) or not np.isfinite(signed).any():
        return []
    best = np.maximum.accumulate(signed)
    steps = np.flatnonzero(best > np.concatenate([[-np.inf], best[:-1]]))
    if len(steps) > most:
        steps = steps[np.linspace(0, len(steps) - 1, most).astype(int)]
    steps = np.union1d(steps, [len(best) - 1])
    return [(int(place) + 1, float(sign * best[place])) for place in steps]
