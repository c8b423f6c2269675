"""What measures give of networks that lie side by side: for each the number that it has alone."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import torch
from torch import Tensor

from trainless.core.seeds import generator
from trainless.probe.features import paired
from trainless.probe.layers import Layer as Recorded
from trainless.probe.layers import conv_of, watched
from trainless.probe.norms import Norm
from trainless.probe.per_sample import Workspace, blocks
from trainless.probe.points import First, Inputs, Magnitude, Ones, drawn
from trainless.probe.probe import Probe
from trainless.proxies.ours import LEAST
from trainless.stack.network import Layer, NotAligned, Notes, Part, SideBySide

P = ParamSpec("P")
R = TypeVar("R")
WORD = 63  # samples whose bits a whole number of 64 holds beside its sign

Weights = dict[tuple[Part, str], Tensor]
Measure = Callable[["Stack"], Tensor]
MEASURES: dict[str, Measure] = {}


@dataclass(frozen=True, eq=False)
class Stack:
    """Networks of one plan at one point: each has weights of its own, all see the same inputs."""

    plan: SideBySide
    weights: Weights
    x: Tensor
    norm: Norm
    seed: int
    _memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, probes: Sequence[Probe]) -> Stack:
        """The networks of probes at one point; NotAligned where they cannot lie side by side."""
        first = probes[0]
        if any(p.seed != first.seed or p.norm != first.norm or not torch.equal(p.x, first.x) for p in probes[1:]):
            raise NotAligned("the networks are at different points")
        plan = SideBySide([p.net for p in probes])
        return cls(plan, plan.stacked([p.weights for p in probes]), first.x, first.norm, first.seed)

    def __len__(self) -> int:
        return self.plan.count

    def at(self, *, magnitude: bool = False, x: Inputs | None = None, norm: Norm | None = None) -> Stack:
        """The same networks at another point, remembered."""
        return self.memo(("at", magnitude, x, norm), lambda: self._moved(magnitude, x, norm or self.norm))

    def _moved(self, magnitude: bool, x: Inputs | None, norm: Norm) -> Stack:
        inputs = self.x if x is None else x(self.x, lambda tag: generator(self.seed, tag))
        weights = cast(Weights, Magnitude()(cast(Any, self.weights), None)) if magnitude else self.weights  # type: ignore[arg-type]
        return Stack(self.plan, {key: each.to(inputs.dtype) for key, each in weights.items()}, inputs, norm, self.seed)

    def memo(self, key: Any, compute: Callable[[], R]) -> R:
        """Compute a value the first time and remember it under this key."""
        if key not in self._memo:
            self._memo[key] = compute()
        found: R = self._memo[key]
        return found

    def inputs(self) -> Tensor:
        """The inputs, once for each network."""
        return self.x.repeat(1, len(self), *[1] * (self.x.ndim - 2))

    def added(self, terms: Iterable[tuple[Sequence[int], Tensor]]) -> Tensor:
        """A number per network: the sum of the numbers of those that have some."""
        total = torch.zeros(len(self), dtype=torch.float64, device=self.x.device)
        for members, values in terms:
            total.index_add_(0, self.plan.index(tuple(members), total.device), values.double())
        return total


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


@measure
def params(s: Stack) -> Tensor:
    """Every number of every parameter."""
    sizes = ((part.members, tensor.numel() // len(part.members)) for (part, _), tensor in s.weights.items())
    return s.added((members, torch.full((len(members),), float(size), device=s.x.device)) for members, size in sizes)


@measure
def flops(s: Stack) -> Tensor:
    """A layer's weights times its places."""
    one = s.at(x=First(1))
    with torch.no_grad():
        _, notes = s.plan.run(one.weights, one.inputs(), "off")

    def macs(layer: Layer) -> Tensor:
        weight, count = s.weights[layer.part, "weight"], len(layer.part.members)
        places = layer.output[0].numel() // len(weight)
        return torch.full((count,), float(places * weight.numel() // count), device=s.x.device)

    return s.added((layer.part.members, macs(layer)) for layer in notes.layers)


@measure
def synflow(s: Stack) -> Tensor:
    """All networks' outputs are added: none depends on another's weights."""
    found = passed(s.at(magnitude=True, x=Ones(), norm="off"))
    chosen = [(part, tensor) for (part, name), tensor in found.weights.items() if name == "weight" and tensor.ndim > 1]
    gradients = found.gradients(found.outputs.sum(), [tensor for _, tensor in chosen])
    terms = (
        (part.members, mine((tensor.detach() * each).abs(), len(part.members)).flatten(1).sum(1))
        for (part, tensor), each in zip(chosen, gradients, strict=True)
    )
    return s.added(terms).log()


@measure
def meco(s: Stack) -> Tensor:
    """The maps of one size are decomposed together."""
    one = s.at(x=First(1))
    with torch.no_grad():
        _, notes = s.plan.run(one.weights, one.inputs(), one.norm, maps=True)
    by_size: dict[torch.Size, list[tuple[list[int], Tensor]]] = {}
    for members, places, values in notes.maps or ():
        rows = mine(values[0], len(members)).flatten(2)
        if 1 < rows.shape[1] < rows.shape[2]:  # else some channels are the others'
            rows = rows if len(places) == len(members) else rows[list(places)]
            by_size.setdefault(rows.shape[1:], []).append(([members[place] for place in places], rows))
    owners, least = [], []
    for alike in by_size.values():
        rows = torch.cat([each for _, each in alike]).double()
        rows = rows - rows.mean(-1, keepdim=True)
        norms = rows.norm(dim=-1, keepdim=True)
        rows = torch.where(norms > 0, rows / norms.clamp_min(1e-300), 0)
        least.append(torch.linalg.eigvalsh(rows @ rows.mT)[:, 0].clamp_min(0))
        owners += [member for members, _ in alike for member in members]
    if not owners:
        return torch.full((len(s),), math.nan)
    total = torch.zeros(len(s), dtype=torch.float64, device=s.x.device)
    return total.index_add_(0, torch.tensor(owners, device=s.x.device), torch.cat(least))


@measure
def expressivity(s: Stack) -> Tensor:
    """All networks have a block at the same time."""
    total = torch.zeros(len(s), dtype=torch.float64, device=s.x.device)
    for block in passed(s).notes.blocks.values():
        rows = mine(block.detach(), len(s), 1).movedim(0, 2).flatten(2)  # (K, C, N · places)
        channels, places = rows.shape[1:]
        rows = rows - rows.mean(2, keepdim=True)
        products = rows @ rows.mT if places > channels else rows.mT @ rows
        values = torch.linalg.eigvalsh((products / places).double()).clamp_min(0)
        share = values / values.sum(1, keepdim=True)
        total -= (share * (share + 1e-8).log()).sum(1)
    return total


@measure
def swap(s: Stack) -> Tensor:
    """A unit's pattern is a number or two, and counts once for each network that has it."""
    owners: list[Tensor] = []
    words: list[Tensor] = []
    for members, gate in passed(s).notes.rectified:
        rows = (mine(gate.detach(), len(members), 1) > 0).flatten(2)  # (N, K, units)
        words.append(torch.stack([_word(part).flatten() for part in rows.split(WORD)]))
        owners.append(s.plan.index(members, gate.device).repeat_interleave(rows.shape[2]))
    if not words:
        return torch.full((len(s),), math.nan)
    owner = torch.cat(owners)
    names = owner
    for word in torch.cat(words, 1):
        others, second = word.unique(return_inverse=True)
        _, names = (names * len(others) + second).unique(return_inverse=True)
    first = owner.new_empty(int(names.max()) + 1).scatter_(0, names, owner)
    found = first.bincount(minlength=len(s)).double()
    return torch.where(found > 0, found, math.nan)


def _word(rows: Tensor) -> Tensor:
    """The columns of up to 63 rows of booleans as numbers.

    Example:
        >>> _word(torch.tensor([[True, False], [True, True]])).tolist()
        [3, 2]
    """
    if rows.is_cuda:
        shifts = torch.arange(len(rows), device=rows.device).view(-1, *[1] * (rows.ndim - 1))
        return (rows.long() << shifts).sum(0)
    word = torch.zeros(rows.shape[1:], dtype=torch.int64)
    for bit, row in enumerate(rows):
        word |= row.long() << bit
    return word


@remembered
def _of_samples(s: Stack) -> tuple[Tensor, list[tuple[Part, Tensor]]]:
    """Of the outputs' sum of each sample alone: its gradients at the inputs, ``(K, N, …)``, and the layers' traces.

    The layers are in the order of the backward pass.
    """
    found, space = passed(s), Workspace()
    traces: list[tuple[Part, Tensor]] = []

    def on(layer: Layer, g: Tensor) -> None:
        part, count, x = layer.part, len(layer.part.members), layer.x.detach()
        if x.ndim == 2:
            squares = mine(x, count, 1).square().sum(2) * mine(g, count, 1).square().sum(2)
            traces.append((part, squares.sum(0)))
            return
        own: Any = part.like
        how = own.stride, own.padding, own.dilation, own.groups * count
        conv = conv_of(found.weights[part, "weight"], *how)
        total = torch.zeros(count, dtype=torch.float64, device=g.device)
        for block in blocks(Recorded("", None, x, layer.output, conv), g, space, "samples", alike=True):
            total += mine(block, count, 1).square().sum((0, 2))
        traces.append((part, total))

    with watched((layer.output, functools.partial(on, layer)) for layer in found.notes.layers):
        (at_inputs,) = found.gradients(found.outputs.sum(), [found.x])
    return mine(at_inputs.detach(), len(s), 1).transpose(0, 1), traces


@measure
def isolated_jacov(s: Stack, constant: float = 1e-5) -> Tensor:
    """The samples' correlations of all networks are decomposed together."""
    gradients, _ = _of_samples(s.at(norm="isolated"))
    rows = gradients.flatten(2).double()
    rows = rows - rows.mean(2, keepdim=True)
    covariance = rows @ rows.mT
    deviation = covariance.diagonal(dim1=1, dim2=2).sqrt()
    correlation = covariance / deviation[:, :, None] / deviation[:, None]
    fine = torch.isfinite(correlation).all(2).all(1)
    values = torch.linalg.eigvalsh(torch.where(fine[:, None, None], correlation, 0)) + constant
    return torch.where(fine, -(values.log() + 1 / values).sum(1), math.nan)


@measure
def layer_entropy(s: Stack) -> Tensor:
    """The classifier is the layer that the backward pass meets first."""
    _, traces = _of_samples(s.at(norm="isolated"))
    rows = torch.zeros(len(traces), len(s), dtype=torch.float64, device=s.x.device)
    for row, (part, values) in zip(rows, traces, strict=True):
        row[s.plan.index(part.members, rows.device)] = values.double()
    share = rows[1:] / rows[1:].sum(0)
    return torch.where(rows[1:].sum(0) > 0, -torch.where(share > 0, share * share.log(), 0).sum(0), math.nan)


@measure
def isometry(s: Stack) -> Tensor:
    """A backward pass through a block is one for all networks."""
    found = passed(s)
    outputs = list(found.notes.blocks.items())
    total = torch.zeros(len(s), dtype=torch.float64, device=s.x.device)
    for (_, before), (name, after) in itertools.pairwise(outputs):
        own = mine(after.detach(), len(s), 1)
        shape = (own.shape[0], *own.shape[2:])
        signs = drawn("signs", shape, generator(s.seed, f"trainability/{name}"), own)
        going_in = signs[:, None].expand_as(own)
        (coming_out,) = found.gradients(after, [before], going_in.flatten(1, 2))
        before_it, after_it = (
            maps.transpose(0, 1).flatten(0, 1) for maps in (mine(coming_out, len(s), 1), going_in)
        )  # (K · N, C, …)
        left, right = (
            mine(each, len(s), 1).transpose(0, 1) for each in paired(before_it, after_it)
        )  # (K, C, N · places)
        channels, places = right.shape[1:]
        if places < 2:
            raise NotAligned(f"block {name} has a single place")
        power = left.flatten(1).double().square().sum(1) / places
        if places < min(left.shape[1], channels):
            square = ((left.mT @ left).double() * (right.mT @ right).double()).sum((1, 2)) / places**2
        else:
            square = ((left @ right.mT).double() / places).square().sum((1, 2))
        square = (square - power * channels / places) / (1 - 1 / places) / channels
        total -= torch.where(power > 0, (square.clamp_min(LEAST).log() / 2).abs(), math.nan)
    return total / (len(outputs) - 1)
