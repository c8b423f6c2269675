"""Every command and option, from the command line itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

HEAD = """# Commands

Every command and every option, from the program itself. `trainless COMMAND --help` prints the same. Words in capitals
stand for what you give. One option means the same wherever it appears.
"""


def page() -> str:
    """The page of all commands."""
    from trainless.cli.app import app

    top = typer.main.get_command(app)
    parts = list(_sections(top, "trainless"))
    rows = [f"| [`{name}`](#{name.replace(' ', '-')}) | {text(summary)} |" for name, summary, _ in parts]
    table = "\n".join(["| command | what it does |", "| --- | --- |", *rows])
    return "\n".join([HEAD, table, *(section for _, _, section in parts)])


def _sections(command: Any, name: str) -> Iterator[tuple[str, str, str]]:
    """The name, summary and section of a command, or of those of a group."""
    if hasattr(command, "commands"):
        for word, inner in command.commands.items():
            yield from _sections(inner, f"{name} {word}")
        return
    told = " ".join((command.help or "").split("\n\n")[0].split())
    lines = [f"\n## {name}\n", *(f"{text(' '.join(part.split()))}\n" for part in (command.help or "").split("\n\n"))]
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    usage = " ".join([name, "[OPTIONS]", *(f"{each.name.upper()}{' …' * (each.nargs == -1)}" for each in arguments)])
    lines.append(f"```sh\n{usage}\n```\n")
    if arguments:
        lines += ["| argument | meaning |", "| --- | --- |"]
        lines += [f"| `{each.name.upper()}` | {text(each.help or '')} |" for each in arguments] + [""]
    if options:
        lines += ["| option | meaning | default |", "| --- | --- | --- |"]
        lines += [_row(each) for each in options]
    yield name, told, "\n".join(lines) + "\n"


def _row(option: Any) -> str:
    said, _, default = (option.help or "").partition(" [default: ")
    shown = default.removesuffix("]")
    if not shown and option.show_default and option.default not in (None, "", False):
        shown = str(option.default)
    value = "" if option.is_flag else f" {option.metavar or 'TEXT'}"
    return f"| `{option.opts[-1]}{value}` | {text(said)} | {text(shown)} |"


def text(said: str) -> str:
    """Words as Markdown that shows them as they are, also in a table; what has double backticks is code."""
    parts = re.split(r"``(.+?)``", said)
    plain = (re.sub(r"([\\|*_<[`])", r"\\\1", part) for part in parts[::2])
    code = [f"`{part}`" for part in parts[1::2]]
    return "".join(a + b for a, b in zip(plain, [*code, ""], strict=True))
