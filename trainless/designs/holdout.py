"""The holdout: which samples are kept from which trainings; values are learnt standardised."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from trainless.core.errors import InputError
from trainless.core.task import Part, Rows, Task
from trainless.core.types import Floats, Index
from trainless.learn.predictor import predict_part
from trainless.learn.recipe import Recipe
from trainless.tasks.split import divided

SMALL = 20_000  # samples, beyond which one validation part is enough


@dataclass(frozen=True, eq=False)
class Holdout:
    """Which samples are kept from which trainings, so that promises are made on samples that taught nothing.

    On small data every network is trained on all but one fold of the training and validation parts, the ``pool``, and
    says what it says of that fold. Large data, and recipes that choose checkpoints by the validation part, have one
    fold: the validation part itself, or the half of it that chooses nothing.

    Args:
        task: The task as it was given.
        pool: The samples that are held out in one fold or another.
        held: The rows of the pool that each fold holds out, shuffled by cases.
        stopping: The rows of the pool that choose checkpoints; None for none.
        seed: What the folds were drawn by.
    """

    task: Task
    pool: Part
    held: tuple[Index, ...]
    stopping: Index | None = None
    seed: int = 0

    def fold(self, number: int) -> Task:
        """The task as the trainings of a fold see it, with what they hold out as its validation part."""
        if len(self.held) > 1:
            held = np.sort(self.held[number])
            rest = np.setdiff1d(np.arange(len(self.pool)), held)
            name = f"{self.task.fingerprint}.{self.seed}.{number}of{len(self.held)}"
            return replace(self.task, train=self.pool.take(rest), valid=self.pool.take(held), fingerprint=name)
        if self.stopping is None:
            return self.task
        valid = self.pool.take(self.stopping)
        return replace(self.task, valid=valid, fingerprint=f"{self.task.fingerprint}.{self.seed}")

    def cases(self, folds: Iterable[int]) -> int:
        """How many cases some folds hold out."""
        return sum(len(self.pool.first_of(self.held[number])) for number in folds)

    def answers(self, net: nn.Module, number: int, device: str) -> Floats:
        """What a network of a fold says of the pool's cases ``(cases, outputs)``; NaN of those that it learnt from."""
        held = self.held[number]
        cases = np.flatnonzero(np.isin(self.pool.first, held))
        if len(self.held) > 1:
            said = predict_part(net, self.fold(number), "valid", device)
        else:
            said = predict_part(net, self.task, "valid", device)[cases]
        found = np.full((self.pool.cases, said.shape[1]), np.nan)
        found[cases] = said
        return found


def hold_back(task: Task, recipe: Recipe, seed: int, folds: int = 1, *, choosing: bool = False) -> Holdout:
    """Divide the samples into those that teach and those that promises are made on, with whole groups together.

    Args:
        task: The data.
        recipe: One that keeps the best weights chooses them by half of the validation part.
        seed: Draws folds and orders.
        folds: How many there are on small data, if the data allow it.
        choosing: Whether the validation part chooses members too, so that only half of it is for promises.

    Example:
        >>> from trainless.learn.recipe import recipe
        >>> from trainless.tasks import task
        >>> held = hold_back(task("digits"), recipe("default"), seed=0, folds=5)
        >>> len(held.pool), [len(held.fold(number).valid) for number in range(5)]
        (1528, [304, 306, 306, 306, 306])
        >>> held = hold_back(task("digits"), recipe("default", keep="best"), seed=0)
        >>> len(held.fold(0).valid), len(held.held[0])
        (130, 139)
    """
    valid = task.part("valid")
    order = np.random.default_rng([seed, len(valid)])
    if recipe.keep == "best" or choosing:
        stopping, calibration = _halves(valid, task.target.kind == "regression", seed)
        return Holdout(task, valid, (_shuffled(valid, calibration, order),), stopping, seed)
    if folds > 1 and is_small(task):
        pool = joined(task.part("train"), valid)
        number = min(folds, _most_folds(pool))
        if number > 1:
            pieces = divided(pool, seed, (1 / number,) * number, values=task.target.kind == "regression")
            return Holdout(task, pool, tuple(_shuffled(pool, piece, order) for piece in pieces), None, seed)
    return Holdout(task, valid, (_shuffled(valid, np.arange(len(valid)), order),), None, seed)


def is_small(task: Task) -> bool:
    """Whether a task's training samples are in memory and few enough for folds."""
    parts = (task.part("train"), task.part("valid"))
    return not any(isinstance(part.x, Rows | np.memmap) for part in parts) and sum(map(len, parts)) <= SMALL


def joined(*parts: Part) -> Part:
    """Parts one after the other; recordings keep apart."""

    def both(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if any(array is None for array in arrays) else np.concatenate([array[:] for array in arrays])

    records = both("records")
    if records is not None:
        codes = [np.unique(part.records, return_inverse=True)[1] for part in parts if part.records is not None]
        starts = np.cumsum([0, *(int(code.max(initial=-1)) + 1 for code in codes[:-1])])
        records = np.concatenate([code.reshape(-1) + start for code, start in zip(codes, starts, strict=True)])
    return Part(both("x"), both("y"), both("groups"), records, both("names"))


def _most_folds(pool: Part) -> int:
    """As many folds as there are pairs of cases, or groups."""
    return pool.cases // 2 if pool.groups is None else len(np.unique(pool.groups))


def _shuffled(part: Part, rows: Index, order: np.random.Generator) -> Index:
    """Some rows of a part with their cases in a random order."""
    cases = np.flatnonzero(np.isin(part.first, rows))
    return part.rows_of(order.permutation(cases))


def _halves(valid: Part, values: bool, seed: int) -> tuple[Index, Index]:
    halves: list[Index] = []
    if valid.groups is None or len(np.unique(valid.groups)) > 1:
        halves = divided(valid, seed, (0.5, 0.5), values=values)
    if not halves or min(map(len, halves)) == 0:
        pieces = np.array_split(np.random.default_rng(seed).permutation(valid.cases), 2)
        halves = [valid.rows_of(piece) for piece in pieces]
    return halves[0], halves[1]


@dataclass(frozen=True, eq=False)
class Scale:
    """Mean and deviation of each value that is predicted, over the training part."""

    mean: Floats
    deviation: Floats


def scale_of(task: Task) -> Scale | None:
    """The scale of a regression's values; None for classes.

    The squared error of values in thousands would ask for another learning rate than that of values around one; so
    networks learn (y − mean) / deviation, and their last layer is given the values' own unit afterwards.
    """
    if task.target.kind != "regression":
        return None
    y = np.asarray(task.part("train").y, np.float64).reshape(len(task.part("train")), -1)
    deviation = y.std(0)
    return Scale(y.mean(0), np.where(deviation > 0, deviation, 1.0))


def standardised(task: Task, scale: Scale) -> Task:
    """The task with its training and validation values in deviations from their mean."""

    def part(held: Part) -> Part:
        y: npt.NDArray[Any] = np.asarray(held.y, np.float64)
        plain = (y.reshape(len(held), -1) - scale.mean) / scale.deviation
        return replace(held, y=plain.reshape(y.shape).astype(np.float32))

    train, valid = part(task.part("train")), part(task.part("valid"))
    return replace(task, train=train, valid=valid, fingerprint=f"{task.fingerprint}.standardised")


def in_own_unit(net: nn.Module, scale: Scale, task: Task) -> nn.Module:
    """A copy of a network that learnt standardised values which answers in the values' own unit.

    Its last linear layer Wx + b becomes σWx + σb + μ.
    """
    made = copy.deepcopy(net).eval()
    layers = [module for module in made.modules() if isinstance(module, nn.Linear)]
    if not layers or layers[-1].out_features != len(scale.mean) or "bias" not in layers[-1].state_dict():
        raise InputError(
            f"the networks for {task.name} do not end with a linear layer with a bias: choose another space"
        )
    mean, deviation = torch.from_numpy(scale.mean), torch.from_numpy(scale.deviation)
    last = layers[-1]
    with torch.no_grad():
        last.weight.copy_(last.weight.double() * deviation[:, None])
        last.bias.copy_(last.bias.double() * deviation + mean)
    return made
