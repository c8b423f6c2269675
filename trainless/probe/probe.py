"""The probe: one network at one point, never changed, with everything computed on it kept until it dies."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import torch
from torch import Tensor, nn

from trainless.core.errors import InputError
from trainless.core.target import Target
from trainless.core.task import generator
from trainless.probe.inputs import Data, Inputs
from trainless.probe.norms import Norm
from trainless.probe.weights import Own, Weights

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Probe:
    """One network at one point.

    ``net`` is a private copy of the structure; the numbers that count are ``weights``. Quantities are memoised
    on the probe, and ``at`` and ``split`` are too, so two proxies that ask for the same point share all work.

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
    ) -> Probe:
        """A probe of a network on a batch; the caller's network is never touched.

        Args:
            net: The network.
            batch: Inputs and labels.
            target: What is predicted.
            seed: Where the probe's randomness comes from.
            private: The network belongs to the probe and nobody else: it need not be copied.
        """
        structure = _quietened(net) if private else private_copy(net)
        weights = {name: tensor.detach() for name, tensor in net.named_parameters()}
        return cls(structure, weights, batch[0], batch[1], target, seed)

    def at(
        self,
        weights: Weights | None = None,
        x: Inputs | None = None,
        norm: Norm | None = None,
        kept_norms: tuple[str, ...] | None = None,
    ) -> Probe:
        """The same network at another point; what is not given stays."""
        weights = None if weights == Own() else weights
        x = None if x == Data() else x
        norm = None if norm == self.norm else norm
        kept_norms = None if kept_norms == self.kept_norms else kept_norms
        if weights is None and x is None and norm is None and kept_norms is None:
            return self

        def derive() -> Probe:
            new = self.weights if weights is None else weights(self.weights, self.generator)
            inputs = self.x if x is None else x(self.x, self.generator)
            if inputs.is_floating_point():
                new = {name: tensor.to(inputs.dtype) for name, tensor in new.items()}
            return replace(
                self,
                weights=new,
                x=inputs,
                y=self.y[: len(inputs)],
                norm=norm or self.norm,
                kept_norms=self.kept_norms if kept_norms is None else kept_norms,
                _memo={},
            )

        return cast(Probe, self.memo(("at", weights, x, norm, kept_norms), derive))

    def split(self, parts: int) -> tuple[Probe, ...]:
        """The same network on consecutive parts of the batch."""
        if len(self.x) < parts:
            raise InputError(f"a batch of {len(self.x)} cannot be split into {parts}: give a larger batch")

        def derive() -> tuple[Probe, ...]:
            pairs = zip(self.x.chunk(parts), self.y.chunk(parts), strict=True)
            return tuple(replace(self, x=x, y=y, _memo={}) for x, y in pairs)

        return cast(tuple[Probe, ...], self.memo(("split", parts), derive))

    def memo(self, key: Any, compute: Callable[[], Any]) -> Any:
        """What was computed under this key, computing it the first time."""
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


def quantity(fn: Callable[Concatenate[Probe, P], R]) -> Callable[Concatenate[Probe, P], R]:
    """Make a pure function of a probe remember its results on that probe."""

    @functools.wraps(fn)
    def remembered(p: Probe, *args: P.args, **kwargs: P.kwargs) -> R:
        key = (fn, args, tuple(sorted(kwargs.items())))
        return cast(R, p.memo(key, lambda: fn(p, *args, **kwargs)))

    return cast(Callable[Concatenate[Probe, P], R], remembered)


def private_copy(net: nn.Module) -> nn.Module:
    """The network's structure, sharing its parameters, deterministic: no dropout, nothing in place."""
    shared = {id(tensor): tensor for tensor in net.parameters()}
    return _quietened(copy.deepcopy(net, shared))


def _quietened(structure: nn.Module) -> nn.Module:
    structure.train()
    for module in structure.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.eval()
        elif isinstance(module, (nn.RNNBase, nn.MultiheadAttention)):
            module.dropout = 0.0
        if "inplace" in vars(module):
            vars(module)["inplace"] = False
    return structure


@contextmanager
def quiet_randomness(p: Probe) -> Iterator[None]:
    """Give the block a random state of its own, fixed by the probe's seed."""
    devices = [p.x.device] if p.x.is_cuda else []
    with torch.random.fork_rng(devices):
        torch.default_generator.manual_seed(p.seed)
        for device in devices:
            torch.cuda.default_generators[device.index or 0].manual_seed(p.seed)
        yield
