"""ZiCo (Li et al., 2023): gradients that are large and steady over mini-batches."""

from __future__ import annotations

import math

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
    names = weight_names(p)
    layers = [torch.stack([part[name].flatten() for part in parts]) for name in names]
    if not p.x.is_cuda:
        totals = [float(_ratios(layer, cumulative).double().sum()) for layer in layers]
    else:  # which waits for every single operation
        ratios = _ratios(torch.cat(layers, 1), cumulative).double().split([layer.shape[1] for layer in layers])
        totals = torch.stack(torch._foreach_norm(list(ratios), 1)).tolist()
    return math.fsum(math.log(total) for total in totals if total > 0)


def _ratios(gradients: Tensor, cumulative: bool) -> Tensor:
    """Mean size over deviation of every weight's gradients, which lie below one another; 0 where they never vary."""
    if cumulative:
        gradients = gradients.cumsum(0)
    few = len(gradients) == 2
    deviation = (gradients[0] - gradients[1]).abs().mul_(0.5) if few else gradients.std(0, correction=0)
    moving = deviation != 0
    return torch.where(moving, gradients.abs().mean(0) / deviation.where(moving, torch.ones_like(deviation)), 0)
