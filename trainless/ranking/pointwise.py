"""Rankings that look at one candidate at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trainless.core.scores import Scores
from trainless.ranking.types import Floats, column

NATURAL_LOGS = frozenset({"synflow", "loss_synflow"})
"""The proxies of this package whose values are natural logarithms: their sums are beyond any plain number."""


@dataclass(frozen=True)
class LogSum:
    """TEACUP's composite: Σ_p w_p log₁₀|p|, the directions being in the weights.

    A value of zero, which the published program rewards with −100 and draws again, is a failure here, like NaN and
    infinity: −inf. The paper prints the weights of the NTK's condition number and of SynFlow as positive, but states
    that both are negated; these are negative, as in the program.

    Proxies whose values are natural logarithms already (``natural_logs``) are only brought to base 10.

    Args:
        weights: Weight of each proxy.
        natural_logs: The proxies that are logarithms already.

    Example:
        >>> from trainless.core.scores import Record
        >>> scores = Scores([Record("a", "zico", 100.0, True), Record("b", "zico", 0.0, True)])
        >>> LogSum({"zico": 2.0})(scores)
        array([  4., -inf])
    """

    weights: Mapping[str, float]
    natural_logs: frozenset[str] = NATURAL_LOGS

    @property
    def proxies(self) -> tuple[str, ...]:
        return tuple(self.weights)

    def __call__(self, scores: Scores) -> Floats:
        total: Floats = np.sum(
            [
                weight * logarithms(column(scores, proxy), proxy in self.natural_logs)
                for proxy, weight in self.weights.items()
            ],
            axis=0,
        )
        return np.where(np.isnan(total), -np.inf, total)


def logarithms(values: Floats, natural: bool = False) -> Floats:
    """log₁₀|values|, NaN where there is none that is finite; ``natural`` values are ln|values| already.

    Example:
        >>> logarithms(np.array([-10.0, 0.0, np.inf]))
        array([ 1., nan, nan])
    """
    if natural:
        return np.where(np.isfinite(values), values / np.log(10), np.nan)
    size = np.abs(values)
    usable = np.isfinite(size) & (size > 0)
    return np.where(usable, np.log10(np.where(usable, size, 1.0)), np.nan)
