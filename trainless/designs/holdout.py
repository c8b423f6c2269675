"""The holdout: half of the validation part may stop training, half calibrates; values are learnt standardised."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from trainless.core.errors import InputError
from trainless.core.task import Part, Task
from trainless.core.types import Floats, Index
from trainless.learn.recipe import Recipe
from trainless.tasks.split import divided


@dataclass(frozen=True, eq=False)
class Holdout:
    """A task as training sees it, and the validation samples that are held out for calibration, cases shuffled."""

    task: Task
    calibration: Index


def hold_back(task: Task, recipe: Recipe, seed: int, *, choosing: bool = False) -> Holdout:
    """Keep half of the validation part from training, so that promises are made on samples that chose nothing.

    The halves are stratified by class, and whole groups stay together. A recipe that keeps the last weights and never
    stops early chooses nothing by the validation part: then all of it is for calibration, unless it is for ``choosing``
    members too.

    Example:
        >>> from trainless.learn.recipe import recipe
        >>> from trainless.tasks import task
        >>> held = hold_back(task("digits"), recipe("default"), seed=0)
        >>> len(held.task.valid), len(held.calibration)
        (130, 139)
    """
    valid = task.part("valid")
    order = np.random.default_rng([seed, len(valid)])
    if recipe.keep == "last" and not choosing:
        return Holdout(task, valid.rows_of(order.permutation(valid.cases)))
    stopping, calibration = _halves(valid, task.target.kind == "regression", seed)
    seen = replace(task, valid=valid.take(stopping), fingerprint=f"{task.fingerprint}.{seed}")
    if valid.records is None:
        return Holdout(seen, order.permutation(calibration))
    cases = np.flatnonzero(np.isin(valid.first, calibration))
    return Holdout(seen, valid.rows_of(order.permutation(cases)))


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
