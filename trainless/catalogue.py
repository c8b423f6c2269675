"""Everything that has a name, by kind: what can be listed, and one line on each."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

from trainless.core.errors import UnknownName
from trainless.core.registry import Registry

REGISTRIES = {
    "proxies": "trainless.proxies",
    "rankings": "trainless.rankings",
    "searchers": "trainless.searchers",
    "spaces": "trainless.spaces",
    "tables": "trainless.bench.tables",
    "tasks": "trainless.tasks",
}

#: What a space is known as, where its own first line says only how its networks are made.
SPACES = {
    "mobilenet": "MobileNet: inverted residual blocks; kernel, expansion, widths and depth of each stage are open.",
    "nats-size": "The sizes of NATS-Bench: how wide each of five layers is, 8 to 64 channels in steps of 8.",
    "nb101": "NAS-Bench-101: cells of up to seven vertices and nine edges, three operations.",
    "nb201": "NAS-Bench-201: cells of four nodes and six edges, five operations on each.",
    "recurrent": "NAS-Bench-NLP, for text: recurrent cells of up to 24 nodes and 3 hidden states.",
    "transformer": "Vision transformers: depth, width, heads, ratio, patch size and pooling are open.",
}


def registry_of(kind: str) -> Registry[Any]:
    """The registry of a kind, such as ``"proxies"``.

    Example:
        >>> registry_of("spaces").kind
        'space'
    """
    if kind not in REGISTRIES:
        raise UnknownName(f"{kind!r} cannot be listed; expected one of {', '.join(REGISTRIES)}")
    registry: Registry[Any] = importlib.import_module(REGISTRIES[kind]).registry
    return registry


def describe(kind: str, name: str) -> str:
    """What a name stands for, in one line."""
    if kind == "tasks":
        from trainless.tasks import descriptions

        if name in descriptions:
            return descriptions[name]
    value = registry_of(kind)[name]
    if kind == "spaces" and name in SPACES:
        return SPACES[name]
    if kind == "proxies":
        arrow = "higher" if value.higher_is_better else "lower"
        return f"{value.summary} ({arrow} is better; {value.paper})"
    documented = value.func if isinstance(value, functools.partial) else value
    summary = (inspect.getdoc(documented) or "").partition("\n")[0]
    if kind != "rankings":
        return summary
    return f"{summary} Of: {', '.join(value.proxies)}." + (f" ({value.reference})" if value.reference else "")


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
