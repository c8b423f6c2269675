"""Evolution over the top of the whole history (AZ-NAS and VKDNW)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.files import numbers, unnumbers
from trainless.core.ranks import nan_last
from trainless.core.types import Floats, Json
from trainless.searchers.searcher import Draw, Told, room
from trainless.spaces.moves import Choices, Feasible, mutate, sample


class RankTable:
    """Rows of columns and Σ_c log rank_c over everything seen so far, kept up to date row by row.

    Ranks ascend, so that a higher sum is better; ties share their average rank, NaN is last. A new row costs one pass
    over the history instead of a new sort of it.

    Example:
        >>> table = RankTable()
        >>> for row in ([1.0, 5.0], [2.0, 4.0], [3.0, 6.0]):
        ...     table.add(row)
        >>> np.exp(table.scores()).round().tolist()
        [2.0, 2.0, 9.0]
    """

    def __init__(self) -> None:
        self._n = 0
        self._values: Floats = np.empty((0, 0))
        self._doubled: npt.NDArray[np.int64] = np.empty((0, 0), dtype=np.int64)
        self._logs: Floats = np.empty(0)

    def __len__(self) -> int:
        return self._n

    def add(self, row: list[float]) -> None:
        """Take in one row; ranks are kept doubled so that averages of ties are whole numbers."""
        self._grow(len(row))
        values, doubled = self._values[:, : self._n], self._doubled[:, : self._n]
        new = nan_last(np.array(row))[:, None]
        above, equal = values > new, values == new
        doubled += 2 * above + equal
        ties = equal.sum(axis=1)
        self._values[:, self._n] = new[:, 0]
        self._doubled[:, self._n] = 2 * (self._n - above.sum(axis=1) - ties) + ties + 2
        self._n += 1

    def _grow(self, columns: int) -> None:
        if self._n and columns != len(self._values):
            raise InputError(f"{columns} columns were told after {len(self._values)}: tell the same ones every time")
        if self._n < self._values.shape[1]:
            return
        room_for = max(64, 2 * self._n)
        values, doubled = np.empty((columns, room_for)), np.zeros((columns, room_for), dtype=np.int64)
        if self._n:
            values[:, : self._n], doubled[:, : self._n] = self._values, self._doubled
        self._values, self._doubled = values, doubled
        self._logs = np.log(np.maximum(np.arange(2 * room_for + 2), 1) / 2)

    def scores(self) -> Floats:
        """Σ_c log rank_c of every row."""
        total: Floats = self._logs[self._doubled[:, : self._n]].sum(axis=0)
        return total

    def rows(self) -> Floats:
        """Rows × columns, with −∞ for NaN."""
        return self._values[:, : self._n].T


class HistoryEvolution:
    """Nothing ever dies: a parent is any of the best ``population − 1`` archs seen so far.

    The order is Σ_c log rank_c over the whole history, so it is defined for one column or many and changes as more is
    seen. As in AZ-NAS's program, the first ten archs are mutations of a starting arch, then, until the population is
    full, any member is mutated in two decisions.

    Deviations: the programs start from a hand-made network; here it is ``start`` or, without one, a uniform draw. The
    programs sort the whole history anew at every step; the ranks here are the same and updated.

    Args:
        space: What to search.
        seed: The source of randomness.
        feasible: A limit that every proposal keeps.
        population: AZ-NAS and VKDNW's paper 1,024, ZiCo 512, VKDNW's program 2,048.
        first: Mutations of the starting arch.
        early_edits: Decisions changed until the population is full.
        edits: Decisions changed afterwards.
        evaluations: Archs after which it ends (the papers' 100,000); None for no end.
        start: The starting arch.
        draw: Where the starting arch comes from otherwise.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> searcher = HistoryEvolution(NasBench201(), population=16, evaluations=200)
        >>> while proposals := searcher.ask():
        ...     searcher.tell(Told.of(proposals, [float(sum(p.arch)) for p in proposals]))
        >>> sum(searcher.best()) > 20
        True
    """

    def __init__(
        self,
        space: Choices,
        *,
        seed: int = 0,
        feasible: Feasible | None = None,
        population: int = 1024,
        first: int = 10,
        early_edits: int = 2,
        edits: int = 1,
        evaluations: int | None = 100_000,
        start: Arch | None = None,
        draw: Draw | None = None,
    ) -> None:
        if population < 2 or min(first, early_edits, edits) < 1:
            raise InputError(
                f"history_evolution was given population={population}, first={first}, early_edits={early_edits},"
                f" edits={edits}; expected a population of at least 2 and positive numbers"
            )
        self._space, self._feasible = space, feasible
        self._rng = np.random.default_rng(seed)
        self._population, self._first = population, first
        self._edits = (early_edits, edits)
        self._evaluations = evaluations
        source = draw or (lambda rng: sample(space, rng, feasible=feasible))
        self._start = source(self._rng) if start is None else start
        self._archs: list[Arch] = []
        self._table = RankTable()
        self._top: list[int] | None = None
        self._issued = 0

    @property
    def columns(self) -> int | None:
        """Any number."""
        return None

    def ask(self, limit: int | None = None) -> list[Proposal]:
        """Children of the starting arch, of any member, then of the top."""
        wanted = room(limit, 1)
        if self._evaluations is not None:
            wanted = max(0, min(wanted, self._evaluations - self._issued))
        self._issued += wanted
        return [Proposal(self._child()) for _ in range(wanted)]

    def _child(self) -> Arch:
        known = len(self._archs)
        if known < self._first:
            return mutate(self._space, self._start, self._rng, feasible=self._feasible)
        if known < self._population - 1:
            parent = self._archs[int(self._rng.integers(known))]
            return mutate(self._space, parent, self._rng, edits=self._edits[0], feasible=self._feasible)
        top = self._best_rows()
        parent = self._archs[top[int(self._rng.integers(len(top)))]]
        return mutate(self._space, parent, self._rng, edits=self._edits[1], feasible=self._feasible)

    def _best_rows(self) -> list[int]:
        """The rows of the top, computed once per tell."""
        if self._top is None:
            kept = min(self._population - 1, len(self._table))
            scores = self._table.scores()
            self._top = sorted(np.argpartition(-scores, kept - 1)[:kept].tolist())
        return self._top

    def tell(self, told: Told) -> None:
        """Everything told joins the history."""
        if not len(told):
            return
        for proposal, row in zip(told.proposals, told.matrix().tolist(), strict=True):
            self._table.add(row)
            self._archs.append(proposal.arch)
        self._top = None

    def best(self) -> Arch:
        """The highest Σ log rank."""
        if not self._archs:
            raise InputError("nothing has been told to this searcher yet, so it has no best architecture")
        return self._archs[int(np.argmax(self._table.scores()))]

    def state(self) -> Json:
        """Generator and history."""
        return {
            "rng": self._rng.bit_generator.state,
            "start": list(self._start),
            "issued": self._issued,
            "history": [
                [list(arch), numbers(row)] for arch, row in zip(self._archs, self._table.rows().tolist(), strict=True)
            ],
        }

    def restore(self, state: Json) -> None:
        """Continue from a state."""
        self._rng.bit_generator.state = state["rng"]
        self._start = tuple(state["start"])
        self._issued = state["issued"]
        self._archs = [tuple(arch) for arch, _ in state["history"]]
        self._table, self._top = RankTable(), None
        for _, row in state["history"]:
            self._table.add(unnumbers(row))
