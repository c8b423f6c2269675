"""A sheet on the terminal, as Markdown, CSV or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from trainless.bench.sheet import Sheet, joined, without_repeats
from trainless.core.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

NARROWEST, FIRST = 9, 16  # characters that a column of words keeps, and the first one of them


def show(sheets: Sequence[Sheet], *, as_json: bool, as_markdown: bool, as_csv: bool) -> None:
    """Print sheets in the one form that was asked for; a table for people where none was."""
    if as_json + as_markdown + as_csv > 1:
        raise InputError("more than one of --json, --markdown and --csv was given; expected one of them")
    if as_json:
        texts = [sheet.json() for sheet in sheets]
        typer.echo(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    elif as_markdown:
        typer.echo(joined(sheets))
    elif as_csv:
        for sheet in sheets:
            typer.echo(sheet.csv(), nl=False)
    else:
        for sheet in without_repeats(sheets):
            _terminal(sheet)


def _terminal(sheet: Sheet) -> None:
    from rich.text import Text

    from trainless.cli.table import console

    terminal = console()
    sheet = fitting(sheet, terminal.width)
    terminal.print(_table(sheet, terminal.width))
    for note in sheet.notes:
        terminal.print(Text(note))


def fitting(sheet: Sheet, width: int) -> Sheet:
    """The whole sheet where it fits; else the columns that matter most, of numbers the last left out first.

    Example:
        >>> sheet = Sheet("", ("name", "one", "two"), (("a", 1.0, 2.0),), brief=("name", "one", "two"))
        >>> fitting(sheet, 80).columns, fitting(sheet, 20).columns
        (('name', 'one', 'two'), ('name', 'one'))
    """
    if not sheet.brief or _width(sheet) <= width:
        return sheet
    names = list(sheet.brief)
    while True:
        short = replace(sheet, brief=tuple(names)).shortened()
        spare = [name for place, name in enumerate(short.columns) if not _words(short, place)]
        if _width(short) <= width or len(spare) < 2:
            return short
        names.remove(spare[-1])


def _words(sheet: Sheet, place: int) -> bool:
    """Whether a column holds words, which may go on in the next line."""
    return not sheet.numeric(place) and any(row[place] is not None for row in sheet.rows)


def _longest(sheet: Sheet) -> list[int]:
    """The characters of the longest cell or of the name of each column."""
    columns = zip(sheet.columns, *sheet.cells(), strict=True)
    return [max(map(len, column)) for column in columns]


def _least(sheet: Sheet) -> list[int]:
    """The characters that each column cannot do without."""
    return [
        min(longest, NARROWEST if place else FIRST) if _words(sheet, place) else longest
        for place, longest in enumerate(_longest(sheet))
    ]


def _width(sheet: Sheet) -> int:
    """The characters that a table needs, its lines and gaps too."""
    return sum(_least(sheet)) + 3 * len(sheet.columns) + 1


def _widths(sheet: Sheet, width: int) -> list[int]:
    """The characters of each column: what is left over goes to the narrowest of those that lack some."""
    widths, longest = _least(sheet), _longest(sheet)
    for _ in range(width - _width(sheet)):
        lacking = [place for place, wanted in enumerate(longest) if widths[place] < wanted]
        if lacking:
            widths[min(lacking, key=widths.__getitem__)] += 1
    return widths


def _table(sheet: Sheet, width: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(sheet.title), title_justify="left", title_style="bold")
    for place, (name, characters) in enumerate(zip(sheet.columns, _widths(sheet, width), strict=True)):
        number = sheet.numeric(place)
        table.add_column(name, justify="right" if number else "left", no_wrap=number, overflow="fold", width=characters)
    for row in sheet.cells():
        table.add_row(*(Text(cell) for cell in row))
    return table
