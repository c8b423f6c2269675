"""What a network answers on a part of a task: outputs, probabilities, loss."""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from trainless.core.target import Target
from trainless.core.task import PartName, Task
from trainless.learn.feed import Feed, in_order
from trainless.learn.precision import Precision

Floats = npt.NDArray[np.float64]


def outputs(net: nn.Module, feed: Feed, precision: Precision, batch: int = 512) -> tuple[Tensor, Tensor]:
    """All outputs of a network in evaluation mode, as float32 on the CPU, and the labels."""
    net.eval()
    answers, labels = [], []
    with torch.inference_mode():
        for x, y in feed.batches(in_order(feed.size, batch)):
            with precision.autocast():
                answers.append(net(precision.arrange(x)).float())
            labels.append(y)
    return torch.cat(answers).cpu(), torch.cat(labels).cpu()


def predict_part(net: nn.Module, task: Task, part: PartName, device: torch.device | str = "cpu") -> Floats:
    """Predictions of a network on a part in float32: probabilities of classes, or values."""
    place = torch.device(device)
    answers, _ = outputs(net.to(place), Feed(task, part, place), Precision(place))
    return predictions(answers, task.target)


def predictions(answers: Tensor, target: Target) -> Floats:
    """Probabilities ``(N, classes)``, or the values themselves for regression.

    A single logit of a binary network stands for the second class.

    Example:
        >>> predictions(torch.tensor([[0.0]]), Target("binary", 2)).tolist()
        [[0.5, 0.5]]
    """
    values = answers.double()
    if target.kind == "regression":
        return cast(Floats, values.numpy())
    if target.kind == "binary" and values.shape[-1] == 1:
        values = torch.cat([torch.zeros_like(values), values], -1)
    return cast(Floats, values.softmax(-1).numpy())
