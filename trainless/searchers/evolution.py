"""Ageing (regularised) evolution (Real et al., 2019)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.files import numbers, unnumbers
from trainless.core.parameters import forwards
from trainless.core.ranks import order, rank_sum
from trainless.core.types import Floats, Json
from trainless.searchers.searcher import Draw, Incumbent, Told, Vary, room
from trainless.searchers.stopping import Patience, diversity
from trainless.spaces.moves import Choices, Feasible, mutate, sample


class Evolution:
    """A population in which the best of a random few has a child and the oldest dies.

    The defaults are those of the NAS-Bench-201 baselines (population 10, tournament 3, drawn with replacement).
    Told several columns, the parent is the one with the lowest sum of ranks within the tournament, as in TEG-NAS.

    Deviations: TEG-NAS's program picks a node and then one of its inputs to mutate, so that the edges of a cell are
    not equally likely; here every decision is. Asked while the first population is still being evaluated, children are
    made from the members that are already known.

    Args:
        space: What to search.
        seed: The source of randomness.
        feasible: A limit that every proposal keeps.
        population: Members kept.
        tournament: How many are drawn to find a parent.
        replacement: Whether a member can be drawn twice into a tournament.
        iterations: Children after which it ends; None for no end.
        patience: Tells without a fall of the population's diversity after which it ends; None for no such end.
        draw: Where the first population comes from; uniform sampling by default.
        vary: How a parent becomes a child; one random mutation by default.
        fitness: Choose parents by this instead of by what was told (epsilon's "move").

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> searcher = Evolution(NasBench201(), seed=0, population=4, iterations=6)
        >>> while proposals := searcher.ask():
        ...     searcher.tell(Told.of(proposals, [float(sum(p.arch)) for p in proposals]))
        >>> sum(searcher.best()) > 6
        True
    """

    def __init__(
        self,
        space: Choices,
        *,
        seed: int = 0,
        feasible: Feasible | None = None,
        population: int = 10,
        tournament: int = 3,
        replacement: bool = True,
        iterations: int | None = None,
        patience: int | None = None,
        draw: Draw | None = None,
        vary: Vary | None = None,
        fitness: Callable[[Arch], float] | None = None,
    ) -> None:
        if min(tournament, population) < 1 or (not replacement and tournament > population):
            raise InputError(
                f"evolution was given population={population} and tournament={tournament}; expected both positive"
                " and, without replacement, a tournament no larger than the population"
            )
        self._rng = np.random.default_rng(seed)
        self._size, self._tournament, self._replacement = population, tournament, replacement
        self._iterations = iterations
        self._draw = draw or (lambda rng: sample(space, rng, feasible=feasible))
        self._vary = vary or (lambda arch, rng: mutate(space, arch, rng, feasible=feasible))
        self._fitness = fitness
        self._members: deque[tuple[Arch, tuple[float, ...]]] = deque()
        self._issued = self._told = 0
        self._patience = Patience(patience, falling=True)
        self._over = False
        self._best = Incumbent()

    @property
    def columns(self) -> int | None:
        """Any number."""
        return None

    def ask(self, limit: int | None = None) -> list[Proposal]:
        """Random archs until a first population has been proposed, then children."""
        proposals: list[Proposal] = []
        for _ in range(room(limit, 1)):
            if self._over or (self._iterations is not None and self._issued >= self._size + self._iterations):
                break
            if self._issued < self._size:
                arch = self._draw(self._rng)
            elif self._members:
                arch = self._vary(self._parent(), self._rng)
            else:
                break
            self._issued += 1
            proposals.append(Proposal(arch))
        return proposals

    def _parent(self) -> Arch:
        """The best of a tournament."""
        alive = len(self._members)
        if self._replacement:
            drawn = self._rng.integers(alive, size=self._tournament).tolist()
        else:
            drawn = self._rng.choice(alive, size=min(self._tournament, alive), replace=False).tolist()
        rivals = [self._members[place] for place in drawn]
        if self._fitness is not None:
            values = np.array([[self._fitness(arch)] for arch, _ in rivals])
        else:
            values = np.array([values for _, values in rivals])
        return rivals[_winner(values)][0]

    def tell(self, told: Told) -> None:
        """Members enter in the order of the tell; the oldest leave."""
        if not len(told):
            return
        for proposal, values in zip(told.proposals, told.matrix().tolist(), strict=True):
            self._members.append((proposal.arch, tuple(values)))
            self._told += 1
            self._issued = max(self._issued, self._told)
            if len(self._members) > self._size:
                self._members.popleft()
            if len(values) == 1:
                self._best.see(proposal.arch, values[0])
            if self._patience.steps is not None and self._told > self._size:
                self._over |= self._patience.over(diversity([arch for arch, _ in self._members]))

    def best(self) -> Arch:
        """The best ever told; with several columns the lowest sum of ranks in the population, as in TEG-NAS."""
        if self._members and len(self._members[0][1]) > 1:
            return self._members[_winner(np.array([values for _, values in self._members]))][0]
        return self._best.arch

    def state(self) -> Json:
        """Generator, population and counters."""
        return {
            "rng": self._rng.bit_generator.state,
            "members": [[list(arch), numbers(values)] for arch, values in self._members],
            "issued": self._issued,
            "told": self._told,
            "patience": self._patience.state(),
            "over": self._over,
            "best": self._best.state(),
        }

    def restore(self, state: Json) -> None:
        """Continue from a state."""
        self._rng.bit_generator.state = state["rng"]
        self._members = deque((tuple(arch), tuple(unnumbers(values))) for arch, values in state["members"])
        self._issued, self._told, self._over = state["issued"], state["told"], state["over"]
        self._patience.restore(state["patience"])
        self._best.restore(state["best"])


def _winner(matrix: Floats) -> int:
    """The best row: the highest value, or the lowest sum of ranks over several columns."""
    if matrix.shape[1] > 1:
        return int(np.argmin(rank_sum(matrix)))
    return int(order(matrix[:, 0])[0])


@forwards(Evolution, population=256, tournament=64, replacement=False, iterations=1000)
def teg_evolution(space: Choices, **parameters: Any) -> Evolution:
    """TEG-NAS's evolution: 256 members, 64 in a tournament without replacement, 1,000 children.

    Its stop, "when the population diversity stops decreasing", is ``patience``; the paper gives no number of steps,
    only the 1,000 iterations after which it was so.
    """
    return Evolution(space, **parameters)
