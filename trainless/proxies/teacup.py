"""TEACUP (2024): four metrics for clinical tasks; its kernel and ZiCo are options of theirs, these two are its own."""

from __future__ import annotations

import math
from typing import Literal

import torch

from trainless.core.errors import Unscorable
from trainless.probe.kernels import Coupling, condition, kernel, spectrum
from trainless.probe.points import Double, Kaiming, Magnitude
from trainless.probe.probe import Probe
from trainless.probe.quantities import loss_gradients, output_gradient, weight_gradients, weight_names
from trainless.proxies.proxy import Paper, Setting, proxy

PAPER = Paper(
    ("Wu", "Wu", "Zhang", "Chen"),
    "Training-free Design of Deep Networks as Ensembles of Clinical Experts",
    "medRxiv",
    2024,
)
_SETTING = Setting(weights=Kaiming(), batch=32, options=(("batches", 4),))


@proxy(higher_is_better=True, labels=True, paper=PAPER, aspect="expressivity", setting=_SETTING, version=2)
def length(p: Probe, of: Literal["loss", "outputs"] = "loss", batches: int = 1) -> float:
    """Length distortion: how far the network's response moves when its input does.

    ``of="loss"``: mean over mini-batches of ½ Σ_d √(Σ_i (∂Σℓ/∂x_id)²).
    ``of="outputs"``: mean_i √‖∂Σf(x_i)/∂x_i‖₂.

    Args:
        p: The probe.
        of: ``loss`` is what the published program computes and what the composite was fitted on; ``outputs`` is the
            paper's text.
        batches: Mini-batches that the batch is cut into; the program takes 4 of 8.

    Differences:
        The program's ½ stems from dividing by the length of an (x, y) pair; it changes no ranking. The composite
        weighs this metric by −0.5, yet alone it grows with accuracy (+0.71 on NAS-Bench-201), hence the direction.
    """
    if of == "outputs":
        return float(output_gradient(p).flatten(1).norm(dim=1).sqrt().mean())
    parts = p.split(batches) if batches > 1 else (p,)
    norms = [(loss_gradients(q).x * len(q.x)).flatten(1).norm(dim=0).double().sum() for q in parts]
    return float(torch.stack(norms).mean() / 2)


@proxy(higher_is_better=False, labels=True, paper=PAPER, aspect="saliency", scale="log", setting=_SETTING, version=2)
def loss_synflow(p: Probe, batches: int = 1) -> float:
    """TEACUP's SynFlow: saliency of the loss in the network of absolute weights.

    log Σ |θ · Σ_b ∂L_b/∂θ| with weights |θ|, norms in place, real inputs and labels, gradients added up over
    mini-batches.

    Args:
        p: The probe.
        batches: Mini-batches over which gradients are added up.

    Differences:
        In the logarithm. It is not SynFlow's data-free flow, though it carries the name, and larger is worse.

    Fails:
        No gradient reaches the weights.
    """
    total = _loss_flow(p.once(weights=Magnitude(double=False), norm="batch"), batches)
    if not math.isfinite(total) or total == 0:  # a loss may vanish in single precision
        total = _loss_flow(p.once(weights=Magnitude(), x=Double(), norm="batch"), batches)
    if total == 0:
        raise Unscorable("no gradient reaches the weights: the sum is zero")
    if not math.isfinite(total):
        raise Unscorable("the outputs of absolute weights are beyond double precision")
    return math.log(total)


def _loss_flow(q: Probe, batches: int) -> float:
    parts = [weight_gradients(part) for part in (q.split(batches) if batches > 1 else (q,))]
    return sum(float((q.weights[name] * sum(part[name] for part in parts)).abs().sum()) for name in weight_names(q))


@proxy(higher_is_better=False, labels=True, paper=PAPER, aspect="trainability", setting=_SETTING, version=2)
def loss_ntk(p: Probe, coupling: Coupling = "isolated", batches: int = 1) -> float:
    """Condition number of the tangent kernel of the losses: how evenly the loss itself can be learnt.

    κ of Θ_ij = ∇θ ℓ_i · ∇θ ℓ_j over all weights but the classifier's.

    Args:
        p: The probe.
        coupling: ``joint`` is the published program's and takes one backward pass per sample; ``isolated`` ranks
            networks as well and takes one pass.
        batches: Mini-batches that are normalised apart under the joint coupling.

    Fails:
        No gradient reaches the weights, or two samples have parallel gradients.
    """
    return condition(spectrum(kernel(p, coupling, "loss", "features", batches)))
