"""Every arch of a space, once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from trainless.core.arch import Arch, Proposal
from trainless.core.types import Json
from trainless.searchers.searcher import Incumbent, Told, room
from trainless.spaces.moves import Choices, Feasible, allowed, arch_at, size


@runtime_checkable
class Listed(Choices, Protocol):
    """A space that lists its different archs itself, where few of those that its decisions span are valid."""

    def unique(self) -> Iterator[Arch]:
        """Every canonical arch once, always in the same order."""
        ...


class Exhaustive:
    """All valid and feasible archs in lexicographic order; of twins, the canonical one alone.

    A space that lists its own (NAS-Bench-101, whose first valid cell is the eight millionth) decides the order.

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
        self._archs = self._from(0)
        self._best = Incumbent()

    def _from(self, position: int) -> Iterator[Arch]:
        """Everything from a position on, allowed or not."""
        if self._canonical and isinstance(self._space, Listed):
            return itertools.islice(self._space.unique(), position, None)
        return (arch_at(self._space, place) for place in range(position, size(self._space)))

    def _new(self, arch: Arch) -> bool:
        return allowed(self._space, arch, self._feasible) and not (
            self._canonical and self._space.canonical(arch) != arch
        )

    @property
    def columns(self) -> int | None:
        """One signal."""
        return 1

    def ask(self, limit: int | None = None) -> list[Proposal]:
        """The next archs; none when the space is exhausted."""
        wanted = room(limit, 1)
        proposals: list[Proposal] = []
        while len(proposals) < wanted and (arch := next(self._archs, None)) is not None:
            self._position += 1
            if self._new(arch):
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
        self._archs = self._from(self._position)
        self._best.restore(state["best"])
