"""Everything that has a name, by kind: what can be listed, and one line on each."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from trainless.core.errors import UnknownName
from trainless.core.registry import Registry

REGISTRIES = {
    "executors": "trainless.execution",
    "loggers": "trainless.learn.callbacks",
    "networks": "trainless.scoring.resolvers",
    "presets": "trainless.designs.settings",
    "proxies": "trainless.proxies",
    "rankings": "trainless.rankings",
    "recipes": "trainless.learn.recipe",
    "searchers": "trainless.searchers",
    "spaces": "trainless.spaces",
    "tables": "trainless.bench.tables",
    "tasks": "trainless.tasks",
}


def registry_of(kind: str) -> Registry[Any]:
    """The registry of a kind, such as ``"proxies"``.

    Example:
        >>> registry_of("spaces").kind
        'space'
    """
    registry: Registry[Any] = _package(kind).registry
    return registry


def _package(kind: str) -> ModuleType:
    if kind not in REGISTRIES:
        raise UnknownName(f"{kind!r} cannot be listed; expected one of {', '.join(REGISTRIES)}")
    return importlib.import_module(REGISTRIES[kind])


def describe(kind: str, name: str) -> str:
    """Say in one line what a name stands for, as told by its package, by itself, or first in its docstring."""
    registry, said = registry_of(kind), getattr(_package(kind), "descriptions", {})
    if name in said:
        return str(said[name])
    value = registry[name]
    documented = value.func if isinstance(value, functools.partial) else value
    told = getattr(value, "description", "") or getattr(value, "summary", "")
    summary: str = told or (inspect.getdoc(documented) or "").partition("\n")[0]
    of = getattr(value, "proxies", None)  # a ranking's
    if not isinstance(of, tuple):
        return summary
    return f"{summary} Of: {', '.join(of)}." + (f" ({value.reference})" if value.reference else "")


def _lister(kind: str) -> Callable[..., list[str]]:
    def names(pattern: str = "*") -> list[str]:
        return registry_of(kind).names(pattern)

    names.__name__ = names.__qualname__ = f"list_{kind}"
    names.__doc__ = f"Names of the {kind} that match a pattern, such as ``list_{kind}('n*')``."
    return names


list_proxies = _lister("proxies")
list_rankings = _lister("rankings")
list_searchers = _lister("searchers")
list_spaces = _lister("spaces")
list_tables = _lister("tables")
list_tasks = _lister("tasks")
