"""Rank correlations for many bootstrap draws at a time: Spearman's ρ and Kendall's τ-b, over all and at the top."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trainless.bench.order import Counted, Floats, Ints, Order, Sample, order_of

Signs: TypeAlias = npt.NDArray[np.float32]


def spearman(sample: Sample) -> Floats:
    """Spearman's ρ of each draw: the correlation of average ranks.

    Example:
        >>> from trainless.bench.order import sample_of
        >>> spearman(sample_of(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])))
        array([0.5])
    """
    one, other = _centred_ranks(sample.by_score), _centred_ranks(sample.by_truth)
    left = one[sample.scores.group]
    left *= sample.weights
    covariance = np.einsum("nd,nd->d", left, other[sample.truth.group])
    squares = [
        np.einsum("gd,gd,gd->d", ranks, ranks, by.sizes)
        for ranks, by in ((one, sample.by_score), (other, sample.by_truth))
    ]
    return _ratio(covariance, np.sqrt(squares[0] * squares[1]))


def _centred_ranks(by: Counted) -> Floats:
    return (by.begins + by.ends - by.total) / 2


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """NaN where the denominator vanishes: one of the orders has only ties."""
    return np.divide(numerator, denominator, out=np.full_like(numerator, np.nan), where=denominator > 0)


def kendall(sample: Sample) -> Floats:
    """Kendall's τ-b of each draw, exactly.

    τ_b = (n_c − n_d) / √((n_0 − n_1)(n_0 − n_2)), with n_0 all pairs and n_1, n_2 the pairs tied in either order. Both
    orders are cut into about √n bins. Pairs that differ in both bins are counted from the table of bins × bins; pairs
    within a bin are quadratic forms of the counts, which makes all draws together matrix products: O(n^1.5) a draw.

    Example:
        >>> from trainless.bench.order import sample_of
        >>> kendall(sample_of(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])))
        array([0.33333333])
    """
    pairs = sample.by_score.total * (sample.by_score.total - 1) / 2
    strict = [pairs - (by.sizes * (by.sizes - 1) / 2).sum(axis=0) for by in (sample.by_score, sample.by_truth)]
    return _ratio(_concordance(sample), np.sqrt(np.maximum(strict[0], 0) * np.maximum(strict[1], 0)))


@dataclass(frozen=True, eq=False)
class _Blocks:
    """What the pairs of two orders are cut into; the same for all draws.

    Attributes:
        rows: For each bin of scores, its networks by their bins of truth, which bins those are and where each starts.
        width: Number of bins of truth.
        dense: Sets of networks that share a bin, with the sign of each pair: 1 concordant, −1 discordant, 0 neither.
    """

    rows: tuple[tuple[Ints, Ints, Ints], ...]
    width: int
    dense: tuple[tuple[Ints, Signs], ...]


@functools.lru_cache(maxsize=8)
def _blocks(scores: Order, truth: Order) -> _Blocks:
    size = max(1, math.isqrt(len(scores.group)))
    score_bins, truth_bins = _bins(scores, size), _bins(truth, size)
    rows = []
    for members in _members(scores, score_bins):
        by_truth = members[np.argsort(truth_bins[members], kind="stable")]
        rows.append((by_truth, *np.unique(truth_bins[by_truth], return_index=True)))
    dense = [(members, _signs(scores, truth, members)) for members in _mixed(scores, score_bins)]
    for members in _mixed(truth, truth_bins):
        apart = score_bins[members, None] != score_bins[None, members]
        dense.append((members, _signs(scores, truth, members) * apart))
    return _Blocks(tuple(rows), int(truth_bins.max()) + 1, tuple(dense))


def _bins(order: Order, size: int) -> Ints:
    """The bin of each network: whole groups of equals, up to ``size`` networks; larger groups are alone."""
    bins = np.empty(len(order.starts), np.intp)
    current, filled = -1, size
    for group, members in enumerate(order.sizes.tolist()):
        if filled + members > size:
            current, filled = current + 1, 0
        filled += members
        bins[group] = current
    return bins[order.group]


def _members(order: Order, bins: Ints) -> list[Ints]:
    """The networks of each bin, the best bin first."""
    return np.split(order.best_first, np.flatnonzero(np.diff(bins[order.best_first])) + 1)


def _mixed(order: Order, bins: Ints) -> list[Ints]:
    """The networks of each bin that has more than one group of equals."""
    return [found for found in _members(order, bins) if order.group[found[0]] != order.group[found[-1]]]


def _signs(scores: Order, truth: Order, members: Ints) -> Signs:
    one, other = scores.group[members], truth.group[members]
    signs: Ints = np.sign(one[:, None] - one[None, :]) * np.sign(other[:, None] - other[None, :])
    return signs.astype(np.float32)


def _concordance(sample: Sample) -> Floats:
    """Concordant minus discordant pairs of each draw; within blocks ½ wᵀ S w, exact in float32 as counts are small."""
    blocks = _blocks(sample.scores, sample.truth)
    total = _between(blocks, sample.weights)
    narrow = sample.weights.astype(np.float32)
    for members, signs in blocks.dense:
        weights = narrow[members]
        total += np.einsum("nd,nd->d", signs @ weights, weights) / 2
    return total


def _between(blocks: _Blocks, weights: Floats) -> Floats:
    """Concordant minus discordant among the pairs that differ in both bins.

    Going through the bins of scores from the best on, ``ahead[q]`` is, of the networks seen so far, those in better
    bins of truth than q less those in worse ones.
    """
    shape = (blocks.width, weights.shape[1])
    ahead, row, total = np.zeros(shape), np.empty(shape), np.zeros(shape[1])
    for members, places, starts in blocks.rows:
        row[:] = 0
        row[places] = np.add.reduceat(weights[members], starts, axis=0)
        total += np.einsum("qd,qd->d", row, ahead)
        upto = np.cumsum(row, axis=0)
        ahead -= row
        ahead -= upto[-1]
        upto *= 2
        ahead += upto
    return total


def at_top(sample: Sample, share: float) -> Sample:
    """The draws restricted to their best networks: those at least as accurate as the last of the best ``share``."""
    wanted = np.maximum(np.floor(sample.by_truth.total * share + 1e-9), 1)
    reach = sample.by_truth.reach(wanted)
    stop = int(sample.truth.starts[reach]) if reach < len(sample.truth.starts) else None
    members = sample.truth.best_first[:stop]
    inside = (sample.by_truth.begins[:reach] < wanted)[sample.truth.group[members]]
    scores, accuracy = -sample.scores.group[members].astype(np.float64), sample.accuracy[members]
    return Sample(order_of(scores), order_of(accuracy), accuracy, sample.weights[members] * inside)
