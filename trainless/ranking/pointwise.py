"""Rankings that look at one candidate at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trainless.core.scores import Scores
from trainless.ranking.types import Floats, column


@dataclass(frozen=True)
class LogSum:
    """TEACUP's composite: Σ_p w_p log₁₀|p|, the directions being in the weights.

    A value of zero, which the published program rewards with −100 and draws again, is a failure here, like NaN and
    infinity: −inf. The paper prints the weights of the NTK's condition number and of SynFlow as positive, but states
    that both are negated; these are negative, as in the program.

    Args:
        weights: Weight of each proxy.

    Example:
        >>> from trainless.core.scores import Record
        >>> scores = Scores([Record("a", "zico", 100.0, True), Record("b", "zico", 0.0, True)])
        >>> LogSum({"zico": 2.0})(scores)
        array([  4., -inf])
    """

    weights: Mapping[str, float]

    @property
    def proxies(self) -> tuple[str, ...]:
        return tuple(self.weights)

    def __call__(self, scores: Scores) -> Floats:
        total: Floats = np.sum([w * logarithms(column(scores, proxy)) for proxy, w in self.weights.items()], axis=0)
        return np.where(np.isnan(total), -np.inf, total)


def logarithms(values: Floats) -> Floats:
    """log₁₀|values|, NaN where there is none that is finite.

    Example:
        >>> logarithms(np.array([-10.0, 0.0, np.inf]))
        array([ 1., nan, nan])
    """
    size = np.abs(values)
    usable = np.isfinite(size) & (size > 0)
    return np.where(usable, np.log10(np.where(usable, size, 1.0)), np.nan)
