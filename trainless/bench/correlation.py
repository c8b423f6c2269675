"""Rank correlations for many bootstrap draws at a time: Spearman's ρ and Kendall's τ-b, over all and at the top."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trainless.bench.weighted_order import Order, Sample, WeightedOrder, added, order_of
from trainless.core.types import AnyFloats, Indices

Signs: TypeAlias = npt.NDArray[np.float32]
_ROWS = 256


def spearman(sample: Sample) -> AnyFloats:
    """Spearman's ρ of each draw: the correlation of average ranks.

    Example:
        >>> from trainless.bench.weighted_order import sample_of
        >>> spearman(sample_of(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])))
        array([0.5])
    """
    one, other = _centred_ranks(sample.by_score), _centred_ranks(sample.by_truth)
    theirs = sample.weights * (
        other if sample.truth.untied and sample.truth.listed else other.take(sample.truth.group, axis=0)
    )
    squares = [_products(ranks * ranks, by.sizes) for ranks, by in ((one, sample.by_score), (other, sample.by_truth))]
    return _ratio(_products(one, sample.by_score.sums(theirs)), np.sqrt(squares[0] * squares[1]))


def _centred_ranks(by: WeightedOrder) -> AnyFloats:
    ranks = by.ends * 2
    ranks -= by.sizes
    ranks -= by.total
    return ranks


def _products(one: AnyFloats, other: AnyFloats) -> AnyFloats:
    """Σ one · other of each draw, a few rows at a time so that single precision is enough."""
    parts = [np.einsum("nd,nd->d", one[at : at + _ROWS], other[at : at + _ROWS]) for at in range(0, len(one), _ROWS)]
    return np.asarray(np.sum(parts, axis=0, dtype=np.float64))


def _ratio(numerator: AnyFloats, denominator: AnyFloats) -> AnyFloats:
    """NaN where the denominator vanishes: one of the orders has only ties."""
    return np.divide(numerator, denominator, out=np.full_like(numerator, np.nan), where=denominator > 0)


def kendall(sample: Sample) -> AnyFloats:
    """Kendall's τ-b of each draw, exactly.

    τ_b = (n_c − n_d) / √((n_0 − n_1)(n_0 − n_2)), with n_0 all pairs and n_1, n_2 the pairs tied in either order. Both
    orders are cut into about √n bins. Pairs that differ in both bins are counted from the table of bins × bins; pairs
    within a bin are quadratic forms of the counts, which makes all draws together matrix products: O(n^1.5) a draw.

    Example:
        >>> from trainless.bench.weighted_order import sample_of
        >>> kendall(sample_of(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])))
        array([0.33333333])
    """
    total = sample.by_score.total.astype(np.float64)
    pairs = total * (total - 1) / 2
    strict = [pairs - (_products(by.sizes, by.sizes) - total) / 2 for by in (sample.by_score, sample.by_truth)]
    return _ratio(_concordance(sample), np.sqrt(np.maximum(strict[0], 0) * np.maximum(strict[1], 0)))


@dataclass(frozen=True, eq=False)
class _Blocks:
    """What the pairs of two orders are cut into; the same for all draws.

    ``members`` are the networks by their bins of scores, and within by their bins of truth; ``starts`` is where each
    pair of bins starts among them. ``by_score`` are the networks of each bin of scores, from and to in their order,
    with the sign of each pair: 1 concordant, −1 discordant, 0 neither; ``by_truth`` leaves out the pairs of those.
    """

    shape: tuple[int, int]
    members: Indices
    starts: Indices
    by_score: tuple[tuple[slice, Signs], ...]
    by_truth: tuple[tuple[slice, Signs], ...]


@functools.lru_cache(maxsize=8)
def _blocks(scores: Order, truth: Order) -> _Blocks:
    size = max(1, math.isqrt(len(scores.group)))
    score_bins, truth_bins = _bins(scores, size), _bins(truth, size)
    shape = int(score_bins.max()) + 1, int(truth_bins.max()) + 1
    cells = score_bins * shape[1] + truth_bins
    members = np.argsort(cells, kind="stable")
    starts = np.searchsorted(cells[members], np.arange(shape[0] * shape[1]))
    by_score = [(at, _signs(scores, truth, scores.best_first[at])) for at in _mixed(scores, score_bins)]
    by_truth = []
    for at in _mixed(truth, truth_bins):
        found = truth.best_first[at]
        apart = score_bins[found, None] != score_bins[None, found]
        by_truth.append((at, _signs(scores, truth, found) * apart))
    return _Blocks(shape, members, starts, tuple(by_score), tuple(by_truth))


def _bins(order: Order, size: int) -> Indices:
    """The bin of each network: whole groups of equals, up to ``size`` networks; larger groups are alone."""
    bins = np.empty(len(order.starts), np.intp)
    current, filled = -1, size
    for group, members in enumerate(order.sizes.tolist()):
        if filled + members > size:
            current, filled = current + 1, 0
        filled += members
        bins[group] = current
    return bins[order.group]


def _mixed(order: Order, bins: Indices) -> list[slice]:
    """Where in the order the bins are that have more than one group of equals."""
    edges = [0, *(np.flatnonzero(np.diff(bins[order.best_first])) + 1).tolist(), len(bins)]
    groups = order.group[order.best_first]
    return [slice(a, b) for a, b in itertools.pairwise(edges) if groups[a] != groups[b - 1]]


def _signs(scores: Order, truth: Order, members: Indices) -> Signs:
    one, other = scores.group[members], truth.group[members]
    signs: Indices = np.sign(one[:, None] - one[None, :]) * np.sign(other[:, None] - other[None, :])
    return signs.astype(np.float32)


def _concordance(sample: Sample) -> AnyFloats:
    """Concordant minus discordant pairs of each draw; within blocks ½ wᵀ S w, exact in float32 as counts are small."""
    blocks = _blocks(sample.scores, sample.truth)
    total = _between(blocks, sample.weights)
    for by, dense in ((sample.by_score, blocks.by_score), (sample.by_truth, blocks.by_truth)):
        narrow = by.ordered.astype(np.float32, copy=False)
        for at, signs in dense:
            total += np.einsum("nd,nd->d", signs @ narrow[at], narrow[at]) / 2
    return total


def _between(blocks: _Blocks, weights: AnyFloats) -> AnyFloats:
    """Concordant minus discordant among the pairs that differ in both bins.

    Going through the bins of scores from the best on, ``seen[q]`` counts the networks so far that are in the first q
    bins of truth: those before a bin's own are concordant with it, those after it discordant.
    """
    counts = added(weights, blocks.members, blocks.starts).reshape(*blocks.shape, -1)
    upto = np.zeros((len(counts), blocks.shape[1] + 1, counts.shape[2]), counts.dtype)
    for place in range(blocks.shape[1]):
        np.add(upto[:, place], counts[:, place], out=upto[:, place + 1])
    seen, total = np.zeros_like(upto[0]), np.zeros(counts.shape[2])
    for row, sums in zip(counts, upto, strict=True):
        total += np.einsum("qd,qd->d", row, seen[:-1]) + np.einsum("qd,qd->d", row, seen[1:]) - sums[-1] * seen[-1]
        seen += sums
    return total


def at_top(sample: Sample, share: float) -> Sample:
    """The draws restricted to their best networks: those at least as accurate as the last of the best ``share``."""
    wanted = np.maximum(np.floor(sample.by_truth.total * share + 1e-9), 1)
    step = 1 + len(sample.truth.starts) // 50  # a few groups more, so that most sets of draws have the same orders
    reach = -(-sample.by_truth.reach(wanted) // step) * step
    members, scores, truth = _top(sample.scores, sample.truth, reach)
    inside = (sample.by_truth.begins[:reach] < wanted)[sample.truth.group[members]]
    return Sample(scores, truth, sample.accuracy[members], sample.weights[members] * inside)


@functools.lru_cache(maxsize=8)
def _top(scores: Order, truth: Order, groups: int) -> tuple[Indices, Order, Order]:
    """The networks of the first groups of truth, and their orders among themselves."""
    members = truth.first(groups)
    among = [order_of(-order.group[members].astype(np.float64)) for order in (scores, truth)]
    return members, among[0], among[1]


def ndcg(sample: Sample, top: int = 1000) -> AnyFloats:
    """Normalised discounted cumulative gain at ``top`` of each draw (VKDNW, equation 14).

    nDCG_P = 1/Z Σ_{j≤P} (2^acc_{k_j} − 1) / log₂(1 + j), with accuracies in percent as the published program has them
    (2^94!) and Z the same sum of the perfect order. The gains are divided by the largest one, so that nothing
    overflows. The program takes equal scores in an arbitrary order (``ignore_ties=True``); this is the mean over all
    such orders, which is scikit-learn's value without that option. Without ties the two are the same.

    Example:
        >>> from trainless.bench.weighted_order import sample_of
        >>> accuracy = np.arange(10.0, 101.0, 10.0)
        >>> damaged = accuracy[[0, 1, 2, 3, 4, 5, 8, 9, 6, 7]]
        >>> ndcg(sample_of(damaged, accuracy), top=5).round(3)
        array([0.5])
    """
    best = sample.accuracy.max()
    gains = np.exp2(sample.accuracy - best) - np.exp2(-best)
    discounts = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, top + 2)))])
    found, ideal = (_discounted(by, gains, discounts) for by in (sample.by_score, sample.by_truth))
    return np.divide(found, ideal, out=np.full_like(found, np.nan), where=ideal > 0)


def _discounted(by: WeightedOrder, gains: AnyFloats, discounts: AnyFloats) -> AnyFloats:
    """The sum of gains, each group's mean gain at each of its places among the first."""
    top = len(discounts) - 1
    groups = by.reach(top)
    upto = discounts[np.minimum(by.ends[:groups], top).astype(np.intp)]
    return np.asarray(by.expected(np.diff(upto, axis=0, prepend=0.0), gains[None])[0])


def top_overlap(sample: Sample, share: float = 0.1) -> AnyFloats:
    """The fraction of the best ``share`` of networks that are in the best ``share`` by score (top-10 %/top-10 %)."""
    wanted = np.maximum(np.floor(sample.by_truth.total * share + 1e-9), 1)
    excellent = _at_least(sample.by_truth, wanted)
    return _caught(sample, wanted, wanted) / excellent


def top_hits(sample: Sample, count: int = 64, share: float = 0.05) -> AnyFloats:
    """How many of the first ``count`` by score are among the best ``share`` of networks (top-64/top-5 %)."""
    wanted = np.maximum(np.floor(sample.by_truth.total * share + 1e-9), 1)
    return _caught(sample, np.minimum(count, sample.by_score.total), wanted)


def _at_least(by: WeightedOrder, wanted: AnyFloats) -> AnyFloats:
    """How many networks are at least as good as the last one wanted."""
    groups = by.reach(wanted)
    return np.asarray(np.where(by.begins[:groups] < wanted, by.sizes[:groups], 0).sum(axis=0))


def _caught(sample: Sample, chosen: AnyFloats, wanted: AnyFloats) -> AnyFloats:
    """Of the first ``chosen`` by score, those at least as good as the last one ``wanted``."""
    by = sample.by_score
    groups = by.reach(chosen)
    sizes = by.sizes[:groups]
    share = np.divide(chosen - by.begins[:groups], sizes, out=np.zeros_like(sizes), where=sizes > 0).clip(0, 1)
    members = by.order.first(groups)
    excellent = sample.by_truth.begins[sample.truth.group[members]] < wanted
    weights = sample.weights[members] * excellent
    return np.asarray((weights * share[by.order.group[members]]).sum(axis=0))


def best_of(sample: Sample, count: int) -> tuple[AnyFloats, AnyFloats]:
    """Mean and deviation of the accuracy of the best by score among ``count`` networks drawn at random.

    Of N networks without replacement, the best of ``count`` is one of the first c with probability
    1 − C(N − c, count) / C(N, count): the moments are exact, the limit of infinitely many draws. NaN where a draw has
    fewer than ``count`` networks.
    """
    by = sample.by_score
    enough = by.total >= count
    left = _survival(int(by.total.max()), count)
    groups = by.reach(math.ceil(35 * len(left) / count))  # the best is beyond with a chance below 1e-15
    begin = left[by.total.astype(np.intp)]
    after = left[(by.total - by.ends[:groups]).astype(np.intp)]
    chance = -np.diff(after, axis=0, prepend=begin[None]) / np.where(enough, begin, 1.0)
    middle = sample.accuracy.mean()  # moments about it: nothing is lost to rounding
    mean, square = by.expected(chance, np.stack([sample.accuracy - middle, (sample.accuracy - middle) ** 2]))
    deviation = np.sqrt(np.maximum(square - mean**2, 0))
    return np.where(enough, mean + middle, np.nan), np.where(enough, deviation, np.nan)


def _survival(most: int, count: int) -> AnyFloats:
    """C(m, count) / C(most, count) for m from 0 to ``most``: of two m the ratio is that of none of the others drawn."""
    sizes = np.arange(most, 0, -1)
    falling = np.cumprod(np.maximum(sizes - count, 0) / sizes)
    return np.concatenate([falling[::-1], [1.0]])


def regret(sample: Sample) -> AnyFloats:
    """The best accuracy there is less that of the network with the best score."""
    chosen, best = (
        by.expected(np.diff(by.ends[: by.reach(1)] > 0, axis=0, prepend=False) * 1.0, sample.accuracy[None])[0]
        for by in (sample.by_score, sample.by_truth)
    )
    return np.asarray(best - chosen)
