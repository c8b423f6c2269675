"""TEACUP's genetic method: a probabilistic-model-building genetic algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.types import Floats
from trainless.searchers.policy import draw_allowed
from trainless.searchers.searcher import Draw, SignalSearcher, Told, room
from trainless.searchers.state import kept
from trainless.searchers.stopping import Patience


@dataclass(eq=False, kw_only=True)
class Pmbga(SignalSearcher):
    """Every decision's options have a Dirichlet–multinomial posterior, fed by the better part of a buffer.

        α_k = 1 + #{survivors with option k},   θ ~ Dir(α),   survivors: reward above the buffer's mean

    Each iteration adds ``batch`` archs drawn from θ and drops as many of the oldest (TEACUP, eq. 8–11).

    Deviations: the paper draws θ from the posterior and its program takes the posterior mean: ``posterior`` chooses.
    The result is the best ever told, not the best of the last population. A candidate without a value is never a
    survivor.

    The buffer keeps ``sets`` iterations; the first ``batch × sets`` archs are drawn at random. It ends after
    ``iterations``, or ``patience`` of them without a gain of the mean reward; None for no such end.
    """

    batch: int = 10
    sets: int = 5
    posterior: Literal["draw", "mean"] = "draw"
    iterations: int | None = 100
    patience: int | None = 30
    draw: Draw | None = None
    _buffer: list[tuple[Arch, float]] = kept(list)
    _new: list[tuple[Arch, float]] = kept(list)
    _theta: Floats = kept()
    _issued: int = kept(0)
    _rounds: int = kept(0)
    _patience: Patience = kept()
    _over: bool = kept(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch < 1 or self.sets < 1 or self.posterior not in ("draw", "mean"):
            raise InputError(
                f"pmbga was given batch={self.batch}, sets={self.sets}, posterior={self.posterior!r}; expected positive"
                " numbers and 'draw' or 'mean'"
            )
        self._theta = self._posterior([])
        self._patience = Patience(self.patience)

    def ask(self, limit: int | None = None) -> list[Proposal]:
        return self._proposed(room(limit, self.batch), self._following)

    def _following(self) -> Arch | None:
        first = self.batch * self.sets
        if self._over or (self.iterations is not None and self._issued >= first + self.batch * self.iterations):
            return None
        self._issued += 1
        if self._issued <= first:
            return self._drawn(self.draw)
        return draw_allowed(self.space, self._theta, self._rng, self.feasible)

    def tell(self, told: Told) -> None:
        for arch, value in self._see(told):
            self._new.append((arch, value))
            if len(self._new) == self.batch:
                self._update()

    def _update(self) -> None:
        self._buffer = (self._buffer + self._new)[-self.batch * self.sets :]
        recent = np.array([value for _, value in self._new])
        self._new = []
        self._rounds += 1
        values = np.array([value for _, value in self._buffer])
        known = values[np.isfinite(values)]
        mean = known.mean() if len(known) else np.inf
        self._theta = self._posterior([arch for arch, value in self._buffer if value > mean])
        if self._rounds >= self.sets:
            finite = recent[np.isfinite(recent)]
            self._over |= self._patience.over(float(finite.mean()) if len(finite) else float("nan"))

    def _posterior(self, survivors: list[Arch]) -> Floats:
        """Decisions × options probabilities, 0 in the padding."""
        counts = [len(decision) for decision in self.space.decisions]
        table = np.zeros((len(counts), max(counts, default=1)))
        for decision, count in enumerate(counts):
            options = [arch[decision] for arch in survivors]
            alpha = np.bincount(np.array(options, dtype=np.intp), minlength=count) + 1.0
            table[decision, :count] = self._rng.dirichlet(alpha) if self.posterior == "draw" else alpha / alpha.sum()
        return table
