"""The report of a run folder: read what the run kept, hand it to :mod:`trainless.report`, write one file."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.files import unnumber
from trainless.core.task import Task
from trainless.core.text import undamaged
from trainless.designs.candidates import RESULT
from trainless.designs.ensemble import PREDICTIONS, SUMMARY, write_arrays
from trainless.designs.stages import SEARCHES
from trainless.learn.members import history_of, member_folder, read_document, task_from_json
from trainless.learn.predictor import ENSEMBLE
from trainless.report.contents import Arrays, Contents, Searched
from trainless.report.figures_result import in_doubt
from trainless.report.pictures import CASES, shown_of
from trainless.report.report import render
from trainless.runs.folder import LEADERBOARD, read_configuration, replace
from trainless.runs.trajectory import read_only, step_of
from trainless.spaces import registry as spaces
from trainless.spaces import space as find_space
from trainless.spaces.protocol import Space

REPORT, SHOWN = "report.html", "shown.npz"
BEST = 20  # of a leaderboard


def write_report(folder: str | Path, task: Task | None = None, chosen: Space | None = None) -> Path:
    """Make the report of a finished design, or of a search, and say where it is.

    Args:
        folder: The run folder.
        task: The data, where they are at hand: a few cases are kept in the folder to be shown, now and later.
        chosen: The space, where it is not a registered one.

    Raises:
        InputError: The folder holds no run, or one that has not come far enough.
    """
    path = Path(folder)
    settings = read_configuration(path)
    if settings.get("verb") == "design":
        if not (path / SUMMARY).exists():
            raise InputError(f"{path} is not finished: run the same trainless design again, then make the report")
        if task is not None and not (path / SHOWN).exists():
            said = arrays_in(path / PREDICTIONS)
            write_arrays(path / SHOWN, shown_of(task, in_doubt(said, CASES) if said else np.zeros(0, np.int64)))
    with undamaged(path, "run the same command again in a new folder"):
        contents = (_design if settings.get("verb") == "design" else _search)(path, settings, chosen)
        text = render(contents)
    replace(path / REPORT, text)
    return path / REPORT


def arrays_in(path: Path) -> Arrays:
    """The arrays of a file; none where there is no file."""
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def space_of(settings: Mapping[str, Any], text: str) -> Space | None:
    """The space of a run from what it is called, such as ``nb201(channels=8, cells=1)``; None if it is not known.

    Example:
        >>> from trainless.spaces.protocol import key
        >>> key(space_of({}, "nb201(channels=8, cells=1)"))
        'nb201(channels=8, cells=1)'
    """
    reference = str(settings.get("space", ""))
    if ":" in reference:  # code of the user's own, which runs only where the command line names it
        return None
    found = re.fullmatch(r"([\w-]+)\((.*)\)", text, re.DOTALL)
    if not found or found[1] not in spaces:
        return None
    try:
        call = ast.parse(f"_({found[2]})", mode="eval").body
        given = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}  # type: ignore[attr-defined]
        return find_space(found[1], **given)
    except (SyntaxError, ValueError, InputError):
        return None


def _design(path: Path, settings: Mapping[str, Any], chosen: Space | None) -> Contents:
    summary, ensemble = read_document(path / SUMMARY), read_document(path / ENSEMBLE)
    trials = summary["plan"]["searches"]
    places = [path / SEARCHES / trial["name"] for trial in trials]
    histories = {}
    for member in summary["members"]:
        if member["folder"]:
            histories[member["name"]] = history_of(member_folder(path, member["folder"]))
    return Contents(
        settings,
        _decisions(read_configuration(places[0])),
        chosen or space_of(settings, summary["plan"]["space"]),
        tuple(_searched(place, read_configuration(place), read_document(place / RESULT)) for place in places),
        summary,
        arrays_in(path / PREDICTIONS),
        histories,
        arrays_in(path / SHOWN),
        ensemble,
        task_from_json(ensemble["task"]),
    )


def _decisions(settings: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(options) for name, options in settings["decisions"].items()}


def _searched(path: Path, settings: Mapping[str, Any], result: Mapping[str, Any]) -> Searched:
    steps = [step_of(line.step) for line in read_only(path) if line.step is not None]
    told = [
        (step.number, p.candidate, o.values)
        for step in steps
        for p, o in zip(step.proposals, step.outcomes, strict=True)
    ]
    directions = {name: bool(up) for name, up in settings["higher_is_better"].items()}
    return Searched(
        result["trial"],
        settings["searcher"],
        settings["ranking"] or "",
        directions,
        tuple(candidate for _, candidate, _ in told),
        tuple(number for number, _, _ in told),
        {name: np.array([values.get(name, np.nan) for _, _, values in told]) for name in directions},
        tuple(tuple(arch) for arch in result["archs"][:BEST]),
        tuple({name: unnumber(value) for name, value in row.items()} for row in result["values"][:BEST]),
        int(result["evaluations"]),
        float(result["seconds"]),
        int(settings["seed"]),
    )


def _search(path: Path, settings: Mapping[str, Any], chosen: Space | None) -> Contents:
    if "searcher" not in settings:
        raise InputError(f"{path} is no folder of trainless design or search: give one of those")
    space = chosen or space_of(settings, str(settings["space"]))
    best, values = _leaderboard(path, settings, space)
    lines = [line.step for line in read_only(path) if line.step is not None]
    if not lines:
        raise InputError(f"{path} has nothing to report yet: run the same trainless search again first")
    evaluations, seconds, _ = lines[-1]["spent"]
    result = {"trial": settings["searcher"], "archs": best, "values": values}
    found = _searched(path, settings, {**result, "evaluations": evaluations, "seconds": seconds})
    return Contents(settings, _decisions(settings), space, (found,))


def _leaderboard(
    path: Path, settings: Mapping[str, Any], space: Space | None
) -> tuple[list[Arch], list[dict[str, Any]]]:
    """The best rows; none where the space that reads their notation is not known."""
    if space is None or not (path / LEADERBOARD).exists():
        return [], []
    with (path / LEADERBOARD).open(newline="", encoding="utf-8") as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(BEST), strict=False)]
    names = list(settings["higher_is_better"])
    values = [{name: float(row[name]) if row.get(name) else None for name in names} for row in rows]
    return [space.parse(row["arch"]) for row in rows], values
