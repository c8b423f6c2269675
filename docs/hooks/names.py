"""Everything that has a name: searchers, rankings, recipes, presets, tasks, tables, executors, networks."""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

from docs.hooks.commands import text
from trainless.catalogue import describe, registry_of
from trainless.core.parameters import signature_of, written

OTHERS = {
    "recipes": ("Recipes", "How networks are trained: `--recipe NAME`. [Which and why](../recipes.md)."),
    "presets": ("Presets", "How much a design does without `--time`: `--preset NAME`."),
    "tasks": ("Built-in tasks", "Data by name. *Data directory* means a file below `TRAINLESS_DATA`."),
    "tables": ("Tables", "Trained accuracies of whole spaces, for `trainless bench`; files below `TRAINLESS_DATA`."),
    "executors": ("Executors", "Where workers run: `--executor NAME`."),
    "networks": ("Networks of libraries", "Networks with random weights for `trainless score`."),
}


def searchers() -> str:
    """The page of searchers."""
    return _page(
        "searchers",
        "# Searchers\n\nHow a search goes through a space: `--searcher NAME`, and `--searcher-args` for the parameters"
        " below, such as `--searcher-args population=64,tournament=8`. [Search a space](../how-to/search.md) shows them"
        " in use, [Search](../search.md) what they find.\n",
    )


def rankings() -> str:
    """The page of rankings."""
    return _page(
        "rankings",
        "# Rankings\n\nA ranking orders candidates by several proxies at once: `--ranking NAME`."
        " [Which one, and when not to trust it](../explanation/rankings.md); [the study](../ranking.md).\n",
    )


def _page(kind: str, head: str) -> str:
    names = registry_of(kind).names("*")
    rows = [f"| [`{name}`](#{name}) | {text(describe(kind, name))} |" for name in names]
    parts = [head, "\n".join(["| name | meaning |", "| --- | --- |", *rows])]
    return "\n\n".join([*parts, *(_entry(kind, name) for name in names)]) + "\n"


def _entry(kind: str, name: str) -> str:
    value = registry_of(kind)[name]
    documented: Any = value.func if isinstance(value, functools.partial) else value
    documented = documented if inspect.isclass(documented) or inspect.isroutine(documented) else type(documented)
    said = (inspect.getdoc(documented) or "").split("\nExample:")[0]
    summary, _, rest = said.partition("\n")
    paragraphs = [summary, *(_markdown(part) for part in re.split(r"\n\s*\n", rest.strip()) if part)]
    parts = [f"## {name}", *paragraphs]
    if of := getattr(value, "proxies", ()) if kind == "rankings" else ():
        links = ", ".join(f"[`{each.partition('/')[0]}`](../proxies.md#{each.partition('/')[0]})" for each in of)
        parts.append(f"Of {links}." + (f" {text(value.reference)}." if value.reference else ""))
    if kind == "searchers" and (rows := _parameters(value)):
        parts.append("\n".join(["| parameter | default |", "| --- | --- |", *rows]))
    return "\n\n".join(parts)


def _markdown(paragraph: str) -> str:
    """A paragraph of a docstring; sections such as ``Args:`` as lists."""
    heading, _, body = paragraph.partition(":\n")
    if re.fullmatch(r"[A-Z]\w+", heading):
        entries = re.findall(r"^ {4}(\w+): ((?:.*\n?)(?: {8}.*\n?)*)", body + "\n", re.MULTILINE)
        if entries:
            return "\n".join(f"- `{name}`: {' '.join(said.split())}" for name, said in entries)
    return re.sub(r"``(.+?)``", r"`\1`", " ".join(paragraph.split()))


def _parameters(make: Any) -> list[str]:
    """The parameters that can be given as text, with their defaults; ``space`` and ``seed`` are the search's own."""
    defaults = {name: each.default for name, each in signature_of(make).parameters.items()}
    plain = {
        name: value
        for name, value in defaults.items()
        if name not in ("space", "seed") and (value is None or isinstance(value, (int, float, str, tuple)))
    }
    return [f"| `{name}` | `{written(value)}` |" for name, value in plain.items()]


def others() -> str:
    """The page of all else that has a name."""
    parts = ["# Recipes, presets, tasks, tables\n\n`trainless list KIND` prints each of these lists."]
    for kind, (title, said) in OTHERS.items():
        rows = [f"| `{name}` | {text(describe(kind, name))} |" for name in registry_of(kind).names("*")]
        parts.append(f"## {title}\n\n{said}\n\n" + "\n".join(["| name | meaning |", "| --- | --- |", *rows]))
    return "\n\n".join(parts) + "\n"
