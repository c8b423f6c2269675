"""AZ-NAS (Lee & Ham, 2024): expressivity, progressivity and trainability of the blocks."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trainless.core.errors import Unscorable
from trainless.probe.features import BlockOutput, block_scatters, blocks, paired, scattered_eigenvalues
from trainless.probe.points import Kaiming, Noise
from trainless.probe.probe import Probe, quantity
from trainless.probe.spectra import largest_singular_values
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


@proxy(higher_is_better=True, data=False, paper=PAPER, aspect="expressivity", setting=_SETTING, version=3)
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


@proxy(higher_is_better=True, data=False, paper=PAPER, aspect="expressivity", setting=_SETTING, version=3)
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
        places: How many there were.
        unchanged: Whether the gradient came out as it went in, of a block that a network names: those found by data
            flow have a layer, though it may give nothing yet, as residual branches that begin at zero.
        power: The mean over places of ‖coming out‖².
        square: The products' Frobenius norm, squared.
    """

    name: str
    left: Tensor
    right: Tensor | None
    channels: int
    places: int
    unchanged: bool
    power: float = math.nan
    square: float = math.nan

    def numbers(self, coming_out: Tensor) -> Tensor:
        """Norm and square, on the device."""
        if self.right is None:
            square = self.left.square().sum()
        else:
            left, right = self.left.T @ self.left, self.right.T @ self.right
            square = (left.double() * right.double()).sum() / self.places**2
        return torch.stack([torch.linalg.vector_norm(coming_out).double(), square])


@quantity
def passages(p: Probe) -> tuple[Passage, ...]:
    """A backward pass through each block after the first, on its own."""
    found = blocks(p)
    if len(found) < 2:
        raise Unscorable("the network has a single block")
    passed, numbers = zip(*(_passage(p, *pair) for pair in itertools.pairwise(found)), strict=True)
    known = []
    for passage, (norm, square) in zip(passed, torch.stack(numbers).tolist(), strict=True):  # one answer of the device
        if not math.isfinite(norm**2):
            raise Unscorable(f"the gradients that pass block {passage.name} are not finite")
        known.append(replace(passage, power=norm**2 / passage.places, square=square))
    return tuple(known)


def _passage(p: Probe, before: BlockOutput, after: BlockOutput) -> tuple[Passage, Tensor]:
    going_in = after.signs(p.generator(f"trainability/{after.name}"))
    coming_out = after.pulled(before, going_in)
    maps = before.layout.turned(coming_out), after.layout.turned(going_in)
    left, right = paired(*maps, before.layout.grid, after.layout.grid)
    channels, places = right.shape
    unchanged = after.own and coming_out.shape == going_in.shape and torch.equal(coming_out, going_in)
    few = places < min(len(left), channels)
    kept, other = (left, right) if few else ((left @ right.T).double() / places, None)
    passage = Passage(after.name, kept, other, channels, places, unchanged)
    return passage, passage.numbers(left)


@proxy(higher_is_better=True, data=False, paper=PAPER, aspect="trainability", setting=_SETTING, version=4)
def trainability(p: Probe) -> float:
    """Closeness of each block to passing gradients on at their own size.

    mean over blocks of 2 − s − 1 / (s + 1e-6), s the largest singular value of the block's Jacobian, estimated from
    one random ±1 gradient at its output.

    Fails:
        A block that the network names passes its input on unchanged (every gradient comes back as it went in), or a
        single block.
    """
    found = passages(p)
    if unchanged := [passage.name for passage in found if passage.unchanged]:
        raise Unscorable(f"block {unchanged[0]} passes its input on unchanged")
    largest = largest_singular_values([(passage.left, passage.right) for passage in found])
    sizes = [1 if passage.right is None else passage.places for passage in found]
    spreads = [value / size for value, size in zip(largest, sizes, strict=True)]
    return math.fsum(2 - spread - 1 / (spread + 1e-6) for spread in spreads) / len(spreads)
