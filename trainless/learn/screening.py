"""Screening: a threshold that finds a wanted share of a class, and probabilities at another prevalence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from trainless.core.errors import InputError
from trainless.core.types import Floats, Labels, Mask
from trainless.learn.metrics import MetricValue, clopper_pearson


@dataclass(frozen=True)
class Screening:
    """Call a case positive where the probability of a class is at least the threshold.

    ``least`` is the sensitivity that the threshold keeps with the confidence, over calibration data; it is what was
    wanted, or more, where that is ``promised``. ``cases`` is how many calibration cases of the class chose it.
    """

    positive: int
    sensitivity: float
    confidence: float
    threshold: float
    least: float
    promised: bool
    cases: int

    def flag(self, p: Floats) -> Mask:
        """Which samples are called positive, by probabilities at the prevalence of the training data."""
        return np.asarray(p[:, self.positive] >= self.threshold)

    def statement(self, name: str) -> str:
        """What is promised, in words.

        Example:
            >>> rule = fit_screening(np.array([[0.2, 0.8]] * 7), np.ones(7, int), 1, 0.95)
            >>> rule.statement("malignant")[:70]
            'calling “malignant” from a probability of 0.8: too few calibration cas'
        """
        if not self.cases:
            return f"no calibration case is “{name}”: everything is called so"
        at = f"calling “{name}” from a probability of {self.threshold:.3g}"
        if self.promised:
            return (
                f"{at} finds at least {self.sensitivity:.0%} of it (promised with {self.confidence:.0%} confidence, on"
                f" {self.cases} calibration cases of it)"
            )
        return (
            f"{at}: too few calibration cases of it to promise {self.sensitivity:.0%} ({self.cases}, and"
            f" {_needed(self.sensitivity, self.confidence)} are needed); it finds at least {self.least:.0%} with"
            f" {self.confidence:.0%} confidence"
        )


def fit_screening(p: Floats, y: Labels, positive: int, sensitivity: float, *, confidence: float = 0.9) -> Screening:
    """Choose the highest threshold that keeps a sensitivity, on calibration data.

    With n calibration cases of the class and their k-th smallest probability as the threshold, the sensitivity on
    new cases is at least s with the probability P(Binom(n, 1 − s) ≥ k), or more where probabilities are tied (Wilks,
    1941: a one-sided tolerance limit). k is the largest for which that is at least the confidence. Where none is, the
    smallest probability is the threshold, and it is said what that keeps: s with sⁿ = 1 − confidence; without any case
    everything is called positive. Such a promise is about the class alone: it holds at any prevalence.

    Example:
        >>> p = np.linspace(0, 1, 100)
        >>> rule = fit_screening(np.stack([1 - p, p], 1), np.ones(100, int), 1, 0.9)
        >>> rule.promised, int((p < rule.threshold).sum())
        (True, 5)
    """
    if not 0 < sensitivity < 1:
        raise InputError(f"sensitivity={sensitivity} was given; expected a number between 0 and 1, such as 0.95")
    own = np.sort(p[y == positive, positive])
    n = len(own)
    if not n:
        return Screening(positive, sensitivity, confidence, -math.inf, 1.0, False, 0)
    ranks = np.arange(1, n + 1)
    fit = ranks[binom.sf(ranks - 1, n, 1 - sensitivity) >= confidence]
    if not len(fit):
        least = float((1 - confidence) ** (1 / n))
        return Screening(positive, sensitivity, confidence, float(own[0]), least, False, n)
    return Screening(positive, sensitivity, confidence, float(own[fit[-1] - 1]), sensitivity, True, n)


@dataclass(frozen=True)
class ScreeningCheck:
    """A threshold on test data: sensitivity and specificity with exact intervals; it holds unless the data deny it."""

    sensitivity: MetricValue
    specificity: MetricValue
    flagged: float
    holds: bool


def check_screening(rule: Screening, p: Floats, y: Labels, *, level: float = 0.95) -> ScreeningCheck:
    """Check a threshold on other data."""
    called, ill = rule.flag(p), y == rule.positive
    found, spared = share(called[ill], level), share(~called[~ill], level)
    return ScreeningCheck(found, spared, float(called.mean()), not found.high < rule.least)


def share(held: Mask, level: float = 0.95) -> MetricValue:
    """The share of samples that hold, with its exact interval; NaN without samples."""
    n, right = len(held), int(held.sum())
    return MetricValue(right / n if n else math.nan, *clopper_pearson(right, n, level))


def at_prevalence(p: Floats, prior: Floats, positive: int, prevalence: float) -> Floats:
    """Probabilities where a class has another prevalence and the others share the rest as before.

    p′(k | x) ∝ p(k | x) · π′(k) / π(k) (Saerens et al., 2002): right where only the shares of the classes differ, and
    each class looks as before.

    Example:
        >>> at_prevalence(np.array([[0.5, 0.5]]), np.array([0.5, 0.5]), 1, 0.1).round(3).tolist()
        [[0.9, 0.1]]
    """
    if not 0 < prevalence < 1:
        raise InputError(f"prevalence={prevalence} was given; expected a number between 0 and 1, such as 0.02")
    if not 0 < prior[positive] < 1:
        raise InputError("the class to find has no share in the training data: its prevalence cannot be changed")
    factors = np.full(len(prior), (1 - prevalence) / (1 - prior[positive]))
    factors[positive] = prevalence / prior[positive]
    shifted = p * factors
    return np.asarray(shifted / shifted.sum(1, keepdims=True))


def predictive_values(sensitivity: float, specificity: float, prevalence: float) -> tuple[float, float]:
    """Of the cases called positive the share that is, and of the others the share that is not, by Bayes' rule.

    Example:
        >>> [round(value, 3) for value in predictive_values(0.9, 0.9, 0.01)]
        [0.083, 0.999]
    """
    called = sensitivity * prevalence + (1 - specificity) * (1 - prevalence)
    left = (1 - sensitivity) * prevalence + specificity * (1 - prevalence)
    found = sensitivity * prevalence / called if called else math.nan
    return found, specificity * (1 - prevalence) / left if left else math.nan


def _needed(sensitivity: float, confidence: float) -> int:
    """Cases whose smallest probability proves it: sensitivityⁿ ≤ 1 − confidence."""
    return math.ceil(math.log(1 - confidence) / math.log(sensitivity) - 1e-9)
