"""The options of a command, made from its settings class: one field, one option, one help text."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from trainless.core.settings import Option, options_of, settings_from

Command = Callable[..., Any]


def with_settings(settings: type[Any], *, skip: tuple[str, ...] = ()) -> Callable[[Command], Command]:
    """Give a command the options of a settings class.

    The command has a parameter ``settings``; in its place stand all fields of the class that were made by
    :func:`trainless.core.settings.setting` but for those to ``skip``, and the command is called with the settings that
    they come to.
    """
    options = [option for option in options_of(settings) if option.field not in skip]

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def run(**given: Any) -> Any:
            own = {option.field: given.pop(option.field) for option in options}
            return command(**given, settings=settings_from(settings, own))

        hints = get_type_hints(command, include_extras=True)
        before: list[inspect.Parameter] = []
        after: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command).parameters.items():
            if name != "settings":
                kept = parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
                (after if kept.annotation is bool else before).append(kept)
        made = [*before, *(_parameter(option) for option in options), *after]
        vars(run)["__signature__"] = inspect.Signature(made)
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in made}
        vars(run).pop("__wrapped__", None)
        return run

    return decorate


def _parameter(option: Option) -> inspect.Parameter:
    """An option as a parameter that typer reads; one that is not given is None, and the field's default holds."""
    shown = "" if option.default in (None, "", (), {}) or option.kind is bool else f"{option.default}"
    if isinstance(option.default, (tuple, list)):
        shown = ",".join(map(str, option.default))
    about: dict[str, Any] = {"help": option.help, "metavar": option.metavar or None, "show_default": shown or False}
    if option.least is not None and option.kind in (int, float):
        about["min"] = option.least
    kind: Any = option.kind
    annotation: Any = Annotated[kind | None, typer.Option(option.flag, **about)]
    return inspect.Parameter(option.field, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
