"""Search by a model of the accuracy: train, learn, and train what promises most."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.types import Floats
from trainless.rankings.gaussian_process import Kernel, believe, kernel_for, normal_scores, standardised
from trainless.searchers.searcher import SignalSearcher, Told, room
from trainless.searchers.state import kept, lazy
from trainless.spaces.moves import Choices, neighbours, sample
from trainless.spaces.sketch import Drawable

if TYPE_CHECKING:
    from trainless.spaces.protocol import Space

Structure: TypeAlias = Callable[[Arch], Sequence[float] | Floats]


@dataclass(eq=False, kw_only=True)
class LearnedSearch(SignalSearcher):
    """Train what promises most by a model that begins as a proxy and learns from every accuracy that is told.

    The model is that of :func:`trainless.rankings.learn`: a Gaussian process around the proxy's ranks, on the proxy and
    on the archs' structure. Proposals maximise the expected improvement over a random pool and the neighbours of the
    best arch; a batch is diverse, and what is still in training is taken into account. An arch is proposed once, and
    the search ends when nothing is left. The kernel is fitted anew whenever twice as much is known.

    The ``proxy`` is the belief before training. Features are by default those of the graph
    (:mod:`trainless.spaces.structure`) where the space can draw it, else its options.
    """

    proxy: Callable[[Arch], float]
    pool: int = 1000
    structure: Structure | None = None
    _told: dict[Arch, float] = kept(dict)
    _pending: list[Arch] = kept(list)
    _pool: dict[Arch, None] | None = lazy()
    _kernel: tuple[int, Kernel | None] | None = lazy()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pool < 2:
            raise InputError(f"pool={self.pool} was given; expected at least 2 architectures to choose from")
        given = self.structure or structure_of(self.space)
        self._trend = cache(self.proxy)
        self._shape = cache(lambda arch: np.asarray(given(arch), np.float64))

    def ask(self, limit: int | None = None) -> list[Proposal]:
        near = neighbours(self.space, self._best.arch, feasible=self.feasible) if self._told else []
        places = _places(self._drawn_pool() | self._told | dict.fromkeys([*self._pending, *near]))
        archs = list(places)
        known = {places[arch]: value for arch, value in self._told.items()}
        belief = believe(*self._features(archs), known, kernel=self._fitted())
        chosen = belief.next(room(limit, 1), [places[arch] for arch in self._pending])
        found = [archs[place] for place in chosen]
        self._pending += found
        return [Proposal(arch) for arch in found]

    def _drawn_pool(self) -> dict[Arch, None]:
        """The pool, which is drawn when it is needed first; the generator stays where it was."""
        if self._pool is None:
            rng = copy.deepcopy(self._rng)
            self._pool = dict.fromkeys(sample(self.space, rng, feasible=self.feasible) for _ in range(self.pool))
        return self._pool

    def _fitted(self) -> Kernel | None:
        """The kernel by the first 2ⁿ that were told, so that it does not depend on when it is asked for."""
        count = 1 << len(self._told).bit_length() >> 1
        if not count:
            return None
        if self._kernel is None or self._kernel[0] != count:
            known = dict(list(self._told.items())[:count])
            places = _places(self._drawn_pool() | known)
            rows = {places[arch]: value for arch, value in known.items()}
            self._kernel = count, kernel_for(*self._features(list(places)), rows)
        return self._kernel[1]

    def _features(self, archs: list[Arch]) -> tuple[Floats, list[Floats]]:
        """The proxy, and what the model sees: its normal scores, and the structure."""
        trend = np.array([self._trend(arch) for arch in archs], np.float64)
        return trend, [normal_scores(trend)[:, None], standardised(np.stack([self._shape(arch) for arch in archs]))]

    def tell(self, told: Told) -> None:
        """Learn; an arch that is told again keeps its first value."""
        for arch, value in self._see(told):
            self._told.setdefault(arch, value)
        self._pending = [arch for arch in self._pending if arch not in self._told]


def _places(archs: Iterable[Arch]) -> dict[Arch, int]:
    return {arch: place for place, arch in enumerate(archs)}


def structure_of(space: Choices) -> Structure:
    """Features of an arch: those of its graph where the space can draw it, else its options, one feature for each."""
    if not isinstance(space, Drawable):
        sizes = [len(decision) for decision in space.decisions]
        return lambda arch: np.concatenate([np.eye(size)[option] for size, option in zip(sizes, arch, strict=True)])
    from trainless.spaces.structure import features

    return lambda arch: list(features(cast("Space", space), arch).values())
