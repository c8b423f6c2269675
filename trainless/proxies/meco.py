"""MeCo (Jiang et al., 2023): the smallest eigenvalue of the channels' correlation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from trainless.core.errors import Unscorable
from trainless.probe.axes import Layout, arranges, is_arithmetic
from trainless.probe.blocks import Flow
from trainless.probe.layers import block_names, modules, removed_after
from trainless.probe.norms import Statistics
from trainless.probe.points import First, Noise
from trainless.probe.probe import Probe
from trainless.probe.record import guard, prepared, trace
from trainless.probe.running import run
from trainless.probe.spectra import least_eigenvalues
from trainless.proxies.proxy import Paper, Setting, proxy

PAPER = Paper(
    ("Jiang", "Wang", "Bie"),
    "MeCo: Zero-Shot NAS with One Data and Single Forward Pass via Minimum Eigenvalue of Correlation",
    "NeurIPS",
    2023,
)


@proxy(
    higher_is_better=True, data=False, paper=PAPER, aspect="expressivity", setting=Setting(inputs=Noise()), version=2
)
def meco(p: Probe, count: Literal["tensors", "modules"] = "tensors", channels: int | None = None) -> float:
    """Independence of the channels of every feature map, for a single input.

    Σ_maps λ_min(ρ), ρ the correlation matrix of the map's channels over its positions.

    Args:
        p: The probe; only the first sample is used.
        count: ``tensors`` counts every feature map once: what operations make (layers, norms, activations, poolings,
            sums of streams), or modules give in a network that names its blocks; ``modules`` counts it once for every
            module and container that passes it on, as the published program does.
        channels: Take only so many channels of each map, drawn at random, and scale up (the paper's faster variant).

    Differences:
        See ``count``: with the program's counting, the score depends on how a network's code is nested.

    Fails:
        The network has no feature map of more than one channel and position, or one that is not finite.
    """
    q = p.once(x=First(1))
    try:
        maps = _maps(q, count)
    except Unscorable:  # a norm sees a single value per channel: it takes the batch's statistics
        if len(p.x) == 1:
            raise
        maps = _maps(q, count, trace(p.at(norm="isolated")).statistics)
    if not maps:
        raise Unscorable("the network has no feature map of more than one channel and position")
    source = q.generator("meco")
    chosen: list[tuple[Tensor, float]] = []
    for rows in maps:
        if channels is not None and len(rows) > channels:
            picked = torch.randperm(len(rows), generator=source)[:channels].to(rows.device)
            chosen.append((rows[picked], len(rows) / channels))
        else:
            chosen.append((rows, 1.0))
    by_shape: dict[torch.Size, list[tuple[Tensor, float]]] = {}
    for rows, scale in chosen:
        by_shape.setdefault(rows.shape, []).append((rows, scale))
    stacks = [torch.stack([rows for rows, _ in alike]) for alike in by_shape.values()]
    if not bool(torch.stack([torch.isfinite(stacked).all() for stacked in stacks]).all()):
        raise Unscorable("a feature map is not finite")
    matrices: list[Tensor] = []
    scales: list[float] = []
    for stacked, ((size, places), alike) in zip(stacks, by_shape.items(), strict=True):
        if places > size:  # else some channels are the others'
            matrices += correlation(stacked).unbind()
            scales += [scale for _, scale in alike]
    least = least_eigenvalues(matrices)
    return math.fsum(value * scale for value, scale in zip(least, scales, strict=True))


def _maps(p: Probe, count: Literal["tensors", "modules"], statistics: Statistics | None = None) -> list[Tensor]:
    """Channels × positions of every feature map."""
    found = (
        _of_modules(p, count, statistics) if count == "modules" or block_names(p.net) else _of_operations(p, statistics)
    )
    return [rows for rows in found if min(rows.shape) > 1]


def _of_modules(p: Probe, count: Literal["tensors", "modules"], statistics: Statistics | None) -> list[Tensor]:
    guard(p)  # before the hooks, which its passes would call too
    kept: list[tuple[Tensor, Tensor]] = []
    known: set[int] = set()  # of tensors that are kept, so that an id stays that tensor's

    def keep(module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.ndim > 2 and not (count == "tensors" and id(output) in known):
            known.add(id(output))
            kept.append((output, output[0].detach().clone()))  # a copy: what follows may work in place

    hooks = [
        module.register_forward_hook(keep)
        for name, module in modules(p.net)
        if "parametrizations" not in name.split(".")
    ]
    with removed_after(hooks), torch.no_grad(), prepared(p, statistics=statistics):
        run(p.net, p.weights, p.x)
    return [sample.flatten(1) for _, sample in kept]


class _FeatureMaps(Flow):
    """Keeps what operations make, but for arrangements, and arithmetic with a single stream."""

    def __init__(self, x: Tensor, weights: Mapping[str, Tensor]) -> None:
        super().__init__(x, weights)
        self.found: list[Tensor] = []

    def _see(self, func: Callable[..., Any], streams: int, tensor: Tensor, edge: GradientEdge, layout: Layout) -> None:
        if tensor.ndim > 2 and not arranges(func) and not (is_arithmetic(func) and streams < 2):
            self.found.append(layout.turned(tensor.detach())[0].flatten(1).clone())


def _of_operations(p: Probe, statistics: Statistics | None) -> list[Tensor]:
    weights = {name: tensor.detach().requires_grad_() for name, tensor in p.weights.items()}
    x = p.x.detach().clone()
    x = x.requires_grad_() if x.is_floating_point() else x
    flow = _FeatureMaps(x, weights)
    with torch.enable_grad(), prepared(p, statistics=statistics), flow:
        run(p.net, weights, x)
    return flow.found


def correlation(rows: Tensor) -> Tensor:
    """The rows' correlation matrix; a constant row correlates with nothing, itself included."""
    rows = rows.double()
    rows = rows - rows.mean(-1, keepdim=True)
    norms = rows.norm(dim=-1, keepdim=True)
    rows = torch.where(norms > 0, rows / norms.clamp_min(1e-300), 0)
    return rows @ rows.mT
