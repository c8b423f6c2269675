"""Kinds of input that a probe can be given in place of the data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from trainless.core.errors import Unscorable
from trainless.probe.drawing import Draw, drawn


class Inputs(Protocol):
    """A rule that turns the batch into other inputs."""

    def __call__(self, x: Tensor, draw: Draw) -> Tensor:
        """The new inputs."""
        ...


def in_precision_of(weights: Iterable[Tensor], x: Tensor) -> Tensor:
    """The inputs in the weights' floating-point type, where these have but one; tokens stay as they are.

    Example:
        >>> in_precision_of([torch.zeros(2, dtype=torch.float64)], torch.zeros(3)).dtype
        torch.float64
    """
    kinds = {tensor.dtype for tensor in weights if tensor.is_floating_point()}
    return x.to(kinds.pop()) if x.is_floating_point() and len(kinds) == 1 else x


@dataclass(frozen=True)
class Data:
    """The batch itself."""

    def __call__(self, x: Tensor, draw: Draw) -> Tensor:
        return x


@dataclass(frozen=True)
class Ones:
    """A single input of ones, in double precision: what synflow sends through."""

    def __call__(self, x: Tensor, draw: Draw) -> Tensor:
        return torch.ones_like(x[:1], dtype=torch.float64 if x.is_floating_point() else x.dtype)


@dataclass(frozen=True)
class Noise:
    """N(0, 1) in the shape of the batch; token inputs stay as they are."""

    def __call__(self, x: Tensor, draw: Draw) -> Tensor:
        if not x.is_floating_point():
            return x
        return drawn("normal", tuple(x.shape), draw("noise"), x)


@dataclass(frozen=True)
class First:
    """The first samples of the batch, as many as said."""

    count: int

    def __call__(self, x: Tensor, draw: Draw) -> Tensor:
        return x[: self.count]


@dataclass(frozen=True)
class Double:
    """The batch in double precision."""

    def __call__(self, x: Tensor, draw: Draw) -> Tensor:
        return x.double() if x.is_floating_point() else x


@dataclass(frozen=True)
class Crops:
    """Small crops of one channel at random places: TE-NAS's inputs for linear regions.

    Args:
        count: Number of crops.
        size: Length of their sides.
    """

    count: int = 3000
    size: int = 3

    def __call__(self, x: Tensor, draw: Draw) -> Tensor:
        if not x.is_floating_point() or x.ndim < 3:
            raise Unscorable("crops need signals, images or volumes")
        source = draw("crops")
        size = min(self.size, *x.shape[2:])

        def random(limit: int) -> Tensor:
            return torch.randint(limit, (self.count,), generator=source).to(x.device)

        crops = x
        for axis in range(2, x.ndim):
            crops = crops.unfold(axis, size, 1)
        places = [random(crops.shape[axis]) for axis in range(x.ndim)]
        return crops[tuple(places)].unsqueeze(1).contiguous()
