"""One registry for everything that has a name: proxies, spaces, tasks, searchers, rankings."""

from __future__ import annotations

import difflib
import fnmatch
import importlib
from importlib.metadata import entry_points
from typing import Generic, TypeVar, cast

from trainless.core.errors import TrainlessError, UnknownName

T = TypeVar("T")


class Registry(Generic[T]):
    """Names to values; a value may be given as ``"package.module:attribute"`` and is imported when asked for.

    Third parties add to it by an entry point of the group ``trainless.<plural>``.

    Example:
        >>> shapes = Registry[object]("shape", "shapes")
        >>> shapes.add("pi", "math:pi")
        >>> shapes["pi"]
        3.141592653589793
        >>> shapes["pie"]
        Traceback (most recent call last):
        trainless.core.errors.UnknownName: no shape is called 'pie'; did you mean 'pi'? (trainless list shapes)
    """

    def __init__(self, kind: str, plural: str) -> None:
        self.kind = kind
        self.plural = plural
        self._entries: dict[str, T | str] = {}
        self._external_loaded = False

    def add(self, name: str, value: T | str) -> None:
        """Register a value, or where to import it from; a name can be taken only once.

        A value may take the place of the string that said where to import it from.
        """
        held = self._entries.get(name)
        if held is not None and not (isinstance(held, str) and not isinstance(value, str)):
            raise TrainlessError(f"a {self.kind} called {name!r} is registered already: choose another name")
        self._entries[name] = value

    def names(self, pattern: str = "*") -> list[str]:
        """The registered names that match a shell pattern, sorted."""
        self._load_external()
        return sorted(fnmatch.filter(self._entries, pattern))

    def __contains__(self, name: str) -> bool:
        self._load_external()
        return name in self._entries

    def __getitem__(self, name: str) -> T:
        self._load_external()
        if name not in self._entries:
            raise UnknownName(self._unknown(name))
        value = self._entries[name]
        if isinstance(value, str):
            module, _, attribute = value.partition(":")
            value = cast(T, getattr(importlib.import_module(module), attribute))
            self._entries[name] = value
        return value

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name, self._entries, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ";"
        return f"no {self.kind} is called {name!r}{hint} (trainless list {self.plural})"

    def _load_external(self) -> None:
        if self._external_loaded:
            return
        self._external_loaded = True
        for point in entry_points(group=f"trainless.{self.plural}"):
            self.add(point.name, point.value)
