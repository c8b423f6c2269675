"""Scores as rows, and the rows as JSON, CSV or a table in the terminal."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trainless.core.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from trainless.core.scores import Scores
    from trainless.proxies.proxy import Proxy


@dataclass(frozen=True)
class Row:
    """One proxy's answer for one candidate over all seeds: the mean, and what is needed to judge it."""

    candidate: str
    proxy: str
    value: float
    spread: float
    higher_is_better: bool
    status: str
    ms: float
    fbe: float
    seeds: list[int]
    values: list[float]
    meaning: str


def summarise(scores: Scores, proxies: Sequence[Proxy]) -> list[Row]:
    """One row per candidate and proxy; a seed that failed gives the row its reason."""
    meanings = {proxy.name: proxy.summary for proxy in proxies}
    groups: dict[tuple[str, str], list[int]] = {}
    for index, record in enumerate(scores.records):
        groups.setdefault((record.candidate, record.proxy), []).append(index)
    rows = []
    for (candidate, proxy), places in groups.items():
        records = [scores.records[place] for place in places]
        values = [record.value for record in records]
        mean = _mean(values)
        rows.append(
            Row(
                candidate,
                proxy,
                mean,
                math.sqrt(_mean([(value - mean) ** 2 for value in values])),
                records[0].higher_is_better,
                next((record.status for record in records if record.failed), "ok"),
                _mean([record.ms for record in records]),
                _mean([record.fbe for record in records]),
                [record.seed for record in records],
                values,
                meanings[proxy],
            )
        )
    return rows


def show(rows: Sequence[Row], title: str, *, as_json: bool, as_csv: str) -> None:
    """Print the rows, and write them to a file where one is named."""
    if as_csv:
        to_csv(rows, as_csv)
    if as_json:
        to_json(rows)
    elif as_csv != "-":
        to_terminal(rows, title)


def to_json(rows: Sequence[Row]) -> None:
    """Print the rows as a JSON list; NaN is null."""
    typer.echo(json.dumps([plain(asdict(row)) for row in rows], indent=2, allow_nan=False))


def to_csv(rows: Sequence[Row], path: str) -> None:
    """Write the rows to a file, or print them where the path is ``-``; NaN is empty."""
    columns = [name for name in Row.__dataclass_fields__ if name not in ("seeds", "values")]
    text = io.StringIO()
    writer = csv.DictWriter(text, [*columns, "seeds"], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        values = plain(asdict(row))
        writer.writerow({**{name: values[name] for name in columns}, "seeds": " ".join(map(str, row.seeds))})
    write_text(text.getvalue(), path)


def write_text(text: str, path: str) -> None:
    """Write a text to the file of ``--csv``, or print it where the path is ``-``."""
    if path == "-":
        typer.echo(text, nl=False)
        return
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise InputError(f"--csv {path} cannot be written ({error.strerror}): give another file") from error


def to_terminal(rows: Sequence[Row], title: str) -> None:
    """Print one table per candidate."""
    from rich.table import Table
    from rich.text import Text

    terminal = console()
    for candidate in dict.fromkeys(row.candidate for row in rows):
        table = Table(title=Text(f"{candidate}\n{title}"), title_justify="left", title_style="bold")
        for name in ("proxy", "value", "spread", "better", "ms", "FBE"):
            table.add_column(name, justify="left" if name in ("proxy", "better") else "right", no_wrap=True)
        table.add_column("meaning, or why there is no score", overflow="fold")
        for row in rows:
            if row.candidate == candidate:
                table.add_row(*_cells(row))
        terminal.print(table)


def console() -> Console:
    """The terminal; where the output is a pipe, wide enough for a table."""
    from rich.console import Console

    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=120)


def number(value: float, digits: int = 6) -> str:
    """A number for people; a dash where there is none.

    Example:
        >>> number(1234.5678), number(math.nan)
        ('1234.57', '–')
    """
    return "–" if math.isnan(value) else f"{value:.{digits}g}"


def _cells(row: Row) -> list[str]:
    return [
        row.proxy,
        number(row.value),
        number(row.spread, 3) if len(row.seeds) > 1 else "",
        "higher" if row.higher_is_better else "lower",
        "–" if math.isnan(row.ms) else f"{row.ms:.1f}",
        "–" if math.isnan(row.fbe) else f"{row.fbe:.2f}",
        row.meaning if row.status == "ok" else row.status,
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def plain(row: Mapping[str, object]) -> dict[str, object]:
    """A row for JSON: what is not finite is None.

    Example:
        >>> plain({"value": math.nan, "values": [1.0, math.inf]})
        {'value': None, 'values': [1.0, None]}
    """
    return {
        name: [_null(each) for each in value] if isinstance(value, list) else _null(value)
        for name, value in row.items()
    }


def _null(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
