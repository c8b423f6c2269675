"""Hyperband (Li et al., 2018): many candidates with little effort, few with much."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.files import number, unnumber
from trainless.core.ranks import order
from trainless.core.types import Floats, Json
from trainless.searchers.searcher import Draw, Incumbent, Told, room
from trainless.spaces.moves import Choices, Feasible, Rng, allowed, sample


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

    def state(self) -> Json:
        return {
            "counts": self.counts,
            "fidelities": self.fidelities,
            "rung": self.rung,
            "queue": [list(arch) for arch in self.queue],
            "outstanding": [list(arch) for arch in self.outstanding],
            "results": [[list(arch), number(value)] for arch, value in self.results],
        }

    @classmethod
    def restored(cls, state: Json) -> _Bracket:
        return cls(
            state["counts"],
            state["fidelities"],
            state["rung"],
            [tuple(arch) for arch in state["queue"]],
            [tuple(arch) for arch in state["outstanding"]],
            [(tuple(arch), unnumber(value)) for arch, value in state["results"]],
        )


def brackets(smallest: float, eta: float) -> list[tuple[list[int], list[float]]]:
    """The brackets of one Hyperband iteration: candidates and fidelities of each rung, most candidates first.

    With S = ⌊log_η(1/smallest)⌋ + 1 rungs in all, bracket s = S−1 … 0 starts with ⌊S/(s+1)⌋·η^s candidates at fidelity
    η^−s and keeps one in η of them per rung (HpBandSter's rounding, which the NAS-Bench-201 baseline uses).

    Example:
        >>> [counts for counts, _ in brackets(12 / 200, 3)]
        [[9, 3, 1], [3, 1], [3]]
    """
    rungs = int(-math.log(smallest) / math.log(eta)) + 1
    made = []
    for s in reversed(range(rungs)):
        start = int(math.floor(rungs / (s + 1)) * eta**s)
        counts = [max(int(start * eta ** (-rung)), 1) for rung in range(s + 1)]
        made.append((counts, [float(eta ** (rung - s)) for rung in range(s + 1)]))
    return made


class Hyperband:
    """Successive halvings of different breadth, one after the other.

    A proposal's ``fidelity`` is the share of full training it is worth. While a rung is being evaluated and more is
    asked for, the next bracket opens, so a cluster never waits.

    Args:
        space: What to search.
        seed: The source of randomness.
        feasible: A limit that every proposal keeps.
        smallest: The lowest fidelity allowed: 12 of 200 epochs on NAS-Bench-201.
        eta: One in η goes on to the next rung.
        iterations: Brackets after which it ends (HpBandSter's ``n_iterations``: 50 in the baseline); None for no end.
        draw: Where new archs come from; uniform sampling by default, a model in BOHB, the best of a pool in G-HB.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> searcher = Hyperband(NasBench201(), iterations=3)
        >>> asked = []
        >>> while proposals := searcher.ask():
        ...     asked += proposals
        ...     searcher.tell(Told.of(proposals, [float(sum(p.arch)) for p in proposals]))
        >>> len(asked), round(asked[0].fidelity, 3), asked[12].fidelity
        (20, 0.111, 1.0)
    """

    def __init__(
        self,
        space: Choices,
        *,
        seed: int = 0,
        feasible: Feasible | None = None,
        smallest: float = 12 / 200,
        eta: float = 3.0,
        iterations: int | None = 50,
        draw: Draw | None = None,
    ) -> None:
        if not 0 < smallest <= 1 or eta <= 1:
            raise InputError(
                f"hyperband was given smallest={smallest}, eta={eta}; expected 0 < smallest ≤ 1 and eta > 1"
            )
        self._rng = np.random.default_rng(seed)
        self._plan = brackets(smallest, eta)
        self._iterations = iterations
        self._draw = draw or (lambda rng: sample(space, rng, feasible=feasible))
        self._open: list[_Bracket] = []
        self._started = 0
        self._top = 0.0
        self._best = Incumbent()

    @property
    def columns(self) -> int | None:
        """One signal."""
        return 1

    def ask(self, limit: int | None = None) -> list[Proposal]:
        """The next of the oldest bracket that lacks some; a new bracket where all wait for results."""
        proposals: list[Proposal] = []
        for _ in range(room(limit, 1)):
            bracket = next((bracket for bracket in self._open if bracket.lacks), None) or self._start()
            if bracket is None:
                break
            arch = bracket.queue.pop(0) if bracket.rung else self._draw(self._rng)
            bracket.outstanding.append(arch)
            proposals.append(Proposal(arch, bracket.fidelity))
        return proposals

    def _start(self) -> _Bracket | None:
        if self._iterations is not None and self._started >= self._iterations:
            return None
        counts, fidelities = self._plan[self._started % len(self._plan)]
        self._started += 1
        self._open.append(_Bracket(list(counts), list(fidelities)))
        return self._open[-1]

    def tell(self, told: Told) -> None:
        """Fill rungs, promote their best."""
        for proposal, value in zip(told.proposals, told.signal().tolist(), strict=True):
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
        """The best told at the highest fidelity that was told."""
        return self._best.arch

    def state(self) -> Json:
        """Generator and open brackets."""
        return {
            "rng": self._rng.bit_generator.state,
            "open": [bracket.state() for bracket in self._open],
            "started": self._started,
            "top": self._top,
            "best": self._best.state(),
        }

    def restore(self, state: Json) -> None:
        """Continue from a state."""
        self._rng.bit_generator.state = state["rng"]
        self._open = [_Bracket.restored(bracket) for bracket in state["open"]]
        self._started, self._top = state["started"], state["top"]
        self._best = Incumbent()
        self._best.restore(state["best"])


class Density:
    """A kernel density over archs: Aitchison–Aitken kernels, 1 − h on the same option and h/(c−1) on another.

    The bandwidth is the normal reference rule 1.06·σ·n^(−1/(4+d)), at least ``narrowest`` and at most (c−1)/c, where
    the kernel is uniform.

    Example:
        >>> density = Density(np.array([[0], [0], [1]]), np.array([2]), narrowest=0.3)
        >>> density(np.array([[0], [1]])).round(2).tolist()
        [0.53, 0.47]
    """

    def __init__(
        self, archs: np.ndarray[tuple[int, int], np.dtype[np.int64]], counts: Floats, narrowest: float
    ) -> None:
        n, d = archs.shape
        self._archs, self._counts = archs, counts
        reference = 1.06 * archs.std(axis=0) * n ** (-1.0 / (4 + d))
        self.widths: Floats = np.minimum(np.maximum(reference, narrowest), (counts - 1) / counts)

    def __call__(self, archs: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> Floats:
        """The density at each row."""
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


class Bohb:
    """Hyperband with proposals that maximise (density of good archs) / (density of the others).

    The model is that of the highest fidelity with enough results: more than twice the number of decisions. Of n
    results the best 15 % (at least d + 1) are good. The defaults are those of the NAS-Bench-201 baseline (4 samples, no
    random share, bandwidth at least 0.3); the paper has 64 samples, a random share of 1/3 and 1e-3.

    Deviations: bandwidths are capped where the kernel is uniform, and a draw replaces an option by *another* one with
    probability h, so that archs are drawn from the very density that is modelled; HpBandSter has no cap and replaces by
    any option, the old one included. With a limit, samples that break it are drawn again.

    Args:
        space: What to search.
        seed: The source of randomness.
        feasible: A limit that every proposal keeps.
        smallest: The lowest fidelity allowed.
        eta: One in η goes on to the next rung.
        iterations: Brackets after which it ends; None for no end.
        samples: Draws from the good density among which the ratio decides.
        random_share: Probability of a uniform draw instead.
        good: The share of results that is good.
        narrowest: The smallest bandwidth.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> searcher = Bohb(NasBench201(), iterations=30)
        >>> while proposals := searcher.ask():
        ...     searcher.tell(Told.of(proposals, [float(p.arch.count(3)) for p in proposals]))
        >>> searcher.best().count(3) > 3
        True
    """

    def __init__(
        self,
        space: Choices,
        *,
        seed: int = 0,
        feasible: Feasible | None = None,
        smallest: float = 12 / 200,
        eta: float = 3.0,
        iterations: int | None = 50,
        samples: int = 4,
        random_share: float = 0.0,
        good: float = 0.15,
        narrowest: float = 0.3,
    ) -> None:
        if samples < 1 or not 0 <= random_share <= 1 or not 0 < good < 1 or narrowest <= 0:
            raise InputError(
                f"bohb was given samples={samples}, random_share={random_share}, good={good}, narrowest={narrowest};"
                " expected a positive number, a share, a share and a positive width"
            )
        self._space, self._feasible = space, feasible
        self._counts = [len(decision) for decision in space.decisions]
        self._samples, self._random_share, self._good, self._narrowest = samples, random_share, good, narrowest
        self._seen: dict[float, list[tuple[Arch, float]]] = {}
        self._model: tuple[Density, Density] | None = None
        self._stale = False
        self._hyperband = Hyperband(
            space, seed=seed, smallest=smallest, eta=eta, iterations=iterations, draw=self._propose
        )

    def _propose(self, rng: Rng) -> Arch:
        """The best of a few draws from the good density."""
        self._refit()
        if self._model is None or rng.random() < self._random_share:
            return sample(self._space, rng, feasible=self._feasible)
        good, bad = self._model
        drawn = [arch for _ in range(self._samples) if (arch := self._draw(good, rng)) is not None]
        if not drawn:
            return sample(self._space, rng, feasible=self._feasible)
        table = np.array(drawn)
        ratio = np.maximum(good(table), 1e-32) / np.maximum(bad(table), 1e-32)
        return drawn[int(np.argmax(ratio))]

    def _draw(self, density: Density, rng: Rng) -> Arch | None:
        for _ in range(100):
            arch = density.draw(rng, self._counts)
            if allowed(self._space, arch, self._feasible):
                return arch
        return None

    def _refit(self) -> None:
        """The model of the highest fidelity that has enough results."""
        if not self._stale:
            return
        self._stale = False
        fewest = len(self._counts) + 1
        for fidelity in sorted(self._seen, reverse=True):
            seen = self._seen[fidelity]
            cut = max(fewest, int(self._good * len(seen)))
            if len(seen) >= cut + fewest:
                table = np.array([arch for arch, _ in seen])[order(np.array([value for _, value in seen]))]
                counts = np.array(self._counts, dtype=np.float64)
                self._model = (
                    Density(table[:cut], counts, self._narrowest),
                    Density(table[cut:], counts, self._narrowest),
                )
                return

    @property
    def columns(self) -> int | None:
        """One signal."""
        return 1

    def ask(self, limit: int | None = None) -> list[Proposal]:
        """As Hyperband, with modelled archs on the lowest rungs."""
        return self._hyperband.ask(limit)

    def tell(self, told: Told) -> None:
        """Results for the model and for the rungs."""
        for proposal, value in zip(told.proposals, told.signal().tolist(), strict=True):
            self._seen.setdefault(proposal.fidelity, []).append((proposal.arch, value))
        self._stale = self._stale or len(told) > 0
        self._hyperband.tell(told)

    def best(self) -> Arch:
        """The best told at the highest fidelity that was told."""
        return self._hyperband.best()

    def state(self) -> Json:
        """Hyperband's state and every result."""
        seen = [
            [fidelity, [[list(arch), number(value)] for arch, value in results]]
            for fidelity, results in self._seen.items()
        ]
        return {"inner": self._hyperband.state(), "seen": seen}

    def restore(self, state: Json) -> None:
        """Continue from a state; the model is fitted again."""
        self._hyperband.restore(state["inner"])
        self._seen = {
            fidelity: [(tuple(arch), unnumber(value)) for arch, value in results] for fidelity, results in state["seen"]
        }
        self._model, self._stale = None, True
