"""A product of ranks in which an aspect that contradicts the others has no voice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainless.core.errors import InputError
from trainless.core.scores import Scores
from trainless.ranking.ranks import Mask, RankProduct, average_ranks, values_of
from trainless.ranking.types import Floats

FEWEST = 16  # candidates below which correlations say nothing and every part is heard


@dataclass(frozen=True)
class Consensus(RankProduct):
    """The mean of log(rank_p / n) over the parts that agree with one another, times the number of parts.

    What a proxy says depends on the space: the Jacobian's correlations tell good networks of NAS-Bench-201 from bad
    ones and mislead on DARTS cells, where no network lacks paths. No accuracy is needed to find that out, because the
    measures that are right agree. Parts that look at the same thing form an aspect and are heard or silenced together:
    one measure may contradict the rest and still be right, but not all that look where it does. The aspect whose
    product of ranks has the lowest mean Spearman correlation with the other aspects' is silenced as long as that mean
    is below ``agreement``; two aspects always remain. With fewer than 16 candidates all are heard.

    The idea is that of spectral meta-learners (Parisi et al. 2014, doi:10.1073/pnas.1219097111): experts of unknown
    skill are judged by their agreement. They weigh; here an expert is heard or not, which did better.

    Args:
        parts: What is ranked.
        together: Aspects of several parts; every other part is an aspect of its own.
        agreement: The lowest mean correlation with the others at which an aspect is heard.

    Example:
        >>> from trainless.core.scores import Record, Scores
        >>> values = {"a": [*range(20)], "b": [*range(1, 21)], "c": [*range(20, 0, -1)]}
        >>> scores = Scores([Record(str(i), p, float(v), True) for p, row in values.items() for i, v in enumerate(row)])
        >>> ranking = Consensus(("a", "b", "c"))
        >>> ranking.heard(scores), int(ranking(scores).argmax())
        (('a', 'b'), 19)
    """

    together: tuple[tuple[str, ...], ...] = ()
    agreement: float = 0.2

    def __post_init__(self) -> None:
        named = [name for aspect in self.together for name in aspect]
        unknown = [name for name in named if name not in self.parts]
        if not self.parts or unknown or len(set(named)) < len(named):
            raise InputError(
                f"parts {self.parts!r} and together {self.together!r} were given; expected at least one part, and"
                " aspects that are made of parts, none of them twice"
            )

    def heard(self, scores: Scores) -> tuple[str, ...]:
        """The parts that have a voice among these candidates."""
        columns = [values_of(part, scores) for part in self.parts]
        return tuple(str(part) for part, voice in zip(self.parts, self.voices(columns), strict=True) if voice)

    def voices(self, columns: list[Floats]) -> Mask:
        """Which parts are heard, given values that are higher for better candidates and NaN for failures."""
        return self._voices(np.array([average_ranks(values) for values in columns]))

    def combine(self, columns: list[Floats]) -> Floats:
        """The mean over the voices, times the number of parts."""
        ranks = np.array([average_ranks(values) for values in columns])
        voices = self._voices(ranks)
        total: Floats = np.log(ranks[voices] / ranks.shape[1]).mean(axis=0) * len(columns)
        return total

    def _voices(self, ranks: Floats) -> Mask:
        of = [next((tuple(aspect) for aspect in self.together if part in aspect), (part,)) for part in self.parts]
        aspects = list(dict.fromkeys(of))
        members = [[place for place, own in enumerate(of) if own == aspect] for aspect in aspects]
        heard = agreeing(np.array([_product(ranks[places]) for places in members]), self.agreement)
        return np.array([heard[aspects.index(own)] for own in of])


def _product(ranks: Floats) -> Floats:
    """The ranks of the product of ranks."""
    return average_ranks(np.log(ranks).sum(axis=0)) if len(ranks) > 1 else ranks[0]


def agreeing(ranks: Floats, agreement: float) -> Mask:
    """Which rows of ranks (aspects × candidates) agree with one another.

    Example:
        >>> up, down = np.arange(20.0), np.arange(20.0)[::-1]
        >>> agreeing(np.array([up, down, up]), 0.2)
        array([ True, False,  True])
    """
    voices = np.full(len(ranks), True)
    if ranks.shape[1] < FEWEST:
        return voices
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1)
    units = centred / np.where(norms > 0, norms, 1.0)[:, None]  # an aspect that tells nothing apart agrees with none
    correlations = units @ units.T
    np.fill_diagonal(correlations, 0.0)
    while voices.sum() > 2:
        heard = np.flatnonzero(voices)
        agreements = correlations[np.ix_(heard, heard)].sum(axis=1) / (len(heard) - 1)
        worst = int(agreements.argmin())
        if agreements[worst] >= agreement:
            break
        voices[heard[worst]] = False
    return voices
