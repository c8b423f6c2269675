"""VKDNW: the Fisher information of a few parameters."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from trainless.probe.layers import watched
from trainless.probe.points import First
from trainless.proxies.vkdnw import middle
from trainless.stack.network import Normed, Operation, StackedLayer
from trainless.stack.stack import Passed, Stack, measure, mine, passed

TENTHS = torch.arange(1, 10, dtype=torch.float64) / 10


@measure
def vkdnw(s: Stack, smoothing: float = 0.05, samples: int = 16, tensors: int = 128) -> Tensor:
    """A copy of the batch for every output, and one backward pass for all of them: samples do not touch one another."""
    few = s.at(x=First(samples), norm="fresh")
    with torch.no_grad():
        outputs, _ = s.plan.run(few.weights, few.inputs(), few.norm)
    own = outputs.transpose(0, 1).double()  # (K, N, outputs)
    matrices = middle(own.flatten(0, 1), s.target.kind == "regression", "published", smoothing, 1 - smoothing)
    count = matrices.shape[1]
    found = passed(few.copied(count))
    cotangent = torch.zeros_like(found.outputs).unflatten(0, (count, -1))  # (outputs, N, K, outputs)
    for output in range(count):
        cotangent[output, :, :, output] = 1
    jacobians = _jacobians(few, found, cotangent.flatten(0, 1), tensors).unflatten(2, (count, -1)).double()
    sizes = [min(tensors, len(order)) for order in s.plan.orders]
    result = torch.empty(len(s), dtype=torch.float64, device=s.x.device)
    for size in sorted(set(sizes)):  # matrices of networks with as many parameters are of one size
        alike = [network for network, parameters in enumerate(sizes) if parameters == size]
        rows = jacobians[alike, :size]
        fisher = torch.einsum("bpkn,bnkl,bqln->bpq", rows, mine(matrices, len(s))[alike], rows) / len(few.x)
        deciles = torch.quantile(torch.linalg.eigvalsh(fisher).clamp_min(0), TENTHS.to(rows.device), dim=1)
        share = deciles / (deciles.sum(0) + 1e-10)
        result[alike] = -(share * (share + 1e-10).log()).sum(0) + 0.0
    return result


def _jacobians(s: Stack, found: Passed, cotangent: Tensor, tensors: int) -> Tensor:
    """∂/∂(first entry of each of every network's first parameters), ``(K, parameters, outputs · N)``."""
    rows = found.outputs.new_zeros(len(s), tensors, len(cotangent))

    def read(part: Operation, name: str, entries: Tensor) -> None:
        """``(outputs · N, K)``."""
        owned = list(zip(part.members, part.names, strict=True))
        places = [s.plan.orders[member][f"{where}.{name}"] for member, where in owned]
        there = [at for at, place in enumerate(places) if place < tensors]
        rows[[part.members[at] for at in there], [places[at] for at in there]] = entries[:, there].T

    def on(at: StackedLayer | Normed, seen: Tensor, g: Tensor) -> None:
        first = _first_channel(g, at.part)
        read(at.part, "weight", (first * seen).sum(2))
        if (at.part, "bias") in s.weights:
            read(at.part, "bias", first.sum(2))

    hooks: list[tuple[Tensor, Any]] = [(each.output, partial(on, each, _seen(each))) for each in found.notes.layers]
    hooks += [
        (norm.output, partial(on, norm, _first_channel(norm.standard.detach(), norm.part)))
        for norm in found.notes.norms
        if norm.standard is not None
    ]
    with watched(hooks):
        found.gradients(found.outputs, [found.x], cotangent)
    return rows


def _first_channel(tensor: Tensor, part: Operation) -> Tensor:
    """``(N, K, positions)``."""
    first = mine(tensor, len(part.members), 1)[:, :, 0]
    return first.flatten(2) if first.ndim > 2 else first[:, :, None]


def _seen(layer: StackedLayer) -> Tensor:
    """What the first entry of each network's weight meets at each position, ``(N, K, positions)``."""
    if layer.output.ndim == 2:
        return _first_channel(layer.x.detach(), layer.part)
    conv: Any = layer.part.like
    x = mine(layer.x.detach(), len(layer.part.members), 1)[:, :, 0]
    x = F.pad(x, [pad for size in reversed(conv.padding) for pad in (size, 0)])
    sizes = zip(conv.stride, layer.output.shape[2:], strict=True)
    return x[(slice(None), slice(None), *(slice(0, step * (size - 1) + 1, step) for step, size in sizes))].flatten(2)
