"""Random search."""

from __future__ import annotations

import numpy as np

from trainless.core.arch import Arch, Proposal
from trainless.core.types import Json
from trainless.searchers.searcher import Draw, Incumbent, Told, room
from trainless.spaces.moves import Choices, Feasible, sample


class Random:
    """Archs drawn independently and uniformly from the valid and feasible ones, with replacement; it never ends.

    Args:
        space: What to search.
        seed: The source of randomness.
        feasible: A limit that every proposal keeps.
        canonical: Draw uniformly over functions instead of archs.
        draw: Another source of archs, such as the best of a pool (``trainless.searchers.assisted``).

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> searcher = Random(NasBench201(), seed=1)
        >>> proposals = searcher.ask(2)
        >>> searcher.tell(Told.of(proposals, [1.0, 2.0]))
        >>> searcher.best() == proposals[1].candidate
        True
    """

    def __init__(
        self,
        space: Choices,
        *,
        seed: int = 0,
        feasible: Feasible | None = None,
        canonical: bool = False,
        draw: Draw | None = None,
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self._draw = draw or (lambda rng: sample(space, rng, canonical=canonical, feasible=feasible))
        self._best = Incumbent()

    @property
    def columns(self) -> int | None:
        """One signal."""
        return 1

    def ask(self, limit: int | None = None) -> list[Proposal]:
        """Fresh draws."""
        return [Proposal(self._draw(self._rng)) for _ in range(room(limit, 1))]

    def tell(self, told: Told) -> None:
        """Remember the best."""
        for proposal, value in zip(told.proposals, told.signal().tolist(), strict=True):
            self._best.see(proposal.arch, value)

    def best(self) -> Arch:
        """The best told."""
        return self._best.arch

    def state(self) -> Json:
        """Generator and incumbent."""
        return {"rng": self._rng.bit_generator.state, "best": self._best.state()}

    def restore(self, state: Json) -> None:
        """Continue from a state."""
        self._rng.bit_generator.state = state["rng"]
        self._best.restore(state["best"])
