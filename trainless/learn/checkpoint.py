"""Checkpoints: tensors and counters in one safetensors file, replaced in one step; nothing is ever unpickled."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn, optim

from trainless.core.errors import InputError


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


Tensors = dict[str, Tensor]


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, Any]) -> None:
    """Write tensors with JSON notes in the header; the file is the old one or the new one at every moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    save_file(plain, part, metadata={"trainless": json.dumps(notes)})
    os.replace(part, path)


def read_tensors(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """Read what ``write_tensors`` wrote."""
    try:
        with safe_open(path, framework="pt") as file:
            notes = json.loads((file.metadata() or {})["trainless"])
            return {name: file.get_tensor(name) for name in file.keys()}, notes  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}): delete it and train again") from error


def optimiser_tensors(optimiser: optim.Optimizer) -> Tensors:
    """Momentum and step counts by the number of their parameter, such as ``3/momentum_buffer``."""
    return {
        f"{number}/{name}": value
        for number, entry in optimiser.state_dict()["state"].items()
        for name, value in entry.items()
        if isinstance(value, Tensor)
    }


def restore_optimiser(optimiser: optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what ``optimiser_tensors`` took out."""
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        number, _, name = key.partition("/")
        parameter = parameters[int(number)]
        if tensor.shape == parameter.shape:  # in the memory layout of its parameter
            tensor = torch.empty_like(parameter, requires_grad=False).copy_(tensor)
        state.setdefault(int(number), {})[name] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def under(prefix: str, tensors: Mapping[str, Tensor]) -> Tensors:
    """Those whose name starts with the prefix, without it.

    Example:
        >>> under("a/", {"a/w": torch.ones(1), "b/w": torch.ones(1)})
        {'w': tensor([1.])}
    """
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> Tensors:
    """The inverse of ``under``."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


def load_weights(net: nn.Module, tensors: Mapping[str, Tensor], what: str) -> None:
    """Load a state dict whose names and shapes have to fit."""
    try:
        net.load_state_dict(dict(tensors))
    except RuntimeError as error:
        short = " ".join(str(error).split())[:200]
        raise InputError(f"the weights of {what} do not fit its architecture ({short}): train it again") from error
