"""What can be given by name to whatever makes a space or a searcher: names, kinds and defaults, read off its signature.

Values come from Python or, as text, from a command line: there ``none`` is None and ``true`` and ``false`` are truths.
"""

from __future__ import annotations

import difflib
import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, Literal, TypeVar

from trainless.core.errors import InputError

T = TypeVar("T")
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a name", types.NoneType: "none"}
_TEXT = {"true": True, "false": False, "none": None}


def forwards(inner: Callable[..., object], **defaults: Any) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Let a function's signature say what its ``**parameters`` are: those of ``inner``, with these defaults.

    Example:
        >>> def row(count: int = 2, sign: str = "-") -> str:
        ...     return count * sign
        >>> @forwards(row, count=5)
        ... def long(end: str = "", **parameters):
        ...     return row(**parameters) + end
        >>> str(inspect.signature(long)), long(end=">")
        ("(end: str = '', *, count: int = 5, sign: str = '-')", '----->')
    """

    def mark(function: Callable[..., T]) -> Callable[..., T]:
        signature = signature_of(function)
        own = {name: each for name, each in signature.parameters.items() if each.kind is not each.VAR_KEYWORD}
        passed = {
            name: each.replace(default=defaults.get(name, each.default), kind=each.KEYWORD_ONLY)
            for name, each in signature_of(inner).parameters.items()
            if name not in own
        }

        def made(*arguments: Any, **parameters: Any) -> T:
            return function(*arguments, **{**defaults, **parameters})

        made.__name__, made.__qualname__, made.__doc__ = function.__name__, function.__qualname__, function.__doc__
        made.__module__ = function.__module__
        made.__signature__ = signature.replace(parameters=[*own.values(), *passed.values()])  # type: ignore[attr-defined]
        return made

    return mark


def signature_of(make: Callable[..., object]) -> inspect.Signature:
    """The signature with its types; a dataclass may have fields whose types only another module knows."""
    if not (isinstance(make, type) and is_dataclass(make)):
        return inspect.signature(make, eval_str=True)
    signature, hints = inspect.signature(make), typing.get_type_hints(make)
    typed = [each.replace(annotation=hints[name]) for name, each in signature.parameters.items()]
    return signature.replace(parameters=typed)


def read(what: str, make: Callable[..., object], given: Mapping[str, Any], own: Collection[str] = ()) -> dict[str, Any]:
    """The parameters that were given, each of the kind that is expected, or an error that says what there is.

    Example:
        >>> def make(width: int = 8, deep: bool = False, rate: float | None = None): ...
        >>> read("mine", make, {"width": 16, "deep": "true", "rate": "none"})
        {'width': 16, 'deep': True, 'rate': None}
        >>> read("mine", make, {"width": "wide"})
        Traceback (most recent call last):
        trainless.core.errors.InputError: mine: width=wide was given; expected a whole number, such as width=8
    """
    known = _parameters(make)
    if known is None:
        return dict(given)
    return checked(what, {name: each for name, each in known.items() if name not in own}, given)


def checked(what: str, free: Mapping[str, inspect.Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values that were given, each of the kind that its parameter expects; see ``read``."""
    for name in given:
        if name not in free:
            near = difflib.get_close_matches(name, free, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ";" if free else ""
            raise InputError(f"{what} has no parameter {name!r}{hint} {described(free)}")
    return {name: _value(what, free[name], value) for name, value in given.items()}


def parsed(text: str) -> Any:
    """A value that is written as text: a number, several with a plus between them, or else the text itself.

    A plus at the end makes a list of a single one.
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return tuple(parsed(part) for part in text.split("+") if part) if "+" in text else text


def parse_arguments(text: str, option: str = "--space-args", example: str = "channels=8,cells=2") -> dict[str, Any]:
    """Read parameters that are written as ``name=value,name=value``; see ``parsed`` for the values.

    Example:
        >>> parse_arguments("channels=8,skeleton=cifar,patches=2+4")
        {'channels': 8, 'skeleton': 'cifar', 'patches': (2, 4)}
    """
    pairs = [part.partition("=") for part in text.split(",") if part]
    if any(not name.strip() or not sign for name, sign, _ in pairs):
        raise InputError(f"{option} {text} was given; expected name=value,name=value such as {example}")
    return {name.strip(): parsed(value.strip()) for name, _, value in pairs}


def written(value: Any) -> str:
    """A value as text, which stands for it exactly; see ``parsed``.

    Example:
        >>> written(0.5), written(True), written(None), written((2, 4)), written(("a",))
        ('0.5', 'true', 'none', '2+4', 'a+')
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "+".join(map(written, value)) + ("+" if len(value) < 2 else "")
    return str(value)


def _parameters(make: Callable[..., object]) -> dict[str, inspect.Parameter] | None:
    """The parameters by name; None where it takes any, or nothing is known."""
    try:
        found = signature_of(make).parameters
    except (TypeError, ValueError, NameError):
        return None
    return None if any(each.kind is each.VAR_KEYWORD for each in found.values()) else dict(found)


def takes(make: Callable[..., object], name: str) -> bool | None:
    """Whether there is a parameter of this name; None where nothing is known."""
    known = _parameters(make)
    return None if known is None else name in known


def described(known: Mapping[str, inspect.Parameter]) -> str:
    """The parameters that can be written as text, with kinds and defaults, as a sentence."""
    parts = [f"{_sample(each)} ({words})" for each in known.values() if (words := _words(each.annotation))]
    return f"it has: {', '.join(parts)}" if parts else "it has none"


def _value(what: str, parameter: inspect.Parameter, value: Any) -> Any:
    kinds = _kinds(parameter.annotation)
    if not kinds:
        return _other(what, parameter, value)
    text = value.lower() if isinstance(value, str) else None
    candidates = [value]
    if text in _TEXT:
        candidates.append(_TEXT[text])
    if isinstance(value, float) and value.is_integer():
        candidates.append(int(value))
    for each in candidates:
        if any(_is(each, kind) for kind in kinds):
            return each
    example = "" if parameter.default in (parameter.empty, None) else f", such as {_sample(parameter)}"
    raise InputError(
        f"{what}: {parameter.name}={_shown(value)} was given; expected {_words(parameter.annotation)}{example}"
    )


def _other(what: str, parameter: inspect.Parameter, value: Any) -> Any:
    """A value that is no plain one: text cannot stand for a function, and stands for itself in a collection."""
    if not isinstance(value, (str, int, float)):
        return value
    origins = {typing.get_origin(part) for part in (parameter.annotation, *typing.get_args(parameter.annotation))}
    if Callable in origins:
        raise InputError(f"{what}: {parameter.name} is a function, which can be given from Python only: leave it out")
    return (value,) if origins & {tuple, list, Iterable, Sequence, Collection} else value


def _is(value: Any, kind: Any) -> bool:
    if typing.get_origin(kind) is Literal:
        return value in typing.get_args(kind)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _kinds(annotation: Any) -> list[Any]:
    """The plain kinds that an annotation allows; empty where it allows anything else too."""
    parts = typing.get_args(annotation) if _is_union(annotation) else (annotation,)
    plain = [part for part in parts if part in _WORDS or typing.get_origin(part) is Literal]
    return plain if len(plain) == len(parts) else []


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def _words(annotation: Any) -> str:
    parts: list[str] = []
    for kind in _kinds(annotation):
        parts += map(str, typing.get_args(kind)) if typing.get_origin(kind) is Literal else [_WORDS[kind]]
    return " or ".join(parts)


def _sample(parameter: inspect.Parameter) -> str:
    return parameter.name if parameter.default is parameter.empty else f"{parameter.name}={_shown(parameter.default)}"


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return (
        "+".join(map(_shown, value))
        if isinstance(value, tuple)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
