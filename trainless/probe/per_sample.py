"""One layer's weight gradients, sample by sample: from its inputs and the gradient at its output, a block at a time."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from trainless.probe.dependence import reach
from trainless.probe.layers import Conv, EmbeddingLookup, Layer, Spread, Standardised, watched
from trainless.probe.probe import Probe, quantity
from trainless.probe.quantities import gradient, losses, weight_names
from trainless.probe.record import guard, prepared, trace
from trainless.probe.running import run

CACHE = 1 << 19  # numbers that a block of windows may have: two megabytes stay near the core
WORKSPACE = 1 << 24  # numbers that a block of per-sample gradients may have
DEVICE = 1 << 28  # that a block of either may have on a GPU, which waits for every single operation

By: TypeAlias = Literal["samples", "entries"]
"""Blocks hold some samples and every entry of a weight, or every sample and some entries."""


@dataclass(frozen=True)
class Workspace:
    """Buffers that are used again from layer to layer, so that their memory stays warm."""

    buffers: dict[object, Tensor] = field(default_factory=dict)

    def take(self, tag: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Room of this shape; what is in it is arbitrary."""
        count = math.prod(shape)
        held = self.buffers.get(tag)
        if held is None or held.numel() < count or held.dtype != like.dtype:
            held = self.buffers[tag] = torch.empty(count, dtype=like.dtype, device=like.device)
        return held[:count].view(shape)

    def zeros(self, tag: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Room that was zero when it was first taken, for users who always write to the same places."""
        key = (tag, shape, like.dtype)
        if key not in self.buffers:
            self.buffers[key] = torch.zeros(shape, dtype=like.dtype, device=like.device)
        return self.buffers[key]


def blocks(layer: Layer, g: Tensor, space: Workspace, by: By, alike: bool = False) -> Iterator[Tensor]:
    """A layer's per-sample weight gradients, the entries in an order of their own.

    Args:
        layer: The layer as it was recorded.
        g: The gradient at its output.
        space: Memory to use again.
        by: See ``By``.
        alike: The entries come in the same order whatever the shape of the layer's input.
    """
    if layer.conv is not None and not alike and _convolves(layer.x, g, layer.conv):
        yield from _convolutions(layer.x, g, layer.conv, by)
        return
    if layer.conv is None:
        rows = layer.x.reshape(len(layer.x), -1, layer.x.shape[-1])
        yield from _products(g.reshape(len(g), -1, g.shape[-1]).transpose(1, 2), _Rows(rows), space, by)
        return
    if _is_pointwise(layer.conv):
        seen = layer.x[(slice(None), slice(None), *(slice(None, None, step) for step in layer.conv.stride))]
        yield from _products(g.flatten(2), _Rows(seen.flatten(2).transpose(1, 2)), space, by)
        return
    yield from _products(g.flatten(2), _Windows(layer.x, layer.conv, tuple(g.shape[2:]), space), space, by)


def _is_pointwise(conv: Conv) -> bool:
    """Whether a convolution is a linear layer at each position that it looks at."""
    return conv.groups == 1 and math.prod(conv.kernel) == 1 and not any(conv.padding)


def _convolves(x: Tensor, g: Tensor, conv: Conv) -> bool:
    """Whether a convolution with groups per sample is faster: of single channels, or on the CPU, of few outputs."""
    if x.dtype != torch.float32:
        return False
    sizes = zip(x.shape[2:], g.shape[2:], conv.kernel, conv.stride, conv.padding, conv.dilation, strict=True)
    even = all((size + 2 * pad - step * (k - 1) - 1) // s + 1 == out for size, out, k, s, pad, step in sizes)
    if conv.groups > 1:
        return even and conv.groups == x.shape[1]
    return even and not x.is_cuda and g[0, 0].numel() >= 4 * g.shape[1]


def _convolutions(x: Tensor, g: Tensor, conv: Conv, by: By) -> Iterator[Tensor]:
    """The weight gradient of a convolution in which every sample has groups of its own."""
    samples, outputs = g.shape[:2]
    entries = x.shape[1] // conv.groups * math.prod(conv.kernel)
    room = DEVICE if x.is_cuda else WORKSPACE
    step = max(1, min(samples, room // (outputs * entries))) if by == "samples" else samples
    alone = by == "samples" or conv.groups > 1  # the outputs of all groups stay together
    wide = outputs if alone else max(1, min(outputs, room // (samples * entries)))
    weight = x.new_empty(1).expand(samples * outputs, x.shape[1] // conv.groups, *conv.kernel)
    none = [0] * len(conv.kernel)
    for start in range(0, samples, step):
        inputs = x[start : start + step]
        for first in range(0, outputs, wide):
            part = g[start : start + step, first : first + wide]
            found = torch.ops.aten.convolution_backward(
                part.reshape(1, -1, *g.shape[2:]),
                inputs.reshape(1, -1, *x.shape[2:]),
                weight[: len(part) * part.shape[1]],
                None,
                *(conv.stride, conv.padding, conv.dilation, False, none),
                len(part) * conv.groups,
                (False, True, False),
            )[1]
            yield found.view(len(part), -1)


@dataclass(frozen=True, eq=False)
class _Rows:
    """The input of each position of a linear layer: the rows themselves."""

    rows: Tensor

    @property
    def groups(self) -> int:
        return 1

    @property
    def fan(self) -> int:
        return self.rows.shape[2]

    def take(self, samples: slice) -> Tensor:
        return self.rows[samples]


@dataclass(frozen=True, eq=False)
class _Windows:
    """The input of each position of a convolution: a kernel-sized window of the padded input, channels last."""

    x: Tensor
    conv: Conv
    out: tuple[int, ...]
    space: Workspace

    @property
    def groups(self) -> int:
        return self.conv.groups

    @property
    def fan(self) -> int:
        return self.x.shape[1] // self.groups * math.prod(self.conv.kernel)

    def take(self, samples: slice) -> Tensor:
        """``(samples × groups, positions, kernel × channels of a group)``."""
        x = self._padded(self.x[samples].movedim(1, -1))
        count, channels = len(x), x.shape[-1] // self.groups
        batch, *axes, last = x.stride()
        strides = [axis * step for axis, step in zip(axes, self.conv.stride, strict=True)]
        steps = [axis * step for axis, step in zip(axes, self.conv.dilation, strict=True)]
        shape = (count, self.groups, *self.out, *self.conv.kernel, channels)
        view = x.as_strided(shape, (batch, channels * last, *strides, *steps, last))
        room = self.space.take("windows", tuple(view.shape), x)
        room.copy_(view)
        return room.view(count * self.groups, math.prod(self.out), -1)

    def _padded(self, x: Tensor) -> Tensor:
        pads = self.conv.padding
        count, *sizes, channels = x.shape
        conv = zip(self.out, self.conv.kernel, self.conv.stride, self.conv.dilation, strict=True)
        reach = [(out - 1) * stride + (kernel - 1) * step + 1 for out, kernel, stride, step in conv]
        full = [max(size + 2 * pad, least) for size, pad, least in zip(sizes, pads, reach, strict=True)]
        shape = (count, *full, channels)
        room = self.space.zeros(f"padded by {pads}", shape, x)
        inner = tuple(slice(pad, pad + size) for size, pad in zip(sizes, pads, strict=True))
        room[(slice(None), *inner)] = x
        return room


def _products(g: Tensor, rows: _Rows | _Windows, space: Workspace, by: By) -> Iterator[Tensor]:
    """``g @ rows`` per sample and group: ``(N, outputs, T) @ (N, T, fan)``."""
    samples, outputs, positions = g.shape
    groups, fan = rows.groups, rows.fan
    room, near = (DEVICE, DEVICE) if g.is_cuda else (WORKSPACE, CACHE)
    step = samples if isinstance(rows, _Rows) else max(1, min(samples, near // (positions * fan * groups)))
    if by == "samples":
        step = max(1, min(step, room // (outputs * fan)))
    alone = by == "samples" or groups > 1  # the outputs of all groups stay together
    wide = outputs if alone else max(1, min(outputs, room // (samples * fan)))
    for first in range(0, outputs, wide):
        last = min(first + wide, outputs)
        block = space.take("products", (step if by == "samples" else samples, last - first, fan), g)
        for start in range(0, samples, step):
            part = slice(start, min(start + step, samples))
            place = block[: part.stop - start] if by == "samples" else block[part]
            left = g[part, first:last].reshape(-1, (last - first) // groups, positions)
            torch.bmm(left, rows.take(part), out=place.view(len(left), -1, fan))
            if by == "samples":
                yield place.flatten(1)
        if by == "entries":
            yield block.flatten(1)


def table_rows(lookup: EmbeddingLookup, g: Tensor) -> Tensor:
    """A table's per-sample gradients: what arrives at each token is added to the token's row."""
    samples, (tokens, width) = len(g), lookup.shape
    whole = g.new_zeros(samples * tokens, width)
    first = torch.arange(samples, device=g.device).mul_(tokens)
    places = lookup.tokens.reshape(samples, -1) + first[:, None]
    whole.index_add_(0, places.flatten(), g.reshape(-1, width))
    return whole.view(samples, -1)


ROOM = 3 << 27  # numbers that the gradients of a group of weights for all samples may have: 1.5 GiB in float32

Consume: TypeAlias = Callable[[str, Tensor], None]


def stream(p: Probe, cotangent: Tensor, consume: Consume, by: By, names: Iterable[str] | None = None) -> list[Tensor]:
    """Hand every weight's per-sample gradients on, block by block.

    A block lives until ``consume`` returns and may be overwritten by it. Of parameters that the outputs do not depend
    on, nothing is handed on.

    Args:
        p: A probe whose samples do not touch one another (norm ``isolated``, ``fresh`` or ``off``).
        cotangent: ∂(what is differentiated)/∂outputs, one row per sample.
        consume: Called with a weight's name and a block ``(samples, entries)``.
        by: Whether a block has all entries of some samples or some entries of all samples.
        names: Which parameters; all matrices and kernels unless given.

    Returns:
        The gradients at ``ForwardPass.inputs``.
    """
    t = trace(p)
    wanted = set(weight_names(p) if names is None else names)
    reached = reach(p)
    uses = Counter({name: reached.recorded[name] for name in wanted - reached.unread if reached.recorded[name]})
    later: dict[str, Tensor] = {}
    space = Workspace()

    def keep(name: str, whole: Tensor) -> None:
        later[name] = whole + later.get(name, 0)

    def on_layer(layer: Layer, g: Tensor) -> None:
        if uses[layer.weight] == 1:
            for block in blocks(layer, g, space, by):
                consume(layer.weight, block)
        else:
            keep(layer.weight, torch.cat([each.clone() for each in blocks(layer, g, space, "samples", alike=True)]))

    def on_vector(at: Standardised | Spread, g: Tensor) -> None:
        hand_on = consume if uses[at.weight] == 1 else keep
        hand_on(at.weight, at.by_sample(g).clone())  # what is handed on may be written over, g goes on

    def on_lookup(lookup: EmbeddingLookup, g: Tensor) -> None:
        keep(lookup.weight, table_rows(lookup, g))

    each = len(p.x)
    hooks = [(at.output, partial(on_layer, at)) for at in t.layers if at.weight in uses and at.samples == each]
    vectors: list[Standardised | Spread] = [*t.norms, *t.spread]
    hooks += [(at.output, partial(on_vector, at)) for at in vectors if at.weight in uses and at.samples == each]
    hooks += [(at.output, partial(on_lookup, at)) for at in t.lookups if at.weight in uses and at.samples == each]
    with watched(hooks):
        on_input = gradient(t.outputs, reached.ends, cotangent)[: len(t.inputs())]
    for name, whole in later.items():
        consume(name, whole)
    for group in in_groups(p, [name for name in reversed(p.weights) if name in wanted & reached.unread]):
        for name, whole in _one_by_one(p, group, cotangent).items():
            consume(name, whole)
    return on_input


def in_groups(p: Probe, names: Iterable[str]) -> Iterator[list[str]]:
    """Consecutive parameters whose gradients for all samples fit in the room given."""
    group: list[str] = []
    size = 0
    for name in names:
        count = p.weights[name].numel() * len(p.x)
        if group and size + count > ROOM:
            yield group
            group, size = [], 0
        group.append(name)
        size += count
    if group:
        yield group


def each_alone(p: Probe) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
    """Every sample as a batch of one, in the probe's norm mode: its outputs with their graph, and all weights.

    Of a network that draws random numbers a batch of one would draw others: its outputs are those in the whole batch.
    """
    if guard(p).draws:
        t = trace(p)
        yield from ((outputs, t.weights) for outputs in t.outputs.split(1))
        return
    for index in range(len(p.x)):
        weights = {name: tensor.detach().requires_grad_() for name, tensor in p.weights.items()}
        with prepared(p, statistics=trace(p).statistics, samples=1), torch.enable_grad():
            outputs = run(p.net, weights, p.x[index : index + 1].contiguous())
        yield outputs, weights


def _one_by_one(p: Probe, names: list[str], cotangent: Tensor) -> dict[str, Tensor]:
    """Per-sample gradients of parameters that cannot be read off a layer, from batches of one."""
    found = vectorised(p, names, cotangent) if p.x.is_cuda else None
    if found is not None:
        return found
    rows: dict[str, list[Tensor]] = {name: [] for name in names}
    for (outputs, weights), row in zip(each_alone(p), cotangent.split(1), strict=True):
        for name, each in zip(names, gradient(outputs, [weights[name] for name in names], row), strict=True):
            rows[name].append(each.flatten())
    return {name: torch.stack(each) for name, each in rows.items()}


def vectorised(p: Probe, names: list[str], cotangent: Tensor) -> dict[str, Tensor] | None:
    """The same with all batches of one at once, for a GPU, which waits for every single operation.

    None where a network cannot be run so, or would give other outputs than it does.
    """
    fixed = {name: tensor.detach() for name, tensor in p.weights.items() if name not in names}

    def alone(chosen: dict[str, Tensor], x: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        outputs = run(p.net, {name: chosen.get(name, fixed.get(name)) for name in p.weights}, x[None])  # type: ignore[misc]
        return (outputs[0] * row).sum(), outputs[0]

    chosen = {name: p.weights[name].detach() for name in names}
    own = trace(p).outputs.detach()
    try:
        with warnings.catch_warnings(), prepared(p, statistics=trace(p).statistics, samples=1):
            warnings.simplefilter("ignore", UserWarning)  # of operations that it takes one by one after all
            each = torch.func.vmap(torch.func.grad(alone, has_aux=True), (None, 0, 0), randomness="same")
            found, outputs = each(chosen, p.x.detach(), cotangent.detach())
    except (RuntimeError, ValueError, NotImplementedError):
        return None
    if outputs.shape != own.shape or not bool((outputs - own).abs().amax() <= 1e-3 * own.abs().amax()):
        return None
    return {name: each.flatten(1) for name, each in found.items()}


@quantity
def loss_cotangent(p: Probe) -> Tensor:
    """∂(Σ losses)/∂outputs: one row per sample."""
    return gradient(losses(p).sum(), [trace(p).outputs])[0]
