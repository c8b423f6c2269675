"""MeCo (Jiang et al., 2023): the smallest eigenvalue of the channels' correlation."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from trainless.core.errors import Unscorable
from trainless.probe.layers import modules, removed_after
from trainless.probe.norms import normalised
from trainless.probe.points import First, Noise
from trainless.probe.probe import Probe, quiet_randomness
from trainless.probe.record import run
from trainless.proxies.proxy import Paper, Setting, proxy

PAPER = Paper(
    ("Jiang", "Wang", "Bie"),
    "MeCo: Zero-Shot NAS with One Data and Single Forward Pass via Minimum Eigenvalue of Correlation",
    "NeurIPS",
    2023,
)


@proxy(higher_is_better=True, data=False, paper=PAPER, aspect="expressivity", setting=Setting(inputs=Noise()))
def meco(p: Probe, count: Literal["tensors", "modules"] = "tensors", channels: int | None = None) -> float:
    """Independence of the channels of every feature map, for a single input.

    Σ_maps λ_min(ρ), ρ the correlation matrix of the map's channels over its positions.

    Args:
        p: The probe; only the first sample is used.
        count: ``tensors`` counts every module's output once; ``modules`` counts it once for every container that
            passes it on, as the published program does.
        channels: Take only so many channels of each map, drawn at random, and scale up (the paper's faster variant).

    Differences:
        See ``count``: with the program's counting, the score depends on how a network's code is nested.

    Fails:
        The network has no feature map of more than one channel and position, or one that is not finite.
    """
    q = p.once(x=First(1))
    maps = _maps(q, count)
    if not maps:
        raise Unscorable("no module gives a feature map of more than one channel and position")
    source = q.generator("meco")
    by_shape: dict[torch.Size, list[tuple[Tensor, float]]] = {}
    for rows in maps:
        chosen, scale = rows, 1.0
        if channels is not None and len(rows) > channels:
            picked = torch.randperm(len(rows), generator=source)[:channels].to(rows.device)
            chosen, scale = rows[picked], len(rows) / channels
        by_shape.setdefault(chosen.shape, []).append((chosen, scale))
    total = 0.0
    for alike in by_shape.values():
        stacked = torch.stack([rows for rows, _ in alike])
        if not bool(torch.isfinite(stacked).all()):
            raise Unscorable("a feature map is not finite")
        least = torch.linalg.eigvalsh(correlation(stacked).cpu())[:, 0]
        total += math.fsum(value * scale for value, (_, scale) in zip(least.tolist(), alike, strict=True))
    return total


def _maps(p: Probe, count: Literal["tensors", "modules"]) -> list[Tensor]:
    """Channels × positions of every module's output."""
    kept: list[tuple[Tensor, Tensor]] = []
    known: set[int] = set()  # of tensors that are kept, so that an id stays that tensor's

    def keep(module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.ndim > 2 and not (count == "tensors" and id(output) in known):
            known.add(id(output))
            kept.append((output, output[0].clone()))  # a copy: what follows may work in place

    hooks = [
        module.register_forward_hook(keep)
        for name, module in modules(p.net)
        if "parametrizations" not in name.split(".")
    ]
    with removed_after(hooks), torch.no_grad(), quiet_randomness(p), normalised(p.net, p.norm, p.kept_norms):
        run(p.net, p.weights, p.x)
    rows = [sample.flatten(1) for _, sample in kept]
    return [row for row in rows if min(row.shape) > 1]


def correlation(rows: Tensor) -> Tensor:
    """The rows' correlation matrix; a constant row correlates with nothing, itself included."""
    rows = rows.double()
    rows = rows - rows.mean(-1, keepdim=True)
    norms = rows.norm(dim=-1, keepdim=True)
    rows = torch.where(norms > 0, rows / norms.clamp_min(1e-300), 0)
    return rows @ rows.mT
