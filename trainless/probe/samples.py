"""Per-sample gradients, streamed layer by layer and never held all at once.

With every sample normalised on its own, samples do not touch one another, so one batched backward pass gives every
sample's gradient at each layer's output. A layer's weight gradients follow from its input windows and that gradient;
they are formed a block at a time in memory that is used again, handed on and forgotten.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from trainless.probe.norms import normalised
from trainless.probe.probe import Probe, quantity, quiet_randomness
from trainless.probe.quantities import gradient, losses, weight_names
from trainless.probe.record import Conv, Layer, Standardised, Trace, leaves, run, trace

CACHE = 3 << 18  # numbers that a block of windows may have: three megabytes stay near the core
WORKSPACE = 1 << 24  # numbers that a block of per-sample gradients may have

By: TypeAlias = Literal["samples", "entries"]
"""Blocks hold some samples and every entry of a weight, or every sample and some entries."""

Consume: TypeAlias = Callable[[str, Tensor], None]


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


def stream(p: Probe, cotangent: Tensor, consume: Consume, by: By, *, norms: bool = False) -> Tensor:
    """Hand every weight's per-sample gradients on, block by block.

    A block lives until ``consume`` returns and may be overwritten by it.

    Args:
        p: A probe whose samples do not touch one another (norm ``isolated``, ``fresh`` or ``off``).
        cotangent: ∂(what is differentiated)/∂outputs, one row per sample.
        consume: Called with a weight's name and a block ``(samples, entries)``.
        by: Whether a block has all entries of some samples or some entries of all samples.
        norms: Whether to give the scales of batch norms too.

    Returns:
        The gradient with respect to the input (of tokens: to what embeds them).
    """
    t = trace(p)
    wanted = set(weight_names(p))
    uses = _uses(t, wanted)
    later: dict[str, Tensor] = {}
    space = Workspace()

    def on_layer(layer: Layer) -> Callable[[Tensor], None]:
        def hook(g: Tensor) -> None:
            if uses[layer.weight] == 1:
                for block in blocks(layer, g, space, by):
                    consume(layer.weight, block)
            else:
                whole = torch.cat([block.clone() for block in blocks(layer, g, space, "samples")])
                later[layer.weight] = whole + later.get(layer.weight, 0)

        return hook

    def on_norm(norm: Standardised) -> Callable[[Tensor], None]:
        def hook(g: Tensor) -> None:
            consume(norm.weight, torch.linalg.vecdot(g.flatten(2), norm.x.flatten(2)))

        return hook

    handles = [layer.output.register_hook(on_layer(layer)) for layer in t.layers if layer.weight in uses]
    if norms:
        handles += [norm.output.register_hook(on_norm(norm)) for norm in t.norms]
    try:
        on_input = gradient(t.outputs, leaves(t), cotangent)[0]
    finally:
        for handle in handles:
            handle.remove()
    for name, whole in later.items():
        consume(name, whole)
    for name in sorted(wanted - set(uses)):
        consume(name, _one_by_one(p, name, cotangent))
    return on_input


def _uses(t: Trace, wanted: set[str]) -> Counter[str]:
    """The weights whose every use was recorded as a layer, with the number of uses."""
    return Counter(layer.weight for layer in t.layers if layer.weight in wanted)


def _one_by_one(p: Probe, name: str, cotangent: Tensor) -> Tensor:
    """Per-sample gradients of a weight that is not a plain layer's: a loop over batches of one."""
    rows = []
    for index in range(len(p.x)):
        weights = {key: tensor.detach().requires_grad_(key == name) for key, tensor in p.weights.items()}
        with quiet_randomness(p), normalised(p.net, p.norm, p.kept_norms), torch.enable_grad():
            outputs = run(p.net, weights, p.x[index : index + 1])
        rows.append(gradient(outputs, [weights[name]], cotangent[index : index + 1])[0].flatten())
    return torch.stack(rows)


def blocks(layer: Layer, g: Tensor, space: Workspace, by: By) -> Iterator[Tensor]:
    """A layer's per-sample weight gradients, the entries in an order of their own."""
    if layer.conv is None:
        rows = layer.x.reshape(len(layer.x), -1, layer.x.shape[-1])
        yield from _products(g.reshape(len(g), -1, g.shape[-1]).transpose(1, 2), _Rows(rows), space, by)
        return
    conv, out = layer.conv, tuple(g.shape[2:])
    channels, outputs = layer.x.shape[1] // conv.groups, g.shape[1] // conv.groups
    for group in range(conv.groups):
        x = layer.x[:, group * channels : (group + 1) * channels]
        part = g[:, group * outputs : (group + 1) * outputs].flatten(2)
        yield from _products(part, _Windows(x, conv, out, space), space, by)


@dataclass(frozen=True, eq=False)
class _Rows:
    """What each position of a linear layer sees: the input rows themselves."""

    rows: Tensor

    @property
    def fan(self) -> int:
        return self.rows.shape[2]

    def take(self, samples: slice) -> Tensor:
        return self.rows[samples]


@dataclass(frozen=True, eq=False)
class _Windows:
    """What each position of a convolution sees: the kernel-sized window of the padded input, channels last."""

    x: Tensor
    conv: Conv
    out: tuple[int, ...]
    space: Workspace

    @property
    def fan(self) -> int:
        return self.x.shape[1] * math.prod(self.conv.kernel)

    def take(self, samples: slice) -> Tensor:
        """``(samples, positions, kernel × channels)``."""
        x = self._padded(self.x[samples].movedim(1, -1))
        count, *_, channels = x.shape
        batch, *axes, last = x.stride()
        strides = [axis * step for axis, step in zip(axes, self.conv.stride, strict=True)]
        steps = [axis * step for axis, step in zip(axes, self.conv.dilation, strict=True)]
        view = x.as_strided((count, *self.out, *self.conv.kernel, channels), (batch, *strides, *steps, last))
        room = self.space.take("windows", tuple(view.shape), x)
        room.copy_(view)
        return room.view(count, math.prod(self.out), -1)

    def _padded(self, x: Tensor) -> Tensor:
        pads = self.conv.padding
        count, *sizes, channels = x.shape
        shape = (count, *(size + 2 * pad for size, pad in zip(sizes, pads, strict=True)), channels)
        room = self.space.zeros(f"padded by {pads}", shape, x)
        inner = tuple(slice(pad, pad + size) for size, pad in zip(sizes, pads, strict=True))
        room[(slice(None), *inner)] = x
        return room


def _products(g: Tensor, rows: _Rows | _Windows, space: Workspace, by: By) -> Iterator[Tensor]:
    """``g @ rows`` per sample: ``(N, outputs, T) @ (N, T, fan)``."""
    samples, outputs, positions = g.shape
    fan = rows.fan
    if by == "samples":
        step = max(1, min(samples, CACHE // (positions * fan), WORKSPACE // (outputs * fan)))
        for start in range(0, samples, step):
            part = slice(start, min(start + step, samples))
            room = space.take("products", (part.stop - start, outputs, fan), g)
            yield torch.bmm(g[part], rows.take(part), out=room).flatten(1)
        return
    wide = max(1, min(outputs, WORKSPACE // (samples * fan)))
    step = max(1, min(samples, CACHE // (positions * fan)))
    for first in range(0, outputs, wide):
        last = min(first + wide, outputs)
        room = space.take("products", (samples, last - first, fan), g)
        for start in range(0, samples, step):
            part = slice(start, min(start + step, samples))
            torch.bmm(g[part, first:last], rows.take(part), out=room[part])
        yield room.flatten(1)


@quantity
def loss_cotangent(p: Probe) -> Tensor:
    """∂(Σ losses)/∂outputs: one row per sample."""
    return gradient(losses(p).sum(), [trace(p).outputs])[0]
