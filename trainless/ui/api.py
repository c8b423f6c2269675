"""Answers to the page's questions as plain data: texts without odd signs, and numbers as strict JSON."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from trainless.core.errors import InputError, TrainlessError
from trainless.core.files import number
from trainless.core.text import printable
from trainless.core.types import Indices as Places
from trainless.core.types import Json
from trainless.learn.sanity import metric_in_words
from trainless.report import draw
from trainless.report.words import (
    class_rows,
    estimate_in_words,
    held_against,
    plain,
    positive_in_words,
    rule_in_words,
    sanity_in_words,
    space_in_words,
    yardstick_rows,
)
from trainless.report.words import ordered as ordered_metrics
from trainless.runs.reader import MEANINGS, SUM_OF_RANKS, Measured, RunProgress, RunReader
from trainless.runs.reader_design import DesignReader
from trainless.ui.run_list import OpenRuns
from trainless.ui.table import RowFilter, best_so_far, chosen, ordered, points

PATIENCE = 0.4  # seconds in which runs are read for the first time before a list is answered
LOSS = "valid_loss"  # the column of a design's members
MOST_ROWS, MOST_POINTS, MOST_FAILURES, TOP = 500, 3000, 500, 10


def clean(value: Any) -> Any:
    r"""Plain data with printable texts, and numbers that JSON knows.

    Example:
        >>> clean({"a": (float("nan"), "x\x1b")})
        {'a': [None, 'x�']}
    """
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, bool) or value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        return {printable(str(key)): clean(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(part) for part in value]
    return printable(str(value))


def listed(runs: OpenRuns) -> Json:
    """All runs with how far they are; one that cannot be read says why. What was skipped is named too.

    Runs that were not read before are read as long as there is time for it; the others say what they are, and are read
    when the page asks again.
    """
    found: list[Json] = []
    left = PATIENCE
    for name in runs.listed.names():
        try:
            began, fresh = time.monotonic(), not runs.is_open(name)
            if fresh and left <= 0:
                found.append(_unread(name, runs.listed.about(name)))
                continue
            with runs.reading(name) as reader:
                brief = _brief(runs, name, reader)
                (brief["answer"] or {}).pop("tables", None)  # a list has no room for them
                found.append(brief)
            left -= time.monotonic() - began if fresh else 0.0
        except (TrainlessError, OSError) as error:
            found.append({"id": name, "problem": printable(str(error))})
    return {"title": printable(runs.listed.title), "runs": found, "skipped": clean(runs.listed.skipped())}


def _unread(name: str, settings: Json) -> Json:
    return {"id": name, "kind": clean(settings.get("verb", "")), **_what(settings), "unread": True}


def _what(settings: Json) -> Json:
    """What was asked for, in short."""
    task = settings.get("task")
    return {
        "what": clean(str(settings.get("searcher") or settings.get("ranking") or "")),
        "task": clean(str(task.get("name", "") if isinstance(task, Mapping) else task or "")),
        "space": clean(space_in_words(str(settings.get("space", "")))),
    }


def _brief(runs: OpenRuns, name: str, reader: RunReader) -> Json:
    best = reader.best()
    return {
        "id": name,
        "kind": reader.kind,
        **_what(reader.settings),
        "progress": told(reader.progress()),
        "best": None if best is None else clean({**best._asdict(), "words": _best_in_words(best.column, reader)}),
        "failures": reader.failures.errors,
        "unscored": reader.failures.total - reader.failures.errors,
        "answer": _answer(reader),
        "report": runs.listed.report_written(name) > 0,
    }


def _best_in_words(column: str, reader: RunReader) -> str:
    """What the value of the best is."""
    if column == reader.settings.get("ranking"):
        return f"best by the ranking {column}"
    return "lowest validation loss" if column == LOSS else f"best {column}"


def _answer(reader: RunReader) -> Json | None:
    """What a finished design came to on its test part, in words, the worst first; None for all else."""
    if not isinstance(reader, DesignReader) or not (test := reader.summary.get("test")):
        return None
    fine, first = sanity_in_words(test)
    then = " ".join(held_against(test["sanity"])) if fine and "sanity" in test else ""
    names, beside = yardstick_rows(test)
    tables = [
        {
            "title": f"On {test['samples']:,} test {test.get('unit', 'cases')}, with 95 % intervals",
            "head": ["metric", "the ensemble", "members on average"],
            "rows": [
                [metric_in_words(each), estimate_in_words(test["ensemble"][each]), plain(test["members_mean"][each])]
                for each in ordered_metrics(test["ensemble"])
            ],
        },
        {"title": "Every class", "head": ["class", "cases", "precision", "recall", "F1"], "rows": class_rows(test)},
        {"title": "Against what is simpler", "head": ["", *map(metric_in_words, names)], "rows": beside},
    ]
    lines = [*filter(None, [rule_in_words(test)]), *positive_in_words(test)]
    task = reader.summary.get("task", {})
    first, verdict = first.removesuffix(then).strip(), test.get("sanity", {}).get("verdict", "").lower()
    told = {
        "ok": fine,
        "first": first,
        "then": then,
        "verdict": verdict,
        "lines": lines,
        "tables": [each for each in tables if each["rows"]],
    }
    best = next(ordered_metrics(test["ensemble"]), "")
    figure = {"metric": metric_in_words(best), "value": test["ensemble"][best]["value"]} if best else None
    found: Json = clean({**told, "figure": figure, "classes": list(task.get("classes", ()))})
    return found


def told(progress: RunProgress) -> Json:
    """A progress as JSON."""
    stages = [stage._asdict() for stage in progress.stages]
    found: Json = clean({**vars(progress), "stages": stages, "meaning": MEANINGS[progress.state]})
    return found


def about(runs: OpenRuns, name: str) -> Json:
    """One run: how far it is, its settings and its columns; ``version`` changes with its table."""
    with runs.reading(name) as reader:
        table, progress = reader.table(), reader.progress()
        others = runs.listed.names() if reader.kind == "design" else []
        columns = [{"name": column.name, "up": column.higher_is_better} for column in table.columns]
        return {
            **_brief(runs, name, reader),
            "columns": clean(columns),
            "named": bool(table.names),
            "ranked": table.ranked,
            "rows": len(table),
            "version": f"{len(table)} {progress.done} {progress.changed} {progress.state}",
            "curves": [column.name for column in table.columns if reader.told(column.name)[0]],
            "settings": [list(pair) for pair in _flat(clean(reader.settings), ("decisions", "format")).items()],
            "drawn": reader.space is not None,
            "below": [each for each in others if each.startswith("" if name == "." else f"{name}/")],
        }


def rows(
    runs: OpenRuns, name: str, left: RowFilter, *, by: str = "", descending: bool = False, offset: int = 0, count: int
) -> Json:
    """A page of the candidates that a filter leaves."""
    with runs.reading(name) as reader:
        table = reader.table()
        places = ordered(table, chosen(table, left), by, descending=descending)
        page = places[offset : offset + min(count, MOST_ROWS)].tolist()
        found = [
            {
                "rank": place + 1 if table.ranked else None,
                "name": table.names[place] if table.names else "",
                "arch": table.archs[place],
                "values": table.values[place].tolist(),
                "status": table.status[place],
            }
            for place in page
        ]
        return {"rows": clean(found), "left": len(places), "all": len(table)}


def scattered(runs: OpenRuns, name: str, x: str, y: str, rows: RowFilter) -> Json:
    """The points of a plane."""
    with runs.reading(name) as reader:
        table = reader.table()
        left: Places = chosen(table, rows)
        wanted = set(left.tolist())
        places = [place for place in points(table, x, y, MOST_POINTS).tolist() if place in wanted]
        across, up = table.column(x), table.column(y)
        found = [[float(across[at]), float(up[at]), table.archs[at], at] for at in places]
        return {"points": clean(found), "all": len(left), "ranked": table.ranked}


def failed(runs: OpenRuns, name: str) -> Json:
    """Failures by reason, and the last of them, newest first."""
    with runs.reading(name) as reader:
        failures = reader.failures
        reasons = [{"column": c, "reason": r, "times": n} for (c, r), n in failures.reasons.most_common(100)]
        last = [failure._asdict() for failure in reversed(failures.last)][:MOST_FAILURES]
        return {"total": failures.total, "reasons": clean(reasons), "last": clean(last)}


def curve(runs: OpenRuns, name: str, column: str) -> Json:
    """The best of a column so far, at each improvement."""
    with runs.reading(name) as reader:
        values, up = reader.told(column)
        return {"points": clean(best_so_far(values, up)), "up": up}


def drawing(runs: OpenRuns, name: str, arch: str) -> str:
    """An architecture as SVG; raises InputError with the reason where it cannot be drawn."""
    with runs.reading(name) as reader:
        space = reader.space
    if space is None:
        raise InputError(
            "the space is code of the user's own, which is not run here: trainless show draws it where it is named"
        )
    try:
        return draw.svg(space, space.parse(arch), compact=True)
    except TrainlessError as error:
        raise InputError(f"{arch[:80]!r} cannot be drawn ({error})") from error


def compared(runs: OpenRuns, names: Sequence[str]) -> Json:
    """Runs beside each other: numbers, settings that differ, columns in common, and how much their best agree."""
    if not 2 <= len(names) <= 8:
        raise InputError(f"{len(names)} runs were given; expected 2 to 8 to compare")
    parts = []
    for name in names:
        with runs.reading(name) as reader:
            table = reader.table()
            first = ordered(table, chosen(table))[:TOP].tolist() if table.ranked else []
            part = {
                "archs": set(table.archs),
                "top": [table.archs[place] for place in first],
                "columns": {column.name: column.higher_is_better for column in _measured(reader)},
                "settings": clean(reader.settings),
                "brief": _brief(runs, name, reader),
            }
            part["curves"] = {each: best_so_far(*reader.told(each)) for each in part["columns"]}
            parts.append(part)
    shared = [name for name in parts[0]["columns"] if all(part["curves"].get(name) for part in parts)]
    return {
        "runs": [part["brief"] for part in parts],
        "settings": _side_by_side([part["settings"] for part in parts]),
        "columns": clean([{"name": name, "up": parts[0]["columns"][name]} for name in shared]),
        "curves": clean([{name: part["curves"][name] for name in shared} for part in parts]),
        "top": [[len(set(one["top"]) & set(other["top"])) for other in parts] for one in parts],
        "shared": [[len(one["archs"] & other["archs"]) for other in parts] for one in parts],
        "tops": TOP,
    }


def _measured(reader: RunReader) -> list[Measured]:
    """The columns that mean the same in every run: a place among a run's own candidates does not."""
    order = printable(str(reader.settings.get("ranking") or SUM_OF_RANKS))
    return [column for column in reader.table().columns if column.name != order]


def _side_by_side(settings: Sequence[Json]) -> list[Json]:
    """Every setting of every run; those that differ first."""
    flat = [_flat(each, ("decisions", "format", "sessions", "plan")) for each in settings]
    names = list(dict.fromkeys(name for each in flat for name in each))
    found = [{"name": name, "values": [each.get(name, "–") for each in flat]} for name in names]
    lines = [{**line, "differs": len(set(line["values"])) > 1} for line in found]
    return sorted(lines, key=lambda line: not line["differs"])


def _flat(settings: Mapping[str, Any], left_out: Sequence[str] = (), before: str = "") -> dict[str, str]:
    """Settings within settings by their path, as people read them.

    Example:
        >>> _flat({"task": {"name": "digits"}, "limits": {}, "seeds": [0, 1], "format": 1}, ["format"])
        {'task: name': 'digits', 'limits': '–', 'seeds': '0, 1'}
        >>> _flat({"seconds": 156.50759207251417})
        {'seconds': '156.508'}
    """
    found: dict[str, str] = {}
    for name, value in settings.items():
        if name in left_out:
            continue
        if isinstance(value, list) and any(isinstance(part, Mapping) for part in value):
            value = {str(place): part for place, part in enumerate(value, start=1)}
        if isinstance(value, Mapping) and value:
            found |= _flat(value, (), f"{before}{name}: ")
            continue
        said = ", ".join(map(_short, value)) if isinstance(value, list) else _short(value)
        found[f"{before}{name}"] = "–" if value in (None, "", [], {}) else said
    return found


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
