"""The parts of a network: its modules and blocks, and what a recorded pass notes of each layer, norm and embedding."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch.nn.functional as F
from torch import Tensor, linalg, nn
from torch.utils.hooks import RemovableHandle

from trainless.probe.axes import Axes

_PYTORCH, _SPACES = "torch.nn.modules.", "trainless.spaces."
_OURS: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
_LISTED: WeakKeyDictionary[nn.Module, tuple[tuple[str, nn.Module], ...]] = WeakKeyDictionary()


def modules(net: nn.Module) -> tuple[tuple[str, nn.Module], ...]:
    """Names and modules as of ``named_modules``; the network's structure must not change any more.

    Example:
        >>> [name for name, _ in modules(nn.Sequential(nn.Flatten()))]
        ['', '0']
    """
    if net not in _LISTED:
        _LISTED[net] = tuple((name, module) for name, module in net.named_modules() if name)
    return (("", net), *_LISTED[net])


def is_ours(net: nn.Module) -> bool:
    """Whether nothing runs but code of PyTorch's modules and of the spaces here: no subclass, patch, hook or namesake.

    Example:
        >>> is_ours(nn.Sequential(nn.Flatten()))
        False
    """
    if net not in _OURS:
        known = all(_plain(module) for _, module in modules(net))
        _OURS[net] = known and any(type(module).__module__.startswith(_SPACES) for _, module in modules(net))
    return _OURS[net]


def _plain(module: nn.Module) -> bool:
    """Whether a module runs its class's code, and the class that of the file which it says to be from."""
    kind = type(module)
    hooks = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    if not kind.__module__.startswith((_PYTORCH, _SPACES)) or "forward" in vars(module) or any(hooks):
        return False
    return bool(_as_written(kind, kind.forward))  # type: ignore[arg-type]


@functools.lru_cache(maxsize=1000)
def _as_written(kind: type, forward: Callable[..., Any]) -> bool:
    """Whether a class is the one of its name, and its forward from the file of one of its bases."""
    found: Any = sys.modules.get(kind.__module__)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    files = {getattr(sys.modules.get(each.__module__), "__file__", "") for each in kind.__mro__}
    return found is kind and inspect.unwrap(forward).__code__.co_filename in files


def tied(net: nn.Module) -> bool:
    """Whether two modules share a parameter or buffer: looking for which takes longer than a small network's pass.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        >>> net[1].weight = net[0].weight
        >>> tied(net)
        True
    """
    held = [id(tensor) for _, module in modules(net) for tensor in (*_own(module._parameters), *_own(module._buffers))]
    return len(held) > len(set(held))


def _own(tensors: Mapping[str, Tensor | None]) -> Iterator[Tensor]:
    return (tensor for tensor in tensors.values() if tensor is not None)


def block_names(net: nn.Module) -> tuple[str, ...]:
    """The modules that a network of ours, itself or wrapped in others, names as its blocks; none of any other.

    Example:
        >>> block_names(nn.Sequential(nn.Flatten()))
        ()
    """
    for name, module in modules(net):
        named = getattr(module, "block_names", ())
        if named:
            return tuple(f"{name}.{inner}" if name else inner for inner in named)
    return ()


@contextmanager
def removed_after(hooks: Iterable[RemovableHandle]) -> Iterator[None]:
    """Remove hooks at the end of the block."""
    placed = list(hooks)
    try:
        yield
    finally:
        for hook in placed:
            hook.remove()


def watched(hooks: Iterable[tuple[Tensor, Callable[[Tensor], None]]]) -> AbstractContextManager[None]:
    """Call functions with the gradients at tensors until the end of the block; tensors without gradients are left out.

    Example:
        >>> import torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> with watched([(x, lambda gradient: print(gradient.tolist()))]):
        ...     (3 * x).sum().backward()
        [3.0, 3.0]
    """
    return removed_after(tensor.register_hook(hook) for tensor, hook in hooks if tensor.requires_grad)


CONVOLUTIONS: dict[Callable[..., Any], int] = {F.conv1d: 1, F.conv2d: 2, F.conv3d: 3}
"""The functions that convolve, with the number of axes."""


@dataclass(frozen=True, eq=False)
class Conv:
    """Stride, padding, dilation and groups of a convolution, one number per axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


@dataclass(frozen=True, eq=False)
class Layer:
    """One application of a convolution or linear layer: ``output = weight ∗ x (+ bias)``.

    ``axes`` says where the samples of ``x`` lie; it is None where it does not depend on the network's input.
    """

    weight: str
    bias: str | None
    x: Tensor
    output: Tensor
    conv: Conv | None
    axes: Axes | None = field(default_factory=Axes)

    @property
    def samples(self) -> int:
        """How many samples lie along the first axis, and nothing else; 0 where it is not theirs."""
        return len(self.x) if self.axes is not None and self.axes.plain else 0


@dataclass(frozen=True, eq=False)
class EmbeddingLookup:
    """One application of an embedding: ``output = weight[tokens]``, the weight of this shape.

    ``axes`` says where the samples of ``tokens`` lie; it is None where they do not depend on the network's input.
    """

    weight: str
    tokens: Tensor
    output: Tensor
    shape: tuple[int, int]
    axes: Axes | None = field(default_factory=Axes)

    @property
    def samples(self) -> int:
        """How many samples lie along the first axis, and nothing else; 0 where it is not theirs."""
        return len(self.tokens) if self.axes is not None and self.axes.plain else 0


@dataclass(frozen=True, eq=False)
class Standardised:
    """One application of a norm: ``output = weight · x̂ + bias``.

    ``standardise`` gives x̂ of ``x``, where that is what enters the norm and not x̂ itself. The scale belongs to so many
    ``last`` axes, or to the second where that is 0. ``axes`` are as of a :class:`Layer`.
    """

    weight: str
    bias: str | None
    x: Tensor
    output: Tensor
    standardise: Callable[[Tensor], Tensor] | None = None
    last: int = 0
    axes: Axes | None = field(default_factory=Axes)

    @property
    def samples(self) -> int:
        """How many samples lie along the first axis, and nothing else; 0 where it is not theirs."""
        return len(self.x) if self.axes is not None and self.axes.plain else 0

    @property
    def standard(self) -> Tensor:
        """x̂."""
        return self.x if self.standardise is None else self.standardise(self.x)

    def by_sample(self, g: Tensor) -> Tensor:
        """Of the gradient at the output, the scale's gradient for every sample.

        Example:
            >>> import torch
            >>> x = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
            >>> Standardised("scale", None, x, x, last=1).by_sample(torch.ones(1, 2, 2)).tolist()
            [[4.0, 6.0]]
        """
        if self.last:
            return (g * self.standard).reshape(len(g), -1, math.prod(g.shape[-self.last :])).sum(1)
        found: Tensor = linalg.vecdot(g.flatten(2), self.standard.flatten(2)) if g.ndim > 2 else g * self.standard
        return found


@dataclass(frozen=True, eq=False)
class Spread:
    """One application of a parameter to all samples alike: added, multiplied by ``factor``, or repeated for each.

    ``shape`` is the parameter's; ``axes`` are as of a :class:`Layer`.
    """

    weight: str
    shape: tuple[int, ...]
    output: Tensor
    factor: Tensor | None = None
    axes: Axes | None = field(default_factory=Axes)
    bias: None = None

    @property
    def samples(self) -> int:
        """How many samples lie along the first axis, and nothing else; 0 where it is not theirs."""
        return len(self.output) if self.axes is not None and self.axes.plain else 0

    def by_sample(self, g: Tensor) -> Tensor:
        """Of the gradient at the output, the parameter's gradient for every sample.

        Example:
            >>> import torch
            >>> Spread("places", (1, 3), torch.zeros(2, 5, 3)).by_sample(torch.ones(2, 5, 3)).tolist()
            [[5.0, 5.0, 5.0], [5.0, 5.0, 5.0]]
        """
        g = g if self.factor is None else g * self.factor
        own = (*[1] * (g.ndim - len(self.shape)), *self.shape)
        axes = [axis for axis in range(1, g.ndim) if own[axis] == 1 and g.shape[axis] != 1]
        return (g.sum(axes) if axes else g).reshape(len(g), -1)


def conv_of(
    weight: Tensor,
    stride: int | tuple[int, ...] = 1,
    padding: str | int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Conv:
    """A convolution's sizes, each as one number per axis, from what PyTorch's functions take after the bias.

    Example:
        >>> import torch
        >>> conv_of(torch.zeros(4, 3, 3, 3), 2, "valid")
        Conv(kernel=(3, 3), stride=(2, 2), padding=(0, 0), dilation=(1, 1), groups=1)
    """
    kernel = tuple(weight.shape[2:])

    def each(value: int | tuple[int, ...]) -> tuple[int, ...]:
        return (value,) * len(kernel) if isinstance(value, int) else tuple(value) * (len(kernel) // len(value))

    if isinstance(padding, str):
        wide = [(size - 1) * step for size, step in zip(kernel, each(dilation), strict=True)]
        padding = tuple(total // 2 for total in wide) if padding == "same" else 0
    return Conv(kernel, each(stride), each(padding), each(dilation), groups)
