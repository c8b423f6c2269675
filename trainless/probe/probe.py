"""The probe: one network at one point, never changed, with everything computed on it kept until it dies."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
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
_QUIET: WeakSet[nn.Module] = WeakSet()  # networks that are private and deterministic already
_REMARKS: ContextVar[dict[str, None] | None] = ContextVar("remarks", default=None)
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
        _require_makers(weights=weights, x=x)
        if self._is_at(weights, x, norm, kept_norms):
            return self  # not remembered: what refers to itself stays in memory until Python looks for such things
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
        _require_makers(weights=weights, x=x)
        if self._is_at(weights, x, norm, kept_norms):
            return self
        weights = None if weights == Own() else weights
        x = None if x == RealData() else x
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

    def _is_at(
        self, weights: Weights | None, x: Inputs | None, norm: Norm | None, kept_norms: tuple[str, ...] | None
    ) -> bool:
        own = weights in (None, Own()) and x in (None, RealData())
        return own and norm in (None, self.norm) and kept_norms in (None, self.kept_norms)

    def split(self, parts: int) -> Iterator[Probe]:
        """The same network on consecutive parts of the batch, one after the other, each for one use."""
        if len(self.x) < parts:
            raise Unscorable(f"a batch of {len(self.x)} cannot be cut into {parts} parts: give a larger batch")
        for x, y in zip(self.x.tensor_split(parts), self.y.tensor_split(parts), strict=True):
            yield replace(self, x=x, y=y, _memo={})

    def memo(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Compute a value the first time and remember it under this key."""
        if key not in self._memo:
            with remarks() as said:
                value = compute()
            self._memo[key] = value, tuple(said)
        value, said_then = self._memo[key]
        remark(said_then)
        return value

    def generator(self, tag: str) -> torch.Generator:
        """Randomness that depends on the probe's seed and on the tag alone."""
        return generator(self.seed, tag)

    @property
    def classes(self) -> int:
        """Number of network outputs per sample."""
        return self.target.outputs


def remark(said: Iterable[str]) -> None:
    """Say what a reader of a score should know of how it was computed; whoever uses the value again says it again."""
    kept = _REMARKS.get()
    if kept is not None:
        kept.update(dict.fromkeys(said))


@contextmanager
def remarks() -> Iterator[dict[str, None]]:
    """Collect what is remarked within the block, each once, in order.

    Example:
        >>> with remarks() as said:
        ...     remark(["the seed fixes what it draws"])
        >>> list(said)
        ['the seed fixes what it draws']
    """
    said: dict[str, None] = {}
    before = _REMARKS.set(said)
    try:
        yield said
    finally:
        _REMARKS.reset(before)


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
    """The network's structure, sharing its parameters, deterministic: no dropout, nothing in place.

    A class that does something of its own when it is put into training or evaluation, such as merging weights, gets
    copies of the parameters, so that it cannot do it to the caller's.
    """
    switches = any(_switch(type(module)) != _switch(nn.Module) for module in net.modules())
    memo: dict[int, Tensor] = {} if switches else {id(tensor): tensor for tensor in net.parameters()}
    for module in net.modules():  # what a forward pass has left behind belongs to its graph and cannot be copied
        kept = (value for value in vars(module).values() if isinstance(value, Tensor) and value.grad_fn is not None)
        memo |= {id(value): value.detach() for value in kept}
    return _quietened(copied(net, memo))


def _quietened(structure: nn.Module) -> nn.Module:
    """The network in evaluation mode, whatever its author switches by it, but for norms, which see the batch.

    Norms that are in evaluation though the network trains were frozen by its author and stay so.
    """
    if structure in _QUIET:
        return structure
    if not structure.training:
        structure.train()
    frozen = {module for module in structure.modules() if has_statistics(module) and not module.training}
    structure.eval()
    for module in structure.modules():
        if has_statistics(module):
            module.training = module not in frozen
        elif isinstance(module, nn.RNNBase):  # a GPU differentiates them in training mode only
            module.training, module.dropout = True, 0.0
        if vars(module).get("inplace") is True:
            vars(module)["inplace"] = False
            IN_PLACE.add(module)
    _QUIET.add(structure)
    return structure


def _switch(kind: type[nn.Module]) -> tuple[object, object]:
    return kind.train, kind.eval


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


def _require_makers(**point: object) -> None:
    """Raise TypeError where a point is given itself and not by what makes it, by which it is remembered."""
    for name, given in point.items():
        if isinstance(given, Tensor | Mapping):
            raise TypeError(
                f"{name} of another point was given as a {type(given).__name__}; expected what makes it, such as"
                " Ones() of trainless.probe"
            )
