"""Points in weight space: frozen values that turn a network's own parameters into others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from trainless.probe.drawing import Draw, Kind, drawn

Parameters = Mapping[str, Tensor]


class Weights(Protocol):
    """A rule that gives new parameters; ``draw(name)`` is a parameter's own random generator."""

    def __call__(self, own: Parameters, draw: Draw) -> dict[str, Tensor]:
        """The parameters at this point."""
        ...


@dataclass(frozen=True)
class Own:
    """The network's own weights, as they are."""

    def __call__(self, own: Parameters, draw: Draw) -> dict[str, Tensor]:
        return dict(own)


@dataclass(frozen=True)
class Kaiming:
    """He et al.'s normal initialisation with fan-in: N(0, 2 / fan_in), norms 1, biases 0."""

    def __call__(self, own: Parameters, draw: Draw) -> dict[str, Tensor]:
        return _fresh(own, draw, "normal", lambda fan: math.sqrt(2 / fan))


@dataclass(frozen=True)
class Uniform:
    """PyTorch's default: U(−b, b) with b = 1 / √fan_in, norms 1, biases 0."""

    def __call__(self, own: Parameters, draw: Draw) -> dict[str, Tensor]:
        return _fresh(own, draw, "uniform", lambda fan: 1 / math.sqrt(fan))


@dataclass(frozen=True)
class Gaussian:
    """N(0, 1) whatever the fan, norms 1, biases 0."""

    def __call__(self, own: Parameters, draw: Draw) -> dict[str, Tensor]:
        return _fresh(own, draw, "normal", lambda fan: 1.0)


@dataclass(frozen=True)
class Constant:
    """Every weight the same number, norms' scales too; biases 0 unless they are to be the same number as well."""

    value: float
    biases: bool = False

    def __call__(self, own: Parameters, draw: Draw) -> dict[str, Tensor]:
        return {
            name: torch.full_like(tensor, self.value if self.biases or not is_bias(name) else 0.0)
            for name, tensor in own.items()
        }


@dataclass(frozen=True)
class Magnitude:
    """The absolute value of every parameter, in double precision unless told otherwise."""

    double: bool = True

    def __call__(self, own: Parameters, draw: Draw) -> dict[str, Tensor]:
        return {name: tensor.abs().double() if self.double else tensor.abs() for name, tensor in own.items()}


def is_bias(name: str) -> bool:
    """Whether a parameter is a bias, by the name that PyTorch's layers give it.

    Example:
        >>> is_bias("head.bias"), is_bias("rnn.bias_ih_l0"), is_bias("stem.0.weight")
        (True, True, False)
    """
    return name.rpartition(".")[2].startswith("bias") or name.endswith("_bias")


def _fresh(own: Parameters, draw: Draw, kind: Kind, scale: Callable[[int], float]) -> dict[str, Tensor]:
    """Draw matrices and kernels; set norm scales to 1 and biases to 0; leave what is neither alone.

    A norm is known by its bias, which has the shape of its scale: a slope of a PReLU has none.
    """
    fresh = {}
    for name, tensor in own.items():
        bias = own.get(f"{name.removesuffix('weight')}bias") if name.endswith("weight") else None
        norm = bias is not None and bias.shape == tensor.shape
        if norm:
            fresh[name] = torch.ones_like(tensor)
        elif tensor.ndim > 1 and not is_bias(name):
            fresh[name] = drawn(kind, tuple(tensor.shape), draw(name), tensor) * scale(tensor[0].numel())
        elif is_bias(name):
            fresh[name] = torch.zeros_like(tensor)
        else:
            fresh[name] = tensor
    return fresh
