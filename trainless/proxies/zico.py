"""ZiCo (Li et al., 2023): gradients that are large and steady over mini-batches."""

from __future__ import annotations

import torch
from torch import Tensor

from trainless.probe.probe import Probe
from trainless.probe.quantities import weight_gradients, weight_names
from trainless.proxies.proxy import Paper, Setting, proxy

PAPER = Paper(
    ("Li", "Yang", "Bhardwaj", "Marculescu"),
    "ZiCo: Zero-shot NAS via Inverse Coefficient of Variation on Gradients",
    "ICLR",
    2023,
)


@proxy(
    higher_is_better=True, labels=True, paper=PAPER, aspect="convergence and generalisation", setting=Setting(batch=128)
)
def zico(p: Probe, batches: int = 2, cumulative: bool = False) -> float:
    """Inverse coefficient of variation of the gradients over mini-batches, summed in logs over layers.

    Σ_l log Σ_θ∈l mean_b |g_b| / std_b(g_b), over mini-batches b of the batch; weights whose gradient never varies
    are left out, and so are layers that no gradient reaches.

    Args:
        p: The probe; its batch is cut into mini-batches.
        batches: How many; 2 in the paper.
        cumulative: Add each mini-batch's gradient to those before it, as TEACUP's program does by not clearing them.
    """
    parts = [weight_gradients(q) for q in p.split(batches)]
    return float(sum(_layer([part[name] for part in parts], cumulative) for name in weight_names(p)))


def _layer(gradients: list[Tensor], cumulative: bool) -> float:
    stacked = torch.stack(gradients)
    if cumulative:
        stacked = stacked.cumsum(0)
    deviation = stacked.std(0, correction=0) if len(gradients) > 2 else (stacked[0] - stacked[1]).abs().mul_(0.5)
    moving = deviation != 0
    ratio = torch.where(moving, stacked.abs().mean(0) / deviation.where(moving, torch.ones_like(deviation)), 0)
    total = float(ratio.double().sum())
    return float(torch.tensor(total, dtype=torch.float64).log()) if total > 0 else 0.0
