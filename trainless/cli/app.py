"""The commands together, and what happens to errors and interruptions."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

import typer
import typer.core

from trainless.cli.bench import bench
from trainless.cli.demo import demo
from trainless.cli.design import design
from trainless.cli.listing import listing
from trainless.cli.look import look
from trainless.cli.predict import export, predict
from trainless.cli.score import score
from trainless.cli.search import export_study, import_study, search
from trainless.cli.serve import serve
from trainless.cli.show import show
from trainless.cli.store import store
from trainless.cli.watch import report, ui, watch
from trainless.core.errors import InputError, TrainlessError
from trainless.core.processes import exit_refused
from trainless.core.text import printable


class Verb(typer.core.TyperCommand):
    """A verb that refuses an option given as empty text, which would count as left out."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        """Check what was given, then run."""
        for parameter in self.params:
            name = parameter.name or ""
            given = ctx.get_parameter_source(name)
            empty = ctx.params.get(name) == "" and not name.endswith("_args")  # no arguments are arguments too
            if empty and given is not None and given.name == "COMMANDLINE":
                raise InputError(f"{parameter.opts[-1]} '' was given; expected a value: give one or leave it out")
        return super().invoke(ctx)


app = typer.Typer(
    name="trainless",
    help="Design neural networks without training them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command, _short in (
    ("look", look, "Say what was understood of data."),
    ("design", design, "From data to an ensemble with uncertainty."),
    ("predict", predict, "Predict new cases with a design's ensemble."),
    ("serve", serve, "Answer files on a page and for programs."),
    ("export", export, "Write an ensemble as one ONNX file."),
    ("report", report, "Make the report of a run again."),
    ("ui", ui, "Show runs as a local web page."),
    ("watch", watch, "Show a live run in the terminal."),
    ("score", score, "Score networks at initialisation."),
    ("search", search, "Search a space by a proxy or a ranking."),
    ("show", show, "Draw an architecture and count its costs."),
    ("list", listing, "List proxies, spaces, searchers and all else by name."),
    ("demo", demo, "Rank some architectures and draw the best."),
    ("export-study", export_study, "Make an Optuna study of a run."),
    ("import-study", import_study, "Make a run of an Optuna study."),
):
    app.command(_name, cls=Verb, short_help=_short)(_command)
app.add_typer(bench, name="bench")
app.add_typer(store, name="store")


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
        with exit_refused():
            code = typer.main.get_command(app)(list(arguments), prog_name="trainless", standalone_mode=False)
    except TrainlessError as error:
        return _fail(_as_options(str(error), arguments), 2)
    except typer.TyperException as error:
        where = getattr(error, "ctx", None)
        if where is not None and error.message == where.get_help():  # nothing was asked for
            typer.echo(error.message)
            return 0
        return _fail(_usage(error, arguments), 2)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except OSError as error:  # the disk is full or may not be written, a name is too long, a cable was pulled
        where = f" ({str(error.filename)[:200]})" if error.filename else ""
        return _fail(f"the system refused it: {error.strerror or error}{where}", 2)
    except MemoryError as error:
        return _fail(f"there is not enough memory for it ({error})", 2)
    if code == 130:
        return _fail("interrupted: what was scored is kept; the same command resumes from there", 130)
    return int(code or 0)


LONGEST_WORD = 400  # signs, such as those of a path, that a message shows
_EXPECTED = {"valid integer": "a whole number", "valid number": "a number"}  # by what the parser says


def _usage(error: typer.TyperException, arguments: Sequence[str]) -> str:
    """What is wrong with a command line: what was given, what was expected, and where the help is."""
    where = getattr(error, "ctx", None)
    message = error.format_message() if isinstance(error, typer.BadParameter.__mro__[2]) else str(error)
    parameter = getattr(error, "param", None)
    if isinstance(error, typer.BadParameter) and parameter is not None:
        name = parameter.opts[-1] if parameter.opts[-1].startswith("-") else parameter.opts[-1].upper()
        if not error.message:  # as the parser tells what is missing
            message = f"{name} is missing; expected {_sentence(getattr(parameter, 'help', None))}"
        kind = next((words for said, words in _EXPECTED.items() if said in error.message), None)
        if kind is not None:
            message = f"{name} {_given(parameter.opts, arguments)} was given; expected {kind}"
    return f"{message} ({where.command_path if where else 'trainless'} --help)"


def _sentence(text: str | None) -> str:
    words = (text or "a value").split(". ")[0].rstrip(".")
    return words[:1].lower() + words[1:]


def _as_options(message: str, arguments: Sequence[str]) -> str:
    """A message with the options that a command line gave in its own spelling, where Python's stands in it.

    Example:
        >>> _as_options("window=0 was given; expected at least 1", ["look", "ecg", "--window", "0"])
        '--window 0 was given; expected at least 1'
        >>> _as_options("digits has no option 'time_column'; it has: seed", ["look", "digits", "--time-column=t"])
        'digits has no option --time-column; it has: seed'
    """
    for text in arguments:
        option = text.partition("=")[0]
        if option.startswith("--") and len(option) > 2:
            name = re.escape(option[2:].replace("-", "_"))
            message = re.sub(rf"(?<![^\s(]){name}=(?=\S)", f"{option} ", message)
            message = message.replace(f"option '{option[2:].replace('-', '_')}'", f"option {option}")
    return message


def _given(options: Sequence[str], arguments: Sequence[str]) -> str:
    """The text that an option was given on a command line.

    Example:
        >>> _given(["--seed"], ["--seed", "x"]), _given(["--seed"], ["--seed=y"])
        ('x', 'y')
    """
    for place, text in enumerate(arguments):
        name, equals, value = text.partition("=")
        if name in options:
            return value if equals else " ".join(arguments[place + 1 : place + 2])
    return ""


def _fail(message: str, code: int) -> int:
    words = (word if len(word) <= LONGEST_WORD else f"{word[:LONGEST_WORD]}…" for word in message.split())
    typer.echo(f"trainless: {printable(' '.join(words))}", err=True)
    return code
