"""The plan of a design: its numbers, from the preset or from what fits into a time budget; written once and kept."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.files import from_json, to_json, write_json
from trainless.core.task import Task
from trainless.core.text import undamaged
from trainless.core.types import Json
from trainless.designs.budget import (
    PILOT,
    RESERVE,
    epoch_seconds,
    least_epochs,
    pace_of,
    plan_within,
    prunings,
    training_numbers,
)
from trainless.designs.holdout import hold_back
from trainless.designs.run import DesignRun
from trainless.designs.settings import DesignSettings
from trainless.learn.members import VERSION, read_document
from trainless.learn.recipe import Recipe, recipe_for
from trainless.rankings import ranking as named_ranking
from trainless.runs.folder import PLAN
from trainless.scoring.measures import ByProxies
from trainless.scoring.request import init_named, select
from trainless.spaces import registry as spaces
from trainless.spaces import space as named_space
from trainless.spaces.protocol import Counted, Space, Supernet, key

SEARCHERS = {"rl": "teacup_reinforce", "genetic": "pmbga", "prune": "prune"}
CLOSED_FIRST = ("none",)  # what pruning closes before its first round, unless it is told
CUDA_WORK = 200.0  # how much more work a preset takes on where there is a GPU
STEPS = 8  # of an epoch on small data: batches of the default recipe shrink to have as many


@dataclass(frozen=True)
class Trial:
    """One search to be run."""

    name: str
    searcher: str
    seed: int
    evaluations: int | None
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class DesignPlan:
    """Everything that is to be done: ``plan.json``.

    With a time budget there is a ``pilot``, what was measured, and members and epochs are ``settled``, that is final,
    once the searches are over. Notes are what the user should know.
    """

    space: Space
    searches: tuple[Trial, ...]
    members: int
    baseline: int
    recipe: Recipe
    pilot: Mapping[str, Any] | None
    settled: bool
    notes: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """Plain data; the space by its key."""
        own = {each.name: to_json(getattr(self, each.name)) for each in fields(self) if each.name != "space"}
        return {"version": VERSION, "space": key(self.space), **own}


def ladder_of(settings: DesignSettings) -> list[Space]:
    """The spaces to choose a width from, the thinnest first: the preset's, or the one that was asked for."""
    name, parameters = settings.space, settings.space_args
    if ":" in name or parameters or not {"channels", "cells"} <= set(inspect.signature(spaces[name]).parameters):
        return [named_space(name, **parameters)]
    return [named_space(name, channels=channels, cells=cells) for channels, cells in settings.rungs]


def plan_of(run: DesignRun, spent: float = 0.0) -> DesignPlan:
    """The plan that is there, or a new one that is written down.

    Without a time budget everything follows from the settings and the data, and two runs are the same. With one, the
    pilot decides, so that two runs may have other numbers; a resumed run keeps its own. So many seconds of the budget
    are spent already.
    """
    folder, settings, task, ladder = run.folder, run.settings, run.task, run.ladder
    if (folder / PLAN).exists():
        return _read(folder / PLAN, ladder)
    recipe = recipe_of(settings, task)
    if settings.seconds is None:
        space = widest(settings, ladder, task, recipe)
        searches, notes = tuple(trials(settings, space)), _notes(no_pruning(settings, space))
        plan = DesignPlan(space, searches, settings.members, settings.baseline, recipe, None, True, notes)
    else:
        plan = _within(settings, settings.seconds, spent, task, ladder, recipe)
    write_json(folder / PLAN, plan.to_json())
    return plan


def settle(run: DesignRun, plan: DesignPlan, task: Task, archs: list[Arch], elapsed: Callable[[], float]) -> DesignPlan:
    """Plan members and epochs again from the time that is left and a few of the architectures that were found."""
    settings = run.settings
    if plan.settled or settings.seconds is None:
        return plan
    most = recipe_of(settings, task).epochs
    seconds = epoch_seconds(plan.space, archs, task, plan.recipe, settings.device, PILOT * settings.seconds)
    left = settings.seconds * (1 - RESERVE / 2) - elapsed()
    members, baseline, epochs, expected = training_numbers(
        seconds, left, settings.members, settings.baseline, most, settings.workers, least_epochs(task, plan.recipe)
    )
    settled = replace(
        plan,
        members=members,
        baseline=baseline,
        recipe=replace(recipe_of(settings, task, epochs), patience=0),
        pilot={**(plan.pilot or {}), "training": {"epoch": seconds, "left": left, "expected": expected}},
        settled=True,
    )
    write_json(run.folder / PLAN, settled.to_json())
    return settled


def trials(settings: DesignSettings, space: Space, evaluations: int | None = None) -> list[Trial]:
    """The searches of a design, each of so many evaluations."""
    return [
        Trial(
            f"{short}-{run:02d}",
            searcher,
            1000 * settings.seed + 100 * kind + run,
            None if short == "prune" else evaluations or settings.evaluations,
            settings.searcher_args.get(short, {}),
        )
        for kind, (short, searcher) in enumerate(SEARCHERS.items())
        if short in settings.methods and (short != "prune" or not no_pruning(settings, space))
        for run in range(settings.searches)
    ]


def no_pruning(settings: DesignSettings, space: Space) -> str:
    """Why pruning is left out; empty where it is not.

    It takes a fixed number of evaluations, which has to be within what a search may have. Its winner comes after those
    of the other searches, which have to leave it a place among the members. A design of nothing else keeps it.
    """
    others = settings.searches * sum(method != "prune" for method in settings.methods)
    if "prune" not in settings.methods or not others:
        return ""
    if not isinstance(space, Supernet):
        return f"{space.name} has no supernets"
    needed = prunings(space, **{"first": CLOSED_FIRST, **settings.searcher_args.get("prune", {})})
    if needed > settings.evaluations:
        return f"it takes {needed} evaluations, and a search was to have {settings.evaluations} at most"
    if settings.members <= others:
        return f"the other {others} searches come first, and {settings.members} members leave it no place"
    return ""


def recipe_of(settings: DesignSettings, task: Task, epochs: int | None = None) -> Recipe:
    """The data's recipe with as many epochs at most; on small data the default one has smaller batches."""
    found = recipe_for(task)
    most = epochs or min(found.epochs, settings.epochs)
    warmup = min(found.warmup, most // 5)
    found = replace(found, epochs=most, warmup=warmup, patience=0 if found.patience >= most else found.patience)
    if found.name == "default" and task.train is not None:
        found = replace(found, batch=max(8, min(found.batch, 2 ** max(0, (len(task.train) // STEPS).bit_length() - 1))))
    return found


def widest(settings: DesignSettings, ladder: list[Space], task: Task, recipe: Recipe) -> Space:
    """The widest space whose training is within the settings' work, by counts alone; the thinnest at least.

    Work is members × epochs × samples × 3 × multiply–accumulates of the densest architecture: a forward pass, and a
    backward pass of twice as much. It depends on the data and the preset, not on this machine's pace, so that the same
    command makes the same networks everywhere.
    """
    allowed = settings.work * (CUDA_WORK if settings.device.startswith("cuda") else 1.0)
    samples = len(task.part("train")) * recipe.epochs * (settings.members + settings.baseline)
    chosen = ladder[0]
    for space in ladder[1:]:
        if 3 * samples * densest_flops(space, task) <= allowed:
            chosen = space
    return chosen


def densest_flops(space: Space, task: Task) -> float:
    """Multiply–accumulates of the most expensive of each decision's options; infinite where it cannot be counted."""
    if not isinstance(space, Counted):
        return float("inf")
    arch = tuple(0 for _ in space.decisions)
    for place, decision in enumerate(space.decisions):
        options = [(*arch[:place], option, *arch[place + 1 :]) for option in range(len(decision))]
        arch = max((one for one in options if space.valid(one)), key=lambda one: space.counts(one, task).flops)
    return float(space.counts(arch, task).flops)


def scored_samples(task: Task) -> int:
    """Samples per batch of the proxies: 0 for the papers' numbers, on small data all there are, in whole eights."""
    n = len(task.part("train"))
    return 0 if n >= 128 else n // 8 * 8 or n


def _within(
    settings: DesignSettings, budget: float, spent: float, task: Task, ladder: list[Space], recipe: Recipe
) -> DesignPlan:
    start, seconds = time.monotonic(), budget - spent
    seen = hold_back(task, recipe, settings.seed, choosing=settings.learn).task
    proxies, init = select(named_ranking(settings.ranking).proxies), init_named(settings.init)

    def measured(rung: Space) -> Any:
        options: dict[str, Any] = {"seed": settings.seed, "init": init, "device": settings.device}
        measure = ByProxies(rung, task, proxies, batch=scored_samples(task), **options)
        prune = "prune" in settings.methods and not no_pruning(settings, rung)
        return pace_of(rung, measure, seen, recipe, settings, seconds, prune=prune)

    fewest = least_epochs(task, recipe)
    space, pace, numbers = plan_within(seconds, ladder, measured, settings, recipe.epochs, fewest, gone=spent)
    chosen, why = trials(settings, space, numbers.evaluations), no_pruning(settings, space)
    if not numbers.prune and any(trial.evaluations is None for trial in chosen):
        chosen = [trial for trial in chosen if trial.evaluations is not None]
        why = "it does not fit into the time budget"
    pilot = {"seconds": time.monotonic() - start, "pace": asdict(pace), "expected": asdict(numbers)}
    final = replace(recipe_of(settings, task, numbers.epochs), patience=0)  # no early end: its time is known
    return DesignPlan(space, tuple(chosen), numbers.members, numbers.baseline, final, pilot, False, _notes(why))


def _notes(why: str) -> tuple[str, ...]:
    return (f"pruning was left out: {why}",) if why else ()


def _read(path: Path, ladder: list[Space]) -> DesignPlan:
    data = read_document(path)
    space = next((rung for rung in ladder if key(rung) == data["space"]), None)
    if space is None:
        raise InputError(f"{path} plans with {data['space']}, which was not asked for: give another folder")
    with undamaged(path, "give another folder with --out"):
        del data["version"]
        return from_json(DesignPlan, {**data, "space": space})
