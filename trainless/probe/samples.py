"""Per-sample gradients, streamed layer by layer and never held all at once.

With every sample normalised on its own, samples do not touch one another, so one batched backward pass gives every
sample's gradient at each layer's output. A layer's weight gradients follow from its input windows and that gradient;
they are formed a block at a time in memory that is used again, handed on and forgotten. Parameters that are used in any
other way (recurrent and packed attention weights, bare parameters) take a loop over the samples: exact, but slower.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import torch
from torch import Tensor

from trainless.probe.applied import Layer, Lookup, Standardised
from trainless.probe.forming import By, Workspace, blocks, table_rows
from trainless.probe.norms import normalised
from trainless.probe.probe import Probe, quantity, quiet_randomness
from trainless.probe.quantities import gradient, losses, weight_names
from trainless.probe.reach import reach
from trainless.probe.record import run, trace

ROOM = 3 << 27  # numbers that the gradients of a group of weights for all samples may have: 1.5 GiB in float32

Consume: TypeAlias = Callable[[str, Tensor], None]


def stream(p: Probe, cotangent: Tensor, consume: Consume, by: By, names: Iterable[str] | None = None) -> Tensor:
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
        The gradient with respect to the input (of tokens: to what embeds them).
    """
    t = trace(p)
    wanted = set(weight_names(p) if names is None else names)
    reached = reach(p)
    uses = Counter({name: reached.recorded[name] for name in wanted - reached.unread if reached.recorded[name]})
    later: dict[str, Tensor] = {}
    space = Workspace()

    def on_layer(layer: Layer) -> Callable[[Tensor], None]:
        def hook(g: Tensor) -> None:
            if uses[layer.weight] == 1:
                for block in blocks(layer, g, space, by):
                    consume(layer.weight, block)
            else:
                whole = torch.cat([block.clone() for block in blocks(layer, g, space, "samples", alike=True)])
                later[layer.weight] = whole + later.get(layer.weight, 0)

        return hook

    def on_norm(norm: Standardised) -> Callable[[Tensor], None]:
        def hook(g: Tensor) -> None:
            found = torch.linalg.vecdot(g.flatten(2), norm.x.flatten(2))
            if uses[norm.weight] == 1:
                consume(norm.weight, found)
            else:
                later[norm.weight] = found + later.get(norm.weight, 0)

        return hook

    def on_lookup(lookup: Lookup) -> Callable[[Tensor], None]:
        def hook(g: Tensor) -> None:
            later[lookup.weight] = table_rows(lookup, g) + later.get(lookup.weight, 0)

        return hook

    layers = [layer for layer in t.layers if layer.weight in uses and layer.output.requires_grad]
    handles = [layer.output.register_hook(on_layer(layer)) for layer in layers]
    handles += [norm.output.register_hook(on_norm(norm)) for norm in t.norms if norm.weight in uses]
    handles += [lookup.output.register_hook(on_lookup(lookup)) for lookup in t.lookups if lookup.weight in uses]
    try:
        on_input = gradient(t.outputs, reached.ends, cotangent)[0]
    finally:
        for handle in handles:
            handle.remove()
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
    """Every sample as a batch of one, in the probe's norm mode: its outputs with their graph, and all weights."""
    for index in range(len(p.x)):
        weights = {name: tensor.detach().requires_grad_() for name, tensor in p.weights.items()}
        with quiet_randomness(p), normalised(p.net, p.norm, p.kept_norms), torch.enable_grad():
            outputs = run(p.net, weights, p.x[index : index + 1].contiguous())
        yield outputs, weights


def _one_by_one(p: Probe, names: list[str], cotangent: Tensor) -> dict[str, Tensor]:
    """Per-sample gradients of parameters that cannot be read off a layer: a loop over batches of one."""
    rows: dict[str, list[Tensor]] = {name: [] for name in names}
    for (outputs, weights), row in zip(each_alone(p), cotangent.split(1), strict=True):
        for name, each in zip(names, gradient(outputs, [weights[name] for name in names], row), strict=True):
            rows[name].append(each.flatten())
    return {name: torch.stack(each) for name, each in rows.items()}


@quantity
def loss_cotangent(p: Probe) -> Tensor:
    """∂(Σ losses)/∂outputs: one row per sample."""
    return gradient(losses(p).sum(), [trace(p).outputs])[0]
