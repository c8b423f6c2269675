"""The probe: one network at one point, never changed, with everything computed on it kept until it dies."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from weakref import WeakSet

import torch
from torch import Tensor, nn

from trainless.core.errors import Unscorable
from trainless.core.seeds import generator, seeded
from trainless.core.target import Target
from trainless.probe.copies import copied
from trainless.probe.layout import MemoryLayout
from trainless.probe.norms import Norm, has_statistics
from trainless.probe.points import Inputs, Own, RealData, Weights, in_precision_of

FEW = 3  # samples on which it is checked that a network is recorded as what it computes
IN_PLACE: WeakSet[nn.Module] = WeakSet()
"""Modules of private networks that were told not to work in place."""
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Probe:
    """One network at one point.

    ``net`` is a private copy of the structure; the numbers that count are ``weights``. Quantities are memoised
    on the probe, and ``at`` is too, so two proxies that ask for the same point share all work. ``layout`` is how images
    lie in memory; it changes rounding and speed, nothing else. ``few`` are the first samples that were
    given, wherever the probe has been moved to.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
        >>> p = Probe.of(net, (torch.randn(4, 3, 2, 2), torch.tensor([0, 1, 0, 1])), Target("binary", 2))
        >>> p.at(norm="isolated") is p.at(norm="isolated")
        True
    """

    net: nn.Module
    weights: dict[str, Tensor]
    x: Tensor
    y: Tensor
    target: Target
    seed: int = 0
    norm: Norm = "batch"
    kept_norms: tuple[str, ...] = ()
    layout: MemoryLayout = "given"
    few: Tensor | None = None
    _memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        net: nn.Module,
        batch: tuple[Tensor, Tensor],
        target: Target,
        seed: int = 0,
        *,
        private: bool = False,
        layout: MemoryLayout = "given",
    ) -> Probe:
        """A probe of a network on a batch; the caller's network is never touched.

        Args:
            net: The network.
            batch: Inputs and labels; inputs take on the floating-point type of the network's weights.
            target: What is predicted.
            seed: Where the probe's randomness comes from.
            private: The network belongs to the probe and nobody else: it need not be copied.
            layout: How images lie in memory.
        """
        structure = _quietened(net) if private else private_copy(net)
        weights = {name: tensor.detach() for name, tensor in net.named_parameters()}
        x = in_precision_of(weights.values(), batch[0])
        return cls(structure, weights, x, batch[1], target, seed, layout=layout, few=x[:FEW])

    def at(
        self,
        weights: Weights | None = None,
        x: Inputs | None = None,
        norm: Norm | None = None,
        kept_norms: tuple[str, ...] | None = None,
    ) -> Probe:
        """The same network at another point, remembered, so that others who ask for it share its work."""
        key = ("at", weights, x, norm, kept_norms)
        return cast(Probe, self.memo(key, lambda: self.once(weights, x, norm, kept_norms)))

    def once(
        self,
        weights: Weights | None = None,
        x: Inputs | None = None,
        norm: Norm | None = None,
        kept_norms: tuple[str, ...] | None = None,
    ) -> Probe:
        """The same network at another point for one use: what is computed there goes when the caller lets go of it."""
        weights = None if weights == Own() else weights
        x = None if x == RealData() else x
        if weights is None and x is None and norm in (None, self.norm) and kept_norms in (None, self.kept_norms):
            return self
        new = self.weights if weights is None else weights(self.weights, self.generator)
        inputs = self.x if x is None else x(self.x, self.generator)
        dtype = inputs.dtype if inputs.is_floating_point() and inputs.dtype != self.x.dtype else None
        if inputs.is_floating_point():  # weights keep their type unless the inputs have got another
            new = {name: _typed(tensor, dtype or self.weights[name].dtype) for name, tensor in new.items()}
        return replace(
            self,
            weights=new,
            x=inputs,
            y=self.y[: len(inputs)],
            norm=norm or self.norm,
            kept_norms=self.kept_norms if kept_norms is None else kept_norms,
            _memo={},
        )

    def split(self, parts: int) -> Iterator[Probe]:
        """The same network on consecutive parts of the batch, one after the other, each for one use."""
        if len(self.x) < parts:
            raise Unscorable(f"a batch of {len(self.x)} cannot be cut into {parts} parts: give a larger batch")
        for x, y in zip(self.x.tensor_split(parts), self.y.tensor_split(parts), strict=True):
            yield replace(self, x=x, y=y, _memo={})

    def memo(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Compute a value the first time and remember it under this key."""
        if key not in self._memo:
            self._memo[key] = compute()
        return self._memo[key]

    def generator(self, tag: str) -> torch.Generator:
        """Randomness that depends on the probe's seed and on the tag alone."""
        return generator(self.seed, tag)

    @property
    def classes(self) -> int:
        """Number of network outputs per sample."""
        return self.target.outputs


def _typed(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def quantity(fn: Callable[Concatenate[Probe, P], R]) -> Callable[Concatenate[Probe, P], R]:
    """Make a pure function of a probe remember its results on that probe."""

    @functools.wraps(fn)
    def remembered(p: Probe, *args: P.args, **kwargs: P.kwargs) -> R:
        key = (fn, args, tuple(sorted(kwargs.items())))
        return cast(R, p.memo(key, lambda: fn(p, *args, **kwargs)))

    return cast(Callable[Concatenate[Probe, P], R], remembered)


def private_copy(net: nn.Module) -> nn.Module:
    """The network's structure, sharing its parameters, deterministic: no dropout, nothing in place."""
    memo: dict[int, Tensor] = {id(tensor): tensor for tensor in net.parameters()}
    for module in net.modules():  # what a forward pass has left behind belongs to its graph and cannot be copied
        kept = (value for value in vars(module).values() if isinstance(value, Tensor) and value.grad_fn is not None)
        memo |= {id(value): value.detach() for value in kept}
    return _quietened(copied(net, memo))


def _quietened(structure: nn.Module) -> nn.Module:
    """The network in evaluation mode, whatever its author switches by it, but for norms, which see the batch."""
    structure.eval()
    for module in structure.modules():
        if has_statistics(module):
            module.training = True
        elif isinstance(module, nn.RNNBase):  # a GPU differentiates them in training mode only
            module.training, module.dropout = True, 0.0
        if vars(module).get("inplace") is True:
            vars(module)["inplace"] = False
            IN_PLACE.add(module)
    return structure


@contextmanager
def exact_products() -> Iterator[None]:
    """Let a GPU multiply in full single precision, and give the flags back as they were."""
    matmul, convolution = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, convolution.allow_tf32
    matmul.allow_tf32 = convolution.allow_tf32 = False
    try:
        yield
    finally:
        matmul.allow_tf32, convolution.allow_tf32 = before


def quiet_randomness(p: Probe) -> AbstractContextManager[None]:
    """Give the block a random state of its own, fixed by the probe's seed."""
    return seeded(p.seed, p.x.device)
