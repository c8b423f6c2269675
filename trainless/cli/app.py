"""The verbs together, and what happens to errors and interruptions."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from trainless.cli.bench import bench
from trainless.cli.demo import demo
from trainless.cli.design import design
from trainless.cli.export_study import export_study
from trainless.cli.listing import listing
from trainless.cli.predict import export, predict
from trainless.cli.score import score
from trainless.cli.search import search
from trainless.cli.show import show
from trainless.core.errors import TrainlessError

app = typer.Typer(
    name="trainless",
    help="Design neural networks without training them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("score")(score)
app.command("list")(listing)
app.command("demo")(demo)
app.command("search")(search)
app.command("design")(design)
app.command("predict")(predict)
app.command("export")(export)
app.command("export-study")(export_study)
app.command("show")(show)
app.add_typer(bench, name="bench")


def _version(asked: bool) -> None:
    if asked:
        from trainless import __version__

        typer.echo(f"trainless {__version__}")
        raise typer.Exit


@app.callback()
def _everywhere(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Design neural networks without training them."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line and leave with 0, with 2 after one line about bad input, or with 130 when interrupted."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run a command line; returns the exit code."""
    try:
        code = typer.main.get_command(app)(list(arguments), prog_name="trainless", standalone_mode=False)
    except TrainlessError as error:
        return _fail(str(error), 2)
    except typer.TyperException as error:
        return _fail(_usage(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    if code == 130:
        return _fail("interrupted: what was scored is kept; the same command goes on from there", 130)
    return int(code or 0)


def _usage(error: typer.TyperException) -> str:
    message = error.format_message() if isinstance(error, typer.BadParameter.__mro__[2]) else str(error)
    return f"{message} (trainless --help)"


def _fail(message: str, code: int) -> int:
    typer.echo(f"trainless: {' '.join(message.split())}", err=True)
    return code
