"""What commands say in lines; tables, drawings and bars are of :mod:`trainless.core.terminal`."""

from __future__ import annotations

import shutil
import sys
import textwrap

import typer

from trainless.core.text import printable


def say(*lines: str, err: bool = False) -> None:
    """Print lines, of which each stays one whatever names are in it."""
    for line in lines:
        typer.echo(printable(line), err=err)


def tell(*lines: str, hang: int = 2, **style: object) -> None:
    """Print prose: on a terminal a long line goes on in the next one at a word, indented by so much more."""
    wide = width_of_terminal()
    for line in lines:
        text = printable(line)
        typer.secho(text if wide is None else folded(text, wide, hang), **style)  # type: ignore[arg-type]


def width_of_terminal() -> int | None:
    """The characters of a line of the terminal; None where the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def folded(line: str, wide: int, hang: int = 2) -> str:
    """A line in lines of so many characters, which end at words.

    Example:
        >>> print(folded("  drift: no input looks unlike the others", 24))
          drift: no input looks
            unlike the others
    """
    if len(line) <= wide:
        return line
    begin = " " * (len(line) - len(line.lstrip()))
    rest = f"{begin}{' ' * hang}"
    return textwrap.fill(
        line.strip(), wide, initial_indent=begin, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )
