"""One word for one thing: an option of one name has one type, one help sentence and one default in all commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer

from trainless.cli.app import app
from trainless.core.vocabulary import _WORDS

# Defaults that a command has for itself, and why.
OWN_DEFAULTS = {
    ("--csv", "predict"): "the rows are what the command is for, so they are printed",
    ("--device", "design"): "networks are trained, for which a GPU is what one has it for",
    ("--device", "predict"): "the same",
    ("--device", "serve"): "the same",
    ("--draws", "bench paper"): "a paper has up to twenty tables",
    ("--evaluations", "search"): "a search without any limit needs one",
    ("--evaluations", "design"): "the preset's",
    ("--init", "design"): "the ranking's",
    ("--init", "bench sweep"): "a sweep is compared with published figures",
    ("--out", "bench correlate"): "its result is the table that it prints",
    ("--port", "serve"): "both pages can be open at once",
    ("--proxies", "score"): "all proxies are shown",
    ("--proxies", "bench sweep"): "the same",
    ("--proxy", "store list"): "a filter that is left out lets all pass",
    ("--proxy", "store export"): "the same",
    ("--proxy", "store gc"): "the same",
    ("--out", "bench site"): "a page is no run",
    ("--ranking", "design"): "the preset's",
    ("--runs", "bench paper"): "the paper's number",
    ("--runs", "bench search"): "there is no paper to take it from",
    ("--seed", "bench paper"): "a check draws one, and prints it",
    ("--space", "design"): "what a competent person begins with is around a residual network",
    ("--space", "score"): "candidates without a space are networks",
    ("--space", "predict"): "the run knows a built-in space, and code of one's own is run only where it is named",
    ("--space", "export"): "the same",
    ("--space", "serve"): "the same",
    ("--space", "store list"): "a filter that is left out lets all pass",
    ("--space", "store export"): "the same",
    ("--space", "store gc"): "the same",
    ("--space-args", "demo"): "a thin network is quick",
    ("--space-args", "design"): "the width is chosen",
    ("--store", "score"): "there is no run folder",
    ("--store", "bench sweep"): "what took hours is found by everything later",
    ("--store", "watch"): "a run is a folder or in a store",
    ("--store", "report"): "the same",
    ("--task", "demo"): "a demonstration needs data",
    ("--task", "bench sweep"): "a space can be scored without any",
    ("--task", "bench correlate"): "the dataset's own",
    ("--task", "bench site"): "the same",
    ("--workers", "design"): "it takes minutes, and the result does not depend on it",
    ("--workers", "bench correlate"): "the same",
    ("--workers", "bench site"): "the same",
}


class Shown(NamedTuple):
    """An option as a command's help has it."""

    command: str
    kind: str
    metavar: str | None
    help: str
    default: str


def commands(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        where = f"{path} {name}".strip()
        if "commands" in vars(command):
            yield from commands(command, where)
        else:
            yield where, command


ALL = list(commands(typer.main.get_command(app)))


def options() -> dict[str, list[Shown]]:
    found: dict[str, list[Shown]] = {}
    for where, command in ALL:
        for each in command.params:
            if each.param_type_name == "option" and each.name != "help":
                said, _, default = (each.help or "").partition(" [default: ")
                own = "" if each.default in (None, "", False) else str(each.default)
                described = getattr(each, "type_descriptor", None)  # before Typer 0.29 an option had click's type
                kind = str(each.type if described is None else described.annotation)
                shown = Shown(where, kind, each.metavar, said, default.removesuffix("]") or own)
                found.setdefault(each.opts[-1], []).append(shown)
    return found


def test_an_option_of_one_name_is_one_thing_everywhere() -> None:
    for name, uses in options().items():
        assert len({use.help for use in uses}) == 1, (name, uses)
        assert len({(use.kind, use.metavar) for use in uses}) == 1, (name, uses)


def test_an_option_has_one_default_but_for_those_with_a_reason() -> None:
    needed = set()
    for name, uses in options().items():
        plain = [use for use in uses if (name, use.command) not in OWN_DEFAULTS]
        if name == "--out":
            assert all(use.default == f"runs/{use.command.split()[-1]}" for use in plain)
            plain = []
        assert len({use.default for use in plain}) <= 1, (name, plain)
        usual = {use.default for use in plain}
        needed |= {(name, use.command) for use in uses if use.default not in usual and len(uses) > 1}
    assert set(OWN_DEFAULTS) <= needed, "a reason that nothing needs"


def test_every_word_of_the_vocabulary_is_an_option_of_several_commands() -> None:
    flags = {word.get("flag") or f"--{name.replace('_', '-')}" for name, word in _WORDS.items()}
    assert {flag for flag in flags if len(options().get(flag, ())) < 2} == set()


def test_help_is_full_sentences_and_no_summary_is_cut_short() -> None:
    for name, uses in options().items():
        for use in uses:
            assert re.fullmatch(r"[A-Z].*\.", use.help.replace("\n", " ")), (name, use)
    for where, command in ALL:
        assert not command.get_short_help_str(57).endswith("..."), where  # in a terminal of 80 columns
