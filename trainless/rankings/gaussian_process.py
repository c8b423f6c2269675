"""A Gaussian process with a trend, over blocks of features: what a few known accuracies say about all the others.

Accuracies are warped so that they look normal, because most networks are good and a few are very bad.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata

from trainless.core.errors import InputError
from trainless.core.types import Floats, Indices

Blocks: TypeAlias = Sequence[Floats]

LEVEL = 4.0  # variance of the constant, on a scale where known values have variance 1
MOST = 256  # known values that the kernel is fitted to
STEPS = 40
_EXPECTED = {"slope": 0.8, "noise": 0.15, "linear": 0.02, "curved": 0.02, "scale": 1.0}
_DOUBT = {"slope": 0.5, "noise": 0.5, "linear": 1.0, "curved": 1.0, "scale": 0.5}  # of the natural logarithms


@dataclass(frozen=True)
class Kernel:
    """What is believed before any value is known: f ~ GP(slope · trend, k), values are f plus noise.

    k(x, x') = LEVEL + Σ_b linear_b ⟨x_b, x'_b⟩/d_b + curved_b M(|x_b − x'_b| / (√d_b scale_b)), with one term for
    each block b of d_b features and M Matérn's function with ν = 5/2 (Rasmussen and Williams 2006, equation 4.17).

    The ``slope`` is never negative; ``noise`` is the variance of a known value around f.
    """

    slope: float
    noise: float
    linear: tuple[float, ...]
    curved: tuple[float, ...]
    scales: tuple[float, ...]

    def between(self, one: Blocks, other: Blocks) -> Floats:
        """The covariance of f at some points with f at others."""
        total = np.full((len(one[0]), len(other[0])), LEVEL)
        for block, (a, b) in enumerate(zip(one, other, strict=True)):
            inner = a @ b.T / _width(a)
            total += self.linear[block] * inner
            total += self.curved[block] * _matern(_squares(a, b, inner) / self.scales[block] ** 2)
        return total

    def variances(self, blocks: Blocks) -> Floats:
        """The variance of f at each point."""
        inner = [np.einsum("ij,ij->i", block, block) / _width(block) for block in blocks]
        total: Floats = LEVEL + sum(self.curved) + np.tensordot(self.linear, np.array(inner), axes=1)
        return total


def fit_kernel(blocks: Blocks, trend: Floats, values: Floats, *, seed: int = 0) -> Kernel:
    """The most probable kernel given values with mean about 0 and variance about 1.

    The marginal likelihood times log-normal priors, climbed by a few steps of L-BFGS from the priors' medians. The
    priors believe in the trend (slope 0.8) and in little else, which is what few values should not overturn; their
    medians and widths were settled on after eight tries with CIFAR-10 accuracies of NAS-Bench-201. Of more than 256
    values a random 256 are looked at.
    """
    if len(values) > MOST:
        some = np.sort(np.random.default_rng(seed).permutation(len(values))[:MOST])
        blocks, trend, values = [block[some] for block in blocks], trend[some], values[some]
    names = ["slope", "noise", *("linear",) * len(blocks), *("curved",) * len(blocks), *("scale",) * len(blocks)]
    centre = np.log([_EXPECTED[name] for name in names])
    doubt = np.array([_DOUBT[name] for name in names])
    evidence = _Evidence(blocks, trend, values)

    def loss(logs: Floats) -> tuple[float, Floats]:
        surprise, gradient = evidence(logs)
        away = (logs - centre) / doubt
        return surprise + 0.5 * float(away @ away), gradient + away / doubt

    bounds = list(zip(centre - 4 * doubt, centre + 4 * doubt, strict=True))
    found = minimize(loss, centre, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS})
    return _kernel(found.x, len(blocks))


def _kernel(logs: Floats, count: int) -> Kernel:
    slope, noise, *rest = np.exp(logs).tolist()
    return Kernel(slope, noise, tuple(rest[:count]), tuple(rest[count : 2 * count]), tuple(rest[2 * count :]))


class _Evidence:
    """Minus the logarithm of the marginal likelihood, up to a constant, and its gradient by the kernel's logarithms."""

    def __init__(self, blocks: Blocks, trend: Floats, values: Floats) -> None:
        self._trend, self._values, self._count = trend, values, len(blocks)
        self._inner = [block @ block.T / _width(block) for block in blocks]
        self._squares = [_squares(block, block, inner) for block, inner in zip(blocks, self._inner, strict=True)]

    def __call__(self, logs: Floats) -> tuple[float, Floats]:
        kernel = _kernel(logs, self._count)
        lines = [size * inner for size, inner in zip(kernel.linear, self._inner, strict=True)]
        scaled = [squares / scale**2 for squares, scale in zip(self._squares, kernel.scales, strict=True)]
        curves = [size * _matern(squares) for size, squares in zip(kernel.curved, scaled, strict=True)]
        stretches = [size * _matern_slope(squares) for size, squares in zip(kernel.curved, scaled, strict=True)]
        identity = np.eye(len(self._values))
        factor = cholesky(LEVEL + sum(lines) + sum(curves) + kernel.noise * identity, lower=True, check_finite=False)
        residual = self._values - kernel.slope * self._trend
        inverse = cho_solve((factor, True), identity, check_finite=False)
        weights = inverse @ residual
        surprise = 0.5 * float(residual @ weights) + float(np.log(np.diag(factor)).sum())
        pull = 0.5 * (inverse - np.outer(weights, weights))
        terms = [np.vdot(pull, part) for part in (*lines, *curves, *stretches)]
        slope = -kernel.slope * float(weights @ self._trend)
        return surprise, np.array([slope, kernel.noise * np.trace(pull), *terms])


@dataclass(frozen=True, eq=False)
class Posterior:
    """What known values say about f at all points."""

    kernel: Kernel
    blocks: Blocks
    trend: Floats
    rows: Indices
    values: Floats

    @cached_property
    def _factor(self) -> Floats:
        known = [block[self.rows] for block in self.blocks]
        covariance = self.kernel.between(known, known) + self.kernel.noise * np.eye(len(self.rows))
        factor: Floats = cholesky(covariance, lower=True, check_finite=False)
        return factor

    @cached_property
    def _across(self) -> Floats:
        return self.kernel.between([block[self.rows] for block in self.blocks], self.blocks)

    @cached_property
    def _solved(self) -> Floats:
        """Known × all points, times the inverse of the factor."""
        solved: Floats = solve_triangular(self._factor, self._across, lower=True, check_finite=False)
        return solved

    @cached_property
    def mean(self) -> Floats:
        """The expectation of f at each point."""
        residual = self.values - self.kernel.slope * self.trend[self.rows]
        weights = cho_solve((self._factor, True), residual, check_finite=False)
        mean: Floats = self.kernel.slope * self.trend + weights @ self._across
        return mean

    @cached_property
    def variance(self) -> Floats:
        """The variance of f at each point."""
        left = self.kernel.variances(self.blocks) - np.einsum("ij,ij->j", self._solved, self._solved)
        variance: Floats = np.maximum(left, 1e-12)
        return variance

    def covariance(self, row: int) -> Floats:
        """The covariance of f at each point with f at one."""
        one = self.kernel.between([block[[row]] for block in self.blocks], self.blocks)[0]
        left: Floats = one - self._solved[:, row] @ self._solved
        return left


def _width(block: Floats) -> int:
    return max(int(block.shape[1]), 1)


def _squares(one: Floats, other: Floats, inner: Floats) -> Floats:
    """Mean squared differences of features, from the mean products."""
    norms = [np.einsum("ij,ij->i", each, each) / _width(each) for each in (one, other)]
    squares: Floats = np.maximum(norms[0][:, None] + norms[1] - 2.0 * inner, 0.0)
    return squares


def _matern(squares: Floats) -> Floats:
    far = np.sqrt(5.0 * squares)
    matern: Floats = (1.0 + far + far * far / 3.0) * np.exp(-far)
    return matern


def _matern_slope(squares: Floats) -> Floats:
    """The derivative by the logarithm of the scale."""
    far = np.sqrt(5.0 * squares)
    slope: Floats = far * far * (1.0 + far) / 3.0 * np.exp(-far)
    return slope


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
    trend: npt.ArrayLike, blocks: Blocks, known: Mapping[int, float], *, kernel: Kernel | None = None, seed: int = 0
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
