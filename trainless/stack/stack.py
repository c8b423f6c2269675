"""Networks side by side at one point, and what their measures are made of."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import torch
from torch import Tensor

from trainless.core.seeds import generator
from trainless.core.target import Target
from trainless.probe.norms import Norm
from trainless.probe.points import Inputs, Magnitude
from trainless.probe.probe import Probe
from trainless.stack.network import NotAligned, Notes, Operation, SideBySide

P = ParamSpec("P")
R = TypeVar("R")

Weights = dict[tuple[Operation, str], Tensor]
Measure = Callable[["Stack"], Tensor]
MEASURES: dict[str, Measure] = {}


@dataclass(frozen=True, eq=False)
class Stack:
    """Networks of one plan at one point: each has weights of its own, all see the same inputs."""

    plan: SideBySide
    weights: Weights
    x: Tensor
    y: Tensor
    target: Target
    norm: Norm
    seed: int
    _memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, probes: Sequence[Probe]) -> Stack:
        """The networks of probes at one point; NotAligned where they cannot lie side by side."""
        first = probes[0]
        about = (first.seed, first.norm, first.target)
        for p in probes[1:]:
            if (p.seed, p.norm, p.target) != about or not torch.equal(p.x, first.x) or not torch.equal(p.y, first.y):
                raise NotAligned("the networks are at different points")
        plan = SideBySide([p.net for p in probes])
        weights = plan.stacked([p.weights for p in probes])
        return cls(plan, weights, first.x, first.y, first.target, first.norm, first.seed)

    def __len__(self) -> int:
        return self.plan.count

    def at(self, weights: Magnitude | None = None, x: Inputs | None = None, norm: Norm | None = None) -> Stack:
        """The same networks at another point, remembered; ``weights`` treats every number alone."""
        return self.memo(("at", weights, x, norm), lambda: self._moved(weights, x, norm or self.norm))

    def _moved(self, rule: Magnitude | None, x: Inputs | None, norm: Norm) -> Stack:
        inputs = self.x if x is None else x(self.x, lambda tag: generator(self.seed, tag))
        weights = self.weights
        if rule is not None:
            named = {f"{place}.{key[1]}": each for place, (key, each) in enumerate(weights.items())}
            weights = dict(zip(weights, rule(named, lambda tag: generator(self.seed, tag)).values(), strict=True))
        weights = {key: each.to(inputs.dtype) for key, each in weights.items()}
        return replace(self, weights=weights, x=inputs, y=self.y[: len(inputs)], norm=norm, _memo={})

    def split(self, parts: int) -> Iterator[Stack]:
        """The same networks on consecutive parts of the batch."""
        for x, y in zip(self.x.tensor_split(parts), self.y.tensor_split(parts), strict=True):
            yield replace(self, x=x, y=y, _memo={})

    def copied(self, times: int) -> Stack:
        """The same networks on the batch several times, one after the other."""
        several = [1] * (self.x.ndim - 1)
        return replace(
            self, x=self.x.repeat(times, *several), y=self.y.repeat(times, *[1] * (self.y.ndim - 1)), _memo={}
        )

    def memo(self, key: Any, compute: Callable[[], R]) -> R:
        """Compute a value the first time and remember it under this key."""
        if key not in self._memo:
            self._memo[key] = compute()
        found: R = self._memo[key]
        return found

    def inputs(self) -> Tensor:
        """The inputs, once for each network."""
        return self.x.repeat(1, len(self), *[1] * (self.x.ndim - 2))

    def added(self, terms: Iterable[tuple[Operation | Sequence[int], Tensor]]) -> Tensor:
        """What each network has in all, of terms that some of them have: ``(K, …)``."""
        total: Tensor | None = None
        for whose, values in terms:
            if total is None:
                total = torch.zeros(len(self), *values.shape[1:], dtype=torch.float64, device=self.x.device)
            members = whose.members if isinstance(whose, Operation) else tuple(whose)
            total.index_add_(0, self.plan.index(members, total.device), values.double())
        return torch.zeros(len(self), dtype=torch.float64, device=self.x.device) if total is None else total


@dataclass(frozen=True, eq=False)
class Passed:
    """A pass with its graph."""

    weights: Weights
    x: Tensor
    outputs: Tensor
    notes: Notes

    def gradients(self, of: Tensor, by: Sequence[Tensor], cotangent: Tensor | None = None) -> tuple[Tensor, ...]:
        """Gradients, zeros where nothing depends; the graph is kept."""
        return torch.autograd.grad(of, by, cotangent, retain_graph=True, allow_unused=True, materialize_grads=True)


def remembered(fn: Callable[Concatenate[Stack, P], R]) -> Callable[Concatenate[Stack, P], R]:
    """Make a function of a stack remember its results on that stack."""

    @functools.wraps(fn)
    def found(s: Stack, *args: P.args, **kwargs: P.kwargs) -> R:
        return s.memo((fn, args, tuple(kwargs.items())), lambda: fn(s, *args, **kwargs))

    return cast(Callable[Concatenate[Stack, P], R], found)


def measure(fn: Measure) -> Measure:
    """Make a function the form that the proxy of its name has for a stack."""
    MEASURES[fn.__name__] = fn
    return fn


def mine(tensor: Tensor, count: int, axis: int = 0) -> Tensor:
    """Each network's share of an axis on which they lie one after the other: that axis becomes two."""
    shared: Tensor = tensor.unflatten(axis, (count, -1))
    return shared


@remembered
def passed(s: Stack) -> Passed:
    """The pass, its graph kept."""
    weights = {key: tensor.detach().requires_grad_() for key, tensor in s.weights.items()}
    x = s.inputs().requires_grad_()
    with torch.enable_grad():
        outputs, notes = s.plan.run(weights, x, s.norm)
    return Passed(weights, x, outputs, notes)


@remembered
def losses_of(s: Stack) -> Tensor:
    """``(K, N)``, the graph attached."""
    outputs = passed(s).outputs.transpose(0, 1)
    y = s.y.repeat(len(s), *[1] * (s.y.ndim - 1))
    losses = s.target.losses(outputs.flatten(0, 1), y)
    return mine(losses, len(s))


def entropy_of(weights: Tensor) -> Tensor:
    """Of each column's shares; NaN of a column of zeros."""
    total = weights.sum(0)
    share = weights / total
    return torch.where(total > 0, -torch.where(share > 0, share * share.log(), 0).sum(0), math.nan)
