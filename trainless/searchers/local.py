"""Local search (White et al., 2021)."""

from __future__ import annotations

import math

import numpy as np

from trainless.core.arch import Arch, Proposal
from trainless.core.files import number, unnumber
from trainless.core.types import Json
from trainless.searchers.searcher import Draw, Incumbent, Told, room
from trainless.spaces.moves import Choices, Feasible, neighbours, sample


class Local:
    """Evaluate every neighbour, move to the best, start anew where none is better.

    Neighbours that were told before are not proposed again.

    Args:
        space: What to search.
        seed: The source of randomness.
        feasible: A limit that every proposal keeps.
        restarts: New starts after local optima; None for no end.
        draw: Where a start comes from; uniform sampling by default.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> searcher = Local(NasBench201(), restarts=0)
        >>> while proposals := searcher.ask():
        ...     searcher.tell(Told.of(proposals, [float(sum(p.arch)) for p in proposals]))
        >>> searcher.best()
        (4, 4, 4, 4, 4, 4)
    """

    def __init__(
        self,
        space: Choices,
        *,
        seed: int = 0,
        feasible: Feasible | None = None,
        restarts: int | None = None,
        draw: Draw | None = None,
    ) -> None:
        self._space, self._feasible = space, feasible
        self._rng = np.random.default_rng(seed)
        self._draw = draw or (lambda rng: sample(space, rng, feasible=feasible))
        self._restarts = restarts
        self._known: dict[Arch, float] = {}
        self._centre: Arch | None = None
        self._around: list[Arch] = []
        self._queue: list[Arch] = []
        self._over = False
        self._best = Incumbent()
        self._start()

    def _start(self) -> None:
        self._centre = None
        self._around = [self._draw(self._rng)]
        self._queue = list(self._around)

    @property
    def columns(self) -> int | None:
        """One signal."""
        return 1

    def ask(self, limit: int | None = None) -> list[Proposal]:
        """The neighbours that were not yet proposed, in random order."""
        if self._over:
            return []
        count = room(limit, max(1, len(self._queue)))
        chosen, self._queue = self._queue[:count], self._queue[count:]
        return [Proposal(arch) for arch in chosen]

    def tell(self, told: Told) -> None:
        """Move when the whole neighbourhood is known."""
        for proposal, value in zip(told.proposals, told.signal().tolist(), strict=True):
            self._known.setdefault(proposal.arch, value)
            self._best.see(proposal.arch, value)
        while not self._over and all(arch in self._known for arch in self._around):
            self._move()

    def _move(self) -> None:
        """To the best of the neighbourhood, or to a new start."""
        leader = Incumbent()
        for arch in [*([] if self._centre is None else [self._centre]), *self._around]:
            leader.see(arch, self._known[arch])
        if self._around and leader.arch != self._centre and not math.isnan(leader.value):
            self._centre = leader.arch
            near = neighbours(self._space, leader.arch, feasible=self._feasible)
            self._around = [near[place] for place in self._rng.permutation(len(near)).tolist()]
            self._queue = [arch for arch in self._around if arch not in self._known]
        elif self._restarts == 0:
            self._over = True
        else:
            self._restarts = None if self._restarts is None else self._restarts - 1
            self._start_unknown()

    def _start_unknown(self) -> None:
        """A start that was not told before; it ends where a thousand draws find none."""
        for _ in range(1000):
            self._start()
            if self._around[0] not in self._known:
                return
        self._over = True

    def best(self) -> Arch:
        """The best told."""
        return self._best.arch

    def state(self) -> Json:
        """Generator, neighbourhood and every known value."""
        return {
            "rng": self._rng.bit_generator.state,
            "restarts": self._restarts,
            "known": [[list(arch), number(value)] for arch, value in self._known.items()],
            "centre": self._centre and list(self._centre),
            "around": [list(arch) for arch in self._around],
            "queue": [list(arch) for arch in self._queue],
            "over": self._over,
            "best": self._best.state(),
        }

    def restore(self, state: Json) -> None:
        """Continue from a state."""
        self._rng.bit_generator.state = state["rng"]
        self._restarts = state["restarts"]
        self._known = {tuple(arch): unnumber(value) for arch, value in state["known"]}
        self._centre = None if state["centre"] is None else tuple(state["centre"])
        self._around = [tuple(arch) for arch in state["around"]]
        self._queue = [tuple(arch) for arch in state["queue"]]
        self._over = state["over"]
        self._best.restore(state["best"])
