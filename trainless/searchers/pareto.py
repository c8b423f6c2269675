"""NSGA-II (Deb et al., 2002): several objectives at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.ranks import nan_last, rank_sum
from trainless.core.types import Floats, Indices, Mask
from trainless.searchers.searcher import Draw, Searcher, Told, room, told_first
from trainless.searchers.state import kept
from trainless.spaces.moves import cross


def fronts(matrix: Floats) -> Indices:
    """The non-dominated front of each row, 0 for the best; columns are higher-is-better, NaN is last."""
    values = nan_last(matrix)
    no_worse: Mask = np.all(values[:, None, :] >= values[None, :, :], axis=2)
    dominates = no_worse & ~no_worse.T
    front = np.full(len(values), -1, dtype=np.intp)
    level = 0
    while (front < 0).any():
        left = front < 0
        front[left & ~dominates[left].any(axis=0)] = level
        level += 1
    return front


def crowding(matrix: Floats) -> Floats:
    """How far apart the neighbours of each row lie, summed over columns; ∞ at the ends."""
    distance = np.zeros(len(matrix))
    for column in nan_last(matrix).T:
        order = np.argsort(column, kind="stable")
        low, high = column[order[0]], column[order[-1]]
        distance[order[[0, -1]]] = np.inf
        if np.isfinite(low) and np.isfinite(high) and high > low:
            distance[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / (high - low)
    return distance


@dataclass(eq=False, kw_only=True)
class Nsga2(Searcher):
    """A population ordered by non-dominated fronts and, within one, by crowding.

    Told any number of columns: a score, −FLOPs, −parameters, −latency. Children are uniform crossovers of two
    tournament winners with probability 0.9, mutated at each decision with probability 1/d.

    Deviations: crossover and mutation act on options instead of real numbers; a child equal to its parent is mutated
    once.
    """

    columns = None
    population: int = 100
    crossover: float = 0.9
    generations: int | None = None
    draw: Draw | None = None
    _members: list[tuple[Arch, list[float]]] = kept(list)
    _standing: list[tuple[int, float]] = kept(list)
    _new: list[tuple[Arch, list[float]]] = kept(list)
    _issued: int = kept(0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.population < 2 or not 0 <= self.crossover <= 1:
            raise InputError(
                f"nsga2 was given population={self.population} and crossover={self.crossover}; expected at least 2 and"
                " a probability"
            )

    def ask(self, limit: int | None = None) -> list[Proposal]:
        return self._proposed(room(limit, self.population), self._following)

    def _following(self) -> Arch | None:
        ended = self.generations is not None and self._issued >= self.population * (self.generations + 1)
        if ended or (self._issued >= self.population and not self._members):
            return None
        self._issued += 1
        return self._drawn(self.draw) if self._issued <= self.population else self._child()

    def _child(self) -> Arch:
        first, second = self._parent(), self._parent()
        child = first
        if self._rng.random() < self.crossover:
            child = cross(self.space, first, second, self._rng, feasible=self.feasible)
        edits = int(self._rng.binomial(len(child), 1 / len(child)))
        if edits or child in (first, second):
            child = self._mutated(child, max(1, edits))
        return child

    def _parent(self) -> Arch:
        one, other = (int(place) for place in self._rng.integers(len(self._members), size=2))
        return self._members[one if self._standing[one] <= self._standing[other] else other][0]

    def tell(self, told: Told) -> None:
        for proposal, row in told.rows():
            known = self._members[0][1] if self._members else row
            if len(known) != len(row):
                raise InputError(f"{len(row)} columns were told after {len(known)}: tell the same ones every time")
            self._new.append((proposal.arch, row))
            if len(self._new) == self.population:
                self._select()

    def _select(self) -> None:
        """The best of parents and children; of equal archs one."""
        merged, self._new = self._known(), []
        archs, matrix = list(merged), np.array(list(merged.values()))
        front = fronts(matrix)
        spread = np.zeros(len(archs))
        for level in np.unique(front):
            rows = np.flatnonzero(front == level)
            spread[rows] = crowding(matrix[rows])
        best = np.lexsort((-spread, front))[: self.population].tolist()
        self._members = [(archs[place], merged[archs[place]]) for place in best]
        self._standing = [(int(front[place]), -float(spread[place])) for place in best]

    def _known(self) -> dict[Arch, list[float]]:
        """The members and what is new, the first of equal archs."""
        known = dict(self._members)
        for arch, row in self._new:
            known.setdefault(arch, row)
        return known

    def front(self) -> list[tuple[Arch, list[float]]]:
        """The archs that no known arch beats in every column, with their values."""
        merged = self._known()
        if not merged:
            return []
        level = fronts(np.array(list(merged.values())))
        return [item for item, place in zip(merged.items(), level.tolist(), strict=True) if place == 0]

    def best(self) -> Arch:
        """The lowest sum of ranks on the front: a balanced choice; the front itself is :meth:`front`."""
        front = self.front()
        if not front:
            return told_first(None)
        return front[int(np.argmin(rank_sum(np.array([row for _, row in front]))))][0]
