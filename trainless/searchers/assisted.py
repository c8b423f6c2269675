"""A proxy at the side of any searcher that follows trained accuracy: best-of-pool, warm-up and move.

Best-of-pool is a way to draw (:func:`best_draw`) or to vary (:func:`best_mutation`), which searchers take as ``draw``
and ``vary``; a warm-up is a searcher around another; move is how evolution chooses parents or children. A proxy is
any function from an arch to a float, higher is better; NaN is last.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.parameters import forwards
from trainless.core.ranks import order
from trainless.searchers.evolution import Evolution
from trainless.searchers.hyperband import Hyperband
from trainless.searchers.reinforce import Reinforce
from trainless.searchers.searcher import Draw, Searcher, Told, Vary, room
from trainless.searchers.simple import Random
from trainless.searchers.state import kept
from trainless.spaces.moves import Choices, Feasible, Rng, mutate, neighbours, sample

ArchProxy: TypeAlias = Callable[[Arch], float]
"""A proxy as searchers see it."""
S = TypeVar("S", bound=Searcher)


def top(archs: list[Arch], proxy: ArchProxy, count: int = 1) -> list[Arch]:
    """The best by a proxy, best first; equals keep their order."""
    return [archs[place] for place in order(np.array([proxy(arch) for arch in archs]))[:count].tolist()]


def best_draw(space: Choices, proxy: ArchProxy, *, pool: int = 10, feasible: Feasible | None = None) -> Draw:
    """Draw ``pool`` archs uniformly and keep the one with the best proxy (G-RS, G-HB)."""
    score = _pooled(proxy, pool)

    def draw(rng: Rng) -> Arch:
        return top([sample(space, rng, feasible=feasible) for _ in range(pool)], score)[0]

    return draw


def best_mutation(space: Choices, proxy: ArchProxy, *, pool: int = 10, feasible: Feasible | None = None) -> Vary:
    """Mutate ``pool`` times independently and keep the child with the best proxy (G-REA, G-REINFORCE)."""
    score = _pooled(proxy, pool)

    def vary(arch: Arch, rng: Rng) -> Arch:
        return top([mutate(space, arch, rng, feasible=feasible) for _ in range(pool)], score)[0]

    return vary


def best_neighbour(
    space: Choices, proxy: ArchProxy, *, probability: float = 0.75, feasible: Feasible | None = None
) -> Vary:
    """With this probability the best of all neighbours by the proxy, else a random one (zero-cost-nas's move)."""
    score = _pooled(proxy, 1)

    def vary(arch: Arch, rng: Rng) -> Arch:
        near = neighbours(space, arch, feasible=feasible)
        if not near or rng.random() >= probability:
            return mutate(space, arch, rng, feasible=feasible)
        return top(near, score)[0]

    return vary


def _pooled(proxy: ArchProxy, pool: int) -> ArchProxy:
    """The proxy, computed once per arch."""
    if pool < 1:
        raise InputError(f"pool={pool} was given; expected at least 1 architecture to choose from")
    return functools.cache(proxy)


@dataclass(eq=False, kw_only=True)
class WarmUp(Searcher):
    """Propose the best of many random archs by a proxy first, then let another searcher go on.

    The inner searcher is told everything. In zero-cost-nas and epsilon it is ageing evolution with 64 members, so that
    the warm-up is its first population, or random search.

    Deviations: epsilon's program lets random search walk down all 3,000 archs although its text says 64: ``keep``
    decides.

    The ``pool`` is drawn with replacement; ``keep`` of it are proposed, best first.
    """

    inner: Searcher = field(metadata={"state": True})
    proxy: ArchProxy
    pool: int = 3000
    keep: int = 64
    _queue: list[Arch] | None = kept(None)
    _outstanding: int = kept(0)

    def __post_init__(self) -> None:
        if not 1 <= self.keep <= self.pool:
            raise InputError(f"a warm-up was given pool={self.pool} and keep={self.keep}; expected 1 ≤ keep ≤ pool")
        self._rng = np.random.default_rng([self.seed, 1])  # another stream than that of the searcher that goes on
        self.columns = self.inner.columns

    def ask(self, limit: int | None = None) -> list[Proposal]:
        if self._queue is None:
            self._queue = top([self._drawn() for _ in range(self.pool)], functools.cache(self.proxy), self.keep)
        if not self._queue:
            return [] if self._outstanding else self.inner.ask(limit)
        count = room(limit, 1)
        chosen, self._queue = self._queue[:count], self._queue[count:]
        self._outstanding += len(chosen)
        return [Proposal(arch) for arch in chosen]

    def tell(self, told: Told) -> None:
        self._outstanding = max(0, self._outstanding - len(told))
        self.inner.tell(told)

    def best(self) -> Arch:
        return self.inner.best()


def _assisted(inner: Callable[..., S], role: str, pooled: Callable[..., object], summary: str) -> Callable[..., S]:
    """A searcher whose draws or variations are the best of a pool."""

    @forwards(inner)
    def assisted(
        space: Choices, *, proxy: ArchProxy, pool: int = 10, feasible: Feasible | None = None, **parameters: Any
    ) -> S:
        chosen = {role: pooled(space, proxy, pool=pool, feasible=feasible)}
        return inner(space, feasible=feasible, **chosen, **parameters)

    assisted.__doc__ = summary
    return assisted


g_rs = _assisted(Random, "draw", best_draw, "GradSign-assisted random search (algorithm 3) for any proxy.")
g_rea = _assisted(
    Evolution,
    "vary",
    best_mutation,
    "GradSign-assisted ageing evolution (algorithm 2): the first population is random, children are chosen.",
)
g_reinforce = _assisted(
    Reinforce,
    "vary",
    best_mutation,
    "GradSign-assisted REINFORCE (algorithm 4): the best mutant of the policy's action is evaluated.",
)
g_hb = _assisted(
    Hyperband,
    "draw",
    best_draw,
    "GradSign-assisted Hyperband (algorithm 5); its pool is drawn with replacement, the program's without.",
)


@forwards(Random)
def warm_random(
    space: Choices,
    *,
    proxy: ArchProxy,
    pool: int = 3000,
    keep: int = 64,
    seed: int = 0,
    feasible: Feasible | None = None,
    **parameters: Any,
) -> WarmUp:
    """Random search after a warm-up."""
    inner = Random(space, seed=seed, feasible=feasible, **parameters)
    return WarmUp(space, inner=inner, proxy=proxy, pool=pool, keep=keep, seed=seed, feasible=feasible)


@forwards(Evolution, replacement=False)
def warm_evolution(
    space: Choices,
    *,
    proxy: ArchProxy,
    pool: int = 3000,
    keep: int = 64,
    population: int | None = None,
    tournament: int | None = None,
    seed: int = 0,
    feasible: Feasible | None = None,
    **parameters: Any,
) -> WarmUp:
    """Ageing evolution without replacement whose first population is the warm-up.

    It has ``keep`` members and tournaments of 10, or of all where they are fewer.
    """
    members = keep if population is None else population
    rivals = min(10, members) if tournament is None else tournament
    inner = Evolution(space, seed=seed, feasible=feasible, population=members, tournament=rivals, **parameters)
    return WarmUp(space, inner=inner, proxy=proxy, pool=pool, keep=keep, seed=seed, feasible=feasible)


@forwards(Evolution, population=10)
def a_rea(
    space: Choices,
    *,
    proxy: ArchProxy,
    pool: int = 20,
    population: int = 10,
    seed: int = 0,
    feasible: Feasible | None = None,
    **parameters: Any,
) -> WarmUp:
    """Ageing evolution whose first population is the better half of twice as many random archs (A-REA, Mellor 2021)."""
    inner = Evolution(space, seed=seed, feasible=feasible, population=population, **parameters)
    return WarmUp(space, inner=inner, proxy=proxy, pool=pool, keep=population, seed=seed, feasible=feasible)


@forwards(Evolution, population=64, tournament=10, replacement=False)
def move_evolution(
    space: Choices,
    *,
    proxy: ArchProxy,
    kind: Literal["parent", "neighbour"] = "parent",
    feasible: Feasible | None = None,
    **parameters: Any,
) -> Evolution:
    """Ageing evolution (64 members, tournament 10) that moves by a proxy.

    ``parent`` (epsilon): the parent is the highest proxy of the tournament, its mutation random. ``neighbour``
    (zero-cost-nas): the parent is the highest accuracy, the child the best of all its neighbours with probability 0.75.
    """
    if kind == "parent":
        return Evolution(space, feasible=feasible, fitness=functools.cache(proxy), **parameters)
    if kind == "neighbour":
        return Evolution(space, feasible=feasible, vary=best_neighbour(space, proxy, feasible=feasible), **parameters)
    raise InputError(f"kind={kind!r} was given; expected 'parent' (epsilon) or 'neighbour' (zero-cost-nas)")
