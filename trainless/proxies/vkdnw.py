"""VKDNW (Tybl & Neumann, 2025): the entropy of the Fisher information's spectrum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from trainless.core.errors import InputError, Unscorable
from trainless.probe.dependence import reach
from trainless.probe.layers import EmbeddingLookup, Layer, Spread, Standardised, watched
from trainless.probe.per_sample import ROOM, each_alone, vectorised
from trainless.probe.points import First, Kaiming, Noise, Repeated
from trainless.probe.probe import Probe, quantity
from trainless.probe.quantities import gradient
from trainless.probe.record import trace
from trainless.proxies.proxy import Paper, Setting, proxy

PAPER = Paper(
    ("Týbl", "Neumann"),
    "Training-free Neural Architecture Search through Variance of Knowledge of Deep Network Weights",
    "CVPR",
    2025,
)
BESIDE = 1024  # samples that a GPU is given together
Factor: TypeAlias = Literal["published", "exact"]


@quantity
def selected_jacobian(p: Probe, tensors: int, outputs: int) -> Tensor:
    """∂(first outputs)/∂(first entry of each of the first parameter tensors), ``(N, outputs, parameters)``.

    One backward pass per output, in which each layer reads off a single entry's gradient. What cannot be read off a
    layer takes a loop over samples and outputs; what the outputs do not depend on has derivative zero.
    """
    names = list(p.weights)[:tensors]
    if not names:
        raise Unscorable("the network has no weights" if not p.weights else f"tensors={tensors} leaves no weights")
    found = _read(p, names, outputs)
    if unread := [name for name in names if name in reach(p).unread]:
        found[..., [names.index(name) for name in unread]] = _first_entries(p, unread, outputs)
    return found


def _first_entries(p: Probe, names: list[str], outputs: int) -> Tensor:
    """∂(first outputs)/∂(first entry of these parameters), ``(N, outputs, parameters)``, sample by sample."""
    beside = _first_entries_beside(p, names, outputs) if p.x.is_cuda else None
    if beside is not None:
        return beside
    rows = []
    for found, weights in each_alone(p):
        chosen = [weights[name] for name in names]
        rows.append(torch.stack([_firsts(gradient(found[0, k], chosen)) for k in range(outputs)]))
    return torch.stack(rows)


def _first_entries_beside(p: Probe, names: list[str], outputs: int) -> Tensor | None:
    """The same at once, with a copy of the batch for every output; None where there is no room, or no way."""
    if sum(p.weights[name].numel() for name in names) * len(p.x) * outputs > ROOM:
        return None
    q = p.once(x=Repeated(outputs))
    found = trace(q).outputs
    cotangent = F.one_hot(torch.arange(outputs), found.shape[1]).to(found).repeat_interleave(len(p.x), 0)
    gradients = vectorised(q, names, cotangent)
    if gradients is None:
        return None
    firsts: Tensor = torch.stack([gradients[name][:, 0] for name in names], 1).unflatten(0, (outputs, -1))
    return firsts.transpose(0, 1)


def _firsts(tensors: list[Tensor]) -> Tensor:
    return torch.stack([tensor.flatten()[0] for tensor in tensors])


def _read(p: Probe, names: list[str], outputs: int) -> Tensor:
    """The named parameters' entries of every sample and output, read off the gradients as they pass by."""
    found = _side_by_side(p, names, outputs) if p.x.is_cuda and outputs > 1 else None
    if found is not None:
        return found
    total = trace(p).outputs
    each = [_entries(p, names, total[:, k : k + 1], torch.ones_like(total[:, :1])) for k in range(outputs)]
    return torch.stack(each, 1)


def _side_by_side(p: Probe, names: list[str], outputs: int) -> Tensor | None:
    """The same with a copy of the batch for every output and one backward pass: for a GPU, which has room for them.

    Samples do not touch one another here. None where the copies give something else after all.
    """
    parts = []
    own = trace(p).outputs.detach()
    wanted = set(names) - reach(p).unread
    for chosen in torch.arange(outputs).split(max(1, BESIDE // len(p.x))):
        q = p.once(x=Repeated(len(chosen)))
        found = trace(q).outputs
        apart = (found.detach().unflatten(0, (len(chosen), -1)) - own).abs().amax() > 1e-3 * own.abs().amax()
        if not wanted.isdisjoint(reach(q).unread) or bool(apart):
            return None
        cotangent = F.one_hot(chosen, found.shape[1]).to(found).repeat_interleave(len(p.x), 0)
        parts.append(_entries(q, names, found, cotangent).unflatten(0, (len(chosen), -1)).transpose(0, 1))
    return torch.cat(parts, 1)


def _entries(p: Probe, names: list[str], value: Tensor, cotangent: Tensor) -> Tensor:
    """The named parameters' entries of every sample, ``(N, parameters)``, in one backward pass."""
    place = {name: index for index, name in enumerate(names)}
    rows = value.new_zeros(len(p.x), len(names) + 1)
    places: list[int] = []
    found: list[Tensor] = []

    def read(reading: _Reading | _SpreadReading, g: Tensor) -> None:
        places.extend(place.get(name, len(names)) for name in reading.names)
        found.append(reading.entries(g))

    wanted = set(names) - reach(p).unread
    with watched((each.output, partial(read, each)) for each in _readings(p) if not wanted.isdisjoint(each.names)):
        gradient(value, reach(p).ends, cotangent)
    if found:
        rows.index_add_(1, torch.tensor(places, device=rows.device), torch.cat(found, 2)[:, 0])
    return rows[:, :-1]


@dataclass(frozen=True, eq=False)
class _Reading:
    """Factors of the gradient at a layer's or norm's first output channel, position by position.

    Attributes:
        names: The parameters whose first entries are read.
        output: Where the gradient is met.
        factors: ``(N, positions, parameters)``: what the first entry multiplies, and ones for a bias.
        channels_second: Whether the output's channels are its second axis, not its last.
        last: How many last axes they are, where they are more than one.
    """

    names: tuple[str, ...]
    output: Tensor
    factors: Tensor
    channels_second: bool
    last: int = 1

    def entries(self, g: Tensor) -> Tensor:
        """Of the gradient at the output, those of the first entries for every sample, ``(N, 1, parameters)``."""
        g = g.flatten(g.ndim - self.last) if self.last > 1 else g
        return torch.bmm(_first_channel(g, self.channels_second), self.factors)


@dataclass(frozen=True, eq=False)
class _SpreadReading:
    """A parameter that acts on all samples alike."""

    at: Spread

    @property
    def names(self) -> tuple[str, ...]:
        return (self.at.weight,)

    @property
    def output(self) -> Tensor:
        return self.at.output

    def entries(self, g: Tensor) -> Tensor:
        """Of the gradient at the output, that of the first entry for every sample, ``(N, 1, 1)``."""
        return self.at.by_sample(g)[:, None, :1]


@quantity
def _readings(p: Probe) -> tuple[_Reading | _SpreadReading, ...]:
    """Where a parameter's first entry can be read, sample by sample."""
    t = trace(p)
    layers = [layer for layer in t.layers if layer.samples == len(p.x) and layer.output.requires_grad]
    norms = [norm for norm in t.norms if norm.samples == len(p.x) and norm.output.requires_grad]
    found = [_reading(layer.weight, layer.bias, layer, _seen(layer), layer.conv is not None) for layer in layers]
    for norm in norms:
        second = not norm.last
        seen = norm.standard if second else norm.standard.flatten(norm.x.ndim - norm.last)
        read = _reading(norm.weight, norm.bias, norm, _first_channel(seen, second), second)
        found.append(replace(read, last=max(1, norm.last)))
    found += [_table(lookup) for lookup in t.lookups if lookup.samples == len(p.x)]
    spread = [at for at in t.spread if at.samples == len(p.x) and at.output.requires_grad]
    return (*found, *map(_SpreadReading, spread))


def _table(lookup: EmbeddingLookup) -> _Reading:
    """A table's first entry is seen wherever the first token is."""
    first = (lookup.tokens == 0).to(lookup.output.dtype).reshape(len(lookup.tokens), -1, 1)
    return _Reading((lookup.weight,), lookup.output, first, False)


def _reading(weight: str, bias: str | None, at: Layer | Standardised, seen: Tensor, channels_second: bool) -> _Reading:
    factors = seen.transpose(1, 2)
    if bias is None:
        return _Reading((weight,), at.output, factors.contiguous(), channels_second)
    return _Reading((weight, bias), at.output, torch.cat([factors, torch.ones_like(factors)], 2), channels_second)


def _first_channel(tensor: Tensor, channels_second: bool) -> Tensor:
    """Channel 0 as ``(N, 1, positions)``."""
    if channels_second and tensor.ndim > 2:
        return tensor.flatten(2)[:, :1]
    return tensor[..., 0].reshape(len(tensor), 1, -1)


def _seen(layer: Layer) -> Tensor:
    """The input that the weight's first entry (output channel 0, input channel 0, first tap) meets at each position."""
    conv = layer.conv
    if conv is None:
        return _first_channel(layer.x, False)
    x = F.pad(layer.x[:, 0], [pad for size in reversed(conv.padding) for pad in (size, 0)])
    sizes = zip(conv.stride, layer.output.shape[2:], strict=True)
    taps = tuple(slice(0, step * (size - 1) + 1, step) for step, size in sizes)
    return x[(slice(None), *taps)].flatten(1)[:, None]


@quantity
def placed_jacobian(p: Probe, tensors: int, outputs: int, position: float, weights: int, drawn: bool) -> Tensor:
    """The same as ``selected_jacobian`` of other entries: a loop over samples and outputs.

    Of each tensor the entry at a share of its length, or so many entries that are ``drawn`` without replacement.
    """
    names = list(p.weights)[:tensors]
    if not names:
        raise Unscorable("the network has no weights" if not p.weights else f"tensors={tensors} leaves no weights")
    places = {name: _places(p, name, position, weights, drawn) for name in names}
    rows = []
    for found, weights_of in each_alone(p, norms=True):
        chosen = [weights_of[name] for name in names]
        slopes = (gradient(found[0, k], chosen) for k in range(outputs))
        rows.append(torch.stack([_at(names, each, places) for each in slopes]))
    return torch.stack(rows)


def _places(p: Probe, name: str, position: float, weights: int, drawn: bool) -> Tensor:
    """Which entries of a flat tensor."""
    size = p.weights[name].numel()
    if drawn or weights > 1:
        return torch.randperm(size, generator=p.generator(f"vkdnw {name}"))[:weights]
    return torch.tensor([int(position * (size - 1))])


def _at(names: list[str], tensors: list[Tensor], places: dict[str, Tensor]) -> Tensor:
    found = zip(names, tensors, strict=True)
    return torch.cat([tensor.flatten()[places[name].to(tensor.device)] for name, tensor in found])


@quantity
def fim_spectrum(
    p: Probe,
    factor: Factor = "published",
    smoothing: float = 0.05,
    keep: float | None = None,
    samples: int = 16,
    tensors: int = 128,
    position: float = 0.0,
    weights: int = 1,
    drawn: bool = False,
) -> Tensor:
    """Ascending eigenvalues of the Fisher information of a few parameters, in double precision.

    F = mean_n Jᵀ M(p_n) J with M = diag(p) − ppᵀ = LLᵀ (``exact``) or LᵀL (``published``: the program multiplies by
    L where Lᵀ was meant), p the smoothed softmax ``keep · softmax + smoothing / K``.
    """
    q = p.once(norm="fresh", x=First(samples))
    outputs = trace(q).outputs.detach().double()
    if outputs.ndim != 2:
        raise Unscorable("the Fisher information of token sequences is not defined here")
    matrix = middle(outputs, p.target.kind == "regression", factor, smoothing, 1 - smoothing if keep is None else keep)
    first = (position, weights, drawn) == (0.0, 1, False)
    jacobian = (
        selected_jacobian(q, tensors, matrix.shape[1])
        if first
        else placed_jacobian(q, tensors, matrix.shape[1], position, weights, drawn)
    ).double()
    fisher = torch.einsum("nkp,nkl,nlq->pq", jacobian, matrix, jacobian) / len(q.x)
    if not bool(torch.isfinite(fisher).all()):
        raise Unscorable("the Fisher information is not finite")
    values: Tensor = torch.linalg.eigvalsh(fisher).clamp_min(0)
    return values


def middle(outputs: Tensor, regression: bool, factor: Factor, smoothing: float, keep: float) -> Tensor:
    """M for every sample; the published LᵀL never reads the last output, because the last column of L is zero."""
    if regression:
        return torch.eye(outputs.shape[1], dtype=outputs.dtype, device=outputs.device).expand(len(outputs), -1, -1)
    share = keep * _softmax(outputs) + smoothing / max(2, outputs.shape[1])
    lower = _cholesky(share)
    if factor == "published":
        return (lower.transpose(1, 2) @ lower)[:, :-1, :-1]
    return (lower @ lower.transpose(1, 2))[:, : outputs.shape[1], : outputs.shape[1]]


def _softmax(outputs: Tensor) -> Tensor:
    """Class probabilities; a single logit stands for two classes."""
    if outputs.shape[1] == 1:
        outputs = torch.cat([outputs, torch.zeros_like(outputs)], 1)
    return outputs.softmax(1)


def _cholesky(share: Tensor) -> Tensor:
    """The lower factor of diag(p) − ppᵀ in closed form; its last column is zero."""
    left = (1 - share.cumsum(1)).clamp_min(0)
    before = torch.cat([torch.ones_like(left[:, :1]), left[:, :-1]], 1)
    diagonal = (share * left / before).sqrt()
    below = -share[:, :, None] * (diagonal / left.clamp_min(1e-300))[:, None, :]
    lower = torch.tril(below, -1) + torch.diag_embed(diagonal)
    return torch.cat([lower[:, :, :-1], torch.zeros_like(lower[:, :, -1:])], 2)


def deciles(values: Tensor) -> Tensor:
    """The nine deciles of a spectrum, linearly interpolated."""
    return torch.quantile(values, torch.arange(1, 10, dtype=values.dtype, device=values.device) / 10)


@proxy(higher_is_better=True, data=False, paper=PAPER, aspect="size")
def layers(p: Probe) -> float:
    """Number of parameter tensors: VKDNW's size ℵ.

    |{θ_l}|.

    Differences:
        The paper speaks of layers without norms; its program counts every parameter tensor, norms and biases
        included, and its tables come from that. So does this.
    """
    return float(len(p.weights))


@proxy(
    higher_is_better=True,
    data=False,
    paper=PAPER,
    aspect="trainability",
    setting=Setting(weights=Kaiming(), inputs=Noise(), batch=64, options=(("samples", 64),)),
)
def vkdnw(
    p: Probe,
    factor: Factor = "published",
    smoothing: float = 0.05,
    keep: float | None = None,
    samples: int = 16,
    tensors: int = 128,
    position: float = 0.0,
    weights: int = 1,
    drawn: bool = False,
    decile: int = 0,
) -> float:
    """Entropy of the Fisher information's deciles: how evenly the parameters matter.

    −Σ_k λ̃_k log λ̃_k, λ̃ the deciles of the Fisher spectrum over their sum, one entry per parameter tensor.

    Args:
        p: The probe; norms are those of an untrained network in evaluation mode.
        factor: ``published`` or ``exact``; see ``fim_spectrum``.
        smoothing: Share of the uniform distribution in the class probabilities.
        keep: Share of the network's own, 1 − smoothing unless given; the program's half-precision constant is
            0.9501953125.
        samples: How many samples of the batch to use; the paper's 64 cost four times as much.
        tensors: How many parameter tensors at most give an entry, from the input on: the matrix's size.
        position: Which entry of each tensor, as a share of its length; all but the first take a loop, which is slower.
        weights: How many entries of each tensor, drawn where there are several.
        drawn: Whether a single entry is drawn, too.
        decile: Which decile alone, 1 to 9, in place of the entropy of all nine.

    Differences:
        The paper takes one parameter per layer and none of the norms; its program takes norms and biases too, smooths
        the probabilities and multiplies by L for Lᵀ. Alone, the program's form ranks best (Spearman 0.54, with Lᵀ
        0.51, as written 0.19 on NAS-Bench-201), so it is the default. Eigenvalues are double precision: the
        program's float32 decomposition gives noise in the lower deciles. Parameters that the outputs do not depend on
        keep their zeros in the matrix, as in the program. Those that cannot be read off a layer (of recurrent cells,
        packed attention, norms of single samples) take a loop over samples and outputs: exact, but slower.

    Fails:
        The network has no weights, or its outputs are sequences of tokens.
    """
    if not 0 <= position <= 1 or weights < 1 or decile not in range(10):
        raise InputError(
            f"vkdnw: position={position}, weights={weights} and decile={decile} were given; expected a share from 0 to"
            " 1, a whole number from 1, and 0 to 9"
        )
    values = deciles(fim_spectrum(p, factor, smoothing, keep, samples, tensors, position, weights, drawn))
    if decile:
        return float(values[decile - 1])
    share = values / (values.sum() + 1e-10)
    return float(-(share * (share + 1e-10).log()).sum()) + 0.0
