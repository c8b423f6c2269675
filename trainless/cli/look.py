"""``trainless look``: what was understood of data, before anything is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from trainless.cli.options import AsJson, with_settings
from trainless.cli.terminal import say, tell
from trainless.core.settings import setting
from trainless.core.vocabulary import common
from trainless.tasks.settings import Reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainless.core.task import Task
    from trainless.tasks.look import Findings

WORDS = {0: "vectors", 1: "signals", 2: "images", 3: "volumes"}
SHOWN = 8  # of a list
WHOSE = {
    "table": "name the column with --group",
    **dict.fromkeys(("npz", "recordings"), "add an array called groups"),
    **dict.fromkeys(("npy", "ts"), "give the data as an .npz with an array called groups"),
}
BESIDE = "put a table with the columns file, label and patient beside the files"
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body{{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}
pre{{white-space:pre-wrap}}img{{max-width:100%}}</style><h1>{title}</h1><pre>{text}</pre>
<img alt="examples of each class" src="data:image/png;base64,{picture}"></html>
"""


@dataclass(frozen=True)
class LookPlace:
    """Where examples are drawn."""

    png: str = common("png")
    html: str = setting("", "Write what was found, with examples, into this HTML file.", metavar="FILE")


@with_settings
def look(
    data: Annotated[str, typer.Argument(help="A built-in task, or a file or folder of your data.")],
    form: Reading,
    place: LookPlace,
    as_json: AsJson = False,
) -> None:
    """Say what was understood of data: parts, classes, groups, leaks, copies, doubtful labels; nothing is trained."""
    import json

    from trainless.core.errors import InputError
    from trainless.core.files import strict
    from trainless.tasks import task as open_task
    from trainless.tasks.drawing import in_text
    from trainless.tasks.look import examples, look_at

    task = open_task(data, **form.given)
    if task.train is None:
        raise InputError(f"{task.name} has no data to look at: give a file, a folder or a task with data")
    found = look_at(task)
    if as_json:
        typer.echo(json.dumps(strict(found), indent=2, allow_nan=False))
    else:
        tell(*lines_of(found, task))
    if place.png or place.html:
        write(place, found, task)
        say(f"Examples are in {' and '.join(filter(None, (place.png, place.html)))}.", err=as_json)
    elif not as_json and not task.vocabulary:
        for name, row in list(examples(task, 1).items())[:SHOWN]:
            say(f"  {name}:")
            for sample in row:
                say(*(f"    {line}" for line in in_text(sample)))


def lines_of(found: Findings, task: Task) -> list[str]:
    """The findings as sentences and one small table."""
    total, rows = sum(found.cases.values()), sum(found.windows.values())
    shape = "×".join(map(str, found.input_shape))
    what = "tokens" if task.vocabulary else WORDS[task.dims]
    cut = f" cut into {rows:,} windows, answered by recording" if rows else ""
    lines = [f"{found.name}: {found.kind}, {total:,} cases{cut}; {what} of {shape}"]
    if not task.vocabulary:
        lines[0] += f", values {found.range[0]:g} to {found.range[2]:g} (mean {found.range[1]:.4g})"
    lines += [f"note: {note}" for note in found.notes]
    lines += _table(found)
    lines.append(_groups(found, task.source.kind))
    lines.append(_leaks(found))
    inside = [each for each in found.copies if len(set(each.parts)) == 1]
    lines.append(f"Copies within a part: {_some([_pair(each.cases) for each in inside])}.")
    if found.contradictions:
        pairs = [f"{_pair(each.cases)} ({' and '.join(dict.fromkeys(each.labels))})" for each in found.contradictions]
        lines.append(f"LABELS CONTRADICT EACH OTHER: the same inputs have different labels: {_some(pairs)}.")
    lines.append(f"Inputs that do not vary: {_some(found.constant)}.")
    lines += _doubts(found)
    return lines


def _table(found: Findings) -> list[str]:
    if not found.classes:
        return ["  " + ", ".join(f"{name} {count:,}" for name, count in found.cases.items())]
    names = list(next(iter(found.classes.values())))
    wide = max(5, *(len(name) for name in names)) + 2
    lines = [" " * (wide + 2) + "".join(f"{part:>8}" for part in found.classes)]
    for name in names:
        lines.append(f"  {name:<{wide}}" + "".join(f"{counts[name]:>8,}" for counts in found.classes.values()))
    lines.append(f"  {'all':<{wide}}" + "".join(f"{found.cases[part]:>8,}" for part in found.classes))
    return lines


def _groups(found: Findings, kind: str) -> str:
    if not found.groups:
        return f"Groups: none are known. Where a patient has several cases, {WHOSE.get(kind, BESIDE)}."
    counts = ", ".join(f"{name} {count:,}" for name, count in found.groups.items())
    shared = f" IN TWO PARTS: {_some(found.shared_groups)}." if found.shared_groups else " None is in two parts."
    return f"Groups: {counts}.{shared}"


def _leaks(found: Findings) -> str:
    leaks = found.leaks
    if not leaks:
        return "Leaks: no case is in two parts."
    pairs = [" = ".join(f"{part} {case}" for part, case in zip(each.parts, each.cases, strict=True)) for each in leaks]
    return f"LEAKS: exactly the same inputs are in two parts: {_some(pairs)}."


def _doubts(found: Findings) -> list[str]:
    from trainless.tasks.look import tells

    if math.isnan(found.trees):
        return ["Doubtful labels: not looked for (values, tokens, or too few cases of a class)."]
    trees = f"trees in cross-validation, whose balanced accuracy is {found.trees:.2f}"
    if not tells(found.trees, len(next(iter(found.classes.values())))):
        return [f"Doubtful labels: cannot be told by {trees}, too near to chance."]
    if not found.doubtful:
        return [f"Doubtful labels: none found by {trees}."]
    cases = [
        f"  {each.part} {each.case} is {each.label}, looks like {each.looks_like} ({each.probability:.0%})"
        for each in found.doubtful
    ]
    more = [f"  … and {len(cases) - SHOWN:,} more, with --json"] if len(cases) > SHOWN else []
    head = f"Doubtful labels: {len(cases):,}, by {trees}, so look before you change anything:"
    return [head, *cases[:SHOWN], *more]


def _pair(names: Sequence[str]) -> str:
    return " = ".join(names[:3]) + (" = …" if len(names) > 3 else "")


def _some(items: Sequence[str]) -> str:
    if not items:
        return "none"
    more = f"; and {len(items) - SHOWN:,} more" if len(items) > SHOWN else ""
    return f"{len(items):,} ({'; '.join(items[:SHOWN])}{more})"


def write(place: LookPlace, found: Findings, task: Task) -> None:
    """Examples of each class as a picture, or that and the findings as one page."""
    import base64
    import html
    import io

    from trainless.core.files import write_atomic
    from trainless.core.opening import without_links
    from trainless.tasks.drawing import sheet
    from trainless.tasks.look import examples

    picture = io.BytesIO()
    sheet({} if task.vocabulary else examples(task)).save(picture, "PNG")
    if place.png:
        write_atomic(without_links(place.png), picture.getvalue())
    if place.html:
        text = html.escape("\n".join(lines_of(found, task)))
        coded = base64.b64encode(picture.getvalue()).decode()
        write_atomic(without_links(place.html), PAGE.format(title=html.escape(found.name), text=text, picture=coded))
