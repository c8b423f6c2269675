"""Hyperband (Li et al., 2018): many candidates with little effort, few with much."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.ranks import order
from trainless.core.types import Floats, Index
from trainless.searchers.searcher import Draw, Incumbent, Searcher, Told, room
from trainless.searchers.state import kept, lazy
from trainless.spaces.moves import Rng, sample


@dataclass
class _Bracket:
    """One successive halving: how many at which fidelity, and the rung that is being filled."""

    counts: list[int]
    fidelities: list[float]
    rung: int = 0
    queue: list[Arch] = field(default_factory=list)
    outstanding: list[Arch] = field(default_factory=list)
    results: list[tuple[Arch, float]] = field(default_factory=list)

    @property
    def fidelity(self) -> float:
        return self.fidelities[self.rung]

    @property
    def done(self) -> bool:
        return self.rung == len(self.counts)

    @property
    def lacks(self) -> bool:
        """Whether its rung still has places to propose."""
        return len(self.outstanding) + len(self.results) < self.counts[self.rung]

    def take(self, arch: Arch, value: float) -> None:
        """A result; a full rung promotes its best."""
        self.outstanding.remove(arch)
        self.results.append((arch, value))
        if len(self.results) < self.counts[self.rung]:
            return
        ranked = order(np.array([value for _, value in self.results])).tolist()
        self.rung += 1
        kept = 0 if self.done else self.counts[self.rung]
        self.queue = [self.results[place][0] for place in ranked[:kept]]
        self.results = []


def brackets(smallest: float, eta: float) -> list[tuple[list[int], list[float]]]:
    """The brackets of one Hyperband iteration: candidates and fidelities of each rung, most candidates first.

    With S = ⌊log_η(1/smallest)⌋ + 1 rungs in all, bracket s = S−1 … 0 starts with ⌊S/(s+1)⌋·η^s candidates at fidelity
    η^−s and keeps one in η of them per rung (HpBandSter's rounding, which the NAS-Bench-201 baseline uses).
    """
    rungs = int(-math.log(smallest) / math.log(eta)) + 1
    made = []
    for s in reversed(range(rungs)):
        start = int(math.floor(rungs / (s + 1)) * eta**s)
        counts = [max(int(start * eta ** (-rung)), 1) for rung in range(s + 1)]
        made.append((counts, [float(eta ** (rung - s)) for rung in range(s + 1)]))
    return made


@dataclass(eq=False, kw_only=True)
class Hyperband(Searcher):
    """Successive halvings of different breadth, one after the other.

    A proposal's ``fidelity`` is the share of full training it is worth. While a rung is being evaluated and more is
    asked for, the next bracket opens, so a cluster never waits.
    """

    smallest: float = 12 / 200
    eta: float = 3.0
    iterations: int | None = 50
    draw: Draw | None = None
    _open: list[_Bracket] = kept(list)
    _started: int = kept(0)
    _top: float = kept(0.0)
    _best: Incumbent = kept(Incumbent)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.smallest <= 1 or self.eta <= 1:
            raise InputError(
                f"hyperband was given smallest={self.smallest}, eta={self.eta}; expected 0 < smallest ≤ 1 and eta > 1"
            )
        self._plan = brackets(self.smallest, self.eta)

    def ask(self, limit: int | None = None) -> list[Proposal]:
        """The next of the oldest bracket that lacks some; a new bracket where all wait for results."""
        proposals: list[Proposal] = []
        for _ in range(room(limit, 1)):
            bracket = next((bracket for bracket in self._open if bracket.lacks), None) or self._start()
            if bracket is None:
                break
            arch = bracket.queue.pop(0) if bracket.rung else self._drawn(self.draw)
            bracket.outstanding.append(arch)
            proposals.append(Proposal(arch, bracket.fidelity))
        return proposals

    def _start(self) -> _Bracket | None:
        if self.iterations is not None and self._started >= self.iterations:
            return None
        counts, fidelities = self._plan[self._started % len(self._plan)]
        self._started += 1
        self._open.append(_Bracket(list(counts), list(fidelities)))
        return self._open[-1]

    def tell(self, told: Told) -> None:
        for proposal, value in told.values():
            self._see(proposal, value)
            for bracket in self._open:
                if bracket.fidelity == proposal.fidelity and proposal.arch in bracket.outstanding:
                    bracket.take(proposal.arch, value)
                    break
            self._open = [bracket for bracket in self._open if not bracket.done]

    def _see(self, proposal: Proposal, value: float) -> None:
        """Values are compared at the highest fidelity that was told."""
        if proposal.fidelity > self._top:
            self._top, self._best = proposal.fidelity, Incumbent()
        if proposal.fidelity == self._top:
            self._best.see(proposal.arch, value)

    def best(self) -> Arch:
        return self._best.arch


class Density:
    """A kernel density over archs: Aitchison–Aitken kernels, 1 − h on the same option and h/(c−1) on another.

    The bandwidth is the normal reference rule 1.06·σ·n^(−1/(4+d)), at least ``narrowest`` and at most (c−1)/c, where
    the kernel is uniform.
    """

    def __init__(self, archs: Index, counts: Floats, narrowest: float) -> None:
        n, d = archs.shape
        self._archs, self._counts = archs, counts
        reference = 1.06 * archs.std(axis=0) * n ** (-1.0 / (4 + d))
        self.widths: Floats = np.minimum(np.maximum(reference, narrowest), (counts - 1) / counts)

    def __call__(self, archs: Index) -> Floats:
        same = archs[:, None, :] == self._archs[None, :, :]
        other = self.widths / np.maximum(self._counts - 1, 1)
        density: Floats = np.where(same, 1 - self.widths, other).prod(axis=2).mean(axis=1)
        return density

    def draw(self, rng: Rng, counts: list[int]) -> Arch:
        """A draw from the density itself: a kernel at random, each option replaced by another with probability h."""
        centre = self._archs[int(rng.integers(len(self._archs)))].tolist()
        replaced = (rng.random(len(centre)) < self.widths).tolist()
        return tuple(
            (option + int(rng.integers(1, count))) % count if new else option
            for option, new, count in zip(centre, replaced, counts, strict=True)
        )


@dataclass(eq=False, kw_only=True)
class Bohb(Searcher):
    """Hyperband with proposals that maximise (density of good archs) / (density of the others).

    The model is that of the highest fidelity with enough results: more than twice the number of decisions. Of n
    results the best 15 % (at least d + 1) are good. The defaults are those of the NAS-Bench-201 baseline (4 samples, no
    random share, bandwidth at least 0.3); the paper has 64 samples, a random share of 1/3 and 1e-3.

    Deviations: bandwidths are capped where the kernel is uniform, and a draw replaces an option by *another* one with
    probability h, so that archs are drawn from the very density that is modelled; HpBandSter has no cap and replaces by
    any option, the old one included. With a limit, samples that break it are drawn again.

    ``samples`` are draws from the good density among which the ratio decides; with probability ``random_share`` it is a
    uniform draw instead. ``good`` is the share of results that is good, ``narrowest`` the smallest bandwidth.
    """

    smallest: float = 12 / 200
    eta: float = 3.0
    iterations: int | None = 50
    samples: int = 4
    random_share: float = 0.0
    good: float = 0.15
    narrowest: float = 0.3
    _inner: Hyperband = kept()
    _seen: dict[float, list[tuple[Arch, float]]] = kept(dict)
    _models: tuple[Density, ...] | None = lazy()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples < 1 or not 0 <= self.random_share <= 1 or not 0 < self.good < 1 or self.narrowest <= 0:
            raise InputError(
                f"bohb was given samples={self.samples}, random_share={self.random_share}, good={self.good},"
                f" narrowest={self.narrowest}; expected a positive number, a share, a share and a positive width"
            )
        self._counts = [len(decision) for decision in self.space.decisions]
        self._inner = Hyperband(
            self.space,
            seed=self.seed,
            smallest=self.smallest,
            eta=self.eta,
            iterations=self.iterations,
            draw=self._propose,
        )

    def _propose(self, rng: Rng) -> Arch:
        if self._models is None:
            self._models = self._fitted()
        if not self._models or rng.random() < self.random_share:
            return sample(self.space, rng, feasible=self.feasible)
        good, bad = self._models
        drawn = [arch for _ in range(self.samples) if (arch := self._draw(good, rng)) is not None]
        if not drawn:
            return sample(self.space, rng, feasible=self.feasible)
        table = np.array(drawn)
        ratio = np.maximum(good(table), 1e-32) / np.maximum(bad(table), 1e-32)
        return drawn[int(np.argmax(ratio))]

    def _draw(self, density: Density, rng: Rng) -> Arch | None:
        draws = (density.draw(rng, self._counts) for _ in range(100))
        return next((arch for arch in draws if self._allows(arch)), None)

    def _fitted(self) -> tuple[Density, ...]:
        """The good and the other density at the highest fidelity that has enough results; none where none has."""
        fewest = len(self._counts) + 1
        for fidelity in sorted(self._seen, reverse=True):
            seen = self._seen[fidelity]
            cut = max(fewest, int(self.good * len(seen)))
            if len(seen) >= cut + fewest:
                table = np.array([arch for arch, _ in seen])[order(np.array([value for _, value in seen]))]
                counts = np.array(self._counts, dtype=np.float64)
                return tuple(Density(part, counts, self.narrowest) for part in (table[:cut], table[cut:]))
        return ()

    def ask(self, limit: int | None = None) -> list[Proposal]:
        return self._inner.ask(limit)

    def tell(self, told: Told) -> None:
        for proposal, value in told.values():
            self._seen.setdefault(proposal.fidelity, []).append((proposal.arch, value))
        self._models = None
        self._inner.tell(told)

    def best(self) -> Arch:
        return self._inner.best()
