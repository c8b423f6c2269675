"""How far a training is: network, optimiser, best weights so far and counters, and their checkpoint."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn, optim

from trainless.core.errors import InputError
from trainless.learn.checkpoint import (
    load_weights,
    optimiser_tensors,
    prefixed,
    read_tensors,
    restore_optimiser,
    under,
    write_tensors,
)


@dataclass(frozen=True)
class Epoch:
    """One epoch: its number from 0, first learning rate, mean losses, accuracy (NaN for values), training time."""

    number: int
    lr: float
    train_loss: float
    valid_loss: float
    valid_accuracy: float
    seconds: float

    def to_json(self) -> dict[str, float | None]:
        """Plain data; a number that is not finite is null."""
        return {name: value if math.isfinite(value) else None for name, value in dataclasses.asdict(self).items()}


def epoch_from_json(data: Mapping[str, Any]) -> Epoch:
    """Read what ``Epoch.to_json`` wrote; null is NaN."""
    plain: dict[str, Any] = {name: math.nan if value is None else value for name, value in data.items()}
    return Epoch(**plain)


@dataclass(eq=False)
class Progress:
    """Everything that the rest of a training depends on."""

    net: nn.Module
    optimiser: optim.Optimizer
    epoch: int = 0
    step: int = 0
    best_epoch: int = -1
    best_loss: float = math.inf
    best: dict[str, Tensor] = field(default_factory=dict)
    history: list[Epoch] = field(default_factory=list)
    total: Tensor = field(init=False)

    def __post_init__(self) -> None:
        device = next((parameter.device for parameter in self.net.parameters()), torch.device("cpu"))
        self.total = torch.zeros((), dtype=torch.float64, device=device)

    def close(self, epoch: Epoch) -> None:
        """End an epoch: keep the weights where the validation loss is the lowest so far."""
        self.history.append(epoch)
        if epoch.valid_loss < self.best_loss:
            self.best_epoch, self.best_loss = epoch.number, epoch.valid_loss
            self.best = {name: tensor.detach().clone() for name, tensor in self.net.state_dict().items()}
        self.epoch, self.step = self.epoch + 1, 0
        self.total.zero_()


def save_progress(path: Path, progress: Progress, identity: Mapping[str, Any]) -> None:
    """Write a checkpoint; the random state is a function of the seed, the epoch and the step in it."""
    tensors = {
        **prefixed("net/", progress.net.state_dict()),
        **prefixed("optimiser/", optimiser_tensors(progress.optimiser)),
        **prefixed("best/", progress.best),
        "total": progress.total,
    }
    counters = {
        "epoch": progress.epoch,
        "step": progress.step,
        "best_epoch": progress.best_epoch,
        "best_loss": progress.best_loss if progress.best else None,
        "history": [epoch.to_json() for epoch in progress.history],
    }
    write_tensors(path, tensors, {"identity": identity, "counters": counters})


def load_progress(path: Path, progress: Progress, identity: Mapping[str, Any]) -> None:
    """Go on from a checkpoint of the same recipe, seed and data."""
    tensors, notes = read_tensors(path)
    if notes["identity"] != identity:
        raise InputError(f"{path} belongs to another recipe, seed or task: delete it or train in another folder")
    counters = notes["counters"]
    load_weights(progress.net, under("net/", tensors), str(path))
    restore_optimiser(progress.optimiser, under("optimiser/", tensors))
    progress.best = {name: tensor.to(progress.total.device) for name, tensor in under("best/", tensors).items()}
    progress.total.copy_(tensors["total"])
    progress.epoch, progress.step = counters["epoch"], counters["step"]
    progress.best_epoch = counters["best_epoch"]
    progress.best_loss = math.inf if counters["best_loss"] is None else counters["best_loss"]
    progress.history = [epoch_from_json(epoch) for epoch in counters["history"]]
