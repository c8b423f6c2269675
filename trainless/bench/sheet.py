"""A table for people and programs: the same rows in a terminal, as Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = str | float | int | None


@dataclass(frozen=True)
class Sheet:
    """Named columns, rows, and what a reader has to know about them.

    Args:
        title: What this is.
        columns: Their names.
        rows: The values.
        notes: What a reader has to know.
        brief: The columns that matter most; none where all fit everywhere.

    Example:
        >>> sheet = Sheet("Two", ("name", "value"), (("a", 0.123456), ("b", None)), ("one is missing",))
        >>> print(sheet.markdown())
        **Two**
        <BLANKLINE>
        | name | value |
        | --- | ---: |
        | a | 0.123 |
        | b | – |
        <BLANKLINE>
        one is missing
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    notes: tuple[str, ...] = ()
    brief: tuple[str, ...] = ()

    def shortened(self) -> Sheet:
        """Only the columns that matter most, for a narrow terminal; a note names the others."""
        kept = [place for place, name in enumerate(self.columns) if name in self.brief]
        left = [name for name in self.columns if name not in self.brief]
        rows = tuple(tuple(row[place] for place in kept) for row in self.rows)
        note = f"Not shown here: {', '.join(left)}; --markdown, --csv and --json have them."
        return Sheet(self.title, tuple(self.columns[place] for place in kept), rows, (*self.notes, note))

    def cells(self) -> list[list[str]]:
        """The rows as text for people."""
        return [[shown(value) for value in row] for row in self.rows]

    def numeric(self, place: int) -> bool:
        """Whether a column holds numbers."""
        return any(isinstance(row[place], (int, float)) for row in self.rows)

    def markdown(self) -> str:
        """For a document."""
        rule = ["---:" if self.numeric(place) else "---" for place in range(len(self.columns))]
        lines = [self.columns, rule, *([cell.replace("|", "\\|") for cell in row] for row in self.cells())]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n\n".join([f"**{self.title}**", table, *self.notes])

    def csv(self) -> str:
        """For a spreadsheet; notes are left out, and what is not there is empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(["" if _missing(value) else value for value in row] for row in self.rows)
        return text.getvalue()

    def json(self) -> str:
        """For a program; what is not there is null."""
        rows = [
            {name: None if _missing(value) else value for name, value in zip(self.columns, row, strict=True)}
            for row in self.rows
        ]
        return json.dumps({"title": self.title, "rows": rows, "notes": list(self.notes)}, indent=2, allow_nan=False)


def _missing(value: Value) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def shown(value: Value) -> str:
    """A value for people.

    Example:
        >>> shown(0.8756), shown(93.8612), shown(15625), shown(float("nan"))
        ('0.876', '93.86', '15625', '–')
    """
    if value is None or _missing(value):
        return "–"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.2f}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def joined(sheets: Sequence[Sheet]) -> str:
    """Several sheets as one Markdown document."""
    return "\n\n".join(sheet.markdown() for sheet in sheets)
