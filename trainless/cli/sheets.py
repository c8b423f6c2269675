"""A sheet on the terminal, as Markdown, CSV or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from trainless.bench.sheet import Sheet, joined
from trainless.core.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

WIDE = 200


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
        for sheet in sheets:
            _terminal(sheet)


def _terminal(sheet: Sheet) -> None:
    from rich.text import Text

    from trainless.cli.table import console

    terminal = console()
    if terminal.width < WIDE and sheet.brief:
        sheet = sheet.shortened()
    terminal.print(_table(sheet))
    for note in sheet.notes:
        terminal.print(Text(note))


def _table(sheet: Sheet) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(sheet.title), title_justify="left", title_style="bold")
    for place, name in enumerate(sheet.columns):
        number = sheet.numeric(place)
        table.add_column(name, justify="right" if number else "left", no_wrap=number, overflow="fold")
    for row in sheet.cells():
        table.add_row(*(Text(cell) for cell in row))
    return table
