"""Candidates as a table: columns with a direction, sorted, filtered, page by page, and as points of a plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from trainless.core.errors import InputError
from trainless.core.text import printable
from trainless.core.types import Floats, Indices

Kept = Literal["all", "ok", "failed"]
OK = "ok"


class Column(NamedTuple):
    """A column of numbers; ``higher_is_better`` is None where neither is."""

    name: str
    higher_is_better: bool | None


class Limit(NamedTuple):
    """Rows whose value in a column is within bounds; None is no bound."""

    column: str
    low: float | None
    high: float | None


@dataclass(frozen=True, eq=False)
class Table:
    """Candidates, in their order where they have one.

    Args:
        names: What each is called, or nothing where the architecture is its name.
        archs: In the space's notation.
        columns: What was measured.
        values: ``(candidates, columns)``; NaN where there is none.
        status: ``ok``, or why a value is missing.
        ranked: Whether the order means something.
    """

    names: tuple[str, ...]
    archs: tuple[str, ...]
    columns: tuple[Column, ...]
    values: Floats
    status: tuple[str, ...]
    ranked: bool = False

    def __len__(self) -> int:
        return len(self.archs)

    def column(self, name: str) -> Floats:
        """The values of a column.

        Raises:
            InputError: There is no such column.
        """
        for place, column in enumerate(self.columns):
            if column.name == name:
                return self.values[:, place]
        known = ", ".join(column.name for column in self.columns) or "none"
        raise InputError(f"the column {name!r} was asked for; expected one of {known}")


NOTHING = Table((), (), (), np.zeros((0, 0)), ())


def table_of(
    archs: Sequence[str],
    columns: Sequence[Column],
    rows: Sequence[Sequence[float]],
    status: Sequence[str],
    *,
    names: Sequence[str] = (),
    ranked: bool = False,
) -> Table:
    """A table from rows; texts are made printable, so that whoever asks for one by what was shown finds it.

    Example:
        >>> table_of(["a"], [Column("snip", True)], [[2.0]], ["ok"]).column("snip")
        array([2.])
    """
    values = np.array(rows, np.float64).reshape(len(archs), len(columns))
    named = tuple(Column(printable(column.name), column.higher_is_better) for column in columns)
    shown, texts, said = (tuple(map(printable, each)) for each in (names, archs, status))
    return Table(shown, texts, named, values, said, ranked)


def chosen(table: Table, words: str = "", kept: Kept = "all", limits: Sequence[Limit] = ()) -> Indices:
    """The rows that a filter leaves: all words occur in them, and all values are within their limits.

    Example:
        >>> table = table_of(["conv,skip", "skip"], [Column("snip", True)], [[2.0], [5.0]], ["ok", "ok"])
        >>> chosen(table, "SKIP", limits=[Limit("snip", 3.0, None)])
        array([1])
    """
    left = np.ones(len(table), bool)
    for word in words.casefold().split():
        found = (word in text.casefold() for text in _texts(table))
        left &= np.fromiter(found, bool, len(table))
    if kept != "all":
        left &= np.fromiter(((status == OK) == (kept == "ok") for status in table.status), bool, len(table))
    for limit in limits:
        values = table.column(limit.column)
        left &= ~np.isnan(values)
        left &= values >= (-math.inf if limit.low is None else limit.low)
        left &= values <= (math.inf if limit.high is None else limit.high)
    return np.flatnonzero(left)


def _texts(table: Table) -> list[str]:
    if not table.names:
        return list(table.archs)
    return [f"{name} {arch}" for name, arch in zip(table.names, table.archs, strict=True)]


def ordered(table: Table, places: Indices, by: str = "", *, descending: bool = False) -> Indices:
    """Rows by a column, those without a value last; without a column in the table's own order.

    Example:
        >>> table = table_of(["a", "b", "c"], [Column("x", True)], [[1.0], [math.nan], [3.0]], ["ok"] * 3)
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


def points(table: Table, x: str, y: str, most: int) -> Indices:
    """The rows that are drawn: those with both values; where they are too many, the first and a fair sample.

    Example:
        >>> table = table_of(["a", "b"], [Column("x", True), Column("y", True)], [[1, 2], [3, math.nan]], ["ok"] * 2)
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
    """How the best value improved: after how many candidates it was what, at each improvement and at the end.

    Example:
        >>> best_so_far([2.0, math.nan, 1.0, 3.0, 0.0], True)
        [(1, 2.0), (4, 3.0), (5, 3.0)]
    """
    sign = 1.0 if higher_is_better else -1.0
    signed = np.where(np.isfinite(values), sign * np.asarray(values, np.float64), -np.inf)
    if not len(signed) or not np.isfinite(signed).any():
        return []
    best = np.maximum.accumulate(signed)
    steps = np.flatnonzero(np.diff(best, prepend=-np.inf) > 0)
    if len(steps) > most:
        steps = steps[np.linspace(0, len(steps) - 1, most).astype(int)]
    steps = np.union1d(steps, [len(best) - 1])
    return [(int(place) + 1, float(sign * best[place])) for place in steps]
