"""The options of a command, made from its settings classes: one field, one option, one help text."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from trainless.core.settings import Option, options_of, settings_from

Command = Callable[..., Any]
_VALUES: Mapping[type, str] = {int: "N", float: "NUMBER", str: "TEXT"}
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Print a Markdown table and nothing else.")]


class OwnDefaults:
    """The defaults that a command has and the Python call of the same settings has not; an annotation."""

    def __init__(self, **defaults: Any) -> None:
        self.defaults = defaults


def with_settings(command: Command) -> Command:
    """Give a command the options of the settings classes among its parameters.

    In the place of each such parameter stand all fields of the class that were made by
    :func:`trainless.core.settings.setting`, and the command is called with the settings that they come to. With
    ``Annotated[DesignSettings, OwnDefaults(workers=0)]`` an option has another default than its field.
    """
    hints = get_type_hints(command, include_extras=True)
    own: dict[str, tuple[type[Any], list[Option], dict[str, Any]]] = {}
    made: list[inspect.Parameter] = []
    flags: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        hint = hints[name]
        kind: Any = hint.__origin__ if get_origin(hint) is Annotated else hint
        about: tuple[Any, ...] = hint.__metadata__ if get_origin(hint) is Annotated else ()
        options = options_of(kind) if hasattr(kind, "__dataclass_fields__") else []
        if options:
            defaults: dict[str, Any] = next((each.defaults for each in about if isinstance(each, OwnDefaults)), {})
            options = [replace(each, default=defaults.get(each.field, each.default)) for each in options]
            own[name] = kind, options, defaults
            made += map(_parameter, options)
        else:
            kept = parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY)
            (flags if kind is bool else made).append(kept)

    @functools.wraps(command)
    def run(**given: Any) -> Any:
        for name, (kind, options, defaults) in own.items():
            values = {option.field: given.pop(option.field) for option in options}
            given[name] = settings_from(kind, {**defaults, **{k: v for k, v in values.items() if v is not None}})
        return command(**given)

    vars(run)["__signature__"] = inspect.Signature([*made, *flags])
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*made, *flags)}
    vars(run).pop("__wrapped__", None)
    return run


def shown_default(option: Option) -> str:
    """The default of an option as the help shows it; empty where there is nothing to show."""
    if option.shown or option.kind is bool or option.default in (None, "", (), {}):
        return option.shown
    several = isinstance(option.default, (tuple, list))
    return ",".join(map(str, option.default)) if several else f"{option.default}"


def _parameter(option: Option) -> inspect.Parameter:
    """An option as a parameter that typer reads; one that is not given is None, and the field's default holds."""
    shown = shown_default(option)
    about: dict[str, Any] = {
        "help": f"{option.help} [default: {shown}]" if shown else option.help,
        "metavar": option.metavar or _VALUES.get(option.kind),
        "show_default": False,
    }
    kind: Any = option.kind
    annotation: Any = Annotated[kind | None, typer.Option(option.flag, **about)]
    return inspect.Parameter(option.field, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
