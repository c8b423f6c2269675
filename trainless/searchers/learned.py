"""Search by a model of the accuracy: train, learn, and train what promises most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.files import number, unnumber
from trainless.core.types import Floats, Json
from trainless.rankings.acquisition import believe, kernel_for, normal_scores, standardised
from trainless.rankings.gaussian_process import Kernel
from trainless.searchers.searcher import Incumbent, Told, room
from trainless.spaces.moves import Choices, Feasible, neighbours, sample
from trainless.spaces.sketch import Drawable

if TYPE_CHECKING:
    from trainless.spaces.protocol import Space

Structure: TypeAlias = Callable[[Arch], Sequence[float] | Floats]


class LearnedSearch:
    """Train what promises most by a model that begins as a proxy and learns from every accuracy that is told.

    The model is that of :func:`trainless.rankings.learn`: a Gaussian process around the proxy's ranks, on the proxy and
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
        >>> searcher = LearnedSearch(NasBench201(), proxy=max, pool=100)
        >>> for _ in range(8):
        ...     proposals = searcher.ask(2)
        ...     searcher.tell(Told.of(proposals, [sum(each.arch) for each in proposals]))
        >>> sum(searcher.best()) > 18
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
        given = structure or structure_of(space)
        self._structure = cache(lambda arch: np.asarray(given(arch), np.float64))
        self._origin: Json = dict(np.random.default_rng(seed).bit_generator.state)
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
        near = neighbours(self._space, self._best.arch, feasible=self._feasible) if self._told else []
        archs = list(self._drawn() | self._told | self._pending | dict.fromkeys(near))
        places = {arch: place for place, arch in enumerate(archs)}
        known = {places[arch]: value for arch, value in self._told.items()}
        belief = believe(*self._features(archs), known, kernel=self._fitted())
        chosen = belief.next(room(limit, 1), [places[arch] for arch in self._pending])
        found = [archs[place] for place in chosen]
        self._pending |= dict.fromkeys(found)
        return [Proposal(arch) for arch in found]

    def _drawn(self) -> dict[Arch, None]:
        """The pool, which is drawn when it is needed first."""
        if self._pool is None:
            rng = np.random.default_rng()
            rng.bit_generator.state = self._origin
            self._pool = dict.fromkeys(sample(self._space, rng, feasible=self._feasible) for _ in range(self._size))
        return self._pool

    def _fitted(self) -> Kernel | None:
        """The kernel by the first 2ⁿ that were told, so that it does not depend on when it is asked for."""
        count = 1 << len(self._told).bit_length() >> 1
        if self._kernel[0] != count:
            known = dict(list(self._told.items())[:count])
            archs = list(self._drawn() | known)
            places = {arch: place for place, arch in enumerate(archs)}
            rows = {places[arch]: value for arch, value in known.items()}
            self._kernel = count, kernel_for(*self._features(archs), rows)
        return self._kernel[1]

    def _features(self, archs: list[Arch]) -> tuple[Floats, list[Floats]]:
        """The proxy, and what the model sees: its normal scores, and the structure."""
        trend = np.array([self._proxy(arch) for arch in archs], np.float64)
        return trend, [normal_scores(trend)[:, None], standardised(np.stack([self._structure(arch) for arch in archs]))]

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


def structure_of(space: Choices) -> Structure:
    """Features of an arch: those of its graph where the space can draw it, else its options, one feature for each.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> len(structure_of(NasBench201())((0, 1, 2, 3, 4, 0)))
        191
    """
    if not isinstance(space, Drawable):
        sizes = [len(decision) for decision in space.decisions]
        return lambda arch: np.concatenate([np.eye(size)[option] for size, option in zip(sizes, arch, strict=True)])
    from trainless.spaces.structure import features

    return lambda arch: list(features(cast("Space", space), arch).values())
