"""Settings: frozen dataclasses whose fields say themselves what they mean, for Python, the command line and run.json.

A module that defines settings imports nothing heavy: the command line reads it to print its help.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from trainless.core.errors import InputError

S = TypeVar("S")
_OPTION = "option"


@dataclass(frozen=True)
class Option:
    """One field of a settings class as an option of a command; see :func:`setting`."""

    field: str
    default: Any
    help: str
    kind: type
    flag: str = ""
    metavar: str = ""
    least: float | None = None
    read: Callable[[Any], Any] | None = None
    shown: str = ""


def setting(
    default: Any,
    help: str,  # noqa: A002 - the word of typer and argparse
    *,
    kind: type | None = None,
    flag: str = "",
    metavar: str = "",
    least: float | None = None,
    read: Callable[[Any], Any] | None = None,
    shown: str = "",
) -> Any:
    """A field of a settings class that is an option of its command, too.

    An option that several commands have is defined once, in :mod:`trainless.core.vocabulary`.

    Args:
        default: The default; where it is None, ``kind`` says what is read from the command line (text by default).
        help: One full sentence for the command's help.
        kind: The type on the command line; that of the default by default.
        flag: The option's name where it is not the field's.
        metavar: What stands for the value in the help.
        least: The least number.
        read: Makes the field's value of the text on the command line, such as ``"a,b"`` into a tuple.
        shown: The default in words, where the value itself says too little.

    Example:
        >>> @dataclass(frozen=True)
        ... class Some:
        ...     seed: int = setting(0, "The seed of everything.", least=0)
        ...     names: tuple[str, ...] = setting((), "Names.", kind=str, read=lambda text: tuple(text.split(",")))
        >>> Some().seed, [option.flag for option in options_of(Some)]
        (0, ['--seed', '--names'])
        >>> settings_from(Some, {"names": "a,b"})
        Some(seed=0, names=('a', 'b'))
    """
    found = kind or (str if default is None else type(default))
    option = Option("", default, help, found, flag, metavar, least, read, shown)
    if isinstance(default, (dict, list, set)):
        return dataclasses.field(default_factory=default.copy, metadata={_OPTION: option})
    return dataclasses.field(default=default, metadata={_OPTION: option})


def options_of(settings: type[Any]) -> list[Option]:
    """The options of a settings class: its fields that were made by :func:`setting`, its own before its bases'."""
    homes = {
        name: place for place, home in enumerate(settings.__mro__) for name in vars(home).get("__annotations__", {})
    }
    return [
        dataclasses.replace(option, field=field.name, flag=option.flag or f"--{field.name.replace('_', '-')}")
        for field in sorted(dataclasses.fields(settings), key=lambda field: homes[field.name])
        if (option := field.metadata.get(_OPTION)) is not None
    ]


def settings_from(settings: type[S], given: Mapping[str, Any]) -> S:
    """Settings from what a command line gave, by field; what is absent or None has its default."""
    known = {option.field: option for option in options_of(settings)}
    values = {}
    for name, value in given.items():
        if value is None:
            continue
        option = known.get(name)
        if option is not None and option.least is not None and value < option.least:
            raise InputError(f"{option.flag} {value} was given; expected at least {option.least:g}")
        values[name] = option.read(value) if option is not None and option.read is not None else value
    return settings(**values)


def changed(settings: S, **given: Any) -> S:
    """The settings with the values that were given; None leaves a field as it is."""
    wanted = {name: value for name, value in given.items() if value is not None}
    made: S = dataclasses.replace(settings, **wanted)  # type: ignore[type-var]
    return made


def parse_settings(settings: type[S], program: str, about: str, arguments: Sequence[str] | None = None) -> S:
    """Read settings from a command line by the standard library alone, for machines that have nothing else."""
    parser = argparse.ArgumentParser(prog=program, description=about)
    for option in options_of(settings):
        if option.kind is bool:
            parser.add_argument(option.flag, dest=option.field, action="store_true", default=None, help=option.help)
        else:
            parser.add_argument(
                option.flag, dest=option.field, type=option.kind, metavar=option.metavar or None, help=option.help
            )
    return settings_from(settings, vars(parser.parse_args(arguments)))
