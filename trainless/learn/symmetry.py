"""Which flips and turns leave an answer as it is: asked for by name, or learnt from a network that never saw one.

A network that was trained without flips is asked about held-out cases as they are and flipped. Where it loses next to
nothing of what it knows, the data look alike from either side, and flips may be added in training. A network that knows
nothing allows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from trainless.core.errors import InputError
from trainless.core.task import Task, by_record
from trainless.core.types import Floats
from trainless.learn.batches import augment, in_order
from trainless.learn.ensemble import predictions
from trainless.learn.recipe import Augmentation

LEARN = "learn"
AXES: Mapping[int, tuple[str, ...]] = {1: ("time",), 2: ("updown", "leftright"), 3: ("depth", "updown", "leftright")}
TURN, DEGREES = "turn", 20.0
LOST = 0.1  # of what a network knows, that a change may cost at most
SURE = 1.645  # standard errors of the paired difference, that this is believed with
BATCH = 256
TINY = 1e-12


def known(dims: int) -> tuple[str, ...]:
    """The flips and turns of inputs of so many dimensions.

    Example:
        >>> known(1), known(2)
        (('time',), ('updown', 'leftright', 'turn'))
    """
    return (*AXES.get(dims, ()), *([TURN] if dims > 1 else []))


def named(text: str, dims: int) -> tuple[str, ...]:
    """The flips and turns that a text names; none of an empty one.

    Raises:
        InputError: One is not known of inputs of so many dimensions.
    """
    given = tuple(part.strip() for part in text.split(",") if part.strip())
    if wrong := [name for name in given if name not in known(dims)]:
        there = ", ".join(known(dims)) or "none: it has no grid"
        raise InputError(f"--symmetry {wrong[0]} was given; these data can have: {there} (or learn)")
    return given


def allowed(how: Augmentation, names: tuple[str, ...], dims: int) -> Augmentation:
    """A recipe's changes with flips and turns added.

    Example:
        >>> allowed(Augmentation(shift=0.1), ("leftright", "turn"), 2)
        Augmentation(flip=(1,), shift=0.1, zoom=0.0, rotate=20.0, scale=0.0, noise=0.0, mask=0.0, cutout=0)
    """
    flips = {axis for axis, name in enumerate(AXES.get(dims, ())) if name in names}
    turn = DEGREES if TURN in names else how.rotate
    return replace(how, flip=tuple(sorted({*how.flip, *flips})), rotate=turn)


@dataclass(frozen=True)
class Symmetry:
    """What one change costs: the share of what the network knows that is lost, and the most that it may be."""

    name: str
    lost: float
    most: float

    @property
    def allowed(self) -> bool:
        return self.most <= LOST

    def __str__(self) -> str:
        verdict = "added to the training" if self.allowed else "left out"
        what = "turns" if self.name == TURN else f"flips ({self.name})"
        return (
            f"{what} were {verdict}: they cost {self.lost:.0%} (at most {self.most:.0%}) of what a short training knew"
        )


def symmetries(net: nn.Module, task: Task, *, seed: int = 0) -> list[Symmetry]:
    """What each flip and turn costs on the validation part of a task, by a network that never saw one.

    The loss of each case, as it is and changed, is compared in pairs. What a network knows is by how much its loss is
    below that of always saying the classes' shares (or the mean) of the training part; where that is nothing, or
    cannot be told from nothing, every change costs all.
    """
    plain, prior = _losses(net, task, Augmentation(), seed), _prior(task)
    gain = prior - plain
    knows = float(gain.mean()) - SURE * _error(gain)
    found = []
    for name in known(task.dims):
        changed = allowed(Augmentation(), (name,), task.dims)
        cost = _losses(net, task, changed, seed, always=True) - plain
        mean = float(cost.mean())
        if knows > 0:
            found.append(Symmetry(name, mean / knows, (mean + SURE * _error(cost)) / knows))
        else:
            found.append(Symmetry(name, 1.0, 1.0))
    return found


def _losses(net: nn.Module, task: Task, how: Augmentation, seed: int, *, always: bool = False) -> Floats:
    """The loss of each validation case; ``always`` flips every input, not one in two."""
    part, source = task.part("valid"), torch.Generator().manual_seed(seed)
    answers = []
    with torch.inference_mode():
        for chunk in in_order(len(part), BATCH):
            x, _ = task.tensors("valid", chunk)
            if always and how.flip:
                x = x.flip([axis + 2 for axis in how.flip])
            elif always:
                x = augment(x, how, source)
            answers.append(net.eval()(x))
    said, y = by_record(predictions(torch.cat(answers), task.target), part.records), np.asarray(part.truth)
    return _loss(said, y, task)


def _prior(task: Task) -> Floats:
    """The loss of each validation case where the training part's shares, or mean, are always said."""
    train, y = task.part("train"), np.asarray(task.part("valid").truth)
    if task.target.kind == "regression":
        answer = np.asarray(train.truth, np.float64).reshape(train.cases, -1).mean(0)
    else:
        counts = np.bincount(np.asarray(train.truth, np.int64), minlength=task.target.classes) + 1.0
        answer = counts / counts.sum()
    return _loss(np.tile(answer, (len(y), 1)), y, task)


def _loss(said: Floats, y: Floats, task: Task) -> Floats:
    if task.target.kind == "regression":
        return np.asarray(np.square(said - y.reshape(said.shape)).sum(1))
    return np.asarray(-np.log(np.maximum(said[np.arange(len(y)), y.astype(np.int64)], TINY)))


def _error(values: Floats) -> float:
    """The standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else math.inf
