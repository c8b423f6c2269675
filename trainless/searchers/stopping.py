"""When to stop: patience on what a searcher watches, and budgets that the loop keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.types import Floats
from trainless.searchers.state import Stateful, kept


@dataclass(eq=False)
class Patience(Stateful):
    """Stop when a watched value has not improved for a number of steps.

    The stopping rules of the papers are this one on different values: the mean reward (TEACUP, 30 iterations), the
    policy's entropy (TEG-NAS, "stops decreasing") and the population's diversity.
    """

    steps: int | None
    falling: bool = False
    _best: float = kept(-math.inf)
    _waited: int = kept(0)

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 1:
            raise InputError(f"patience={self.steps} was given; expected at least 1, or None for no such stop")

    def over(self, value: float) -> bool:
        """Take the next value and tell whether to stop; NaN is no improvement."""
        signed = -value if self.falling else value
        if signed > self._best:
            self._best, self._waited = signed, 0
        else:
            self._waited += 1
        return self.steps is not None and self._waited >= self.steps


def entropy(probabilities: Sequence[Floats]) -> float:
    """Entropy in nats of independent categorical choices: Σ_d −Σ_k p_dk log p_dk."""
    return float(sum(-(p[p > 0] * np.log(p[p > 0])).sum() for p in probabilities))


def diversity(archs: Sequence[Arch]) -> float:
    """The mean over pairs of the number of decisions in which two members differ (TEG-NAS, section 5.2.2)."""
    n = len(archs)
    if n < 2:
        return 0.0
    table = np.array(archs)
    alike = 0
    for column in table.T:
        counts = np.bincount(column)
        alike += int((counts * (counts - 1)).sum())
    return float(table.shape[1] - alike / (n * (n - 1)))


@dataclass(frozen=True)
class Spent:
    """What a search has used up: evaluations, wall time, and the seconds a table says they would have taken."""

    evaluations: int = 0
    seconds: float = 0.0
    simulated: float = 0.0

    def plus(self, evaluations: int = 1, seconds: float = 0.0, simulated: float = 0.0) -> Spent:
        return Spent(self.evaluations + evaluations, self.seconds + seconds, self.simulated + simulated)


@dataclass(frozen=True)
class Budget:
    """Limits on evaluations, on wall time in seconds and on simulated seconds; None is no limit."""

    evaluations: int | None = None
    seconds: float | None = None
    simulated: float | None = None

    def __post_init__(self) -> None:
        for name in ("evaluations", "seconds", "simulated"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise InputError(f"a budget of {name}={limit} was given; expected a positive number, or none")

    def allows(self, spent: Spent) -> bool:
        """Whether this much may be used up; an evaluation that would overrun is to be discarded."""
        return all(limit is None or used <= limit for limit, used in self._pairs(spent))

    def exhausted(self, spent: Spent) -> bool:
        """Whether nothing more can be started."""
        return any(limit is not None and used >= limit for limit, used in self._pairs(spent))

    def left(self, spent: Spent) -> int | None:
        """How many evaluations may still be started; None where they are not limited."""
        return None if self.evaluations is None else max(0, self.evaluations - spent.evaluations)

    def _pairs(self, spent: Spent) -> list[tuple[float | None, float]]:
        return [(self.evaluations, spent.evaluations), (self.seconds, spent.seconds), (self.simulated, spent.simulated)]
