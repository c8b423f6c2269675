"""NASWOT (Mellor et al., 2021) and what grew from it: EPE-NAS (Lopes et al., 2021), SWAP-NAS (Peng et al., 2024).

How differently a network responds to different inputs: by activation patterns, and by correlations of input gradients.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainless.core.errors import Unscorable
from trainless.core.types import Labels
from trainless.probe.patterns import Pattern, activation_patterns, disagreements, distinct_columns, joined
from trainless.probe.points import Gaussian
from trainless.probe.probe import Probe
from trainless.probe.quantities import output_gradient
from trainless.proxies.proxy import Paper, Setting, proxy

PAPER = Paper(("Mellor", "Turner", "Storkey", "Crowley"), "Neural Architecture Search without Training", "ICML", 2021)
EPE_NAS = Paper(
    ("Lopes", "Alirezazadeh", "Alexandre"),
    "EPE-NAS: Efficient Performance Estimation Without Training for Neural Architecture Search",
    "ICANN",
    2021,
)
SWAP_NAS = Paper(
    ("Peng", "Song", "Fayek", "Ciesielski", "Chang"),
    "SWAP-NAS: Sample-Wise Activation Patterns for Ultra-fast NAS",
    "ICLR",
    2024,
)


@proxy(higher_is_better=True, paper=PAPER, aspect="expressivity", setting=Setting(batch=128), version=3)
def naswot(p: Probe, containers: bool = False) -> float:
    """Log-determinant of the samples' activation-pattern similarity: distinct patterns, separable inputs.

    log det K, K_ij = number of rectifiers that samples i and j open or close alike.

    Args:
        p: The probe.
        containers: Count a rectifier that feeds a convolution once more, as the published program does: it looks
            for "ReLU" in class names and so finds ReLU-convolution-norm containers as well.

    Differences:
        Each rectifier counts once (see ``containers``); other rectifying activations (GELU, SiLU, …) count where
        their input is positive. A rectifier that does not depend on the input counts for nothing.

    Fails:
        Two samples have the same pattern (the determinant is zero), or there is no rectifier.
    """
    by_times: dict[int, list[Pattern]] = {}
    for pattern in activation_patterns(p):
        times = pattern.times + (pattern.feeds_convolution if containers else 0)
        by_times.setdefault(times, []).append(pattern)
    alike = sum(times * agreements(found) for times, found in by_times.items())
    kernel = torch.as_tensor(alike, dtype=torch.float64)
    if int(torch.linalg.matrix_rank(kernel, hermitian=True)) < len(kernel):  # its determinant would be rounding noise
        raise Unscorable("two samples have the same activation pattern: the kernel is singular")
    return float(torch.linalg.slogdet(kernel)[1])


def agreements(found: list[Pattern]) -> Labels:
    """For each pair of samples, how many units are open in both or closed in both."""
    return sum(pattern.units for pattern in found) - disagreements(joined([pattern.rows for pattern in found], 1))


@proxy(higher_is_better=True, paper=PAPER, aspect="discrimination", version=2)
def jacov(p: Probe, constant: float = 1e-5) -> float:
    """Difference of the responses to different inputs: correlation of the input gradients.

    −Σ_i [log(λ_i + c) + 1 / (λ_i + c)], λ the eigenvalues of the samples' correlation matrix of ∂(Σ outputs)/∂x.

    The input of a network of tokens is what it looks them up as.

    Args:
        p: The probe.
        constant: c, which keeps logarithms finite.

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


@proxy(higher_is_better=True, labels=True, paper=EPE_NAS, aspect="discrimination", setting=Setting(batch=64), version=2)
def epe_nas(p: Probe, constant: float = 1e-5) -> float:
    """Lack of correlation between the input gradients of one class, added up over classes.

    Σ_c |Σ_ij log(|ρ_ij| + k)|, ρ the correlation matrix of ∂(Σ outputs)/∂x over the samples of class c; above 100
    classes the mean over pairs of classes of |s_c − s_d|, s_c per sample.

    Args:
        p: The probe.
        constant: k, which keeps logarithms finite.

    Fails:
        No gradient reaches an input, or it is the same everywhere, or the task has no classes.
    """
    if p.target.kind not in ("binary", "multiclass"):
        raise Unscorable("the task has no classes")
    gradients = output_gradient(p).flatten(1).double()
    rows = gradients - gradients.mean(1, keepdim=True)
    norms = rows.norm(dim=1, keepdim=True)
    require_varying(gradients, norms[:, 0] > 0)
    rows = rows / norms
    many = p.target.outputs > 100
    sums = []
    for label in p.y.unique():
        mine = rows[p.y == label]
        total = ((mine @ mine.T).abs() + constant).log().sum()
        sums.append(total / len(mine) if many else total)
    scores = torch.stack(sums)
    return float((scores[:, None] - scores[None]).abs().sum() / len(scores) if many else scores.abs().sum())


@proxy(
    higher_is_better=True,
    paper=SWAP_NAS,
    aspect="expressivity",
    setting=Setting(weights=Gaussian(), batch=16, network="thin", repeats=3),
    version=3,
)
def swap(p: Probe) -> float:
    """Number of distinct patterns that units show over the samples.

    |{(a_u(x_1) > 0, …, a_u(x_N) > 0) : units u}|, one row per unit where NASWOT has one per sample.

    Differences:
        The paper's regularisation by size is left out; it averages 32 draws, the setting here 3. With 16 samples a
        full NAS-Bench-201 network shows nearly all 65,536 patterns there are, so the setting takes a thin network.

    Fails:
        The network has no rectifier.
    """
    return float(distinct_columns(activation_patterns(p)))
