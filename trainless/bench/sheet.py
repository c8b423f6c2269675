"""A table for people and programs: the same rows in a terminal, as Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

NOTHING = "–"  # in place of a value that is not there


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval, NaN where it has none.

    ``std`` is the deviation of what the estimate is the mean of, ``seed_std`` that of the estimate over seeds.

    Example:
        >>> Interval(0.9061, 0.9012, 0.9099).shown(), Interval(93.52, 93.4, 93.6, std=0.31).shown()
        ('0.906 [0.901, 0.910]', '93.52 ± 0.310 [93.40, 93.60]')
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    std: float | None = None
    seed_std: float | None = None

    def shown(self) -> str:
        """For people."""
        spread = "" if self.std is None or _missing(self.value) else f" ± {shown(self.std)}"
        around = "" if _missing(self.low) else f" [{shown(self.low)}, {shown(self.high)}]"
        return f"{shown(self.value)}{spread}{around}"

    def parts(self, name: str) -> dict[str, float]:
        """Plain numbers by their names."""
        found = {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}
        more = {f"{name}_std": self.std, f"{name}_seed_std": self.seed_std}
        return found | {key: value for key, value in more.items() if value is not None}


@dataclass(frozen=True)
class Share:
    """How many of how many; nearly all is never shown as all.

    Example:
        >>> Share(9444, 9445).shown(), Share(9444, 9445).parts("coverage")["coverage_count"]
        ('9,444 of 9,445', 9444)
    """

    count: int
    of: int

    @property
    def value(self) -> float:
        """Between 0 and 1."""
        return self.count / self.of if self.of else math.nan

    def shown(self) -> str:
        """For people."""
        return f"{self.count:,} of {self.of:,}"

    def parts(self, name: str) -> dict[str, float]:
        """Plain numbers by their names."""
        return {name: self.value, f"{name}_count": self.count, f"{name}_of": self.of}


Value: TypeAlias = str | float | int | Interval | Share | None


@dataclass(frozen=True)
class Sheet:
    """Named columns, rows, and notes that a reader has to know; ``brief`` are the columns that matter most, if any.

    Example:
        >>> Sheet("Two", ("name", "value"), (("a", 0.123456), ("b", None))).markdown().splitlines()[2:]
        ['| name | value |', '| --- | ---: |', '| a | 0.123 |', '| b | – |']
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    notes: tuple[str, ...] = ()
    brief: tuple[str, ...] = ()

    def shortened(self) -> Sheet:
        """Only the columns that matter most, without intervals, for a narrow terminal; a note names the others.

        What has no value in any row is left out without a word.
        """
        there = [any(shown(row[place]) != NOTHING for row in self.rows) for place in range(len(self.columns))]
        kept = [place for place, name in enumerate(self.columns) if name in self.brief and there[place]]
        left = [name for place, name in enumerate(self.columns) if name not in self.brief and there[place]]
        cells = ((row[place] for place in kept) for row in self.rows)
        rows = tuple(tuple(each.value if isinstance(each, Interval) else each for each in row) for row in cells)
        bare = any(isinstance(value, Interval) for row in self.rows for value in row)
        more = [*left, *(["the intervals"] if bare else [])]
        forms = f"{'--all, ' if bare else ''}--markdown, --csv and --json"
        note = f"Not shown here: {', '.join(more)}; {forms} have them."
        return Sheet(self.title, tuple(self.columns[place] for place in kept), rows, (*self.notes, note))

    def unfolded(self) -> Sheet:
        """One line for each estimate of each row, with its interval and deviations."""
        every = range(len(self.columns))
        wide = [place for place in every if any(isinstance(row[place], Interval) for row in self.rows)]
        heads = [place for place in every if place not in wide]
        lines: list[tuple[Value, ...]] = []
        for row in self.rows:
            for nth, place in enumerate(wide):
                head: list[Value] = ["" if nth else row[at] for at in heads]
                lines.append((*head, self.columns[place], *_estimate(row[place])))
        names = (*(self.columns[at] for at in heads), "statistic", "value", "low", "high", "± std", "± over seeds")
        kept = [at for at in range(len(names)) if at < len(names) - 2 or any(line[at] != "" for line in lines)]
        rows = tuple(tuple(line[at] for at in kept) for line in lines)
        brief = (*(self.columns[at] for at in heads[:2]), *names[len(heads) :])
        return Sheet(self.title, tuple(names[at] for at in kept), rows, self.notes, brief)

    def cells(self) -> list[list[str]]:
        """The rows as text for people."""
        return [[shown(value) for value in row] for row in self.rows]

    def numeric(self, place: int) -> bool:
        """Whether a column holds numbers."""
        return any(isinstance(row[place], (int, float, Interval, Share)) for row in self.rows)

    def markdown(self) -> str:
        """For a document."""
        rule = ["---:" if self.numeric(place) else "---" for place in range(len(self.columns))]
        lines = [self.columns, rule, *([cell.replace("|", "\\|") for cell in row] for row in self.cells())]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n\n".join([f"**{self.title}**", table, *self.notes])

    def csv(self) -> str:
        """For a spreadsheet; notes are left out, and what is not there is empty."""
        text = io.StringIO()
        rows = self._flat()
        names = dict.fromkeys(name for row in rows for name in row) if rows else self.columns
        writer = csv.DictWriter(text, list(names), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: "" if value is None else value for name, value in row.items()} for row in rows)
        return text.getvalue()

    def json(self) -> str:
        """For a program; what is not there is null."""
        found = {"title": self.title, "rows": self._flat(), "notes": list(self.notes)}
        return json.dumps(found, indent=2, allow_nan=False)

    def _flat(self) -> list[dict[str, str | float | int | None]]:
        """Rows of plain values by name."""
        rows = []
        for row in self.rows:
            found: dict[str, str | float | int | None] = {}
            for name, value in zip(self.columns, row, strict=True):
                found |= value.parts(name) if isinstance(value, (Interval, Share)) else {name: value}
            rows.append({name: None if _missing(value) else value for name, value in found.items()})
        return rows


def _estimate(value: Value) -> tuple[Value, ...]:
    if isinstance(value, Interval):
        deviations = ("" if each is None else each for each in (value.std, value.seed_std))
        return value.value, value.low, value.high, *deviations
    return value, None, None, "", ""


def _missing(value: Value) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def shown(value: Value) -> str:
    """A value for people.

    Example:
        >>> shown(0.8756), shown(93.8612), shown(15625), shown(float("nan"))
        ('0.876', '93.86', '15625', '–')
    """
    if value is None or _missing(value):
        return NOTHING
    if isinstance(value, (Interval, Share)):
        return value.shown()
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.2f}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def joined(sheets: Sequence[Sheet]) -> str:
    """Several sheets as one Markdown document."""
    return "\n\n".join(sheet.markdown() for sheet in without_repeats(sheets))


def without_repeats(sheets: Sequence[Sheet]) -> list[Sheet]:
    """The sheets, each note with the first one that has it.

    Example:
        >>> [sheet.notes for sheet in without_repeats([Sheet("", (), (), ("a",)), Sheet("", (), (), ("a", "b"))])]
        [('a',), ('b',)]
    """
    told: set[str] = set()
    found = []
    for sheet in sheets:
        found.append(replace(sheet, notes=tuple(note for note in sheet.notes if note not in told)))
        told |= set(sheet.notes)
    return found
