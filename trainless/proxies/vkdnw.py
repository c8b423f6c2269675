"""VKDNW (Tybl & Neumann, 2025): the entropy of the Fisher information's spectrum."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from trainless.core.errors import InputError, Unscorable
from trainless.probe.entries import Places, selected_jacobian
from trainless.probe.points import First, Kaiming, Noise
from trainless.probe.probe import Probe, quantity
from trainless.probe.record import trace
from trainless.proxies.proxy import Paper, Setting, proxy

PAPER = Paper(
    ("Týbl", "Neumann"),
    "Training-free Neural Architecture Search through Variance of Knowledge of Deep Network Weights",
    "CVPR",
    2025,
)
Factor: TypeAlias = Literal["published", "exact"]


def placed_entries(p: Probe, tensors: int, position: float = 0.0, weights: int = 1, drawn: bool = False) -> Places:
    """Of each of the first tensors the entry at a share of its length, or so many that are ``drawn``, each once."""
    found = []
    for name in _names(p, tensors):
        size = p.weights[name].numel()
        if drawn or weights > 1:
            order = torch.randperm(size, generator=p.generator(f"vkdnw {name}"))
            found.append((name, tuple(order[:weights].tolist())))
        else:
            found.append((name, (int(position * (size - 1)),)))
    return tuple(found)


def _names(p: Probe, tensors: int) -> list[str]:
    names = list(p.weights)[:tensors]
    if not names:
        raise Unscorable("the network has no weights" if not p.weights else f"tensors={tensors} leaves no weights")
    return names


@quantity
def fim_spectrum(
    p: Probe,
    factor: Factor = "published",
    smoothing: float = 0.05,
    keep: float | None = None,
    samples: int = 16,
    tensors: int = 128,
    position: float = 0.0,
    weights: int = 1,
    drawn: bool = False,
) -> Tensor:
    """Ascending eigenvalues of the Fisher information of a few parameters, in double precision.

    F = mean_n Jᵀ M(p_n) J with M = diag(p) − ppᵀ = LLᵀ (``exact``) or LᵀL (``published``: the program multiplies by
    L where Lᵀ was meant), p the smoothed softmax ``keep · softmax + smoothing / K``.
    """
    q = p.once(norm="fresh", x=First(samples))
    outputs = trace(q).outputs.detach().double()
    if outputs.ndim != 2:
        raise Unscorable("the Fisher information of token sequences is not defined here")
    matrix = middle(outputs, p.target.kind == "regression", factor, smoothing, 1 - smoothing if keep is None else keep)
    jacobian = selected_jacobian(q, placed_entries(q, tensors, position, weights, drawn), matrix.shape[1])
    return spectrum(jacobian, matrix)


def spectrum(jacobian: Tensor, matrix: Tensor) -> Tensor:
    """Ascending eigenvalues of mean_n JᵀMJ."""
    jacobian = jacobian.double()
    fisher = torch.einsum("nkp,nkl,nlq->pq", jacobian, matrix, jacobian) / len(jacobian)
    if not bool(torch.isfinite(fisher).all()):
        raise Unscorable("the Fisher information is not finite")
    values: Tensor = torch.linalg.eigvalsh(fisher).clamp_min(0)
    return values


def middle(outputs: Tensor, regression: bool, factor: Factor, smoothing: float, keep: float) -> Tensor:
    """M for every sample; the published LᵀL never reads the last output, because the last column of L is zero."""
    if regression:
        return torch.eye(outputs.shape[1], dtype=outputs.dtype, device=outputs.device).expand(len(outputs), -1, -1)
    share = keep * _softmax(outputs) + smoothing / max(2, outputs.shape[1])
    lower = _cholesky(share)
    if factor == "published":
        return (lower.transpose(1, 2) @ lower)[:, :-1, :-1]
    return (lower @ lower.transpose(1, 2))[:, : outputs.shape[1], : outputs.shape[1]]


def _softmax(outputs: Tensor) -> Tensor:
    """Class probabilities; a single logit stands for two classes."""
    if outputs.shape[1] == 1:
        outputs = torch.cat([outputs, torch.zeros_like(outputs)], 1)
    return outputs.softmax(1)


def _cholesky(share: Tensor) -> Tensor:
    """The lower factor of diag(p) − ppᵀ in closed form; its last column is zero."""
    left = (1 - share.cumsum(1)).clamp_min(0)
    before = torch.cat([torch.ones_like(left[:, :1]), left[:, :-1]], 1)
    diagonal = (share * left / before).sqrt()
    below = -share[:, :, None] * (diagonal / left.clamp_min(1e-300))[:, None, :]
    lower = torch.tril(below, -1) + torch.diag_embed(diagonal)
    return torch.cat([lower[:, :, :-1], torch.zeros_like(lower[:, :, -1:])], 2)


def deciles(values: Tensor) -> Tensor:
    """The nine deciles of a spectrum, linearly interpolated."""
    return torch.quantile(values, torch.arange(1, 10, dtype=values.dtype, device=values.device) / 10)


@proxy(higher_is_better=True, data=False, paper=PAPER, aspect="size")
def layers(p: Probe) -> float:
    """Number of parameter tensors: VKDNW's size ℵ.

    |{θ_l}|.

    Differences:
        The paper speaks of layers without norms; its program counts every parameter tensor, norms and biases
        included, and its tables come from that. So does this.
    """
    return float(len(p.weights))


@proxy(
    higher_is_better=True,
    data=False,
    paper=PAPER,
    aspect="trainability",
    setting=Setting(weights=Kaiming(), inputs=Noise(), batch=64, options=(("samples", 64),)),
)
def vkdnw(
    p: Probe,
    factor: Factor = "published",
    smoothing: float = 0.05,
    keep: float | None = None,
    samples: int = 16,
    tensors: int = 128,
    position: float = 0.0,
    weights: int = 1,
    drawn: bool = False,
    decile: int = 0,
) -> float:
    """Entropy of the Fisher information's deciles: how evenly the parameters matter.

    −Σ_k λ̃_k log λ̃_k, λ̃ the deciles of the Fisher spectrum over their sum, one entry per parameter tensor.

    Args:
        p: The probe; norms are those of an untrained network in evaluation mode.
        factor: ``published`` or ``exact``; see ``fim_spectrum``.
        smoothing: Share of the uniform distribution in the class probabilities.
        keep: Share of the network's own, 1 − smoothing unless given; the program's half-precision constant is
            0.9501953125.
        samples: How many samples of the batch to use; the paper's 64 cost four times as much.
        tensors: How many parameter tensors at most give an entry, from the input on: the matrix's size.
        position: Which entry of each tensor, as a share of its length.
        weights: How many entries of each tensor, drawn where there are several.
        drawn: Whether a single entry is drawn, too.
        decile: Which decile alone, 1 to 9, in place of the entropy of all nine.

    Differences:
        The paper takes one parameter per layer and none of the norms; its program takes norms and biases too, smooths
        the probabilities and multiplies by L for Lᵀ. Alone, the program's form ranks best (Spearman 0.54, with Lᵀ
        0.51, as written 0.19 on NAS-Bench-201), so it is the default. Eigenvalues are double precision: the
        program's float32 decomposition gives noise in the lower deciles. Parameters that the outputs do not depend on
        keep their zeros in the matrix, as in the program. Those that cannot be read off a layer (of recurrent cells,
        packed attention, norms of single samples) take a loop over samples and outputs: exact, but slower.

    Fails:
        The network has no weights, or its outputs are sequences of tokens.
    """
    if not 0 <= position <= 1 or weights < 1 or decile not in range(10):
        raise InputError(
            f"vkdnw: position={position}, weights={weights} and decile={decile} were given; expected a share from 0 to"
            " 1, a whole number from 1, and 0 to 9"
        )
    return summary(fim_spectrum(p, factor, smoothing, keep, samples, tensors, position, weights, drawn), decile)


def summary(spectrum: Tensor, decile: int = 0) -> float:
    """A decile of a spectrum, or the entropy of all nine."""
    values = deciles(spectrum)
    if decile:
        return float(values[decile - 1])
    share = values / (values.sum() + 1e-10)
    return float(-(share * (share + 1e-10).log()).sum()) + 0.0
