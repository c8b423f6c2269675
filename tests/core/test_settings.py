from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from trainless.cli.options import OwnDefaults, with_settings
from trainless.core.errors import InputError
from trainless.core.settings import changed, options_of, parse_settings, setting, settings_from


def split(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


@dataclass(frozen=True)
class Some:
    seed: int = setting(0, "The seed of everything.", least=0)
    time: str | None = setting(None, "Wall time, such as 90s.", metavar="TIME")
    names: tuple[str, ...] = setting((), "Names with commas between them.", kind=str, read=split)
    by_class: bool = setting(False, "Whether by class.")
    callback: object = None


def made() -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None)

    @app.command()
    @with_settings
    def go(data: Annotated[str, typer.Argument(help="The data.")], settings: Some, loud: bool = False) -> None:
        """Go."""
        typer.echo(f"{data} {settings} {loud}")

    return app


def test_every_field_with_a_help_text_is_an_option_and_others_are_not() -> None:
    assert [option.flag for option in options_of(Some)] == ["--seed", "--time", "--names", "--by-class"]


def test_a_command_gets_its_settings() -> None:
    given = ["x", "--seed", "3", "--names", "a,b", "--by-class", "--loud"]
    result = CliRunner().invoke(made(), given)
    assert result.exit_code == 0, result.output
    expected = Some(seed=3, names=("a", "b"), by_class=True)
    assert result.output.strip() == f"x {expected} True"


def test_nothing_given_is_the_default() -> None:
    assert CliRunner().invoke(made(), ["x"]).output.strip() == f"x {Some()} False"


def test_the_help_has_the_fields_own_words() -> None:
    shown = " ".join(CliRunner().invoke(made(), ["--help"]).output.split())
    assert "The seed of everything." in shown
    assert "Wall time, such as 90s." in shown
    assert "TIME" in shown


def test_a_number_below_the_least_is_refused() -> None:
    with pytest.raises(InputError, match=r"--seed -1 was given; expected at least 0"):
        settings_from(Some, {"seed": -1})
    result = CliRunner().invoke(made(), ["x", "--seed", "-1"])
    assert str(result.exception) == "--seed -1 was given; expected at least 0"


def test_a_command_may_have_several_settings_and_defaults_of_its_own() -> None:
    @dataclass(frozen=True)
    class Place:
        out: str = setting("here", "The folder.", shown="somewhere")

    app = typer.Typer(rich_markup_mode=None)

    def go(place: Place, settings: Annotated[Some, OwnDefaults(seed=7)]) -> None:
        typer.echo(f"{place} {settings}")

    go.__annotations__ = {"place": Place, "settings": Annotated[Some, OwnDefaults(seed=7)], "return": None}
    app.command()(with_settings(go))
    assert CliRunner().invoke(app, []).output.strip() == f"{Place()} {Some(seed=7)}"
    assert CliRunner().invoke(app, ["--seed", "0", "--out", "x"]).output.strip() == f"{Place('x')} {Some()}"
    shown = " ".join(CliRunner().invoke(app, ["--help"]).output.split())
    assert "The seed of everything. [default: 7]" in shown
    assert "The folder. [default: somewhere]" in shown


def test_the_standard_library_reads_the_same_options() -> None:
    found = parse_settings(Some, "python -m some", "Some.", ["--seed", "2", "--names", "a", "--by-class"])
    assert found == Some(seed=2, names=("a",), by_class=True)


def test_changed_leaves_what_is_none() -> None:
    assert changed(Some(seed=1), seed=None, time="5m") == Some(seed=1, time="5m")
