"""Zero-Cost Proxies (Abdelfattah et al., 2021): gradients of one mini-batch at initialisation."""

from __future__ import annotations

import torch
from torch import Tensor

from trainless.core.errors import Unscorable
from trainless.probe.probe import Probe
from trainless.probe.quantities import loss_gradients, output_gradient
from trainless.proxies.proxy import proxy

PAPER = "abdelfattah2021zerocost"


@proxy(higher_is_better=True, labels=True, paper=PAPER)
def grad_norm(p: Probe) -> float:
    """Sum over layers of the loss gradient's Euclidean norm.

    Σ_l ‖∂L/∂θ_l‖₂ over convolution and linear weights.
    """
    return _total([gradient.norm() for gradient in loss_gradients(p).weights.values()])


@proxy(higher_is_better=True, labels=True, paper=PAPER)
def plain(p: Probe) -> float:
    """First-order change of the loss when all weights go: signed saliency.

    Σ θ · ∂L/∂θ.

    Differences:
        A sum of terms of both signs that nearly cancels: its digits depend on the order of addition.
    """
    return _total([(gradient * p.weights[name]).sum() for name, gradient in loss_gradients(p).weights.items()])


@proxy(higher_is_better=True, labels=True, paper="lee2019snip")
def snip(p: Probe) -> float:
    """Saliency of every weight: how much the loss would change without it.

    Σ |θ · ∂L/∂θ|.
    """
    return _total([(gradient * p.weights[name]).abs().sum() for name, gradient in loss_gradients(p).weights.items()])


@proxy(higher_is_better=True, labels=True, paper="turner2020blockswap")
def fisher(p: Probe) -> float:
    """Fisher information of every channel's activation, weighted by its fan-in.

    Σ_l fan_in(l) · Σ_k ½ · mean_n (Σ_positions a_nk · ∂L/∂a_nk)².

    Differences:
        The weight by fan-in is the published program's: it spreads a channel's value over its weights and adds up.
    """
    shapes = p.weights
    terms = [
        0.5 * sums.square().mean(0).sum() * shapes[layer.weight][0].numel()
        for layer, sums in loss_gradients(p).channels
    ]
    return _total(terms)


@proxy(higher_is_better=True, paper="mellor2021naswot")
def jacov(p: Probe, constant: float = 1e-5) -> float:
    """How differently the network responds to different inputs: correlation of the input gradients.

    −Σ_i [log(λ_i + c) + 1 / (λ_i + c)], λ the eigenvalues of the samples' correlation matrix of ∂(Σ outputs)/∂x.

    Fails:
        No gradient reaches the input (a network without a path from input to output), or it is the same everywhere.
    """
    return response_diversity(output_gradient(p), constant)


def response_diversity(gradients: Tensor, constant: float = 1e-5) -> float:
    """Jacov's formula: large where the samples' gradients do not correlate."""
    rows = gradients.flatten(1).double()
    rows = rows - rows.mean(1, keepdim=True)
    covariance = (rows @ rows.T).cpu()
    deviation = covariance.diagonal().sqrt()
    require_varying(gradients.flatten(1), deviation > 0)
    correlation = covariance / deviation[:, None] / deviation[None]
    values = torch.linalg.eigvalsh(correlation) + constant
    return float(-(values.log() + 1 / values).sum())


def require_varying(gradients: Tensor, varies: Tensor) -> None:
    """Raise Unscorable where some sample's gradient has no correlation with others, and say why."""
    if bool(varies.all()):
        return
    if bool(gradients[~varies.to(gradients.device)].any(1).all()):
        raise Unscorable("the gradient is the same at every entry of some input: its correlations are undefined")
    raise Unscorable("no gradient reaches some input: its correlation with the others is undefined")


def _total(terms: list[Tensor]) -> float:
    return float(torch.stack(terms).double().sum()) if terms else 0.0
