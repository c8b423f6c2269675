"""AZ-NAS (Lee & Ham, 2024): expressivity, progressivity and trainability of the blocks."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from trainless.core.errors import Unscorable
from trainless.probe.points import Kaiming, Noise, drawn
from trainless.probe.probe import Probe, quantity
from trainless.probe.quantities import BlockOutput, Scatter, block_scatters, blocks, gradient
from trainless.proxies.proxy import Paper, Setting, proxy

PAPER = Paper(("Lee", "Ham"), "AZ-NAS: Assembling Zero-Cost Proxies for Network Architecture Search", "CVPR", 2024)
_SETTING = Setting(weights=Kaiming(), inputs=Noise(), batch=64)


@quantity
def block_entropies(p: Probe) -> tuple[float, ...]:
    """Entropy of each block's normalised principal components: −Σ π log(π + 1e-8)."""
    return tuple(_entropy(scatter) for scatter in block_scatters(p))


def _entropy(scatter: Scatter) -> float:
    values = scatter.eigenvalues()
    total = values.sum()
    if float(total) <= 0:
        raise Unscorable("a block's output is constant: it has no principal components")
    share = values / total
    return float(-(share * (share + 1e-8).log()).sum())


@proxy(higher_is_better=True, data=False, paper=PAPER, aspect="expressivity", setting=_SETTING)
def expressivity(p: Probe) -> float:
    """Evenness with which the blocks' features spread over all directions of their space.

    Σ_blocks H(λ / Σλ), λ the eigenvalues of the channel covariance.

    Differences:
        Covariances are decomposed in double precision with rounding noise below zero cut off; the published program
        gets NaN, reported as −∞, on cells of skips and poolings.

    Fails:
        A block's output is constant.
    """
    return math.fsum(block_entropies(p))


@proxy(higher_is_better=True, data=False, paper=PAPER, aspect="expressivity", setting=_SETTING)
def progressivity(p: Probe) -> float:
    """The smallest gain in feature entropy from one block to the next.

    min_l (H_{l+1} − H_l).

    Fails:
        A block's output is constant, or there is a single block.
    """
    entropies = block_entropies(p)
    if len(entropies) < 2:
        raise Unscorable("the network has a single block")
    return min(after - before for before, after in itertools.pairwise(entropies))


@dataclass(frozen=True, eq=False)
class Passage:
    """A random ±1 gradient on its way back through a block.

    Attributes:
        name: The block's.
        products: The mean over places of (coming out) (going in)ᵀ, channels × channels in double precision: an estimate
            of the Jacobian's part that keeps to its place.
        power: The mean over places of ‖coming out‖².
        places: How many there were.
        unchanged: Whether the gradient came out as it went in.
    """

    name: str
    products: Tensor
    power: float
    places: int
    unchanged: bool


@quantity
def passages(p: Probe) -> tuple[Passage, ...]:
    """A backward pass through each block after the first, on its own."""
    found = blocks(p)
    if len(found) < 2:
        raise Unscorable("the network has a single block")
    return tuple(_passage(p, before, after) for before, after in itertools.pairwise(found))


def _passage(p: Probe, before: BlockOutput, after: BlockOutput) -> Passage:
    source = p.generator(f"trainability/{after.name}")
    going_in = drawn("signs", tuple(after.output.shape), source, after.output)
    (coming_out,) = gradient(after.output, [before.output], going_in)
    left, right = before.like(coming_out).folded(after), after.like(going_in).channels()
    places = right.shape[1]
    power = float(torch.linalg.vector_norm(left)) ** 2 / places
    unchanged = coming_out.shape == going_in.shape and torch.equal(coming_out, going_in)
    return Passage(after.name, (left @ right.T).double() / places, power, places, unchanged)


@proxy(higher_is_better=True, data=False, paper=PAPER, aspect="trainability", setting=_SETTING)
def trainability(p: Probe) -> float:
    """Closeness of each block to passing gradients on at their own size.

    mean over blocks of 2 − s − 1 / (s + 1e-6), s the largest singular value of the block's Jacobian, estimated from
    one random ±1 gradient at its output.

    Fails:
        A block passes its input on unchanged (every gradient comes back as it went in), or a single block.
    """
    scores = []
    for passage in passages(p):
        if passage.unchanged:
            raise Unscorable(f"block {passage.name} passes its input on unchanged")
        spread = float(torch.linalg.matrix_norm(passage.products, 2))
        scores.append(2 - spread - 1 / (spread + 1e-6))
    return math.fsum(scores) / len(scores)
