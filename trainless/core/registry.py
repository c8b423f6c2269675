"""One registry for everything that has a name: proxies, spaces, tasks, searchers, rankings."""

from __future__ import annotations

import difflib
import fnmatch
import importlib
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar, cast

from trainless.core.errors import TrainlessError, UnknownName

T = TypeVar("T")
_REGISTRIES: dict[str, Registry[Any]] = {}


class Registry(Generic[T]):
    """Names to values; a value may be given as ``"package.module:attribute"`` and is imported when asked for.

    Third parties add to it by an entry point of the group ``trainless.<plural>``.

    Args:
        kind: What one of them is called.
        plural: What several are called.
        variant: What a name that goes on after a slash stands for, from the value of the name before it and the rest;
            such names can be asked for, and are not among ``names``.

    Example:
        >>> shapes = Registry[object]("shape", "shapes")
        >>> shapes.add("pi", "math:pi")
        >>> shapes["pi"]
        3.141592653589793
        >>> shapes["pie"]
        Traceback (most recent call last):
        trainless.core.errors.UnknownName: no shape is called 'pie'; did you mean 'pi'? (trainless list shapes)
    """

    def __init__(self, kind: str, plural: str, variant: Callable[[T, str], T] | None = None) -> None:
        self.kind = kind
        self.plural = plural
        self._variant = variant
        self._entries: dict[str, T | str] = {}
        self._external_loaded = False
        _REGISTRIES[plural] = self

    def add(self, name: str, value: T | str, again: Callable[[T], bool] = lambda held: False) -> None:
        """Register a value, or where to import it from; a name can be taken only once.

        A value may take the place of the string that said where to import it from, and of what is the same defined
        ``again``.
        """
        held = self._entries.get(name)
        same = not isinstance(value, str) and (isinstance(held, str) or (held is not None and again(held)))
        if held is not None and not same:
            raise TrainlessError(f"a {self.kind} called {name!r} is registered already: choose another name")
        self._entries[name] = value

    def names(self, pattern: str = "*") -> list[str]:
        """The registered names that match a shell pattern, sorted."""
        self._load_external()
        return sorted(fnmatch.filter(self._entries, pattern))

    def __contains__(self, name: str) -> bool:
        self._load_external()
        if name in self._entries or self._variant is None:
            return name in self._entries
        try:
            self[name]
        except TrainlessError:
            return False
        return True

    def __getitem__(self, name: str) -> T:
        self._load_external()
        if name not in self._entries:
            plain, slash, rest = name.partition("/")
            if self._variant is None or not slash or plain not in self._entries:
                raise UnknownName(self._unknown(name))
            return self._variant(self[plain], rest)
        value = self._entries[name]
        if isinstance(value, str):
            module, _, attribute = value.partition(":")
            value = cast(T, getattr(importlib.import_module(module), attribute))
            self._entries[name] = value
        return value

    def _unknown(self, name: str) -> str:
        plain = name if self._variant is None else name.partition("/")[0]
        near = near_names(plain, self._entries)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        return f"no {self.kind} is called {name!r}{hint} (trainless list {self.plural})"

    def _load_external(self) -> None:
        if self._external_loaded:
            return
        self._external_loaded = True
        for point in entry_points(group=f"trainless.{self.plural}"):
            self.add(point.name, point.value)


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """The known names that may be meant, the likeliest first; those of the same letters come before all others.

    Example:
        >>> near_names("spin", ["spline", "snip", "params", "synflow"])
        ['snip', 'spline']
    """
    names = list(known)
    same = [each for each in names if sorted(each.lower()) == sorted(name.lower())]
    return list(dict.fromkeys([*same, *difflib.get_close_matches(name, names, n=3, cutoff=0.5)]))[:3]


def registered(plural: str) -> Registry[Any]:
    """The registry of a kind that was imported already, so that what is below it can ask it for a name.

    Example:
        >>> things = Registry[object]("thing", "things")
        >>> registered("things") is things
        True
    """
    if plural not in _REGISTRIES:
        raise UnknownName(f"no {plural} are registered yet: import them first, such as by import trainless.{plural}")
    return _REGISTRIES[plural]
