"""A Gaussian process with a trend, over blocks of features: what a few known values say about all the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

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
