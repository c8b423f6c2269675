"""A ranking that begins as a fixed one and learns from every network that is trained."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from trainless.core.errors import InputError
from trainless.core.scores import Scores
from trainless.core.types import Floats
from trainless.rankings.gaussian_process import Belief, Posterior, believe, normal_scores, standardised
from trainless.rankings.ranking import Ranking, column, upward


@dataclass(frozen=True, eq=False)
class Learned(Ranking):
    """What the scores of all candidates and the accuracies of a few say about each candidate; see :func:`learn`.

    It is a ranking itself. On other scores, of which ranks are taken anew, it predicts with what it has learned.
    """

    prior: Ranking
    proxies: tuple[str, ...]
    features: tuple[str, ...]
    candidates: list[str] = field(repr=False)
    trained: Mapping[str, float] = field(repr=False)
    belief: Belief = field(repr=False)
    structure: Floats | None = field(default=None, repr=False)

    @property
    def values(self) -> Floats:
        """One number per candidate, the higher the better; those of the prior before anything is learned."""
        return self.belief.values

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        return self.belief.moments()

    @property
    def mean(self) -> Floats:
        """The accuracy that each candidate's training is expected to reach; NaN before anything is learned."""
        return self._moments[0]

    @property
    def deviation(self) -> Floats:
        """The standard deviation of that accuracy, chance of training included; NaN before anything is learned."""
        return self._moments[1]

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Between which accuracies each candidate's training ends with this probability."""
        return self.belief.interval(level)

    def next(self, count: int = 1) -> list[str]:
        """The candidates to train next, the most promising first; see :meth:`.Belief.next`."""
        return [self.candidates[row] for row in self.belief.next(count)]

    def __call__(self, scores: Scores) -> Floats:
        posterior, trend = self.belief.posterior, self.prior(scores)
        if posterior is None:
            return trend
        new = [_features(scores, self.features)]
        if self.structure is not None:
            new.append(self.structure[self._rows(scores)])
        known = [block[posterior.rows] for block in posterior.blocks]
        blocks = [np.concatenate(pair) for pair in zip(known, new, strict=True)]
        count = len(posterior.rows)
        trends = np.concatenate([posterior.trend[posterior.rows], normal_scores(trend)])
        return Posterior(posterior.kernel, blocks, trends, np.arange(count), posterior.values).mean[count:]

    def _rows(self, scores: Scores) -> list[int]:
        places = {name: row for row, name in enumerate(self.candidates)}
        if strange := [name for name in scores.candidates if name not in places]:
            raise InputError(
                f"this ranking learned from the structure of {len(places)} candidates, and {strange[0]!r} is none of"
                " them: learn on a table that has it, or without structure"
            )
        return [places[name] for name in scores.candidates]

    @property
    def fingerprint(self) -> str:
        """What tells one learned ranking from another."""
        return hashlib.sha256(self.values.tobytes()).hexdigest()[:12]

    def __repr__(self) -> str:
        return f"Learned({self.prior!r}, features={self.features}, {len(self.trained)} trained, {self.fingerprint})"


def learn(
    prior: Ranking,
    scores: Scores,
    trained: Mapping[str, float],
    *,
    proxies: Sequence[str] | None = None,
    structure: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Learned:
    """Move from a fixed ranking to a learned one, as far as the trained networks tell.

    A Gaussian process on warped accuracies: its mean is a slope, never negative, times the normal scores of the fixed
    ranking, and what deviates from it is a linear and a curved (Matérn) function of the proxies' normal scores and, in
    terms of its own, of the structure; see :class:`.Kernel`. A score that failed is the lowest of
    its proxy, and that it failed is a feature. Without trained networks, or as long as their accuracies are all the
    same, the ranking is the fixed one.

    Args:
        prior: The fixed ranking.
        scores: The scores of all candidates, of the prior's proxies and any others.
        trained: The accuracy of each network that was trained, or any other value of which higher is better; NaN where
            the training failed, which counts as the worst.
        proxies: What to learn from; everything that was scored by default.
        structure: Candidates × features, such as :func:`trainless.spaces.structure.features` of each.
        seed: Which 256 the kernel is fitted to where more were trained.

    Example:
        >>> from trainless.core.scores import Record
        >>> from trainless.rankings import RankProduct
        >>> scores = Scores([Record(c, "synflow", float(v), True) for v, c in enumerate("abcdef")])
        >>> learn(RankProduct(("synflow",)), scores, {}).next(2)
        ['f', 'e']
        >>> learned = learn(RankProduct(("synflow",)), scores, {"a": 90.0, "d": 50.0, "f": 10.0})
        >>> bool(learned.values[0] > learned.values[5])
        True
    """
    places = {name: row for row, name in enumerate(scores.candidates)}
    if strange := [name for name in trained if name not in places]:
        raise InputError(
            f"an accuracy of {strange[0]!r} was given, which is none of the {len(places)} candidates: score it too"
        )
    names = tuple(scores.proxies if proxies is None else proxies)
    blocks, standard = [_features(scores, names)], None
    if structure is not None:
        standard = _structured(structure, len(places))
        blocks.append(standard)
    known = {places[name]: float(value) for name, value in trained.items()}
    belief = believe(prior(scores), blocks, known, seed=seed)
    needed = tuple(dict.fromkeys((*prior.proxies, *names)))
    return Learned(prior, needed, names, scores.candidates, dict(trained), belief, standard)


def _features(scores: Scores, proxies: Sequence[str]) -> Floats:
    """Normal scores of each proxy, and the share of proxies that failed: candidates × (proxies + 1)."""
    columns = [normal_scores(upward(scores, proxy)) for proxy in proxies]
    failed = (
        np.mean([np.isnan(column(scores, proxy)) for proxy in proxies], axis=0) if proxies else np.zeros(len(scores))
    )
    return np.stack([*columns, failed - failed.mean()], axis=1)


def _structured(structure: npt.ArrayLike, candidates: int) -> Floats:
    given = np.asarray(structure, np.float64)
    if given.ndim != 2 or len(given) != candidates or not np.isfinite(given).all():
        raise InputError(
            f"structure of shape {given.shape} was given; expected finite numbers, {candidates} candidates × features"
        )
    return standardised(given)
