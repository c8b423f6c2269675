"""What comes from data is drawn as it is read, and moves nothing."""

from __future__ import annotations

import pytest
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from trainless.core.progress import Bars
from trainless.core.terminal import console

ODD = "a\x1b]0;owned\x07\x1b[2J\u202eb"
PLAIN = "a�]0;owned�[2J�b"  # rich itself leaves out the bell


def odd_signs(text: str) -> set[str]:
    return {"\x1b", "\x07", "\u202e"} & set(text)


def test_tables_and_bars_have_no_control_signs(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(title=Text(ODD))
    table.add_column(Text(ODD), min_width=20)
    table.add_row(Text(ODD))
    console().print(table, ODD)
    shown = capsys.readouterr().out
    assert shown.count(PLAIN) == 4
    assert not odd_signs(shown)
    with Bars(patience=0.0) as bars:
        bars.show(ODD, 1, 2, ODD)
        bars.say(ODD)
    shown = capsys.readouterr().err
    assert shown.count(PLAIN[:10]) == 3  # one is shortened
    assert not odd_signs(shown)


def test_what_is_ours_to_draw_is_drawn_as_ever(capsys: pytest.CaptureFixture[str]) -> None:
    """Colours, moves of the cursor and lines are those of rich itself, where no data has them."""
    shown = []
    for place in (console(), Console(highlight=False, width=120)):
        place._force_terminal = True
        place._color_system = Console(force_terminal=True, color_system="standard")._color_system
        table = Table("name", title="one\n\ntwo")
        table.add_row("[red]tom[/red]\nand eve")
        with Live(table, console=place, auto_refresh=False) as live:
            live.update(table, refresh=True)
        place.print("a", Text("b\n\nc", style="bold"), "\n\nd", sep="\n")
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert "\x1b[31mtom" in shown[0]
