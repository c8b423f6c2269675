"""Every arch of a space, once."""

from __future__ import annotations

from trainless.core.arch import Arch
from trainless.search.searcher import Incumbent, Json, Proposal, Told, room
from trainless.spaces.moves import Choices, Feasible, allowed, arch_at, size


class Exhaustive:
    """All valid and feasible archs in lexicographic order; of twins, the canonical one alone.

    Args:
        space: What to search.
        seed: Not used: nothing here is random.
        feasible: A limit that every proposal keeps.
        canonical: Leave out twins.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> [proposal.candidate for proposal in Exhaustive(NasBench201()).ask(2)]
        [(0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 2)]
    """

    def __init__(
        self, space: Choices, *, seed: int = 0, feasible: Feasible | None = None, canonical: bool = True
    ) -> None:
        self._space = space
        self._feasible = feasible
        self._canonical = canonical
        self._position = 0
        self._size = size(space)
        self._best = Incumbent()

    def ask(self, limit: int | None = None) -> list[Proposal]:
        """The next archs; none when the space is exhausted."""
        wanted = room(limit, 1)
        proposals: list[Proposal] = []
        while len(proposals) < wanted and self._position < self._size:
            arch = arch_at(self._space, self._position)
            self._position += 1
            if allowed(self._space, arch, self._feasible) and not (
                self._canonical and self._space.canonical(arch) != arch
            ):
                proposals.append(Proposal(arch))
        return proposals

    def tell(self, told: Told) -> None:
        """Remember the best."""
        for proposal, value in zip(told.proposals, told.signal().tolist(), strict=True):
            self._best.see(proposal.arch, value)

    def best(self) -> Arch:
        """The best told."""
        return self._best.arch

    def state(self) -> Json:
        """Position and incumbent."""
        return {"position": self._position, "best": self._best.state()}

    def restore(self, state: Json) -> None:
        """Continue from a state."""
        self._position = state["position"]
        self._best.restore(state["best"])
