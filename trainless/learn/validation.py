"""Loss and accuracy on a validation part, by case: a row, or a recording that several windows were cut from."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from trainless.core.task import Task, by_record
from trainless.learn.ensemble import predictions

TINY = 1e-12  # the least probability whose logarithm counts


def validated(task: Task, answers: Tensor, y: Tensor) -> tuple[float, float]:
    """The mean loss of outputs on the validation part, and the share that is right; NaN of values.

    Where rows are windows of recordings, a recording's answer is the mean of its windows' probabilities or values, as
    it is in predictions, and every recording counts alike, however many windows it has.

    Args:
        task: The task.
        answers: A network's outputs on all rows of the validation part, in their order.
        y: Their labels.
    """
    part = task.part("valid")
    if part.records is None or task.target.kind == "tokens":
        return float(task.target.losses(answers, y).mean()), _accuracy(task, answers, y)
    said = by_record(predictions(answers, task.target), part.records)
    truth = y[torch.from_numpy(part.first)].numpy()
    if task.target.kind == "regression":
        return float(np.square(said - truth.reshape(said.shape)).mean()), math.nan
    own = said[np.arange(len(truth)), truth]
    return float(-np.log(np.maximum(own, TINY)).mean()), float((said.argmax(1) == truth).mean())


def _accuracy(task: Task, answers: Tensor, y: Tensor) -> float:
    if task.target.kind == "regression":
        return math.nan
    chosen = (answers[..., 0] > 0).long() if answers.shape[-1] == 1 else answers.argmax(-1)
    return float((chosen == y).double().mean())
