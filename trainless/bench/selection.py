"""How well a ranking picks: nDCG, overlaps of the top, best of N, regret — for many bootstrap draws at a time.

Where scores are tied, the statistic is its mean over all orders of the equals, so that it does not depend on the order
in which networks happen to be listed.
"""

from __future__ import annotations

import math

import numpy as np

from trainless.bench.order import Counted, Floats, Sample


def ndcg(sample: Sample, top: int = 1000) -> Floats:
    """Normalised discounted cumulative gain at ``top`` of each draw (VKDNW, equation 14).

    nDCG_P = 1/Z Σ_{j≤P} (2^acc_{k_j} − 1) / log₂(1 + j), with accuracies in percent as the published program has them
    (2^94!) and Z the same sum of the perfect order. The gains are divided by the largest one, so that nothing
    overflows. The program takes equal scores in an arbitrary order (``ignore_ties=True``); this is the mean over all
    such orders, which is scikit-learn's value without that option. Without ties the two are the same.

    Example:
        >>> from trainless.bench.order import sample_of
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


def _discounted(by: Counted, gains: Floats, discounts: Floats) -> Floats:
    """The sum of gains, each group's mean gain at each of its places among the first."""
    top = len(discounts) - 1
    groups = by.reach(top)
    upto = discounts[np.minimum(by.ends[:groups], top).astype(np.intp)]
    return np.asarray(by.expected(np.diff(upto, axis=0, prepend=0.0), gains[None])[0])


def top_overlap(sample: Sample, share: float = 0.1) -> Floats:
    """The fraction of the best ``share`` of networks that are in the best ``share`` by score (top-10 %/top-10 %)."""
    wanted = np.maximum(np.floor(sample.by_truth.total * share + 1e-9), 1)
    excellent = _at_least(sample.by_truth, wanted)
    return _caught(sample, wanted, wanted) / excellent


def top_hits(sample: Sample, count: int = 64, share: float = 0.05) -> Floats:
    """How many of the first ``count`` by score are among the best ``share`` of networks (top-64/top-5 %)."""
    wanted = np.maximum(np.floor(sample.by_truth.total * share + 1e-9), 1)
    return _caught(sample, np.minimum(count, sample.by_score.total), wanted)


def _at_least(by: Counted, wanted: Floats) -> Floats:
    """How many networks are at least as good as the last one wanted."""
    groups = by.reach(wanted)
    return np.asarray(np.where(by.begins[:groups] < wanted, by.sizes[:groups], 0).sum(axis=0))


def _caught(sample: Sample, chosen: Floats, wanted: Floats) -> Floats:
    """Of the first ``chosen`` by score, those at least as good as the last one ``wanted``."""
    by = sample.by_score
    groups = by.reach(chosen)
    sizes = by.sizes[:groups]
    share = np.divide(chosen - by.begins[:groups], sizes, out=np.zeros_like(sizes), where=sizes > 0).clip(0, 1)
    members = by.order.first(groups)
    excellent = sample.by_truth.begins[sample.truth.group[members]] < wanted
    weights = sample.weights[members] * excellent
    return np.asarray((weights * share[by.order.group[members]]).sum(axis=0))


def best_of(sample: Sample, count: int) -> tuple[Floats, Floats]:
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


def _survival(most: int, count: int) -> Floats:
    """C(m, count) / C(most, count) for m from 0 to ``most``: of two m the ratio is that of none of the others drawn.

    Example:
        >>> _survival(4, 2) * 6
        array([0., 0., 1., 3., 6.])
    """
    sizes = np.arange(most, 0, -1)
    falling = np.cumprod(np.maximum(sizes - count, 0) / sizes)
    return np.concatenate([falling[::-1], [1.0]])


def regret(sample: Sample) -> Floats:
    """The best accuracy there is less that of the network with the best score."""
    chosen, best = (
        by.expected(np.diff(by.ends[: by.reach(1)] > 0, axis=0, prepend=False) * 1.0, sample.accuracy[None])[0]
        for by in (sample.by_score, sample.by_truth)
    )
    return np.asarray(best - chosen)


def draw_best_of(
    scores: Floats, accuracy: Floats, count: int, *, draws: int = 500, seed: int = 0
) -> tuple[float, float]:
    """The papers' protocol: draw ``count`` networks, take the best by score, ``draws`` times; mean and deviation.

    Failures are drawn too and taken only if there is nothing else; equal scores are taken at random.

    Example:
        >>> draw_best_of(np.array([1.0, 2.0]), np.array([50.0, 60.0]), 2)
        (60.0, 0.0)
    """
    rng = np.random.default_rng(seed)
    picks = np.empty(draws)
    for draw in range(draws):
        drawn = rng.choice(len(scores), count, replace=False)
        known = np.where(np.isfinite(scores[drawn]), scores[drawn], -np.inf)
        picks[draw] = accuracy[rng.choice(drawn[known == known.max()])]
    return float(picks.mean()), float(picks.std())
