"""A warp that makes accuracies look normal, and back: most networks are good and a few are very bad."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainless.core.scores import Floats

POWERS = (1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0)
LIKELY, SPREAD = 1.5, 0.75  # what the power is expected to be: accuracies end on the right and trail off on the left
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_IQR = 1.349  # of a standard normal


@dataclass(frozen=True)
class Warp:
    """Yeo and Johnson's power transformation (2000) of standardised values, standardised again.

    Args:
        centre: The median.
        scale: The interquartile range as a standard deviation.
        power: 1 changes nothing; above 1 low values are drawn in and high ones are pulled apart.
        level: The mean of the transformed values.
        deviation: Their standard deviation.
        bounds: The least and the most that :meth:`back` answers, one observed range beyond what was observed.

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
        """From values to a standard normal scale."""
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
