"""What is believed of candidates' accuracies after training a few, and which to train next."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata

from trainless.core.errors import InputError
from trainless.core.process import Blocks, Kernel, Posterior, fit_kernel
from trainless.core.scores import Floats
from trainless.core.warp import Warp, fit_warp


@dataclass(frozen=True, eq=False)
class Belief:
    """One belief for each candidate.

    Args:
        values: The order, the higher the better: the trend itself as long as no two known accuracies differ.
        known: The candidates whose accuracy is known.
        posterior: On the warped scale; None as long as no two known accuracies differ.
        warp: The scale; None likewise.
    """

    values: Floats
    known: npt.NDArray[np.intp]
    posterior: Posterior | None = None
    warp: Warp | None = None

    def moments(self) -> tuple[Floats, Floats]:
        """Expected accuracy of each candidate's training and its standard deviation; NaN while nothing is known."""
        if self.posterior is None or self.warp is None:
            return np.full(len(self.values), np.nan), np.full(len(self.values), np.nan)
        return self.warp.moments(self.posterior.mean, self._spread(self.posterior))

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Between which accuracies each candidate's training ends with this probability; NaN while nothing is known."""
        if not 0 < level < 1:
            raise InputError(f"level={level} was given; expected a probability between 0 and 1, such as 0.9")
        if self.posterior is None or self.warp is None:
            return np.full(len(self.values), np.nan), np.full(len(self.values), np.nan)
        reach = ndtri(0.5 + 0.5 * level) * self._spread(self.posterior)
        return self.warp.back(self.posterior.mean - reach), self.warp.back(self.posterior.mean + reach)

    def next(self, count: int = 1, pending: Collection[int] = ()) -> list[int]:
        """The candidates to train next, by expected improvement (Jones et al. 1998) on the warped scale.

        What is in training, and then each one that was chosen, counts as known at its expected value, so that
        candidates like it promise less and a batch is diverse (the Kriging believer of Ginsbourger et al. 2010). While
        nothing is known they are the first by the trend.

        Args:
            count: How many; fewer where fewer are left.
            pending: Those in training.
        """
        if count < 1:
            raise InputError(f"count={count} was given; expected at least 1 candidate to train next")
        free = np.full(len(self.values), True)
        free[self.known] = False
        free[list(pending)] = False
        if self.posterior is None:
            order = np.argsort(-self.values, kind="stable")
            return [int(row) for row in order[free[order]][:count]]
        return _improving(self.posterior, free, count, list(pending))

    def _spread(self, posterior: Posterior) -> Floats:
        return np.sqrt(posterior.variance + posterior.kernel.noise)


def believe(
    trend: npt.ArrayLike,
    blocks: Blocks,
    known: Mapping[int, float],
    *,
    kernel: Kernel | None = None,
    seed: int = 0,
) -> Belief:
    """Learn from known accuracies, on top of a trend that is believed until they say otherwise.

    A training that failed (NaN or −∞) counts as the worst accuracy known.

    Args:
        trend: One number per candidate, the higher the better; only its order counts.
        blocks: Candidates × features each, of mean 0 and variance 1 or so.
        known: Accuracies by the candidate's row.
        kernel: A kernel that was fitted before; fitted here by default.
        seed: Which of many known accuracies the kernel is fitted to.

    Example:
        >>> x = np.linspace(-1, 1, 5)[:, None]
        >>> belief = believe([0, 1, 2, 3, 4], [x], {0: 60.0, 2: 70.0, 4: 75.0})
        >>> belief.next()
        [3]
    """
    given = np.asarray(trend, np.float64)
    rows = np.fromiter(known, np.intp, len(known))
    values = _bounded(np.fromiter(known.values(), np.float64, len(known)))
    if not len(values) or np.ptp(values) == 0:
        return Belief(given, rows)
    warp = fit_warp(values)
    scores, warped = normal_scores(given), warp(values)
    if kernel is None:
        kernel = fit_kernel([block[rows] for block in blocks], scores[rows], warped, seed=seed)
    posterior = Posterior(kernel, blocks, scores, rows, warped)
    return Belief(posterior.mean, rows, posterior, warp)


def kernel_for(trend: npt.ArrayLike, blocks: Blocks, known: Mapping[int, float], *, seed: int = 0) -> Kernel | None:
    """The kernel that :func:`believe` would fit; None where no two known accuracies differ."""
    belief = believe(trend, blocks, known, seed=seed)
    return None if belief.posterior is None else belief.posterior.kernel


def normal_scores(values: npt.ArrayLike) -> Floats:
    """Φ⁻¹((rank − ½)/n): values as a normal sample of the same order; equals share theirs, NaN is below everything.

    Example:
        >>> normal_scores([7.0, np.nan, 9.0]).round(2)
        array([ 0.  , -0.97,  0.97])
    """
    given = np.asarray(values, np.float64)
    levels = np.unique(given[~np.isnan(given)])
    ranks = rankdata(np.where(np.isnan(given), -1, np.searchsorted(levels, given)))
    scores: Floats = ndtri((ranks - 0.5) / max(len(given), 1))
    return scores


def standardised(features: Floats) -> Floats:
    """Features of mean 0 and variance 1, without those that are the same for all candidates.

    Example:
        >>> standardised(np.array([[1.0, 5.0], [3.0, 5.0]]))
        array([[-1.],
               [ 1.]])
    """
    varied = features[:, np.ptp(features, axis=0) > 0] if len(features) else features
    standard: Floats = (varied - varied.mean(axis=0)) / varied.std(axis=0) if varied.size else varied
    return standard


def _bounded(values: Floats) -> Floats:
    """Failures as the worst that is known, +∞ as the best."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return np.zeros(len(values))
    failed = np.where(np.isnan(values), -math.inf, values)
    return np.clip(failed, finite.min(), finite.max())


def _improving(posterior: Posterior, free: npt.NDArray[np.bool_], count: int, pending: list[int]) -> list[int]:
    variance, noise = posterior.variance.copy(), posterior.kernel.noise
    best = float(posterior.mean[posterior.rows].max())
    reductions: list[Floats] = []

    def suppose(row: int) -> None:
        covariance = posterior.covariance(row) - sum(each[row] * each for each in reductions)
        reductions.append(covariance / math.sqrt(variance[row] + noise))
        np.maximum(variance - reductions[-1] ** 2, 1e-12, out=variance)

    for row in pending:
        suppose(row)
    chosen: list[int] = []
    while len(chosen) < count and free.any():
        promise = expected_improvement(posterior.mean, np.sqrt(variance), best)
        row = int(np.lexsort((posterior.mean, promise, free))[-1])  # where nothing promises anything, the best mean
        chosen.append(row)
        free[row] = False
        if len(chosen) < count:
            suppose(row)
    return chosen


def expected_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """E max(f − best, 0) of normal f.

    Example:
        >>> expected_improvement(np.array([1.0, 3.0]), np.array([1e-9, 1e-9]), 2.0).round(6)
        array([0., 1.])
    """
    ahead = (mean - best) / deviation
    density = np.exp(-0.5 * ahead**2) / math.sqrt(2 * math.pi)
    promise: Floats = deviation * (ahead * ndtr(ahead) + density)
    return promise
