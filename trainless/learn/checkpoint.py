"""Checkpoints: tensors and counters in one safetensors file, replaced in one step; nothing is ever unpickled."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load, save
from torch import Tensor, nn, optim
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from trainless.core.errors import InputError
from trainless.core.files import from_json, number, replacing, strict, unnumber
from trainless.core.opening import read_bytes
from trainless.core.text import in_a_sentence, reason
from trainless.core.types import Json


@dataclass(frozen=True)
class Epoch:
    """One epoch: its number from 0, first learning rate, mean losses, accuracy (NaN for values), training time."""

    number: int
    lr: float
    train_loss: float
    valid_loss: float
    valid_accuracy: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network, its history, and ``"ok"`` or why it is of no use."""

    net: nn.Module
    history: tuple[Epoch, ...]
    status: str = "ok"

    @property
    def failed(self) -> bool:
        return self.status != "ok"


@dataclass(eq=False)
class TrainingState:
    """Everything that the rest of a training depends on.

    ``done`` is the share of the schedule that is behind, ``seen`` and ``total`` samples and the sum of their losses in
    this epoch; ``mean`` are averaged weights, where they are ``wanted``.
    """

    net: nn.Module
    optimiser: optim.Optimizer
    wanted: bool = False
    epoch: int = 0
    step: int = 0
    done: float = 0.0
    seen: int = 0
    best_epoch: int = -1
    best_loss: float = math.inf
    best: dict[str, Tensor] = field(default_factory=dict)
    history: list[Epoch] = field(default_factory=list)
    mean: dict[str, Tensor] = field(default_factory=dict)
    total: Tensor = field(init=False)

    def __post_init__(self) -> None:
        device = next((parameter.device for parameter in self.net.parameters()), torch.device("cpu"))
        self.total = torch.zeros((), dtype=torch.float64, device=device)
        if self.wanted:
            self.mean = copied(self.net.state_dict())

    def follow(self, share: float) -> None:
        """Move the averaged weights by a share towards the present ones; counts are taken over."""
        if not self.wanted:
            return
        present = self.net.state_dict()
        with torch.no_grad():
            for name, tensor in self.mean.items():
                if tensor.is_floating_point():
                    tensor.lerp_(present[name], share)
                else:
                    tensor.copy_(present[name])

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The network with its averaged weights, where there are some."""
        if not self.wanted:
            yield
            return
        present = copied(self.net.state_dict())
        self.net.load_state_dict(self.mean)
        yield
        self.net.load_state_dict(present)

    def close(self, epoch: Epoch) -> None:
        """End an epoch: keep the weights where the validation loss is the lowest so far."""
        self.history.append(epoch)
        if epoch.valid_loss < self.best_loss:
            self.best_epoch, self.best_loss = epoch.number, epoch.valid_loss
            self.best = copied(self.mean if self.wanted else self.net.state_dict())
        self.epoch, self.step = self.epoch + 1, 0
        self.seen = 0
        self.total.zero_()


def save_checkpoint(path: Path, state: TrainingState, identity: Json) -> None:
    """Write a checkpoint; the random state is a function of the seed, the epoch and the step in it."""
    tensors = {
        **prefixed("net/", state.net.state_dict()),
        **prefixed("optimiser/", optimiser_tensors(state.optimiser)),
        **prefixed("best/", state.best),
        **prefixed("mean/", state.mean),
        "total": state.total,
    }
    counters: Json = {name: getattr(state, name) for name in ("epoch", "step", "seen", "done", "best_epoch")}
    counters |= {"best_loss": number(state.best_loss), "history": strict(state.history)}
    write_tensors(path, tensors, {"identity": identity, "counters": counters})


def load_checkpoint(path: Path, state: TrainingState, identity: Json) -> None:
    """Resume from a checkpoint of the same recipe, seed and data."""
    tensors, notes = read_tensors(path)
    if notes["identity"] != identity:
        raise InputError(f"{path} belongs to another recipe, seed or task: delete it or train in another folder")
    counters = notes["counters"]
    load_weights(state.net, under("net/", tensors), str(path))
    restore_optimiser(state.optimiser, under("optimiser/", tensors))
    state.best = {name: tensor.to(state.total.device) for name, tensor in under("best/", tensors).items()}
    state.mean = {name: tensor.to(state.total.device) for name, tensor in under("mean/", tensors).items()}
    state.total.copy_(tensors["total"])
    state.epoch, state.step, state.best_epoch = counters["epoch"], counters["step"], counters["best_epoch"]
    state.seen, state.done = counters["seen"], counters["done"]
    state.best_loss = unnumber(counters["best_loss"])
    state.history = [from_json(Epoch, epoch) for epoch in counters["history"]]


Tensors = dict[str, Tensor]
MODULES, WEIGHED = 10_000, 2**28  # modules and bytes that any network may have


def copied(tensors: Mapping[str, Tensor]) -> Tensors:
    """Copies that nothing changes."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Json) -> None:
    """Write tensors with JSON notes in the header; the file is the old one or the new one at every moment."""
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with replacing(path) as file:
        file.write(save(plain, metadata={"trainless": json.dumps(notes)}))


def read_tensors(path: Path) -> tuple[Tensors, Json]:
    """Read what ``write_tensors`` wrote."""
    with in_a_sentence(lambda error: f"{path} cannot be read ({reason(error)}): delete it and train again"):
        content = read_bytes(path, growth=2)
        end = 8 + int.from_bytes(content[:8], "little")  # the header's length stands before it
        tensors = load(content)
        return tensors, json.loads(json.loads(content[8:end])["__metadata__"]["trainless"])


@contextmanager
def no_larger_than(tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Raise ValueError once a network that is being built in the block is far larger than its weights are.

    What a file says of a network may be nonsense, and building it would take hours, or all memory.

    Example:
        >>> with no_larger_than({"weight": torch.zeros(2, 2)}):
        ...     network = torch.nn.Sequential(*(torch.nn.ReLU() for _ in range(20_000)))
        Traceback (most recent call last):
        ValueError: a network of more than 10,100 modules, and 1 tensors of weights
    """
    left_modules = most = MODULES + 100 * len(tensors)
    left_bytes, here = WEIGHED + 4 * sum(map(_bytes, tensors.values())), threading.get_ident()

    def count_module(*about: object) -> None:
        nonlocal left_modules
        left_modules -= threading.get_ident() == here
        if left_modules < 0:
            raise ValueError(f"a network of more than {most:,} modules, and {len(tensors):,} tensors of weights")

    def count_weights(module: nn.Module, name: str, weights: Tensor | None) -> None:
        nonlocal left_bytes
        if weights is not None and threading.get_ident() == here:
            left_bytes -= _bytes(weights)
        if left_bytes < 0:
            raise ValueError("a network that is far larger than its weights are")

    counting = (
        register_module_module_registration_hook(count_module),
        register_module_parameter_registration_hook(count_weights),
    )
    try:
        yield
    finally:
        for each in counting:
            each.remove()


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


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
    """Those whose name starts with the prefix, without it."""
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
