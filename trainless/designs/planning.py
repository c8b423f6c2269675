"""The numbers of a design: from its preset, or from what fits into a time budget; written once and kept."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainless.core.errors import InputError
from trainless.core.files import from_json, to_json, write_json
from trainless.core.task import Task
from trainless.designs.budget import PILOT, RESERVE, epoch_seconds, least_epochs, pace_of, plan_within, training_numbers
from trainless.designs.candidates import Winner, architectures, scored_samples
from trainless.designs.holdout import Held, hold_back
from trainless.designs.settings import Preset, Trial, no_pruning, recipe_of, trials, widest
from trainless.execution.engine import Engine
from trainless.learn.members import VERSION, read_document
from trainless.learn.recipe import Recipe
from trainless.rankings import ranking as named_ranking
from trainless.scoring.measures import ByProxies
from trainless.scoring.request import init_named, select
from trainless.spaces.protocol import Space, key

PLAN = "plan.json"
TIMED = 3  # architectures that are timed after the searches


@dataclass(frozen=True)
class Wish:
    """What was asked for.

    Args:
        preset: Numbers, as far as the others do not say.
        ranking: What the searches go by.
        init: How networks are initialised for scoring.
        device: Where everything runs.
        workers: Processes.
        seed: The seed of everything.
        seconds: The time budget; None for none.
        engine: Where these processes are, and the limits of one candidate.
        store: A store that other machines share; empty for one per search.
        learn: Whether the later half of the members is chosen by what the first half taught.
    """

    preset: Preset
    ranking: str
    init: str
    device: str
    workers: int
    seed: int
    seconds: float | None
    engine: Engine = field(default_factory=Engine)
    store: str = ""
    learn: bool = False


@dataclass(frozen=True)
class Plan:
    """What is to be done."""

    space: Space
    searches: tuple[Trial, ...]
    members: int
    baseline: int
    recipe: Recipe
    pilot: Mapping[str, Any] | None
    settled: bool
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data; the space by its key."""
        return {
            "version": VERSION,
            "space": key(self.space),
            "searches": [dataclasses.asdict(trial) for trial in self.searches],
            "members": self.members,
            "baseline": self.baseline,
            "recipe": to_json(self.recipe),
            "pilot": self.pilot,
            "settled": self.settled,
            "notes": list(self.notes),
        }


def plan_of(folder: Path, wish: Wish, task: Task, ladder: list[Space], spent: float = 0.0) -> Plan:
    """The plan that is there, or a new one that is written down.

    Without a time budget everything follows from the preset and the data, and two runs are the same. With one, the
    pilot decides, so that two runs may have other numbers; a run that is gone on with keeps its own.

    Args:
        folder: The run folder.
        wish: What was asked for.
        task: The data.
        ladder: The spaces to choose from, the thinnest first.
        spent: Seconds of the budget that are gone already.
    """
    if (folder / PLAN).exists():
        return _read(folder / PLAN, ladder)
    recipe = recipe_of(wish.preset, task)
    if wish.seconds is None:
        space = widest(wish.preset, ladder, task, recipe, wish.device)
        searches = tuple(trials(wish.preset, space, wish.seed))
        notes = _notes(no_pruning(wish.preset, space))
        plan = Plan(space, searches, wish.preset.members, wish.preset.baseline, recipe, None, True, notes)
    else:
        plan = _within(wish, wish.seconds, spent, task, ladder, recipe)
    write_json(folder / PLAN, plan.to_json())
    return plan


def _within(wish: Wish, budget: float, spent: float, task: Task, ladder: list[Space], recipe: Recipe) -> Plan:
    preset, start, seconds = wish.preset, time.monotonic(), budget - spent
    held = hold_back(task, recipe, wish.seed, choosing=wish.learn)
    proxies = select(named_ranking(wish.ranking).proxies)
    options: dict[str, Any] = {"seed": wish.seed, "init": init_named(wish.init), "device": wish.device}
    space, pace, numbers = plan_within(
        seconds,
        ladder,
        lambda rung: pace_of(
            rung,
            ByProxies(rung, task, proxies, batch=scored_samples(task), **options),
            held.task,
            recipe,
            wish.device,
            wish.seed,
            seconds,
            wish.workers,
            prune="prune" in preset.methods and not no_pruning(preset, rung),
        ),
        searches=preset.searches,
        evaluations=preset.evaluations,
        members=preset.members,
        baseline=preset.baseline,
        epochs=recipe.epochs,
        workers=wish.workers,
        least_epochs=least_epochs(task, recipe),
        gone=spent,
    )
    chosen = trials(preset, space, wish.seed, numbers.evaluations)
    why = no_pruning(preset, space)
    if not numbers.prune and any(trial.evaluations is None for trial in chosen):
        chosen = [trial for trial in chosen if trial.evaluations is not None]
        why = "it does not fit into the time budget"
    pilot = {
        "seconds": time.monotonic() - start,
        "pace": dataclasses.asdict(pace),
        "expected": dataclasses.asdict(numbers),
    }
    final = steady(recipe_of(preset, task, numbers.epochs))
    return Plan(space, tuple(chosen), numbers.members, numbers.baseline, final, pilot, False, _notes(why))


def _notes(why: str) -> tuple[str, ...]:
    return (f"pruning was left out: {why}",) if why else ()


def steady(recipe: Recipe) -> Recipe:
    """The recipe without an early end, so that its time is known; the best weights are still the ones kept.

    Example:
        >>> from trainless.learn.recipe import recipe
        >>> steady(recipe("default")).patience
        0
    """
    return dataclasses.replace(recipe, patience=0)


def settle(
    folder: Path, plan: Plan, wish: Wish, task: Task, held: Held, winners: list[Winner], elapsed: Callable[[], float]
) -> Plan:
    """Plan members and epochs again from the time that is left and the architectures that were found."""
    if plan.settled or wish.seconds is None:
        return plan
    found = architectures(winners, plan.space, TIMED, distinct=wish.preset.distinct)
    most = recipe_of(wish.preset, task).epochs
    archs = [arch for _, arch in found]
    seconds = epoch_seconds(plan.space, archs, held.task, plan.recipe, wish.device, PILOT * wish.seconds)
    left = wish.seconds * (1 - RESERVE / 2) - elapsed()
    preset = wish.preset
    members, baseline, epochs, expected = training_numbers(
        seconds, left, preset.members, preset.baseline, most, wish.workers, least_epochs(task, plan.recipe)
    )
    measured = {"epoch": seconds, "left": left, "expected": expected}
    settled = dataclasses.replace(
        plan,
        members=members,
        baseline=baseline,
        recipe=steady(recipe_of(preset, task, epochs)),
        pilot={**(plan.pilot or {}), "training": measured},
        settled=True,
    )
    write_json(folder / PLAN, settled.to_json())
    return settled


def _read(path: Path, ladder: list[Space]) -> Plan:
    data = read_document(path)
    space = next((rung for rung in ladder if key(rung) == data["space"]), None)
    if space is None:
        raise InputError(f"{path} plans with {data['space']}, which was not asked for: give another folder")
    searches = tuple(
        Trial(**{**trial, "arguments": {name: _tuples(value) for name, value in trial["arguments"].items()}})
        for trial in data["searches"]
    )
    recipe, notes = from_json(Recipe, data["recipe"]), tuple(data.get("notes", ()))
    return Plan(space, searches, data["members"], data["baseline"], recipe, data["pilot"], data["settled"], notes)


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
