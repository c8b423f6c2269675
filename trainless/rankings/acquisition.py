"""A warp that makes accuracies look normal, and back: most networks are good and a few are very bad."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata

from trainless.core.errors import InputError
from trainless.core.types import Floats
from trainless.rankings.gaussian_process import Blocks, Kernel, Posterior, fit_kernel

POWERS = (1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0)
LIKELY, SPREAD = 1.5, 0.75  # what the power is expected to be: accuracies end on the right and trail off on the left
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_IQR = 1.349  # of a standard normal


@dataclass(frozen=True)
class Warp:
    """Yeo and Johnson's power transformation (2000) of standardised values, standardised again.

    A ``power`` of 1 changes nothing; above 1 low values are drawn in and high ones are pulled apart. ``bounds`` are the
    least and the most that :meth:`back` answers, one observed range beyond what was observed.

    Example:
        >>> warp = fit_warp([93.0, 94.0, 90.0, 70.0])
        >>> bool(np.allclose(warp.back(warp([93.0, 94.0, 90.0, 70.0])), [93.0, 94.0, 90.0, 70.0]))
        True
    """

    centre: float
    scale: float
    power: float
    level: float
    deviation: float
    bounds: tuple[float, float]

    def __call__(self, values: npt.ArrayLike) -> Floats:
        standard = (np.asarray(values, np.float64) - self.centre) / self.scale
        return np.asarray((_power(standard, self.power) - self.level) / self.deviation)

    def back(self, warped: npt.ArrayLike) -> Floats:
        """From the normal scale to values."""
        raw = _root(np.asarray(warped, np.float64) * self.deviation + self.level, self.power)
        return np.clip(self.centre + self.scale * raw, *self.bounds)

    def moments(self, mean: Floats, deviation: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the values behind normal ones, by Gauss–Hermite quadrature."""
        nodes = np.array([self.back(mean + node * deviation) for node in _NODES])
        centre = _WEIGHTS @ nodes
        return centre, np.sqrt(_WEIGHTS @ (nodes - centre) ** 2)


def fit_warp(values: npt.ArrayLike) -> Warp:
    """The most likely warp of values that are not all the same, the power shrunk towards 1.5."""
    given = np.asarray(values, np.float64)
    low, high = np.quantile(given, [0.25, 0.75]).tolist()
    centre, scale = float(np.median(given)), (high - low) / _IQR or float(given.std())
    standard = (given - centre) / scale
    power = max(POWERS, key=lambda each: _likelihood(standard, each))
    warped = _power(standard, power)
    least, most, span = float(given.min()), float(given.max()), float(np.ptp(given))
    return Warp(centre, scale, power, float(warped.mean()), float(warped.std()), (least - span, most + span))


def _likelihood(standard: Floats, power: float) -> float:
    spread = -0.5 * len(standard) * np.log(_power(standard, power).var())
    jacobian = (power - 1) * (np.sign(standard) * np.log1p(np.abs(standard))).sum()
    return float(spread + jacobian - 0.5 * ((power - LIKELY) / SPREAD) ** 2)


def _power(values: Floats, power: float) -> Floats:
    above, below = np.maximum(values, 0.0), np.maximum(-values, 0.0)
    return np.where(values >= 0, _box_cox(above, power), -_box_cox(below, 2.0 - power))


def _root(values: Floats, power: float) -> Floats:
    above, below = np.maximum(values, 0.0), np.maximum(-values, 0.0)
    return np.where(values >= 0, _unbox_cox(above, power), -_unbox_cox(below, 2.0 - power))


def _box_cox(values: Floats, power: float) -> Floats:
    """((1 + v)^power − 1) / power of values from 0 on."""
    return np.log1p(values) if power == 0 else np.expm1(power * np.log1p(values)) / power


def _unbox_cox(values: Floats, power: float) -> Floats:
    """Its inverse; where there is none, beyond the end of a negative power, a very high number."""
    if power == 0:
        return np.expm1(np.minimum(values, 50.0))
    return np.expm1(np.minimum(np.log1p(np.maximum(power * values, 1e-12 - 1)) / power, 50.0))


@dataclass(frozen=True, eq=False)
class Belief:
    """One belief for each candidate.

    ``values`` are the order, the higher the better. As long as no two ``known`` accuracies differ it is the trend's,
    and there is no posterior on the warped scale.
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

    Only the order of ``trend`` counts, the higher the better. ``blocks`` are candidates × features each, of mean 0 and
    variance 1 or so; ``known`` are accuracies by the candidate's row. A ``kernel`` that was fitted before need not be
    fitted here.
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
    """Φ⁻¹((rank − ½)/n): values as a normal sample of the same order; equals share theirs, NaN is below everything."""
    given = np.asarray(values, np.float64)
    levels = np.unique(given[~np.isnan(given)])
    ranks = rankdata(np.where(np.isnan(given), -1, np.searchsorted(levels, given)))
    scores: Floats = ndtri((ranks - 0.5) / max(len(given), 1))
    return scores


def standardised(features: Floats) -> Floats:
    """Features of mean 0 and variance 1, without those that are the same for all candidates."""
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
    """E max(f − best, 0) of normal f."""
    ahead = (mean - best) / deviation
    density = np.exp(-0.5 * ahead**2) / math.sqrt(2 * math.pi)
    promise: Floats = deviation * (ahead * ndtr(ahead) + density)
    return promise
