"""How much a search by pruning takes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trainless.core.errors import InputError
from trainless.core.registry import Registry
from trainless.core.task import Task
from trainless.learn.recipe import Recipe, recipe_for
from trainless.spaces import registry as spaces
from trainless.spaces import space as named_space
from trainless.spaces.protocol import Counted, Space, Supernet


def prunings(space: Space, *, number: int = 1, first: Sequence[str] = ()) -> int:
    """How many regions a search by pruning looks at, whatever it finds.

    Args:
        space: What is pruned.
        number: Options that each decision loses in a round.
        first: Options that are closed before.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> prunings(NasBench201()), prunings(NasBench201(), first=("none",))
        (88, 57)
    """
    sizes = [max(1, len(set(decision.options) - set(first))) for decision in space.decisions]
    total = 0
    while any(size > 1 for size in sizes):
        total += 1 + sum(size for size in sizes if size > 1)
        sizes = [max(1, size - number) for size in sizes]
    return total


SEARCHERS = {"rl": "teacup_reinforce", "genetic": "pmbga", "prune": "prune"}
CUDA_WORK = 200.0  # how much more work a preset takes on where there is a GPU
CLOSED_FIRST = ("none",)  # what pruning closes before its first round, unless it is told
STEPS = 8  # of an epoch on small data: batches of the default recipe shrink to have as many


@dataclass(frozen=True)
class Preset:
    """How many searches, members and epochs, and how wide the networks may be.

    Args:
        name: What it is called.
        summary: What it is for, in one line.
        searches: Independent runs of each search method.
        evaluations: The most candidates of each run; pruning takes a fixed number and is left out where that is more.
        members: Networks of the ensemble.
        epochs: The most epochs; a recipe of fewer keeps its number.
        baseline: Networks of the single-architecture ensemble to compare with (TEACUP, 7.7); 0 for none.
        distinct: Whether an architecture that several searches end with is trained once.
        rungs: Widths and cells per stage to choose from, the thinnest first.
        work: Multiply–accumulates of the whole training that the width is chosen for, on a CPU.
        searcher_args: Parameters of each search method.
        methods: Which of ``SEARCHERS`` to run.
        ranking: What the searches go by.
    """

    name: str
    summary: str
    searches: int
    evaluations: int
    members: int
    epochs: int
    baseline: int = 0
    distinct: bool = True
    rungs: tuple[tuple[int, int], ...] = ((4, 1), (8, 1), (8, 2), (16, 1), (16, 2), (16, 3), (16, 5))
    work: float = 1e12
    searcher_args: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    methods: tuple[str, ...] = ("rl", "genetic", "prune")
    ranking: str = "trainless"


registry: Registry[Preset] = Registry("preset", "presets")
_QUICK: Mapping[str, Mapping[str, Any]] = {"rl": {"rate": 0.1}, "genetic": {"sets": 3}}
for _preset in (
    Preset("fast", "minutes on two cores", 1, 120, 5, 25, 5, work=1e12, searcher_args=_QUICK),
    Preset(
        "thorough", "hours: more searches, members and epochs", 4, 600, 12, 200, 10, work=1e14, searcher_args=_QUICK
    ),
    Preset(
        "teacup",
        "the paper's: ten runs of each of three methods, 30 members, 10 of one architecture",
        10,
        1000,
        30,
        200,
        10,
        distinct=False,
        rungs=((16, 5),),
        searcher_args={"prune": {"first": ()}},
        ranking="teacup",
    ),
):
    registry.add(_preset.name, _preset)


@dataclass(frozen=True)
class Trial:
    """One search to be run."""

    name: str
    searcher: str
    seed: int
    evaluations: int | None
    arguments: Mapping[str, Any]


def no_pruning(preset: Preset, space: Space) -> str:
    """Why a preset's pruning is left out; empty where it is not.

    It takes a fixed number of evaluations, which has to be within the preset's. Its winner comes after those of the
    other searches, which have to leave it a place among the members. A preset of nothing else keeps it.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> no_pruning(replace(registry["fast"], evaluations=20), NasBench201())
        'it takes 57 evaluations, and a search was to have 20 at most'
    """
    others = preset.searches * sum(method != "prune" for method in preset.methods)
    if "prune" not in preset.methods or not others:
        return ""
    if not isinstance(space, Supernet):
        return f"{space.name} has no supernets"
    needed = prunings(space, **{"first": CLOSED_FIRST, **preset.searcher_args.get("prune", {})})
    if needed > preset.evaluations:
        return f"it takes {needed} evaluations, and a search was to have {preset.evaluations} at most"
    if preset.members <= others:
        return f"the other {others} searches come first, and {preset.members} members leave it no place"
    return ""


def trials(preset: Preset, space: Space, seed: int, evaluations: int | None = None) -> list[Trial]:
    """The searches of a preset.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> [trial.name for trial in trials(registry["fast"], NasBench201(), 0)]
        ['rl-00', 'genetic-00', 'prune-00']
    """
    return [
        Trial(
            f"{short}-{run:02d}",
            searcher,
            1000 * seed + 100 * kind + run,
            None if short == "prune" else evaluations or preset.evaluations,
            preset.searcher_args.get(short, {}),
        )
        for kind, (short, searcher) in enumerate(SEARCHERS.items())
        if short in preset.methods and (short != "prune" or not no_pruning(preset, space))
        for run in range(preset.searches)
    ]


def recipe_of(preset: Preset, task: Task, epochs: int | None = None) -> Recipe:
    """The data's recipe with the preset's epochs; on small data the default one has smaller batches.

    Example:
        >>> recipe_of(registry["fast"], Task.noise((1, 8, 8))).epochs
        25
    """
    found = recipe_for(task)
    most = epochs or min(found.epochs, preset.epochs)
    warmup = min(found.warmup, most // 5)
    found = replace(found, epochs=most, warmup=warmup, patience=0 if found.patience >= most else found.patience)
    if found.name == "default" and task.train is not None:
        found = replace(found, batch=max(8, min(found.batch, 2 ** max(0, (len(task.train) // STEPS).bit_length() - 1))))
    return found


def rungs(preset: Preset, space: str, parameters: Mapping[str, Any]) -> list[Space]:
    """The spaces to choose a width from: the preset's, or the one that was asked for."""
    if ":" in space or parameters or not {"channels", "cells"} <= _parameters(space):
        return [named_space(space, **parameters)]
    return [named_space(space, channels=channels, cells=cells) for channels, cells in preset.rungs]


def widest(preset: Preset, ladder: list[Space], task: Task, recipe: Recipe, device: str) -> Space:
    """The widest space whose training is within the preset's work, by counts alone; the thinnest at least.

    Work is members × epochs × samples × 3 × multiply–accumulates of the densest architecture: a forward pass, and a
    backward pass of twice as much. It depends on the data and the preset, not on this machine's pace, so that the same
    command makes the same networks everywhere.
    """
    allowed = preset.work * (CUDA_WORK if device.startswith("cuda") else 1.0)
    samples = len(task.part("train")) * recipe.epochs * (preset.members + preset.baseline)
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


def require_designable(task: Task) -> None:
    """Raise InputError where an ensemble cannot be made for this task."""
    if task.target.kind == "tokens":
        raise InputError(
            f"the task {task.name!r} predicts tokens; trainless design makes ensembles for classes and values: use"
            " trainless search"
        )
    for part, least in (("train", 4), ("valid", 2)):
        held = {"train": task.train, "valid": task.valid}[part]
        if held is None or len(held) < least:
            count = 0 if held is None else len(held)
            raise InputError(f"{task.name}: {count} samples in the {part} part; expected at least {least}: add samples")


def require_promises(coverage: float, accuracy: float) -> None:
    """Raise InputError where a promise that is asked for is no share.

    Example:
        >>> require_promises(0.9, 2.0)
        Traceback (most recent call last):
        trainless.core.errors.InputError: accuracy=2.0 was given; expected a number between 0 and 1, such as 0.95
    """
    for name, value, usual in (("coverage", coverage, 0.9), ("accuracy", accuracy, 0.95)):
        if not 0 < value < 1:
            raise InputError(f"{name}={value} was given; expected a number between 0 and 1, such as {usual}")


def require_varied(task: Task) -> None:
    """Raise InputError where all inputs of a training batch are the same."""
    x, _ = task.batch(64, seed=0)
    if bool((x == x[:1]).all()):
        raise InputError(f"{task.name}: all inputs of the train part are the same: there is nothing to learn from")


def _parameters(space: str) -> set[str]:
    return set(inspect.signature(spaces[space]).parameters)
