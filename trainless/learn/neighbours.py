"""The training cases that networks find most similar to a new one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.core.types import Array, Floats, Index
from trainless.learn.batches import Feed, in_order
from trainless.learn.drift import last_features

SIMILAR, KEPT = 3, 2000  # similar cases that are named, and training cases to choose them from
BATCH = 256


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Training cases by what networks make of them: unit features, their labels and their rows in the training part."""

    features: npt.NDArray[np.float32]
    y: Array
    rows: Index

    def similar(self, features: Floats, count: int = SIMILAR) -> tuple[Index, Floats]:
        """The places of the most similar training cases of each row of features, and the cosines, best first.

        Example:
            >>> kept = Neighbours(np.eye(3, dtype=np.float32), np.array([0, 1, 1]), np.array([4, 7, 9]))
            >>> kept.similar(np.array([[0.0, 0.8, 0.6]]), 2)[0].tolist()
            [[1, 2]]
        """
        if features.shape[1] != self.features.shape[1]:
            raise InputError(
                f"networks with {features.shape[1]} features were compared with training cases of"
                f" {self.features.shape[1]}: the run's neighbours.safetensors is of other networks: design it again"
            )
        cosines = features @ self.features.T.astype(np.float64)
        order = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
        return order, np.take_along_axis(cosines, order, axis=1)


def device_of(nets: Sequence[nn.Module]) -> torch.device:
    """Where networks are."""
    return next((weight.device for net in nets for weight in net.parameters()), torch.device("cpu"))


def features_of(nets: Sequence[nn.Module], x: Tensor) -> Floats:
    """What goes into the last linear layer of each member, as one row of length 1 per input.

    The product of two rows is the mean of the members' cosines. Members without a linear layer say nothing.
    """
    device = device_of(nets)
    with ExitStack() as stack, torch.inference_mode():
        seen = [stack.enter_context(last_features(net)) for net in nets]
        for net in nets:
            net(x.to(device))
        rows = [found for each in seen if (found := each(len(x))).shape[1]]
    if not rows:
        return np.zeros((len(x), 0))
    unit = [each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-12) for each in rows]
    return np.asarray(np.concatenate(unit, axis=1) / np.sqrt(len(unit)))


def neighbours_of(nets: Sequence[nn.Module], task: Task, *, seed: int = 0, most: int = KEPT) -> Neighbours:
    """Training cases to compare with, drawn by the seed where there are very many."""
    train = task.part("train")
    rows = np.sort(train.first[np.random.default_rng(seed).permutation(train.cases)[: min(most, KEPT)]])
    feed = Feed(task, "train", torch.device("cpu"), held_bytes=0)
    chunks = [rows[chunk] for chunk in in_order(len(rows), BATCH)]
    found = np.concatenate([features_of(nets, x) for x, _ in feed.batches(chunks)])
    return Neighbours(found.astype(np.float32), np.asarray(train.y)[rows], rows)
