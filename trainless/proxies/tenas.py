"""TE-NAS and TEG-NAS (Chen et al., 2021, 2023): trainability, expressivity and generalisation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from trainless.core.errors import Unscorable
from trainless.probe.kernels import Coupling, Of, Over, condition, kernel, spectrum
from trainless.probe.patterns import activation_patterns, distinct_rows, joined
from trainless.probe.points import Crops
from trainless.probe.probe import Probe
from trainless.proxies.proxy import Paper, Setting, proxy

PAPER = Paper(
    ("Chen", "Gong", "Wang"),
    "Neural Architecture Search on ImageNet in Four GPU Hours: A Theoretically Inspired Perspective",
    "ICLR",
    2021,
)
TEGNAS = Paper(
    ("Chen", "Gong", "Wei", "Shi", "Yan", "Yang", "Wang"),
    "Understanding and Accelerating Neural Architecture Search with Training-Free and Theory-Grounded Metrics",
    "IEEE TPAMI",
    2023,
)


@proxy(
    higher_is_better=False,
    paper=PAPER,
    aspect="trainability",
    setting=Setting(batch=64, network="thin", repeats=3, options=(("coupling", "joint"),)),
    version=2,
)
def ntk_condition(p: Probe, coupling: Coupling = "isolated", of: Of = "outputs", over: Over = "weights") -> float:
    """Condition number of the neural tangent kernel: how evenly gradient descent learns (trainability).

    κ = λ_max(Θ) / λ_min(Θ), Θ_ij = ∇θ Σ f(x_i) · ∇θ Σ f(x_j) over all weights, norms' scales included.

    Args:
        p: The probe.
        coupling: ``joint``, the published programs' (one backward pass per sample, 0.6 · N FBE), or ``isolated``,
            every sample normalised alone (one pass).
        of: The sum of the outputs (TE-NAS) or the loss (TEACUP).
        over: Which weights take part; TEACUP leaves the classifier out (``features``).

    Differences:
        In double precision. The papers ask for Kaiming initialisation; their programs never apply it and use
        PyTorch's default, as the setting here does. Of a network none of whose parameters is called a weight, all
        matrices take part.

    Fails:
        No gradient reaches the weights, or two samples have parallel gradients (a singular kernel).
    """
    return condition(spectrum(kernel(p, coupling, of, over)))


@proxy(
    higher_is_better=False,
    labels=True,
    paper=TEGNAS,
    aspect="generalisation",
    setting=Setting(batch=128, network="thin", repeats=3, options=(("coupling", "joint"),)),
    version=3,
)
def ntk_mse(p: Probe, coupling: Coupling = "isolated", over: Over = "body", ridge: float = 0.0) -> float:
    """Error of kernel regression from one half of the batch to the other (generalisation).

    mean_i ‖ŷ_i − y_i‖², ŷ = K_vt K_tt⁻¹ y_t, K the tangent kernel of the sum of outputs, labels one-hot and centred.

    Args:
        p: The probe; the first half of its batch trains, the second validates, each normalised by itself.
        coupling: See ``ntk_condition``.
        over: The blocks after the stem, as the published program does; the paper says the last layer.
        ridge: Added to the kernel's diagonal, relative to its mean.

    Fails:
        The kernel of the training half is singular, or no gradient reaches the weights.
    """
    if len(p.x) < 4:
        raise Unscorable("two halves of at least two samples are needed")
    train = (len(p.x) + 1) // 2
    k = kernel(p, coupling, "outputs", over, 2)
    spectrum(k[:train, :train])
    y = _centred(p, train)
    inner = k[:train, :train] + ridge * k[:train, :train].diagonal().mean() * torch.eye(train, device=k.device)
    solved, info = torch.linalg.solve_ex(inner, y[:train])
    if int(info) or not bool(torch.isfinite(solved).all()):
        raise Unscorable("the kernel of the training half is singular")
    return float((k[train:, :train] @ solved - y[train:]).square().sum(1).mean())


def _centred(p: Probe, train: int) -> Tensor:
    """Targets with the mean of their own half taken away."""
    if p.target.kind == "tokens":
        raise Unscorable("kernel regression needs one label per sample, not one per token")
    if p.target.kind == "regression":
        y = p.y.reshape(len(p.y), -1).double()
    else:
        y = F.one_hot(p.y, p.target.outputs).double()
    return torch.cat([y[:train] - y[:train].mean(0), y[train:] - y[train:].mean(0)])


@proxy(
    higher_is_better=True,
    paper=PAPER,
    aspect="expressivity",
    setting=Setting(inputs=Crops(), network="cell", repeats=3, options=(("batches", 3),)),
    version=3,
)
def linear_regions(p: Probe, batches: int = 1) -> float:
    """Number of distinct activation patterns of the samples: linear regions that they fall into (expressivity).

    R = |{(sign a_1(x), sign a_2(x), …) : x}| over all rectifiers, by hashing bit patterns.

    Args:
        p: The probe; the papers take one cell of one channel and 3,000 crops of 3 × 3, because with a full network
            every sample has a pattern of its own and the number is just the batch size.
        batches: Parts of the batch that are normalised apart; patterns are compared over all of them.

    Fails:
        The network has no rectifier.
    """
    parts = p.split(batches) if batches > 1 else (p,)
    rows = [joined([pattern.rows for pattern in activation_patterns(q)], 1) for q in parts]
    return float(distinct_rows(joined(rows, 0)))
