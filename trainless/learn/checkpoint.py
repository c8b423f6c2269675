"""Checkpoints: tensors and counters in one safetensors file, replaced in one step; nothing is ever unpickled."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn, optim

from trainless.core.errors import InputError

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
