"""Arguments of a proxy in its name, as in ``vkdnw/samples=64/tensors=8``: reading, checking and writing them."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trainless.core.errors import InputError
from trainless.core.parameters import checked, described, parsed, written

Options = tuple[tuple[str, Any], ...]
SIGN = "/"


def options_of(fn: Callable[..., float]) -> dict[str, inspect.Parameter]:
    """The arguments of a proxy's function that have a default; one without a type has its default's.

    Example:
        >>> def mine(p, power=2.0, *, of: str = "loss"): ...
        >>> [(name, each.annotation.__name__) for name, each in options_of(mine).items()]
        [('power', 'float'), ('of', 'str')]
    """
    try:
        found = inspect.signature(fn, eval_str=True).parameters
    except NameError:  # a type that is known to type checkers only
        found = inspect.signature(fn).parameters
    return {name: _typed(each) for name, each in found.items() if each.default is not each.empty}


def _typed(parameter: inspect.Parameter) -> inspect.Parameter:
    known = parameter.annotation is not parameter.empty and not isinstance(parameter.annotation, str)
    return parameter if known or parameter.default is None else parameter.replace(annotation=type(parameter.default))


def read_options(name: str, fn: Callable[..., float], given: Mapping[str, Any]) -> Options:
    """The options that were given, sorted by name, each of its kind; or an error that says which there are.

    Args:
        name: What the error calls the proxy.
        fn: Its function.
        given: The values by name, from Python or as text.
    """
    known = options_of(fn)
    if not known:
        raise InputError(f"{name}{suffix(given.items())} was given, but {name} has no options: name it alone, {name}")
    try:
        chosen = {each: _exact(known[each], value) for each, value in checked(name, known, given).items()}
        for each, value in chosen.items():
            _require_sound(name, known[each], value)
    except InputError as error:
        listed = "" if given.keys() - known.keys() else f"; {described(known)}"
        raise InputError(f"{error}{listed}: give it as in {_example(name, known)}") from None
    return tuple(sorted(chosen.items()))


def _exact(parameter: inspect.Parameter, value: Any) -> Any:
    """One value for each meaning, so that it has one name: a whole number that stands for any number is one."""
    kinds = typing.get_args(parameter.annotation) or (parameter.annotation,)
    if float in kinds and int not in kinds and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return tuple(map(str, value)) if kinds == (str, ...) and isinstance(value, tuple) else value


def _require_sound(name: str, parameter: inspect.Parameter, value: Any) -> None:
    """Refuse a number below zero where the default is not, and what a name cannot say."""
    default = parameter.default
    if _negative(value) and not _negative(default):
        raise InputError(f"{name}: {parameter.name}={value} was given; expected 0 or more")
    text = written(value)
    again = checked(name, {parameter.name: parameter}, {parameter.name: parsed(text)})[parameter.name]
    if any(sign in text for sign in f"{SIGN},=") or _exact(parameter, again) != value:
        raise InputError(f"{name}: {parameter.name}={text} was given, which cannot be part of a name")


def _negative(value: Any) -> bool:
    return isinstance(value, (int, float)) and value < 0


def _example(name: str, known: Mapping[str, inspect.Parameter]) -> str:
    for each, parameter in reversed(list(known.items())):
        if isinstance(parameter.default, (str, int, float)):
            return f"{name}{suffix([(each, parameter.default)])}"
    return f"{name}{SIGN}{next(iter(known))}=VALUE"


def parse_options(name: str, fn: Callable[..., float], text: str) -> dict[str, Any]:
    """The values that are written behind a proxy's name, such as ``tensors=8/samples=64``, by name."""
    pairs = [part.partition("=") for part in text.split(SIGN)]
    names = [each for each, _, _ in pairs]
    if any(not each or not value for each, _, value in pairs) or len(set(names)) < len(names):
        known = options_of(fn)
        raise InputError(
            f"{name}{SIGN}{text} was given; expected name=value after each slash, every name once; {described(known)}"
            + (f": give it as in {_example(name, known)}" if known else f": name it alone, {name}")
        )
    return {each: parsed(value) for each, _, value in pairs}


def suffix(options: Iterable[tuple[str, Any]]) -> str:
    """The part of a proxy's name that says its options.

    Example:
        >>> suffix((("samples", 64), ("tensors", 8)))
        '/samples=64/tensors=8'
    """
    return "".join(f"{SIGN}{name}={written(value)}" for name, value in options)
