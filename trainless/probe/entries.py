"""Derivatives of the outputs by single entries of parameters, sample by sample, read off the layers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trainless.probe.dependence import reach
from trainless.probe.layers import EmbeddingLookup, Layer, Spread, Standardised, watched
from trainless.probe.per_sample import ROOM, each_alone, vectorised
from trainless.probe.points import Repeated
from trainless.probe.probe import Probe, quantity
from trainless.probe.quantities import gradient
from trainless.probe.record import trace

BESIDE = 1024  # samples that a GPU is given together
Places: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""Parameters by name, and which entries of each in its flat order are looked at."""


@quantity
def selected_jacobian(p: Probe, places: Places, outputs: int) -> Tensor:
    """∂(first outputs)/∂(these entries of these parameters), ``(N, outputs, entries)``.

    One backward pass per output, in which each layer reads off its entries' gradients. What cannot be read off a
    layer takes a loop over samples and outputs; what the outputs do not depend on has derivative zero.
    """
    columns = _columns(places)
    found = _read(p, places, outputs)
    if unread := tuple(each for each in places if each[0] in reach(p).unread):
        found[..., [columns[key] for key in _columns(unread)]] = _looped(p, unread, outputs)
    return found


def _columns(places: Places) -> dict[tuple[str, int], int]:
    """The column of each entry."""
    return {key: column for column, key in enumerate((name, index) for name, found in places for index in found)}


def _looped(p: Probe, places: Places, outputs: int) -> Tensor:
    """∂(first outputs)/∂(entries of these parameters), ``(N, outputs, entries)``, sample by sample."""
    beside = _looped_beside(p, places, outputs) if p.x.is_cuda else None
    if beside is not None:
        return beside
    rows = []
    for found, weights in each_alone(p):
        chosen = [weights[name] for name, _ in places]
        rows.append(torch.stack([_at(gradient(found[0, k], chosen), places, 0) for k in range(outputs)]))
    return torch.stack(rows)


def _looped_beside(p: Probe, places: Places, outputs: int) -> Tensor | None:
    """The same at once, with a copy of the batch for every output; None where there is no room, or no way."""
    names = [name for name, _ in places]
    if sum(p.weights[name].numel() for name in names) * len(p.x) * outputs > ROOM:
        return None
    q = p.once(x=Repeated(outputs))
    found = trace(q).outputs
    cotangent = F.one_hot(torch.arange(outputs), found.shape[1]).to(found).repeat_interleave(len(p.x), 0)
    gradients = vectorised(q, names, cotangent)
    if gradients is None:
        return None
    entries: Tensor = _at([gradients[name] for name in names], places, 1).unflatten(0, (outputs, -1))
    return entries.transpose(0, 1)


def _at(tensors: Sequence[Tensor], places: Places, first: int) -> Tensor:
    """The entries of gradients, which begin at an axis, side by side along the last one."""
    found = zip(places, tensors, strict=True)
    return torch.cat([tensor.flatten(first)[..., list(indices)] for (_, indices), tensor in found], -1)


def _read(p: Probe, places: Places, outputs: int) -> Tensor:
    """The entries of every sample and output, read off the gradients as they pass by."""
    found = _side_by_side(p, places, outputs) if p.x.is_cuda and outputs > 1 else None
    if found is not None:
        return found
    total = trace(p).outputs
    each = [_entries(p, places, total[:, k : k + 1], torch.ones_like(total[:, :1])) for k in range(outputs)]
    return torch.stack(each, 1)


def _side_by_side(p: Probe, places: Places, outputs: int) -> Tensor | None:
    """The same with a copy of the batch for every output and one backward pass: for a GPU, which has room for them.

    Samples do not touch one another here. None where the copies give something else after all.
    """
    parts = []
    own = trace(p).outputs.detach()
    wanted = {name for name, _ in places} - reach(p).unread
    for chosen in torch.arange(outputs).split(max(1, BESIDE // len(p.x))):
        q = p.once(x=Repeated(len(chosen)))
        found = trace(q).outputs
        apart = (found.detach().unflatten(0, (len(chosen), -1)) - own).abs().amax() > 1e-3 * own.abs().amax()
        if not wanted.isdisjoint(reach(q).unread) or bool(apart):
            return None
        cotangent = F.one_hot(chosen, found.shape[1]).to(found).repeat_interleave(len(p.x), 0)
        parts.append(_entries(q, places, found, cotangent).unflatten(0, (len(chosen), -1)).transpose(0, 1))
    return torch.cat(parts, 1)


def _entries(p: Probe, places: Places, value: Tensor, cotangent: Tensor) -> Tensor:
    """The entries of every sample, ``(N, entries)``, in one backward pass."""
    columns = _columns(places)
    rows = value.new_zeros(len(p.x), len(columns))
    found: list[tuple[list[int], Tensor]] = []

    def read(reading: Reading, g: Tensor) -> None:
        found.append(([columns[key] for key in reading.keys], reading.entries(g)))

    wanted = {name for name, _ in places} - reach(p).unread
    chosen = [each for each in _readings(p, places) if any(name in wanted for name, _ in each.keys)]
    with watched((each.output, partial(read, each)) for each in chosen):
        gradient(value, reach(p).ends, cotangent)
    if found:
        at = torch.tensor([column for part, _ in found for column in part], device=rows.device)
        rows.index_add_(1, at, torch.cat([entries for _, entries in found], 2)[:, 0])
    return rows


@dataclass(frozen=True, eq=False)
class _Reading:
    """Factors of the gradient at one output channel of a layer or norm, position by position.

    Attributes:
        keys: The entries that are read: of which parameter, and its place in the flat tensor.
        output: Where the gradient is met.
        factors: ``(N, positions, entries)``: what an entry multiplies, and ones for a bias.
        channel: The output channel that the entries belong to.
        channels_second: Whether the output's channels are its second axis, not its last.
        last: How many last axes they are, where they are more than one.
    """

    keys: tuple[tuple[str, int], ...]
    output: Tensor
    factors: Tensor
    channel: int
    channels_second: bool
    last: int = 1

    def entries(self, g: Tensor) -> Tensor:
        """Of the gradient at the output, those of the entries for every sample, ``(N, 1, entries)``."""
        g = g.flatten(g.ndim - self.last) if self.last > 1 else g
        return torch.bmm(_channel(g, self.channel, self.channels_second), self.factors)


@dataclass(frozen=True, eq=False)
class _SpreadReading:
    """Entries of a parameter that acts on all samples alike."""

    at: Spread
    indices: tuple[int, ...]

    @property
    def keys(self) -> tuple[tuple[str, int], ...]:
        return tuple((self.at.weight, index) for index in self.indices)

    @property
    def output(self) -> Tensor:
        return self.at.output

    def entries(self, g: Tensor) -> Tensor:
        """Of the gradient at the output, those of the entries for every sample, ``(N, 1, entries)``."""
        return self.at.by_sample(g)[:, None, list(self.indices)]


Reading: TypeAlias = _Reading | _SpreadReading


@quantity
def _readings(p: Probe, places: Places) -> tuple[Reading, ...]:
    """Where entries of parameters can be read, sample by sample."""
    t, at = trace(p), dict(places)
    layers = [layer for layer in t.layers if layer.samples == len(p.x) and layer.output.requires_grad]
    norms = [norm for norm in t.norms if norm.samples == len(p.x) and norm.output.requires_grad]
    found: list[Reading] = [each for layer in layers for each in _of_layer(layer, at)]
    found += [each for norm in norms for each in _of_norm(norm, at)]
    tables = [lookup for lookup in t.lookups if lookup.samples == len(p.x)]
    found += [_of_table(lookup, index) for lookup in tables for index in at.get(lookup.weight, ())]
    spread = [each for each in t.spread if each.samples == len(p.x) and each.output.requires_grad]
    found += [_SpreadReading(each, at[each.weight]) for each in spread if each.weight in at]
    return tuple(found)


def _of_layer(layer: Layer, at: Mapping[str, tuple[int, ...]]) -> Iterator[_Reading]:
    entered = [(layer.weight, index, *_seen(layer, index)) for index in at.get(layer.weight, ())]
    yield from _by_channel(layer, entered, at, layer.conv is not None)


def _of_norm(norm: Standardised, at: Mapping[str, tuple[int, ...]]) -> Iterator[_Reading]:
    second = not norm.last
    seen = norm.standard if second else norm.standard.flatten(norm.x.ndim - norm.last)
    entered = [(norm.weight, index, index, _channel(seen, index, second)) for index in at.get(norm.weight, ())]
    for each in _by_channel(norm, entered, at, second):
        yield replace(each, last=max(1, norm.last))


def _by_channel(
    part: Layer | Standardised,
    entered: Sequence[tuple[str, int, int, Tensor]],
    at: Mapping[str, tuple[int, ...]],
    channels_second: bool,
) -> Iterator[_Reading]:
    """One reading for each output channel, of its weights' entries and of its bias."""
    groups: dict[int, list[tuple[str, int, Tensor | None]]] = {}
    for name, index, channel, seen in entered:
        groups.setdefault(channel, []).append((name, index, seen.transpose(1, 2)))
    for index in at.get(part.bias, ()) if part.bias is not None else ():
        groups.setdefault(index, []).append((part.bias or "", index, None))
    for channel, entries in groups.items():
        like = next((seen for _, _, seen in entries if seen is not None), None)
        if like is None:
            like = _channel(_flat(part.output.detach(), part), channel, channels_second).transpose(1, 2)
        factors = torch.cat([torch.ones_like(like) if seen is None else seen for _, _, seen in entries], 2)
        keys = tuple((name, index) for name, index, _ in entries)
        yield _Reading(keys, part.output, factors.contiguous(), channel, channels_second)


def _flat(output: Tensor, part: Layer | Standardised) -> Tensor:
    last = part.last if isinstance(part, Standardised) else 0
    return output.flatten(output.ndim - last) if last > 1 else output


def _of_table(lookup: EmbeddingLookup, index: int) -> _Reading:
    """A table's entry is seen wherever its token is."""
    token, channel = divmod(index, lookup.shape[1])
    there = (lookup.tokens == token).to(lookup.output.dtype).reshape(len(lookup.tokens), -1, 1)
    return _Reading(((lookup.weight, index),), lookup.output, there, channel, False)


def _channel(tensor: Tensor, channel: int, channels_second: bool) -> Tensor:
    """A channel as ``(N, 1, positions)``."""
    if channels_second and tensor.ndim > 2:
        return tensor.flatten(2)[:, channel : channel + 1]
    return tensor[..., channel].reshape(len(tensor), 1, -1)


def _seen(layer: Layer, index: int) -> tuple[int, Tensor]:
    """The output channel of a weight's entry, and what the entry meets at each position."""
    conv = layer.conv
    if conv is None:
        output, entering = divmod(index, layer.x.shape[-1])
        return output, _channel(layer.x, entering, False)
    taps, fan = math.prod(conv.kernel), layer.x.shape[1] // conv.groups
    output, rest = divmod(index, fan * taps)
    entering, tap = divmod(rest, taps)
    group = output * conv.groups // layer.output.shape[1]
    taken = map(int, np.unravel_index(tap, conv.kernel))
    begin = [at * by for at, by in zip(taken, conv.dilation, strict=True)]
    ends = [at + step * (n - 1) + 1 for at, step, n in zip(begin, conv.stride, layer.output.shape[2:], strict=True)]
    x = layer.x[:, group * fan + entering]
    short = [max(0, end - pad - size) for end, pad, size in zip(ends, conv.padding, x.shape[1:], strict=True)]
    x = F.pad(x, [size for both in reversed([*zip(conv.padding, short, strict=True)]) for size in both])
    windows = (slice(at, end, step) for at, end, step in zip(begin, ends, conv.stride, strict=True))
    return output, x[(slice(None), *windows)].flatten(1)[:, None]
