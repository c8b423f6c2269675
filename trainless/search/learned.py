"""Search by a model of the accuracy: train, learn, and train what promises most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias, cast

import numpy as np

from trainless.core.arch import Arch
from trainless.core.belief import Belief, believe, kernel_for, normal_scores
from trainless.core.errors import InputError
from trainless.core.process import Kernel
from trainless.search.searcher import Floats, Incumbent, Json, Proposal, Told, number, room, unnumber
from trainless.spaces.moves import Choices, Feasible, neighbours, sample
from trainless.spaces.sketch import Drawable

Structure: TypeAlias = Callable[[Arch], Sequence[float]]
_KEPT = 4096  # beliefs and kernels are functions of what was told; the last few are remembered


class LearnedSearch:
    """Train what promises most by a model that begins as a proxy and learns from every accuracy that is told.

    The model is that of :func:`trainless.ranking.learn`: a Gaussian process around the proxy's ranks, on the proxy and
    on the archs' structure. Proposals maximise the expected improvement over a random pool and the neighbours of the
    best arch; a batch is diverse, and what is still in training is taken into account. An arch is proposed once, and
    the search ends when nothing is left. The kernel is fitted anew whenever twice as much is known.

    Args:
        space: What to search.
        proxy: The belief before training, higher is better; NaN is last.
        pool: Random archs that are chosen from; the proxy is computed for each.
        seed: The source of randomness.
        feasible: A limit that every proposal keeps.
        structure: Features of an arch; by default those of its graph (:mod:`trainless.spaces.structure`) where the
            space can draw it, else its options, one feature for each.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> searcher = LearnedSearch(NasBench201(), proxy=sum, pool=100)
        >>> for _ in range(8):
        ...     proposals = searcher.ask()
        ...     searcher.tell(Told.of(proposals, [-sum(each.arch) for each in proposals]))
        >>> sum(searcher.best()) < 6
        True
    """

    def __init__(
        self,
        space: Choices,
        *,
        proxy: Callable[[Arch], float],
        pool: int = 1000,
        seed: int = 0,
        feasible: Feasible | None = None,
        structure: Structure | None = None,
    ) -> None:
        if pool < 2:
            raise InputError(f"pool={pool} was given; expected at least 2 architectures to choose from")
        self._space, self._feasible, self._size = space, feasible, pool
        self._proxy = cache(proxy)
        self._structure = cache(structure or _structure_of(space))
        self._origin: Json = np.random.default_rng(seed).bit_generator.state
        self._pool: dict[Arch, None] | None = None
        self._told: dict[Arch, float] = {}
        self._pending: dict[Arch, None] = {}
        self._best = Incumbent()
        self._kernel: tuple[int, Kernel | None] = (0, None)

    @property
    def columns(self) -> int | None:
        """One signal."""
        return 1

    def ask(self, limit: int | None = None) -> list[Proposal]:
        """The most promising archs that were not proposed yet."""
        archs = self._archs()
        places = {arch: place for place, arch in enumerate(archs)}
        belief = self._belief(archs, places)
        chosen = belief.next(room(limit, 1), [places[arch] for arch in self._pending])
        found = [archs[place] for place in chosen]
        self._pending |= dict.fromkeys(found)
        return [Proposal(arch) for arch in found]

    def _archs(self) -> list[Arch]:
        """The pool, everything that was told or is in training, and the neighbours of the best."""
        if self._pool is None:
            rng = np.random.default_rng()
            rng.bit_generator.state = self._origin
            self._pool = dict.fromkeys(sample(self._space, rng, feasible=self._feasible) for _ in range(self._size))
        near = neighbours(self._space, self._best.arch, feasible=self._feasible) if self._told else []
        return list(self._pool | self._told | self._pending | dict.fromkeys(near))

    def _belief(self, archs: list[Arch], places: dict[Arch, int]) -> Belief:
        trend = np.array([self._proxy(arch) for arch in archs], np.float64)
        blocks = [normal_scores(trend)[:, None], _standardised(np.array([self._structure(arch) for arch in archs]))]
        known = {places[arch]: value for arch, value in self._told.items()}
        first = 1 << (len(known).bit_length() - 1) if known else 0
        if self._kernel[0] != first:
            self._kernel = first, kernel_for(trend, blocks, dict(list(known.items())[:first]))
        return believe(trend, blocks, known, kernel=self._kernel[1])

    def tell(self, told: Told) -> None:
        """Learn; an arch that is told again keeps its first value."""
        for proposal, value in zip(told.proposals, told.signal().tolist(), strict=True):
            self._pending.pop(proposal.arch, None)
            self._told.setdefault(proposal.arch, value)
            self._best.see(proposal.arch, value)

    def best(self) -> Arch:
        """The best told."""
        return self._best.arch

    def state(self) -> Json:
        """Where the pool comes from, what was told and what is in training."""
        return {
            "rng": self._origin,
            "told": [[list(arch), number(value)] for arch, value in self._told.items()],
            "pending": [list(arch) for arch in self._pending],
            "best": self._best.state(),
        }

    def restore(self, state: Json) -> None:
        """Continue from a state."""
        self._origin, self._pool, self._kernel = state["rng"], None, (0, None)
        self._told = {tuple(arch): unnumber(value) for arch, value in state["told"]}
        self._pending = {tuple(arch): None for arch in state["pending"]}
        self._best.restore(state["best"])
