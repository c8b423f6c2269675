"""A time budget: what a pilot measures on this machine, and how many searches, members and seconds follow from it.

Of the budget ``SEARCH`` goes to the searches and ``RESERVE`` to joining, judging and the report. The rest is training,
in rounds of as many members as there are workers, all rounds equally long. The plain network is the widest of a ladder
of which ``LEAST_MEMBERS`` can be trained well, that is for ``GOOD_STEPS`` steps and ``GOOD_EPOCHS`` epochs; what is
left over goes to further members. A member fits its own schedule to its round (:func:`trainless.learn.loop.train`), so
that a machine which slows down trains shorter and still ends in time. A plan is written down once and kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from trainless.core.arch import Arch, Candidate, Proposal
from trainless.core.errors import InputError
from trainless.core.seeds import one_thread
from trainless.core.task import Part, Task
from trainless.execution.executor import perform
from trainless.learn.loop import train
from trainless.learn.recipe import Recipe
from trainless.scoring.measures import Measure
from trainless.spaces.moves import sample
from trainless.spaces.protocol import Space

SEARCH, RESERVE, PILOT = 0.1, 0.08, 0.03  # shares of a time budget
LEAST_RESERVE = 12.0  # seconds to join, judge and report
JUDGING = 0.5  # of an epoch of each member, that its answers take at the end
GOOD_STEPS, GOOD_EPOCHS = 300, 12  # of a training that is worth its time
FULL = 4.0  # times as long, beyond which a training is not continued
LEAST_MEMBERS = 4  # for which the width of the networks is chosen
LEAST_SECONDS = 2.0  # of a member
BATCHES = 4  # trained to time a step
SAMPLED, DRAWN = 3, 60  # architectures that are scored to time them, of how many
LEAST_EVALUATIONS = 10
CROWDED = 1.15  # how much slower a step is where several processes share the memory
START = 4.0  # seconds that worker processes take to start


@dataclass(frozen=True)
class Numbers:
    """The amounts of a run: evaluations of each search, members, and the seconds of each round of training."""

    evaluations: int
    members: int
    round: float


def _repeated(measurements: Sequence[Callable[[], float]], most: float) -> list[float]:
    """Measure one after the other until they have taken so many seconds; the first in any case."""
    start, found = time.monotonic(), []
    for measure in measurements:
        found.append(measure())
        if time.monotonic() - start > most:
            break
    return found


def score_seconds(
    space: Space, measure: Measure, seed: int, most: float, fits: Callable[[Arch], bool] = lambda arch: True
) -> float:
    """Mean seconds to score an arch, from a few random ones that fit, the first twice; in about ``most`` seconds."""
    random = np.random.default_rng(seed)
    drawn = [sample(space, random) for _ in range(DRAWN)]
    archs = ([arch for arch in drawn if fits(arch)] or drawn)[:SAMPLED]
    took = _repeated([partial(_seconds, measure, arch) for arch in (archs[0], *archs)], most)
    return float(np.mean(took[1:] or took))


def _seconds(measure: Measure, candidate: Candidate) -> float:
    start = time.perf_counter()
    perform(measure, Proposal(candidate))
    return time.perf_counter() - start


def epoch_seconds(space: Space, arch: Arch, task: Task, recipe: Recipe, device: str) -> float:
    """Seconds of an epoch on one thread, from the second pass over a few batches."""
    part, valid = task.part("train"), task.part("valid")
    cut = slice(0, min(len(part), BATCHES * recipe.batch))
    small = replace(
        task,
        train=Part(part.x[cut], part.y[cut]),
        valid=Part(valid.x[:2], valid.y[:2]),
        fingerprint="pilot",
    )
    once = replace(recipe, epochs=2, class_weights="none")
    with one_thread():
        took = train(space.build(arch, task), small, once, device=device).history[-1].seconds
    seen = min(len(part), recipe.samples)
    checked = 1 + len(valid) / (3 * seen)  # validation is a forward pass, a third of a step
    return took * seen / len(small.part("train")) * checked


def good_epochs(samples: int, batch: int) -> int:
    """The epochs of a training that is worth its time.

    Example:
        >>> good_epochs(546, 32), good_epochs(5000, 32), good_epochs(30, 8)
        (17, 12, 75)
    """
    return max(GOOD_EPOCHS, math.ceil(GOOD_STEPS / math.ceil(samples / batch)))


def evaluations_within(seconds: float, score: float, searches: int, most: int, workers: int) -> int:
    """Evaluations of each search that fit, in whole tens, ten at least.

    Example:
        >>> evaluations_within(36.0, 0.5, 1, 500, 2), evaluations_within(1.0, 0.5, 1, 500, 1)
        (110, 10)
    """
    slower, starts = (CROWDED, START) if workers > 1 else (1.0, 0.0)
    number = math.floor((seconds / searches - starts) * workers / (slower * score) + 1e-9)
    return min(most, max(LEAST_EVALUATIONS, number // 10 * 10))


def members_within(seconds: float, good: float, most: int, workers: int) -> tuple[int, float]:
    """Members, in whole rounds, that can be trained for ``good`` seconds each, and the seconds of a round.

    There is one round at least, however short, and a round is no longer than ``FULL`` times what is good.

    Example:
        >>> members_within(240.0, 60.0, 8, 2)
        (6, 80.0)
        >>> members_within(240.0, 500.0, 8, 2), members_within(240.0, 1.0, 8, 1)
        ((2, 240.0), (8, 4.0))
    """
    slower = CROWDED * good if workers > 1 else good
    rounds = min(math.ceil(most / workers), max(1, math.floor(seconds / slower)))
    return min(most, rounds * workers), min(seconds / rounds, FULL * slower)


def training_seconds(budget: float, spent: float, judging: float = 0.0) -> float:
    """What is left of a budget for training, where judging takes so many seconds more than the reserve."""
    return budget - max(LEAST_RESERVE, RESERVE * budget) - judging - spent


def require_time(budget: float, spent: float, one: float) -> None:
    """Raise InputError where not even one member fits into what is left."""
    left = training_seconds(budget, spent)
    if left < LEAST_SECONDS + one:
        least = math.ceil((budget - left + LEAST_SECONDS + one) * 1.1)
        raise InputError(
            f"a time budget of {budget:g} s was given, and the least takes about {least} s here: give --time {least}s"
        )
