"""BOHB (Falkner et al., 2018): Hyperband whose new candidates come from a density model of the good ones."""

from __future__ import annotations

import numpy as np

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.search.hyperband import Hyperband
from trainless.search.ranks import order
from trainless.search.searcher import Floats, Json, Proposal, Told, number, unnumber
from trainless.spaces.moves import Choices, Feasible, Rng, allowed, sample


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
