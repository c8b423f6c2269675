"""Measures first proposed here, for rankings: read off passes that other proxies share, at hardly any further cost."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trainless.core.errors import Unscorable
from trainless.probe.dependence import reach
from trainless.probe.features import block_scatters, blocks, least_correlations
from trainless.probe.kernels import sample_statistics
from trainless.probe.probe import Probe
from trainless.probe.record import trace
from trainless.proxies.aznas import passages
from trainless.proxies.naswot import response_diversity
from trainless.proxies.proxy import proxy

PAPER = "trainless"
LEAST = 1e-12  # of a mean square that cannot be told from zero


@proxy(higher_is_better=True, labels=True, paper=PAPER, aspect="convergence and generalisation", version=2)
def sample_zico(p: Probe) -> float:
    """Steadiness of the gradients over single samples, each normalised alone, summed in logs over layers.

    Σ_l log Σ_θ∈l mean_i |g_i| / std_i |g_i|, g_i the gradient of sample i's loss.

    ZiCo's idea without its weakness: 64 samples say more about a deviation than two mini-batches, whose difference
    is rounding noise where it is small.

    Fails:
        No gradient reaches the weights; batch norm that sees a single value per channel and sample.
    """
    steadiness = list(sample_statistics(p.at(norm="isolated"), "loss").steadiness.values())
    if not any(value > 0 for value in steadiness):
        raise Unscorable("no gradient reaches the weights")
    return math.fsum(math.log(value) for value in steadiness if value > 0)


@proxy(higher_is_better=True, paper=PAPER, aspect="discrimination", version=2)
def isolated_jacov(p: Probe) -> float:
    """Jacov with every sample normalised alone: responses differ by the network, not by who shares the batch.

    As ``jacov``, of ∂(Σ outputs)/∂x with isolated norms.

    Fails:
        No gradient reaches an input, or it is the same everywhere; batch norm that sees a single value per channel and
        sample.
    """
    q = p.at(norm="isolated")
    return response_diversity(trace(q).at_input(sample_statistics(q, "outputs").at_inputs))


@proxy(higher_is_better=True, paper=PAPER, aspect="trainability", version=2)
def layer_entropy(p: Probe) -> float:
    """Evenness with which the layers share the tangent kernel: no layer learns alone.

    −Σ_l π_l log π_l, π_l the share of layer l in the kernel's trace, the classifier left out: the nearest to the
    outputs.

    Fails:
        No gradient reaches the weights, or the classifier is the only layer.
    """
    q = p.at(norm="isolated")
    found = sample_statistics(q, "outputs").traces
    classifier = next((name for name in reach(q).uses if name in found), None)
    traces = [value for name, value in reversed(found.items()) if name != classifier]
    if not traces:
        raise Unscorable("the network has no layer besides the classifier")
    return _entropy(torch.tensor(traces, dtype=torch.float64))


@proxy(higher_is_better=True, paper=PAPER, aspect="trainability", version=4)
def isometry(p: Probe) -> float:
    """Closeness of the blocks to passing gradients on at their own size, in every direction and at their own place.

    −mean over blocks of |log r|, r² the mean square of the singular values of J₀, the part of the block's Jacobian that
    keeps to its place, estimated from one random ±1 gradient at the block's output; what chance adds to ‖J₀‖² is taken
    off.

    AZ-NAS's trainability looks at the largest singular value, which one strong direction makes. A block that has
    identities or pointwise convolutions from its input to its output passes all directions on, one whose every path
    goes through larger kernels few: very deep networks of such blocks train badly.

    Where J₀ is nearly zero or places are few, one draw gives no more than r's order of magnitude.

    Fails:
        No gradient passes a block; a single block; a block of a single place; grids of two blocks that are not of one
        kind.
    """
    logarithms = []
    for passage in passages(p):
        if passage.power == 0:
            raise Unscorable(f"no gradient passes block {passage.name}")
        if passage.places < 2:
            raise Unscorable(f"block {passage.name} has a single place: what chance adds cannot be told")
        channels, places = passage.channels, passage.places
        by_chance = passage.power * channels / places
        square = (passage.square - by_chance) / (1 - 1 / places) / channels
        logarithms.append(math.log(max(square, LEAST)) / 2)
    return -math.fsum(map(abs, logarithms)) / len(logarithms)


@proxy(higher_is_better=True, paper=PAPER, aspect="expressivity", version=3)
def block_meco(p: Probe) -> float:
    """Independence of the channels of every block's output over the whole batch.

    Σ_blocks λ_min of the channels' correlation over all samples and positions; MeCo on blocks instead of on every
    module, and on a batch instead of on one sample.

    Fails:
        The network has no blocks with channels.
    """
    return math.fsum(least_correlations(block_scatters(p)))


@proxy(higher_is_better=True, paper=PAPER, aspect="expressivity", version=3)
def feature_rank(p: Probe) -> float:
    """Effective rank of the samples at the last block: how many directions tell them apart.

    Entropy of the eigenvalues of the samples' cosine matrix, features centred over the batch.

    Fails:
        All samples have the same features.
    """
    rows = blocks(p)[-1].maps().flatten(1)
    rows = rows - rows.mean(0)
    norms = rows.norm(dim=1, keepdim=True)
    if not bool((norms > 0).all()):
        raise Unscorable("a sample's features equal the mean: it has no direction")
    rows = rows / norms
    return _entropy(torch.linalg.eigvalsh((rows @ rows.T).double().cpu()).clamp_min(0))


def _entropy(weights: Tensor) -> float:
    total = weights.sum()
    if not float(total) > 0:
        raise Unscorable("no gradient reaches the weights")
    share = weights[weights > 0] / total
    return float(-(share * share.log()).sum())
