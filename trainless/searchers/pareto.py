"""NSGA-II (Deb et al., 2002): several objectives at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.files import numbers, unnumbers
from trainless.core.ranks import nan_last, rank_sum
from trainless.core.types import Floats, Json
from trainless.searchers.searcher import Draw, Told, room
from trainless.spaces.moves import Choices, Feasible, cross, mutate, sample


def fronts(matrix: Floats) -> npt.NDArray[np.intp]:
    """The non-dominated front of each row, 0 for the best; columns are higher-is-better, NaN is last.

    Example:
        >>> fronts(np.array([[1.0, 3.0], [3.0, 1.0], [1.0, 1.0], [3.0, 1.0]])).tolist()
        [0, 0, 1, 0]
    """
    values = nan_last(matrix)
    no_worse: npt.NDArray[np.bool_] = np.all(values[:, None, :] >= values[None, :, :], axis=2)
    dominates = no_worse & ~no_worse.T
    front = np.full(len(values), -1, dtype=np.intp)
    level = 0
    while (front < 0).any():
        left = front < 0
        front[left & ~dominates[left].any(axis=0)] = level
        level += 1
    return front


def crowding(matrix: Floats) -> Floats:
    """How far apart the neighbours of each row lie, summed over columns; ∞ at the ends.

    Example:
        >>> crowding(np.array([[0.0, 4.0], [1.0, 2.0], [4.0, 0.0]])).tolist()
        [inf, 2.0, inf]
    """
    distance = np.zeros(len(matrix))
    for column in nan_last(matrix).T:
        order = np.argsort(column, kind="stable")
        low, high = column[order[0]], column[order[-1]]
        distance[order[[0, -1]]] = np.inf
        if np.isfinite(low) and np.isfinite(high) and high > low:
            distance[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / (high - low)
    return distance


class Nsga2:
    """A population ordered by non-dominated fronts and, within one, by crowding.

    Told any number of columns: a score, −FLOPs, −parameters, −latency. Children are uniform crossovers of two
    tournament winners with probability 0.9, mutated at each decision with probability 1/d.

    Deviations: crossover and mutation act on options instead of real numbers; a child equal to its parent is mutated
        once.

    Args:
        space: What to search.
        seed: The source of randomness.
        feasible: A limit that every proposal keeps.
        population: Members (the paper: 100).
        crossover: Probability that a child has two parents.
        generations: Generations after which it ends; None for no end.
        draw: Where the first population comes from; uniform sampling by default.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> searcher = Nsga2(NasBench201(), population=40, generations=30)
        >>> while proposals := searcher.ask():
        ...     ones = np.array([float(p.arch.count(1)) for p in proposals])
        ...     threes = np.array([float(p.arch.count(3)) for p in proposals])
        ...     searcher.tell(Told(tuple(proposals), {"ones": ones, "threes": threes}))
        >>> sorted({(arch.count(1), arch.count(3)) for arch, _ in searcher.front()})
        [(0, 6), (1, 5), (2, 4), (3, 3), (4, 2), (5, 1), (6, 0)]
    """

    def __init__(
        self,
        space: Choices,
        *,
        seed: int = 0,
        feasible: Feasible | None = None,
        population: int = 100,
        crossover: float = 0.9,
        generations: int | None = None,
        draw: Draw | None = None,
    ) -> None:
        if population < 2 or not 0 <= crossover <= 1:
            raise InputError(
                f"nsga2 was given population={population} and crossover={crossover}; expected at least 2 and a"
                " probability"
            )
        self._space, self._feasible = space, feasible
        self._rng = np.random.default_rng(seed)
        self._size, self._crossover, self._generations = population, crossover, generations
        self._draw = draw or (lambda rng: sample(space, rng, feasible=feasible))
        self._archs: list[Arch] = []
        self._values: list[list[float]] = []
        self._standing: list[tuple[int, float]] = []
        self._new: list[tuple[Arch, list[float]]] = []
        self._issued = 0

    @property
    def columns(self) -> int | None:
        """Any number."""
        return None

    def ask(self, limit: int | None = None) -> list[Proposal]:
        """A random first population, then children."""
        proposals: list[Proposal] = []
        for _ in range(room(limit, self._size)):
            if self._generations is not None and self._issued >= self._size * (self._generations + 1):
                break
            if self._issued < self._size:
                arch = self._draw(self._rng)
            elif self._archs:
                arch = self._child()
            else:
                break
            self._issued += 1
            proposals.append(Proposal(arch))
        return proposals

    def _child(self) -> Arch:
        first, second = self._parent(), self._parent()
        child = first
        if self._rng.random() < self._crossover:
            child = cross(self._space, first, second, self._rng, feasible=self._feasible)
        edits = int(self._rng.binomial(len(child), 1 / len(child)))
        if edits or child in (first, second):
            child = mutate(self._space, child, self._rng, edits=max(1, edits), feasible=self._feasible)
        return child

    def _parent(self) -> Arch:
        """The better of two random members."""
        one, other = (int(place) for place in self._rng.integers(len(self._archs), size=2))
        return self._archs[one if self._standing[one] <= self._standing[other] else other]

    def tell(self, told: Told) -> None:
        """Collect a generation, then select."""
        if not len(told):
            return
        for proposal, row in zip(told.proposals, told.matrix().tolist(), strict=True):
            known = self._values[0] if self._values else row
            if len(known) != len(row):
                raise InputError(f"{len(row)} columns were told after {len(known)}: tell the same ones every time")
            self._new.append((proposal.arch, row))
            if len(self._new) == self._size:
                self._select()

    def _select(self) -> None:
        """The best of parents and children; of equal archs one."""
        merged = dict(zip(self._archs, self._values, strict=True))
        for arch, row in self._new:
            merged.setdefault(arch, row)
        self._new = []
        archs, matrix = list(merged), np.array(list(merged.values()))
        front = fronts(matrix)
        spread = np.zeros(len(archs))
        for level in np.unique(front):
            rows = np.flatnonzero(front == level)
            spread[rows] = crowding(matrix[rows])
        kept = np.lexsort((-spread, front))[: self._size].tolist()
        self._archs = [archs[place] for place in kept]
        self._values = [matrix[place].tolist() for place in kept]
        self._standing = [(int(front[place]), -float(spread[place])) for place in kept]

    def front(self) -> list[tuple[Arch, list[float]]]:
        """The archs that no known arch beats in every column, with their values."""
        merged = dict(zip(self._archs, self._values, strict=True))
        merged.update({arch: row for arch, row in self._new if arch not in merged})
        if not merged:
            return []
        level = fronts(np.array(list(merged.values())))
        return [item for item, place in zip(merged.items(), level.tolist(), strict=True) if place == 0]

    def best(self) -> Arch:
        """The lowest sum of ranks on the front: a balanced choice; the front itself is :meth:`front`."""
        front = self.front()
        if not front:
            raise InputError("nothing has been told to this searcher yet, so it has no best architecture")
        return front[int(np.argmin(rank_sum(np.array([row for _, row in front]))))][0]

    def state(self) -> Json:
        """Generator, population and the unfinished generation."""
        return {
            "rng": self._rng.bit_generator.state,
            "members": [[list(arch), numbers(row)] for arch, row in zip(self._archs, self._values, strict=True)],
            "standing": [[level, *numbers([spread])] for level, spread in self._standing],
            "new": [[list(arch), numbers(row)] for arch, row in self._new],
            "issued": self._issued,
        }

    def restore(self, state: Json) -> None:
        """Continue from a state."""
        self._rng.bit_generator.state = state["rng"]
        self._archs = [tuple(arch) for arch, _ in state["members"]]
        self._values = [unnumbers(row) for _, row in state["members"]]
        self._standing = [(level, unnumbers([spread])[0]) for level, spread in state["standing"]]
        self._new = [(tuple(arch), unnumbers(row)) for arch, row in state["new"]]
        self._issued = state["issued"]
