"""The base of all rankings, how they read scores, and the weighted sum of logarithms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from trainless.core.errors import InputError
from trainless.core.scores import Scores
from trainless.core.types import Floats

if TYPE_CHECKING:
    from trainless.rankings.products import RankAggregate


class Ranking(ABC):
    """From a whole table of scores to one number per candidate, the higher the better.

    Attributes:
        proxies: The proxies that have to be scored.
        reference: The paper that published it, where there is one.
        pointwise: Whether a candidate's value depends on its own scores alone.
        aggregate: ``sum`` or ``product`` where it is nothing but that of the ranks of proxies, so that a searcher may
            form it by itself; empty otherwise.
    """

    proxies: tuple[str, ...]
    reference: str = ""
    pointwise: bool = False
    aggregate: str = ""

    @abstractmethod
    def __call__(self, scores: Scores) -> Floats:
        """One number per candidate, in the order of ``scores.candidates``."""

    def by_ranks(self) -> RankAggregate | None:
        """The aggregate of ranks that orders alike and can be kept up to date; None where there is none."""
        return None

    def directions(self, higher_is_better: Mapping[str, bool]) -> dict[str, bool]:
        """Whether more of each proxy is better within the ranking; weights may carry a direction of their own."""
        return {proxy: higher_is_better[proxy] for proxy in self.proxies}


def coverage(ranking: Ranking, scores: Scores) -> float:
    """The share of candidates that have every score which the ranking needs."""
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
    """Infinities as the extreme finite values, NaN as it is."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return np.where(np.isnan(values), np.nan, np.sign(values))
    return np.clip(values, finite.min(), finite.max())


def is_logarithm(name: str) -> bool:
    """Whether a proxy says of itself that its values are natural logarithms; a column that is no proxy is none."""
    from trainless.proxies import registry  # when asked, because it imports torch

    return name in registry and registry[name].scale == "log"


@dataclass(frozen=True)
class LogSum(Ranking):
    """TEACUP's composite: Σ_p w_p log₁₀|p|, the directions being in the weights.

    A value of zero, which the published program rewards with −100 and draws again, is a failure here, like NaN and
    infinity: −inf. The paper prints the weights of the NTK's condition number and of SynFlow as positive, but states
    that both are negated; these are negative, as in the program.

    Proxies whose values are natural logarithms already are only brought to base 10.

    Example:
        >>> from trainless.core.scores import Record
        >>> scores = Scores([Record("a", "zico", 100.0, True), Record("b", "zico", 0.0, True)])
        >>> LogSum({"zico": 2.0})(scores)
        array([  4., -inf])
    """

    weights: Mapping[str, float]
    reference: str = field(default="", kw_only=True, compare=False, repr=False)
    pointwise = True

    @cached_property
    def proxies(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.weights)

    def directions(self, higher_is_better: Mapping[str, bool]) -> dict[str, bool]:
        return {proxy: weight > 0 for proxy, weight in self.weights.items()}

    def __call__(self, scores: Scores) -> Floats:
        total: Floats = np.sum(
            [weight * logarithms(column(scores, proxy), is_logarithm(proxy)) for proxy, weight in self.weights.items()],
            axis=0,
        )
        return np.where(np.isnan(total), -np.inf, total)


def logarithms(values: Floats, natural: bool = False) -> Floats:
    """log₁₀|values|, NaN where there is none that is finite; ``natural`` values are ln|values| already."""
    if natural:
        return np.where(np.isfinite(values), values / np.log(10), np.nan)
    size = np.abs(values)
    usable = np.isfinite(size) & (size > 0)
    return np.where(usable, np.log10(np.where(usable, size, 1.0)), np.nan)
