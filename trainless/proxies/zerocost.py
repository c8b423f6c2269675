"""Zero-Cost Proxies (Abdelfattah et al., 2021): one mini-batch at initialisation, and the sizes that all must beat."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from trainless.core.errors import Unscorable
from trainless.probe.counts import network_counts
from trainless.probe.probe import Probe, remark
from trainless.probe.quantities import loss_gradients, weight_names
from trainless.probe.record import require_followed
from trainless.proxies.proxy import Paper, proxy

PAPER = Paper(("Abdelfattah", "Mehrotra", "Dudziak", "Lane"), "Zero-Cost Proxies for Lightweight NAS", "ICLR", 2021)
SNIP = Paper(
    ("Lee", "Ajanthan", "Torr"), "SNIP: Single-shot Network Pruning based on Connection Sensitivity", "ICLR", 2019
)
BLOCKSWAP = Paper(
    ("Turner", "Crowley", "O'Boyle", "Storkey", "Gray"),
    "BlockSwap: Fisher-guided Block Substitution for Network Compression on a Budget",
    "ICLR",
    2020,
)


@proxy(higher_is_better=True, data=False, paper="baseline", aspect="size")
def params(p: Probe) -> float:
    """Number of parameters, frozen ones included.

    Σ_l |θ_l|.
    """
    return float(sum(tensor.numel() for tensor in p.weights.values()))


@proxy(higher_is_better=True, data=False, paper="baseline", aspect="size", version=2)
def flops(p: Probe) -> float:
    """Multiply–accumulates for one sample: convolutions, linear layers, attention and recurrent cells.

    Σ_l (outputs of l) · (fan-in of l).

    Differences:
        Norms, activations and pooling count nothing, as in NAS-Bench-201's own figures; NASLib's table counts them
        too and ranks worse (docs/log.md).
    """
    return float(network_counts(p).flops)


@proxy(higher_is_better=True, data=False, paper=PAPER, aspect="size")
def l2_norm(p: Probe) -> float:
    """Sum over layers of the weights' Euclidean norms.

    Σ_l ‖θ_l‖₂ over convolution and linear weights.
    """
    return float(torch.stack(torch._foreach_norm([p.weights[name] for name in weight_names(p)])).sum())


@proxy(higher_is_better=True, labels=True, paper=PAPER, aspect="saliency")
def grad_norm(p: Probe) -> float:
    """Sum over layers of the loss gradient's Euclidean norm.

    Σ_l ‖∂L/∂θ_l‖₂ over convolution and linear weights.
    """
    return _total(torch._foreach_norm(list(loss_gradients(p).weights.values())))


@proxy(higher_is_better=True, labels=True, paper=PAPER, aspect="saliency")
def plain(p: Probe) -> float:
    """First-order change of the loss when all weights go: signed saliency.

    Σ θ · ∂L/∂θ.

    Differences:
        A sum of terms of both signs that nearly cancels: its digits depend on the order of addition.
    """
    return _total([term.sum() for term in _saliencies(p)])


@proxy(higher_is_better=True, labels=True, paper=SNIP, aspect="saliency")
def snip(p: Probe) -> float:
    """Saliency of every weight: how much the loss would change without it.

    Σ |θ · ∂L/∂θ|.
    """
    return _total([term.abs().sum() for term in _saliencies(p)])


@proxy(higher_is_better=True, labels=True, paper=BLOCKSWAP, aspect="saliency", version=2)
def fisher(p: Probe) -> float:
    """Fisher information of every channel's activation, weighted by its fan-in.

    Σ_l fan_in(l) · Σ_k ½ · mean_n (Σ_positions a_nk · ∂L/∂a_nk)².

    Differences:
        The weight by fan-in is the published program's: it spreads a channel's value over its weights and adds up.
    """
    require_followed(p)
    gradients = loss_gradients(p)
    found = gradients.channels
    if missing := len(gradients.weights.keys() - {layer.weight for layer, _ in found}):
        remark([f"{missing} weights that no linear layer or convolution takes as they are have no channels"])
    if not found:
        return 0.0
    if any(len(sums) != len(p.x) for layer, sums in found if layer.axes is not None):
        raise Unscorable("a layer mixes samples and positions: what each sample gives cannot be told")
    fans = torch.tensor([float(p.weights[layer.weight][0].numel()) for layer, _ in found], dtype=torch.float64)
    each = fans.repeat_interleave(torch.tensor([sums.shape[1] for _, sums in found]))
    squares = torch.cat([sums.square().mean(0) for _, sums in found])
    return 0.5 * float(squares.double() @ each.to(squares.device))


def _saliencies(p: Probe) -> Iterator[Tensor]:
    """θ · ∂L/∂θ, weight by weight; on a GPU, which waits for every single operation, in one piece."""
    found = loss_gradients(p).weights
    if p.x.is_cuda:
        products = torch._foreach_mul(list(found.values()), [p.weights[name] for name in found])
        yield torch.cat([each.flatten() for each in products])
    else:
        yield from (gradient * p.weights[name] for name, gradient in found.items())


def _total(terms: list[Tensor] | tuple[Tensor, ...]) -> float:
    return float(torch.stack(terms).double().sum()) if terms else 0.0
