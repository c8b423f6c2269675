"""Points at which a network is looked at: rules that give its weights and inputs, and the random numbers they draw."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from trainless.core.errors import Unscorable
from trainless.probe.layout import MemoryLayout, channels_lie_last, laid_out

Kind: TypeAlias = Literal["normal", "uniform", "signs"]
Draw: TypeAlias = Callable[[str], torch.Generator]
LIMIT = 1 << 28  # bytes that are kept
_KEPT: OrderedDict[tuple[object, ...], Tensor] = OrderedDict()
_LOCK = threading.Lock()


def drawn(kind: Kind, shape: tuple[int, ...], source: torch.Generator, like: Tensor) -> Tensor:
    """N(0, 1), U(−1, 1) or ±1, drawn on the CPU so that every device gets the same numbers.

    What was drawn lately is kept, so that networks which share a layer's name and shape share its numbers without
    drawing them again; the caller must not change them. They lie in memory as ``like`` does.

    Example:
        >>> source = torch.Generator().manual_seed(0)
        >>> drawn("signs", (3,), source, torch.zeros(())).abs().tolist()
        [1.0, 1.0, 1.0]
    """
    layout: MemoryLayout = "channels_last" if len(shape) == like.ndim and channels_lie_last(like) else "given"
    key = (kind, shape, source.initial_seed(), like.device, like.dtype, layout)
    with _LOCK:
        if key in _KEPT:
            _KEPT.move_to_end(key)
            return _KEPT[key]
    made = laid_out(_draw(kind, shape, source).to(like.device, like.dtype), layout)
    with _LOCK:
        _KEPT[key] = made
        held = sum(math.prod(tensor.shape) * tensor.element_size() for tensor in _KEPT.values())
        while held > LIMIT:
            _, oldest = _KEPT.popitem(last=False)
            held -= math.prod(oldest.shape) * oldest.element_size()
    return made


def _draw(kind: Kind, shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    if kind == "normal":
        return torch.randn(shape, generator=source)
    if kind == "uniform":
        return torch.rand(shape, generator=source) * 2 - 1
    return torch.randint(0, 2, shape, generator=source, dtype=torch.int8) * 2 - 1


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
class RealData:
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
class Repeated:
    """The batch several times, one after the other."""

    times: int

    def __call__(self, x: Tensor, draw: Draw) -> Tensor:
        return x.repeat(self.times, *[1] * (x.ndim - 1))


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


@dataclass(frozen=True)
class Precise:
    """The network's own weights in double precision."""

    def __call__(self, own: Parameters, draw: Draw) -> dict[str, Tensor]:
        return {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in own.items()}


@dataclass(frozen=True, eq=False)
class Moved:
    """The weights a step along a direction."""

    along: Parameters
    step: float

    def __call__(self, own: Parameters, draw: Draw) -> dict[str, Tensor]:
        return {**own, **{name: own[name] + self.step * along for name, along in self.along.items()}}


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
