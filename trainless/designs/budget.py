"""A time budget: pilot steps measure this machine's pace, and the numbers of everything follow from it.

The pilot scores a few random architectures and, where there is one, the whole supernet, and trains a few batches. Of
the budget ``SEARCH`` goes to the searches and the rest, less a reserve, to training. The networks are the widest whose
training at the preset's numbers fits; where not even the thinnest does, there are fewer evaluations, members and
epochs. After the searches the architectures that were found are timed too, and members and epochs are planned from the
time that is left. A plan is written down once and kept: a resumed run does what was planned.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from trainless.core.arch import Arch, Candidate, Proposal, whole
from trainless.core.errors import InputError
from trainless.core.seeds import one_thread
from trainless.core.task import Part, Task
from trainless.designs.settings import DesignSettings
from trainless.execution.executor import perform
from trainless.learn.batches import EPOCH
from trainless.learn.loop import train
from trainless.learn.recipe import Recipe
from trainless.scoring.measures import Measure
from trainless.spaces.moves import sample
from trainless.spaces.protocol import Space, Supernet

SEARCH, RESERVE, PILOT = 0.3, 0.08, 0.03  # shares of a time budget
TOO_LONG = 1.15  # of a budget that the least may take
LEAST_STEPS = 100  # of a training, where the preset's epochs have as many
BATCHES = 4  # trained to time a step
SAMPLED = 3  # architectures that are timed
LEAST_EPOCHS, LEAST_EVALUATIONS, LEAST_MEMBERS = 5, 10, 3
CROWDED = 1.15  # how much slower a step is where several processes share the memory
REGIONS = 0.6  # of the whole supernet's time that a region takes in the mean of a pruning
START = 4.0  # seconds that worker processes take to start


@dataclass(frozen=True)
class StepSeconds:
    """Seconds on one thread here: to score an arch, for a whole pruning (0 for none), to train an arch for an epoch."""

    score: float
    pruning: float
    epoch: float


def prunings(space: Space, *, number: int = 1, first: Sequence[str] = ()) -> int:
    """The number of regions that a search by pruning looks at, whatever it finds.

    Each decision loses so many options in a round; the ``first`` ones are closed before.

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


def pace_of(
    space: Space,
    measure: Measure,
    task: Task,
    recipe: Recipe,
    settings: DesignSettings,
    seconds: float,
    *,
    prune: bool = True,
) -> StepSeconds:
    """Measure the pace on a few random architectures of a space, on fewer where they are slow for the budget.

    The task is the data as training sees them; to ``prune`` times a pruning too.
    """
    random = np.random.default_rng(settings.seed)
    archs = [sample(space, random) for _ in range(SAMPLED)]
    scores = _repeated([partial(_seconds, measure, arch) for arch in (archs[0], *archs)], PILOT * seconds)
    score, pruning = float(np.mean(scores[1:] or scores)), 0.0
    if prune and isinstance(space, Supernet) and prunings(space) * score <= SEARCH * seconds * settings.workers:
        pruning = REGIONS * prunings(space) * _seconds(measure, whole(space.decisions))
    return StepSeconds(score, pruning, epoch_seconds(space, archs, task, recipe, settings.device, PILOT * seconds))


def _repeated(measurements: Sequence[Callable[[], float]], most: float) -> list[float]:
    """Measure one after the other until they have taken so many seconds; the first in any case."""
    start, found = time.monotonic(), []
    for measure in measurements:
        found.append(measure())
        if time.monotonic() - start > most:
            break
    return found


def epoch_seconds(
    space: Space, archs: Sequence[Arch], task: Task, recipe: Recipe, device: str, most: float = math.inf
) -> float:
    """Mean seconds of an epoch, from the second pass over a few batches with each arch; within ``most`` seconds."""
    part, valid = task.part("train"), task.part("valid")
    steps = math.ceil(len(part) / recipe.batch)
    cut = slice(0, min(steps, BATCHES) * recipe.batch)
    few = Part(part.x[cut], part.y[cut])
    small = replace(task, train=few, valid=Part(valid.x[:2], valid.y[:2]), fingerprint="pilot")
    once = replace(recipe, epochs=2, patience=0, warmup=0, class_weights="none")

    def timed(arch: Arch) -> float:
        return train(space.build(arch, task), small, once, device=device).history[-1].seconds

    with one_thread():
        took = _repeated([partial(timed, arch) for arch in archs], most)
    seen = min(len(part), EPOCH)
    checked = 1 + len(valid) / (3 * seen)  # validation is a forward pass, a third of a step
    return float(np.mean(took)) * seen / len(few) * checked


def _seconds(measure: Measure, candidate: Candidate) -> float:
    start = time.perf_counter()
    perform(measure, Proposal(candidate))
    return time.perf_counter() - start


@dataclass(frozen=True)
class Numbers:
    """The amounts of a run, and the seconds that they are expected to take."""

    evaluations: int
    prune: bool
    members: int
    baseline: int
    epochs: int
    search_seconds: float
    train_seconds: float


def search_numbers(
    pace: StepSeconds, seconds: float, searches: int, evaluations: int, workers: int
) -> tuple[int, bool, float]:
    """Evaluations of each learning search, whether to prune too (in half the time at most), and the seconds of it all.

    Example:
        >>> search_numbers(StepSeconds(0.1, 10.0, 1.0), 60.0, 1, 500, 1)
        (250, True, 60.0)
    """
    slower = CROWDED if workers > 1 else 1.0
    starts = START if workers > 1 else 0.0
    score, pruning = slower * pace.score / workers, slower * pace.pruning / workers + starts * (pace.pruning > 0)
    least = searches * 2 * (LEAST_EVALUATIONS * score + starts)
    prune = 0 < searches * pruning <= max(0.0, min(seconds / 2, seconds - least))
    left = seconds - prune * searches * pruning - 2 * searches * starts
    number = math.floor(left / (2 * searches * score) + 1e-9)
    number = min(evaluations, max(LEAST_EVALUATIONS, number // 10 * 10))
    return number, prune, searches * (2 * (number * score + starts) + prune * pruning)


def training_numbers(
    epoch: float,
    seconds: float,
    members: int,
    baseline: int,
    epochs: int,
    workers: int,
    least_epochs: int = LEAST_EPOCHS,
) -> tuple[int, int, int, float]:
    """Members, members of the baseline, epochs, and the seconds of it all.

    Where the preset's numbers, which are given, do not fit, members and epochs shrink alike: with room for B epochs in
    all, √(B·M/E) of M members are trained for B over as many epochs, three members at least where that is possible at
    all; the baseline shrinks as the members do.

    Example:
        >>> training_numbers(1.0, 1000.0, 5, 0, 60, 1), training_numbers(1.0, 100.0, 5, 0, 60, 1)
        ((5, 0, 60, 300.0), (3, 0, 33, 99.0))
    """
    slower = CROWDED * epoch if workers > 1 else epoch
    room = seconds - (START if workers > 1 else 0.0)

    def rounds(count: int) -> int:
        return math.ceil(count / workers)

    if rounds(members + baseline) * epochs * slower <= room:
        return members, baseline, epochs, rounds(members + baseline) * epochs * slower
    share = 1 + baseline / members
    affordable = max(1.0, room * workers / slower)
    least = LEAST_MEMBERS if affordable >= LEAST_MEMBERS * least_epochs else 1
    few = min(members, max(least, round(math.sqrt(affordable / share * members / epochs))))
    fewer = round(baseline * few / members) if few > least else 0
    turns = rounds(few + fewer)
    number = min(epochs, max(least_epochs, math.floor(room / (turns * slower))))
    return few, fewer, number, turns * number * slower


def plan_within(
    seconds: float,
    ladder: Sequence[Space],
    measured: Callable[[Space], StepSeconds],
    settings: DesignSettings,
    epochs: int,
    least_epochs: int = LEAST_EPOCHS,
    gone: float = 0.0,
) -> tuple[Space, StepSeconds, Numbers]:
    """The widest space at which everything that is wanted fits, or the thinnest with less of it.

    The ladder has the thinnest space first; ``gone`` is what went by of the budget before. Where not even the least
    fits, that is an InputError.
    """
    members, baseline, workers = settings.members, settings.baseline, settings.workers
    start = time.monotonic()
    chosen: tuple[Space, StepSeconds, Numbers] | None = None
    for space in ladder:
        pace = measured(space)
        left = seconds * (1 - RESERVE) - (time.monotonic() - start)
        number, prune, search = search_numbers(pace, SEARCH * left, settings.searches, settings.evaluations, workers)
        few, fewer, rounds, training = training_numbers(
            pace.epoch, left - search, members, baseline, epochs, workers, least_epochs
        )
        numbers = Numbers(number, prune, few, fewer, rounds, search, training)
        whole_wish = (few, fewer, rounds) == (members, baseline, epochs)
        if chosen is None or whole_wish:
            chosen = space, pace, numbers
        if not whole_wish or time.monotonic() - start > 0.05 * seconds:
            break
    if chosen is None:
        raise ValueError("a ladder has at least one space")
    numbers, pilot = chosen[2], time.monotonic() - start
    least = pilot + numbers.search_seconds + numbers.train_seconds
    if least > TOO_LONG * seconds:
        start_up = f", {gone:.0f} s of them to start" if gone >= 1 else ""
        raise InputError(
            f"a time budget of {seconds + gone:g} s was given, and the least takes about {gone + least:.0f} s here"
            f"{start_up}: give --time {math.ceil((gone + least) / 54)}m, thinner networks with --space-args, or"
            " smaller inputs"
        )
    return chosen


def least_epochs(task: Task, recipe: Recipe) -> int:
    """The fewest epochs of a plan: five, or as few as make a hundred steps on large data."""
    steps = math.ceil(len(task.part("train")) / recipe.batch)
    return max(1, min(LEAST_EPOCHS, recipe.epochs, math.ceil(LEAST_STEPS / steps)))
