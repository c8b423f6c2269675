"""Random, exhaustive and local search: neither a population nor a model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from trainless.core.arch import Arch, Proposal
from trainless.searchers.searcher import Draw, Incumbent, SignalSearcher, Told, room
from trainless.searchers.state import kept, lazy
from trainless.spaces.moves import Choices, arch_at, neighbours, sample, size


@dataclass(eq=False, kw_only=True)
class Random(SignalSearcher):
    """Archs drawn independently and uniformly from the valid and feasible ones, with replacement; it never ends.

    ``canonical`` draws uniformly over functions instead of archs.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> searcher = Random(NasBench201(), seed=1)
        >>> proposals = searcher.ask(2)
        >>> searcher.tell(Told.of(proposals, [1.0, 2.0]))
        >>> searcher.best() == proposals[1].candidate
        True
    """

    canonical: bool = False
    draw: Draw | None = None

    def ask(self, limit: int | None = None) -> list[Proposal]:
        return [Proposal(self._new()) for _ in range(room(limit, 1))]

    def _new(self) -> Arch:
        if self.draw is not None:
            return self.draw(self._rng)
        return sample(self.space, self._rng, canonical=self.canonical, feasible=self.feasible)


@runtime_checkable
class ListedChoices(Choices, Protocol):
    """A space that lists its different archs itself, where few of those that its decisions span are valid."""

    def unique(self) -> Iterator[Arch]:
        """Every canonical arch once, always in the same order."""
        ...


@dataclass(eq=False, kw_only=True)
class Exhaustive(SignalSearcher):
    """All valid and feasible archs in lexicographic order; of twins, the canonical one alone.

    A space that lists its own (NAS-Bench-101, whose first valid cell is the eight millionth) decides the order. Nothing
    here is random.
    """

    canonical: bool = True
    _position: int = kept(0)
    _archs: Iterator[Arch] | None = lazy()

    def _from(self, position: int) -> Iterator[Arch]:
        """Everything from a position on, allowed or not."""
        if self.canonical and isinstance(self.space, ListedChoices):
            return itertools.islice(self.space.unique(), position, None)
        return (arch_at(self.space, place) for place in range(position, size(self.space)))

    def _new(self, arch: Arch) -> bool:
        return self._allows(arch) and not (self.canonical and self.space.canonical(arch) != arch)

    def ask(self, limit: int | None = None) -> list[Proposal]:
        wanted = room(limit, 1)
        self._archs = self._archs or self._from(self._position)
        proposals: list[Proposal] = []
        while len(proposals) < wanted and (arch := next(self._archs, None)) is not None:
            self._position += 1
            if self._new(arch):
                proposals.append(Proposal(arch))
        return proposals


@dataclass(eq=False, kw_only=True)
class Local(SignalSearcher):
    """Evaluate every neighbour, move to the best, start anew where none is better (White et al., 2021).

    Neighbours that were told before are not proposed again.

    It ends after so many ``restarts`` after local optima; None for no end.
    """

    restarts: int | None = None
    draw: Draw | None = None
    _started: int = kept(0)
    _known: dict[Arch, float] = kept(dict)
    _centre: Arch | None = kept(None)
    _around: list[Arch] = kept(list)
    _queue: list[Arch] = kept(list)
    _over: bool = kept(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._start()

    def _start(self) -> None:
        self._centre = None
        self._around = [self._drawn(self.draw)]
        self._queue = list(self._around)

    def ask(self, limit: int | None = None) -> list[Proposal]:
        if self._over:
            return []
        count = room(limit, max(1, len(self._queue)))
        chosen, self._queue = self._queue[:count], self._queue[count:]
        return [Proposal(arch) for arch in chosen]

    def tell(self, told: Told) -> None:
        for arch, value in self._see(told):
            self._known.setdefault(arch, value)
        while not self._over and all(arch in self._known for arch in self._around):
            self._move()

    def _move(self) -> None:
        """To the best of the neighbourhood, or to a new start."""
        leader = Incumbent()
        for arch in [*([] if self._centre is None else [self._centre]), *self._around]:
            leader.see(arch, self._known[arch])
        if self._around and leader.arch != self._centre and not math.isnan(leader.value):
            self._centre = leader.arch
            near = neighbours(self.space, leader.arch, feasible=self.feasible)
            self._around = [near[place] for place in self._rng.permutation(len(near)).tolist()]
            self._queue = [arch for arch in self._around if arch not in self._known]
        elif self._started == self.restarts:
            self._over = True
        else:
            self._started += 1
            self._start_unknown()

    def _start_unknown(self) -> None:
        """A start that was not told before; it ends where a thousand draws find none."""
        for _ in range(1000):
            self._start()
            if self._around[0] not in self._known:
                return
        self._over = True
