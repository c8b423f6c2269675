"""Calibration: temperature scaling, reliability bins and calibration error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax

from trainless.core.errors import InputError
from trainless.core.types import Floats, Labels
from trainless.learn.metrics import Estimate, bootstrap

Bins = Literal["width", "mass"]
RANGE = (0.05, 20.0)  # of temperatures
SPREAD = 0.5  # deviation of the logarithm of a temperature that is believed in before any data: 0.37 to 2.7 in 95 %


def sharpen(p: Floats, temperature: float) -> Floats:
    """Probabilities at a temperature: p^(1/T), normalised; above 1 they are less sure.

    Example:
        >>> sharpen(np.array([[0.8, 0.2]]), 0.5).round(3).tolist()
        [[0.941, 0.059]]
    """
    return np.asarray(softmax(_logs(p) / temperature, axis=-1))


def fit_temperature(p: Floats, y: Labels) -> float:
    """The most probable temperature by held-out data (Guo et al., 2017) and a prior: log T ~ N(0, SPREAD²).

        T = argmin  Σ_i −log p_i(y_i; T) + (log T)² / (2 SPREAD²)

    Applied to the ensemble's mean probabilities through their logarithms. Without the prior, which is ours, a few dozen
    samples that are all answered rightly ask for T → 0, as if the ensemble never erred; with it, their number decides
    how far to believe so, and a prediction that says nothing keeps T = 1. Searched from 1/20 to 20, an end that only
    predictions reach which are sure and wrong nearly always.

    Example:
        >>> p = np.array([[0.99, 0.01]] * 10)
        >>> fit_temperature(p, np.array([0] * 8 + [1] * 2)) > 1
        True
    """
    if not len(y) or len(p) != len(y):
        raise InputError(f"{len(p)} predictions and {len(y)} labels were given; expected as many, and at least one")
    logs, rows = _logs(p), np.arange(len(y))

    def loss(log_temperature: float) -> float:
        scaled = logs / np.exp(log_temperature)
        return float((logsumexp(scaled, axis=1) - scaled[rows, y]).sum()) + (log_temperature / SPREAD) ** 2 / 2

    found = minimize_scalar(loss, bounds=np.log(RANGE), method="bounded", options={"xatol": 1e-6})
    return float(np.exp(found.x))


@dataclass(frozen=True, eq=False)
class Reliability:
    """Bins of confidence: mean confidence, accuracy and share of samples of each that has any."""

    confidence: Floats
    accuracy: Floats
    share: Floats


def reliability(p: Floats, y: Labels, *, bins: int = 15, by: Bins = "width") -> Reliability:
    """Confidence against accuracy in bins of equal width or of equal mass.

    Example:
        >>> diagram = reliability(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1]))
        >>> diagram.confidence.tolist(), diagram.accuracy.tolist()
        ([0.9], [0.5])
    """
    confidence, hit = p.max(1), (p.argmax(1) == y).astype(float)
    place = _places(confidence, bins, by)
    count, sure, right = (np.bincount(place, what, bins) for what in (np.ones(len(y)), confidence, hit))
    there = count > 0
    return Reliability(sure[there] / count[there], right[there] / count[there], count[there] / len(y))


def calibration_error(
    p: Floats, y: Labels, *, bins: int = 15, by: Bins = "width", draws: int = 1000, level: float = 0.95, seed: int = 0
) -> Estimate:
    """Expected calibration error Σ_b (n_b / N) |accuracy_b − confidence_b| of the chosen class, with its interval.

    ``by="width"`` is ECE (Guo et al., 2017), ``by="mass"`` has as many samples in every bin (adaptive). The error is
    a sum of absolute values and so is biased upwards on few samples; the percentile bootstrap inherits that.

    Example:
        >>> error = calibration_error(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1]), draws=0)
        >>> round(error.value, 3)
        0.4
    """
    if not len(y) or len(p) != len(y) or bins < 1:
        raise InputError(
            f"{len(p)} predictions, {len(y)} labels and {bins} bins were given; expected as many, and a bin"
        )
    confidence, hit = p.max(1), (p.argmax(1) == y).astype(float)
    place = _places(confidence, bins, by)

    def value(weights: Floats) -> float:
        return float(np.abs(np.bincount(place, weights * (hit - confidence), bins)).sum() / weights.sum())

    return bootstrap(value, len(y), draws=draws, level=level, seed=seed)


def _places(confidence: Floats, bins: int, by: Bins) -> Labels:
    """The bin of each sample; equal confidences always share one."""
    if by == "width":
        return np.minimum((confidence * bins).astype(np.int64), bins - 1)
    edges = np.quantile(confidence, np.arange(1, bins) / bins)
    return np.searchsorted(edges, confidence, side="left").astype(np.int64)


def _logs(p: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(p, np.finfo(np.float64).tiny)))
