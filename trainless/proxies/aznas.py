"""AZ-NAS (Lee & Ham, 2024): expressivity, progressivity and trainability of the blocks."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from trainless.core.errors import Unscorable
from trainless.probe.features import BlockOutput, block_scatters, blocks, paired, scattered_eigenvalues
from trainless.probe.points import Kaiming, Noise
from trainless.probe.probe import Probe, quantity
from trainless.probe.spectra import largest_singular_value
from trainless.proxies.proxy import Paper, Setting, proxy

PAPER = Paper(("Lee", "Ham"), "AZ-NAS: Assembling Zero-Cost Proxies for Network Architecture Search", "CVPR", 2024)
_SETTING = Setting(weights=Kaiming(), inputs=Noise(), batch=64)


@quantity
def block_entropies(p: Probe) -> tuple[float, ...]:
    """Entropy of each block's normalised principal components: −Σ π log(π + 1e-8)."""
    return tuple(_entropy(values) for values in scattered_eigenvalues(block_scatters(p)))


def _entropy(values: Tensor) -> float:
    total = values.sum()
    if float(total) <= 0:
        raise Unscorable("a block's output is constant: it has no principal components")
    share = values / total
    return float(-(share * (share + 1e-8).log()).sum())


@proxy(higher_is_better=True, data=False, paper=PAPER, aspect="expressivity", setting=_SETTING, version=2)
def expressivity(p: Probe) -> float:
    """Evenness with which the blocks' features spread over all directions of their space.

    Σ_blocks H(λ / Σλ), λ the eigenvalues of the channel covariance.

    Differences:
        Covariances are decomposed in double precision with rounding noise below zero cut off; the published program
        gets NaN, reported as −∞, on cells of skips and poolings. Blocks are those that the network names, or the
        stretches between the tensors that every path through it passes (``trainless.probe.blocks``).

    Fails:
        A block's output is constant.
    """
    return math.fsum(block_entropies(p))


@proxy(higher_is_better=True, data=False, paper=PAPER, aspect="expressivity", setting=_SETTING, version=2)
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

    The mean over places of (coming out) (going in)ᵀ, channels × channels, estimates the Jacobian's part that keeps to
    its place. Where there are fewer places than channels it is not multiplied out.

    Attributes:
        name: The block's.
        left: The gradient coming out, channels × places, or the mean of the products.
        right: The gradient going in, channels × places, where the products were not formed.
        channels: Of the gradient going in.
        power: The mean over places of ‖coming out‖².
        places: How many there were.
        unchanged: Whether the gradient came out as it went in, of a block that a network names: those found by data
            flow have a layer, though it may give nothing yet, as residual branches that begin at zero.
    """

    name: str
    left: Tensor
    right: Tensor | None
    channels: int
    power: float
    places: int
    unchanged: bool

    def square(self) -> float:
        """The products' Frobenius norm, squared."""
        if self.right is None:
            return float(self.left.double().square().sum())
        left, right = self.left.T @ self.left, self.right.T @ self.right
        return float((left.double() * right.double()).sum()) / self.places**2

    def largest(self) -> float:
        """The products' largest singular value."""
        found = largest_singular_value(self.left, self.right)
        return found if self.right is None else found / self.places


@quantity
def passages(p: Probe) -> tuple[Passage, ...]:
    """A backward pass through each block after the first, on its own."""
    found = blocks(p)
    if len(found) < 2:
        raise Unscorable("the network has a single block")
    return tuple(_passage(p, before, after) for before, after in itertools.pairwise(found))


def _passage(p: Probe, before: BlockOutput, after: BlockOutput) -> Passage:
    going_in = after.signs(p.generator(f"trainability/{after.name}"))
    coming_out = after.pulled(before, going_in)
    maps = before.layout.turned(coming_out), after.layout.turned(going_in)
    left, right = paired(*maps, before.layout.grid, after.layout.grid)
    channels, places = right.shape
    power = float(torch.linalg.vector_norm(left)) ** 2 / places
    if not math.isfinite(power):
        raise Unscorable(f"the gradients that pass block {after.name} are not finite")
    unchanged = after.own and coming_out.shape == going_in.shape and torch.equal(coming_out, going_in)
    few = places < min(len(left), channels)
    kept, other = (left, right) if few else ((left @ right.T).double() / places, None)
    return Passage(after.name, kept, other, channels, power, places, unchanged)


@proxy(higher_is_better=True, data=False, paper=PAPER, aspect="trainability", setting=_SETTING, version=3)
def trainability(p: Probe) -> float:
    """Closeness of each block to passing gradients on at their own size.

    mean over blocks of 2 − s − 1 / (s + 1e-6), s the largest singular value of the block's Jacobian, estimated from
    one random ±1 gradient at its output.

    Fails:
        A block that the network names passes its input on unchanged (every gradient comes back as it went in), or a
        single block.
    """
    scores = []
    for passage in passages(p):
        if passage.unchanged:
            raise Unscorable(f"block {passage.name} passes its input on unchanged")
        spread = passage.largest()
        scores.append(2 - spread - 1 / (spread + 1e-6))
    return math.fsum(scores) / len(scores)
