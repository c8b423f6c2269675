"""Conformal prediction: sets of classes and intervals of values that hold the truth as often as promised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainless.core.errors import InputError
from trainless.core.types import Floats, Labels, Mask


def quantile(scores: Floats, coverage: float) -> float:
    """The ⌈(n + 1) · coverage⌉-th smallest score; infinite where n is too small to promise that much.

    Example:
        >>> quantile(np.arange(1.0, 10.0), 0.9), quantile(np.arange(1.0, 9.0), 0.9)
        (9.0, inf)
    """
    if not 0 < coverage < 1:
        raise InputError(f"coverage={coverage} was given; expected a number between 0 and 1, such as 0.9")
    rank = math.ceil((len(scores) + 1) * coverage - 1e-9)
    return float(np.sort(scores)[rank - 1]) if rank <= len(scores) else math.inf


@dataclass(frozen=True)
class ConformalSets:
    """A class is in the set where 1 − p is at most its threshold.

    Attributes:
        coverage: What is promised: of the sets of new samples like the calibration data, at least this share holds
            the true class, on average over calibration data; of every class where ``by_class``.
        thresholds: One per class; infinite where the calibration data were too few, so that the class is always in.
        samples: Size of the calibration data.
        by_class: Whether the promise holds for every class on its own.
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

    def to_json(self) -> dict[str, Any]:
        """Plain data; an infinite threshold is null."""
        finite = [value if math.isfinite(value) else None for value in self.thresholds]
        return {"coverage": self.coverage, "thresholds": finite, "samples": self.samples, "by_class": self.by_class}


def sets_from_json(data: Mapping[str, Any]) -> ConformalSets:
    """Read what ``ConformalSets.to_json`` wrote."""
    thresholds = tuple(math.inf if value is None else float(value) for value in data["thresholds"])
    return ConformalSets(data["coverage"], thresholds, data["samples"], data["by_class"])


def fit_sets(p: Floats, y: Labels, coverage: float = 0.9, *, by_class: bool = False) -> ConformalSets:
    """Split conformal sets with the score 1 − p_y (Sadinle et al., 2019), per class where asked (Vovk's Mondrian way).

    Args:
        p: Probabilities ``(N, classes)`` on calibration data that neither training nor selection has seen.
        y: True classes.
        coverage: The share of sets that are to hold the truth.
        by_class: Promise it for every class; a class with fewer than coverage / (1 − coverage) samples is in
            every set.

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
    """Intervals mean ± width · (deviation + floor), each output on its own.

    Attributes:
        coverage: The share of intervals that hold the truth, promised as for sets and for each output.
        widths: One factor per output; infinite where the calibration data were too few.
        floor: Added to the members' deviation, in the target's unit.
        samples: Size of the calibration data.
    """

    coverage: float
    widths: tuple[float, ...]
    floor: float
    samples: int

    def bounds(self, mean: Floats, deviation: Floats) -> tuple[Floats, Floats]:
        """Lower and upper ends, ``(N, outputs)`` each."""
        half = np.asarray(self.widths) * (deviation + self.floor)
        return mean - half, mean + half

    def to_json(self) -> dict[str, Any]:
        """Plain data; an infinite width is null."""
        widths = [value if math.isfinite(value) else None for value in self.widths]
        return {"coverage": self.coverage, "widths": widths, "floor": self.floor, "samples": self.samples}


def intervals_from_json(data: Mapping[str, Any]) -> ConformalIntervals:
    """Read what ``ConformalIntervals.to_json`` wrote."""
    widths = tuple(math.inf if value is None else float(value) for value in data["widths"])
    return ConformalIntervals(data["coverage"], widths, data["floor"], data["samples"])


def fit_intervals(
    mean: Floats, deviation: Floats, y: Floats, coverage: float = 0.9, *, floor: float
) -> ConformalIntervals:
    """Split conformal intervals with the score |y − mean| / (deviation + floor) (Lei et al., 2018).

    Args:
        mean: The ensemble's mean ``(N, outputs)`` on calibration data.
        deviation: The members' standard deviation, of the same shape.
        y: True values.
        coverage: The share of intervals that are to hold the truth.
        floor: A positive number in the target's unit, chosen without the calibration data: the larger, the more equal
            the widths. A tenth of the training values' deviation is a good one.

    Example:
        >>> mean, y = np.zeros((9, 1)), np.arange(1.0, 10.0)
        >>> fit_intervals(mean, np.zeros((9, 1)), y, 0.9, floor=1.0).widths
        (9.0,)
    """
    if not floor > 0:
        raise InputError(f"floor={floor} was given; expected a positive number in the target's unit")
    truth = np.asarray(y, np.float64).reshape(mean.shape)
    scores = np.abs(truth - mean) / (deviation + floor)
    return ConformalIntervals(coverage, tuple(quantile(column, coverage) for column in scores.T), floor, len(scores))
