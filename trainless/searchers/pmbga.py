"""TEACUP's genetic method: a probabilistic-model-building genetic algorithm."""

from __future__ import annotations

from typing import Literal

import numpy as np

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.files import number, unnumber
from trainless.core.types import Floats, Json
from trainless.searchers.policy import draw_allowed
from trainless.searchers.searcher import Draw, Incumbent, Told, room
from trainless.searchers.stopping import Patience
from trainless.spaces.moves import Choices, Feasible, sample


class Pmbga:
    """Every decision's options have a Dirichlet–multinomial posterior, fed by the better part of a buffer.

        α_k = 1 + #{survivors with option k},   θ ~ Dir(α),   survivors: reward above the buffer's mean

    Each iteration adds ``batch`` archs drawn from θ and drops as many of the oldest (TEACUP, eq. 8–11).

    Deviations: the paper draws θ from the posterior and its program takes the posterior mean: ``posterior`` chooses.
        The
    result is the best ever told, not the best of the last population. A candidate without a value is never a survivor.

    Args:
        space: What to search.
        seed: The source of randomness.
        feasible: A limit that every proposal keeps.
        batch: New archs per iteration.
        sets: Iterations that the buffer keeps; the first ``batch × sets`` archs are drawn at random.
        posterior: ``draw`` θ from it or take its ``mean``.
        iterations: Iterations after which it ends; None for no end.
        patience: Iterations without a gain of the mean reward after which it ends; None for no such end.
        draw: Where the first archs come from; uniform sampling by default.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> searcher = Pmbga(NasBench201(), seed=0)
        >>> while proposals := searcher.ask():
        ...     searcher.tell(Told.of(proposals, [float(p.arch.count(3)) for p in proposals]))
        >>> searcher.best()
        (3, 3, 3, 3, 3, 3)
    """

    def __init__(
        self,
        space: Choices,
        *,
        seed: int = 0,
        feasible: Feasible | None = None,
        batch: int = 10,
        sets: int = 5,
        posterior: Literal["draw", "mean"] = "draw",
        iterations: int | None = 100,
        patience: int | None = 30,
        draw: Draw | None = None,
    ) -> None:
        if batch < 1 or sets < 1 or posterior not in ("draw", "mean"):
            raise InputError(
                f"pmbga was given batch={batch}, sets={sets}, posterior={posterior!r}; expected positive numbers and"
                " 'draw' or 'mean'"
            )
        self._space, self._feasible = space, feasible
        self._rng = np.random.default_rng(seed)
        self._batch, self._sets, self._posterior, self._iterations = batch, sets, posterior, iterations
        self._draw = draw or (lambda rng: sample(space, rng, feasible=feasible))
        self._counts = [len(decision) for decision in space.decisions]
        self._buffer: list[tuple[Arch, float]] = []
        self._new: list[tuple[Arch, float]] = []
        self._table: Floats = self._theta([])
        self._issued = self._rounds = 0
        self._patience = Patience(patience)
        self._over = False
        self._best = Incumbent()

    @property
    def columns(self) -> int | None:
        """One signal."""
        return 1

    def ask(self, limit: int | None = None) -> list[Proposal]:
        """Random archs for the first population, then archs drawn from θ."""
        proposals: list[Proposal] = []
        first = self._batch * self._sets
        for _ in range(room(limit, self._batch)):
            if self._over or (self._iterations is not None and self._issued >= first + self._batch * self._iterations):
                break
            if self._issued < first:
                arch = self._draw(self._rng)
            else:
                arch = draw_allowed(self._space, self._table, self._rng, self._feasible)
            self._issued += 1
            proposals.append(Proposal(arch))
        return proposals

    def tell(self, told: Told) -> None:
        """Collect an iteration's worth of rewards, then renew the posterior."""
        for proposal, value in zip(told.proposals, told.signal().tolist(), strict=True):
            self._best.see(proposal.arch, value)
            self._new.append((proposal.arch, value))
            if len(self._new) == self._batch:
                self._update()

    def _update(self) -> None:
        self._buffer = (self._buffer + self._new)[-self._batch * self._sets :]
        recent = np.array([value for _, value in self._new])
        self._new = []
        self._rounds += 1
        values = np.array([value for _, value in self._buffer])
        known = values[np.isfinite(values)]
        mean = known.mean() if len(known) else np.inf
        self._table = self._theta([arch for arch, value in self._buffer if value > mean])
        if self._rounds >= self._sets:
            finite = recent[np.isfinite(recent)]
            self._over |= self._patience.over(float(finite.mean()) if len(finite) else float("nan"))

    def _theta(self, survivors: list[Arch]) -> Floats:
        """Decisions × options probabilities, 0 in the padding."""
        table = np.zeros((len(self._counts), max(self._counts, default=1)))
        for decision, count in enumerate(self._counts):
            options = [arch[decision] for arch in survivors]
            alpha = np.bincount(np.array(options, dtype=np.intp), minlength=count) + 1.0
            table[decision, :count] = self._rng.dirichlet(alpha) if self._posterior == "draw" else alpha / alpha.sum()
        return table

    def best(self) -> Arch:
        """The best told."""
        return self._best.arch

    def state(self) -> Json:
        """Generator, buffer and θ."""
        return {
            "rng": self._rng.bit_generator.state,
            "buffer": [[list(arch), number(value)] for arch, value in self._buffer],
            "new": [[list(arch), number(value)] for arch, value in self._new],
            "theta": self._table.tolist(),
            "counters": [self._issued, self._rounds],
            "patience": self._patience.state(),
            "over": self._over,
            "best": self._best.state(),
        }

    def restore(self, state: Json) -> None:
        """Continue from a state."""
        self._rng.bit_generator.state = state["rng"]
        self._buffer = [(tuple(arch), unnumber(value)) for arch, value in state["buffer"]]
        self._new = [(tuple(arch), unnumber(value)) for arch, value in state["new"]]
        self._table = np.array(state["theta"], dtype=np.float64)
        self._issued, self._rounds = state["counters"]
        self._patience.restore(state["patience"])
        self._over = state["over"]
        self._best.restore(state["best"])
