"""What a ranking is, and how it sees scores."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from trainless.core.errors import InputError
from trainless.core.scores import Scores

Floats = npt.NDArray[np.float64]


@runtime_checkable
class Ranking(Protocol):
    """A function from scores to one number per candidate, the higher the better."""

    @property
    def proxies(self) -> tuple[str, ...]:
        """The proxies that have to be scored."""
        ...

    def __call__(self, scores: Scores) -> Floats:
        """One number per candidate, in the order of ``scores.candidates``."""
        ...


def coverage(ranking: Ranking, scores: Scores) -> float:
    """The share of candidates that have every score which the ranking needs.

    Example:
        >>> from trainless.core.scores import Record
        >>> from trainless.ranking import RankSum
        >>> scores = Scores([Record("a", "snip", 1.0, True), Record("b", "snip", float("nan"), True, "dead")])
        >>> coverage(RankSum(("snip",)), scores)
        0.5
    """
    whole = [~np.isnan(column(scores, proxy)) for proxy in ranking.proxies]
    return float(np.all(whole, axis=0).mean())


def column(scores: Scores, proxy: str) -> Floats:
    """The values of a proxy, or an error that says which proxies to score."""
    if proxy not in scores.proxies:
        raise InputError(
            f"the ranking needs {proxy!r}, but only {', '.join(scores.proxies) or 'nothing'} was scored:"
            f" score {proxy!r} too"
        )
    return scores.column(proxy)


def upward(scores: Scores, proxy: str) -> Floats:
    """The values of a proxy turned so that higher is better; infinities become the extreme finite values."""
    values = column(scores, proxy)
    return clipped(values if scores.higher_is_better[proxy] else -values)


def clipped(values: Floats) -> Floats:
    """Infinities as the extreme finite values, NaN as it is.

    Example:
        >>> clipped(np.array([1.0, np.inf, -np.inf, np.nan, 3.0]))
        array([ 1.,  3.,  1., nan,  3.])
    """
    finite = values[np.isfinite(values)]
    if not len(finite):
        return np.where(np.isnan(values), np.nan, np.sign(values))
    return np.clip(values, finite.min(), finite.max())
