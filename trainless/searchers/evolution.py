"""Evolution: ageing (regularised) evolution, and evolution over the top of the whole history."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.parameters import forwards
from trainless.core.ranks import RankTable, order, rank_sum
from trainless.core.types import Floats
from trainless.searchers.searcher import Draw, Incumbent, Searcher, Told, Vary, room, told_first
from trainless.searchers.state import kept, lazy
from trainless.searchers.stopping import Patience, diversity
from trainless.spaces.moves import Choices


@dataclass(eq=False, kw_only=True)
class Evolution(Searcher):
    """A population in which the best of a random few has a child and the oldest dies (Real et al., 2019).

    The defaults are those of the NAS-Bench-201 baselines (population 10, tournament 3, drawn with replacement).
    Told several columns, the parent is the one with the lowest sum of ranks within the tournament, as in TEG-NAS.

    Deviations: TEG-NAS's program picks a node and then one of its inputs to mutate, so that the edges of a cell are
    not equally likely; here every decision is. Asked while the first population is still being evaluated, children are
    made from the members that are already known.

    ``iterations`` are children after which it ends, ``patience`` tells without a fall of the population's diversity;
    None for no such end. ``draw`` makes the first population, ``vary`` a child of a parent; ``fitness`` chooses parents
    instead of what was told (epsilon's "move").

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> searcher = Evolution(NasBench201(), seed=0, population=4, iterations=6)
        >>> while proposals := searcher.ask():
        ...     searcher.tell(Told.of(proposals, [float(sum(p.arch)) for p in proposals]))
        >>> sum(searcher.best()) > 6
        True
    """

    columns = None
    ranks = "sum"
    population: int = 10
    tournament: int = 3
    replacement: bool = True
    iterations: int | None = None
    patience: int | None = None
    draw: Draw | None = None
    vary: Vary | None = None
    fitness: Callable[[Arch], float] | None = None
    _members: deque[tuple[Arch, list[float]]] = kept(deque)
    _issued: int = kept(0)
    _told: int = kept(0)
    _patience: Patience = kept()
    _over: bool = kept(False)
    _best: Incumbent = kept(Incumbent)

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.tournament, self.population) < 1 or (not self.replacement and self.tournament > self.population):
            raise InputError(
                f"evolution was given population={self.population} and tournament={self.tournament}; expected both"
                " positive and, without replacement, a tournament no larger than the population"
            )
        self._patience = Patience(self.patience, falling=True)

    def ask(self, limit: int | None = None) -> list[Proposal]:
        return self._proposed(room(limit, 1), self._following)

    def _following(self) -> Arch | None:
        ended = self.iterations is not None and self._issued >= self.population + self.iterations
        if self._over or ended or (self._issued >= self.population and not self._members):
            return None
        self._issued += 1
        if self._issued <= self.population:
            return self._drawn(self.draw)
        parent = self._parent()
        return self.vary(parent, self._rng) if self.vary else self._mutated(parent)

    def _parent(self) -> Arch:
        alive = len(self._members)
        if self.replacement:
            drawn = self._rng.integers(alive, size=self.tournament).tolist()
        else:
            drawn = self._rng.choice(alive, size=min(self.tournament, alive), replace=False).tolist()
        rivals = [self._members[place] for place in drawn]
        if self.fitness is not None:
            values = np.array([[self.fitness(arch)] for arch, _ in rivals])
        else:
            counts = sorted({len(values) for _, values in rivals})
            if len(counts) > 1 or not counts[0]:
                raise InputError(
                    f"members of the population have {' and '.join(map(str, counts))} values where all have the same"
                    " number: the run's folder is damaged; give another --out"
                )
            values = np.array([values for _, values in rivals])
        return rivals[_winner(values)][0]

    def tell(self, told: Told) -> None:
        for proposal, values in told.rows():
            self._members.append((proposal.arch, values))
            self._told += 1
            self._issued = max(self._issued, self._told)
            if len(self._members) > self.population:
                self._members.popleft()
            if len(values) == 1:
                self._best.see(proposal.arch, values[0])
            if self.patience is not None and self._told > self.population:
                self._over |= self._patience.over(diversity([arch for arch, _ in self._members]))

    def best(self) -> Arch:
        """The best ever told; with several columns the lowest sum of ranks in the population, as in TEG-NAS."""
        if self._members and len(self._members[0][1]) > 1:
            return self._members[_winner(np.array([values for _, values in self._members]))][0]
        return self._best.arch


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


@dataclass(eq=False, kw_only=True)
class HistoryEvolution(Searcher):
    """Nothing ever dies: a parent is any of the best ``population − 1`` archs seen so far (AZ-NAS and VKDNW).

    The order is Σ_c log rank_c over the whole history, so it is defined for one column or many and changes as more is
    seen. As in AZ-NAS's program, the first ten archs are mutations of a starting arch, then, until the population is
    full, any member is mutated in two decisions.

    Deviations: the programs start from a hand-made network; here it is ``start`` or, without one, a uniform draw. The
    programs sort the whole history anew at every step; the ranks here are the same and updated.

    AZ-NAS and VKDNW's paper have a ``population`` of 1,024, ZiCo 512, VKDNW's program 2,048; the papers end after
    100,000 evaluations. ``first`` counts the mutations of the starting arch.
    """

    columns = None
    ranks = "product"
    population: int = 1024
    first: int = 10
    early_edits: int = 2
    edits: int = 1
    evaluations: int | None = 100_000
    start: Arch | None = None
    draw: Draw | None = None
    _origin: Arch = kept()
    _history: list[tuple[Arch, list[float]]] = kept(list)
    _issued: int = kept(0)
    _table: RankTable | None = lazy()
    _top: list[int] | None = lazy()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.population < 2 or min(self.first, self.early_edits, self.edits) < 1:
            raise InputError(
                f"history_evolution was given population={self.population}, first={self.first},"
                f" early_edits={self.early_edits}, edits={self.edits}; expected a population of at least 2 and"
                " positive numbers"
            )
        self._origin = self._drawn(self.draw) if self.start is None else self.start

    def ask(self, limit: int | None = None) -> list[Proposal]:
        wanted = room(limit, 1)
        if self.evaluations is not None:
            wanted = max(0, min(wanted, self.evaluations - self._issued))
        self._issued += wanted
        return [Proposal(self._child()) for _ in range(wanted)]

    def _child(self) -> Arch:
        known = len(self._history)
        if known < self.first:
            return self._mutated(self._origin)
        if known < self.population - 1:
            return self._mutated(self._history[int(self._rng.integers(known))][0], self.early_edits)
        top = self._best_rows()
        return self._mutated(self._history[top[int(self._rng.integers(len(top)))]][0], self.edits)

    def _best_rows(self) -> list[int]:
        """The rows of the top, computed once per tell."""
        if self._top is None:
            scores = self._ranked().scores()
            kept_rows = min(self.population - 1, len(scores))
            self._top = sorted(np.argpartition(-scores, kept_rows - 1)[:kept_rows].tolist())
        return self._top

    def _ranked(self) -> RankTable:
        self._table = self._table or RankTable()
        for _, row in self._history[len(self._table) :]:
            self._table.add(row)
        return self._table

    def tell(self, told: Told) -> None:
        table, self._top = self._ranked(), None
        for proposal, row in told.rows():
            table.add(row)
            self._history.append((proposal.arch, row))

    def best(self) -> Arch:
        return told_first(self._history[int(np.argmax(self._ranked().scores()))][0] if self._history else None)
