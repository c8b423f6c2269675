"""Calibration on a holdout: temperature, reliability, and conformal sets and intervals that keep their coverage."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax

from trainless.core.errors import InputError
from trainless.core.types import Floats, Labels, Mask
from trainless.learn.metrics import MetricValue, bootstrap

Bins = Literal["width", "mass"]
RANGE = (0.05, 20.0)  # of temperatures
SPREAD = 0.5  # deviation of the logarithm of a temperature that is believed in before any data: 0.37 to 2.7 in 95 %


def sharpen(p: Floats, temperature: float) -> Floats:
    """Probabilities at a temperature: p^(1/T), normalised; above 1 they are less sure."""
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
    """Confidence against accuracy in bins of equal width or of equal mass."""
    confidence, hit = p.max(1), (p.argmax(1) == y).astype(float)
    place = _places(confidence, bins, by)
    count, sure, right = (np.bincount(place, what, bins) for what in (np.ones(len(y)), confidence, hit))
    there = count > 0
    return Reliability(sure[there] / count[there], right[there] / count[there], count[there] / len(y))


def calibration_error(
    p: Floats, y: Labels, *, bins: int = 15, by: Bins = "width", draws: int = 1000, level: float = 0.95, seed: int = 0
) -> MetricValue:
    """Expected calibration error Σ_b (n_b / N) |accuracy_b − confidence_b| of the chosen class, with its interval.

    ``by="width"`` is ECE (Guo et al., 2017), ``by="mass"`` has as many samples in every bin (adaptive). The error is
    a sum of absolute values and so is biased upwards on few samples; the percentile bootstrap inherits that.
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


def quantile(scores: Floats, coverage: float) -> float:
    """The ⌈(n + 1) · coverage⌉-th smallest score; infinite where n is too small to promise that much."""
    if not 0 < coverage < 1:
        raise InputError(f"coverage={coverage} was given; expected a number between 0 and 1, such as 0.9")
    rank = math.ceil((len(scores) + 1) * coverage - 1e-9)
    return float(np.sort(scores)[rank - 1]) if rank <= len(scores) else math.inf


@dataclass(frozen=True)
class ConformalSets:
    """A class is in the set where 1 − p is at most its threshold, infinite where the calibration samples were too few.

    Of the sets of new samples like the calibration data at least the share ``coverage`` holds the true class, on
    average over calibration data; of every class where ``by_class``.
    """

    coverage: float
    thresholds: tuple[float, ...]
    samples: int
    by_class: bool

    def sets(self, p: Floats) -> Mask:
        """Which classes are in the set of each sample; the most probable one always is."""
        inside = 1 - p <= np.asarray(self.thresholds)
        inside[np.arange(len(p)), p.argmax(1)] = True
        return np.asarray(inside)


def fit_sets(p: Floats, y: Labels, coverage: float = 0.9, *, by_class: bool = False) -> ConformalSets:
    """Split conformal sets with the score 1 − p_y (Sadinle et al., 2019), per class where asked (Vovk's Mondrian way).

    Takes probabilities ``(N, classes)`` on calibration data that neither training nor selection has seen. By class, one
    with fewer than coverage / (1 − coverage) samples is in every set.

    Example:
        >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]])
        >>> fit_sets(p, np.array([0, 0, 0, 1]), 0.75).sets(np.array([[0.55, 0.45], [0.65, 0.35]])).tolist()
        [[True, False], [True, False]]
    """
    if len(p) != len(y) or p.ndim != 2:
        raise InputError(f"predictions of shape {p.shape} and {len(y)} labels were given; expected as many")
    scores = 1 - p[np.arange(len(y)), y]
    classes = p.shape[1]
    if by_class:
        thresholds = tuple(quantile(scores[y == k], coverage) for k in range(classes))
    else:
        thresholds = (quantile(scores, coverage),) * classes
    return ConformalSets(coverage, thresholds, len(y), by_class)


@dataclass(frozen=True)
class ConformalIntervals:
    """Intervals mean ± width · (deviation + floor), each output on its own; coverage is promised as for sets.

    Widths are infinite where the calibration samples were too few; the floor is in the target's unit.
    """

    coverage: float
    widths: tuple[float, ...]
    floor: float
    samples: int

    def bounds(self, mean: Floats, deviation: Floats) -> tuple[Floats, Floats]:
        half = np.asarray(self.widths) * (deviation + self.floor)
        return mean - half, mean + half


def fit_intervals(
    mean: Floats, deviation: Floats, y: Floats, coverage: float = 0.9, *, floor: float
) -> ConformalIntervals:
    """Split conformal intervals with the score |y − mean| / (deviation + floor) (Lei et al., 2018).

    Mean and the members' deviation are ``(N, outputs)`` on calibration data. The floor is a positive number in the
    target's unit, chosen without the calibration data: the larger, the more equal the widths. A tenth of the training
    values' deviation is a good one.

    Example:
        >>> fit_intervals(np.zeros((9, 1)), np.zeros((9, 1)), np.arange(1.0, 10.0), 0.9, floor=1.0).widths
        (9.0,)
    """
    if not floor > 0:
        raise InputError(f"floor={floor} was given; expected a positive number in the target's unit")
    truth = np.asarray(y, np.float64).reshape(mean.shape)
    scores = np.abs(truth - mean) / (deviation + floor)
    return ConformalIntervals(coverage, tuple(quantile(column, coverage) for column in scores.T), floor, len(scores))


def _places(confidence: Floats, bins: int, by: Bins) -> Labels:
    """The bin of each sample; equal confidences always share one."""
    if by == "width":
        return np.minimum((confidence * bins).astype(np.int64), bins - 1)
    edges = np.quantile(confidence, np.arange(1, bins) / bins)
    return np.searchsorted(edges, confidence, side="left").astype(np.int64)


def _logs(p: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(p, np.finfo(np.float64).tiny)))
