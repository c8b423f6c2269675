"""Rankings made of ranks: only defined relative to a collection."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, TypeAlias, final

import numpy as np

from trainless.core.errors import InputError
from trainless.core.ranks import average_ranks, better_counts
from trainless.core.scores import Scores
from trainless.core.types import Floats, Mask
from trainless.rankings.ranking import Ranking, column, upward


@dataclass(frozen=True)
class Lexicographic(Ranking):
    """Candidates by one proxy, and within its ties by another: the dense rank of the pair, 1 for the worst.

    VKDNW_single (equation 12) is this with the number of layers and the entropy; the paper adds the two, which is the
    same as long as the entropy stays below 1, and the program ranks the pairs. A failure in either has rank 0.
    """

    first: str
    within: str
    reference: str = field(default="", kw_only=True, compare=False, repr=False)

    @cached_property
    def proxies(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.first, self.within)

    def by_ranks(self) -> RankAggregate:
        return RankProduct((self,))

    def __call__(self, scores: Scores) -> Floats:
        pairs = np.stack([_signed(scores, proxy) for proxy in self.proxies], axis=1)
        known = ~np.isnan(pairs).any(axis=1)
        ranks = np.zeros(len(pairs))
        if known.any():
            ranks[known] = 1.0 + np.unique(pairs[known], axis=0, return_inverse=True)[1].reshape(-1)
        return ranks


def _signed(scores: Scores, proxy: str) -> Floats:
    values = column(scores, proxy)
    return values if scores.higher_is_better[proxy] else -values


Part: TypeAlias = str | Lexicographic
"""What is ranked: a proxy, or a ranking of two."""


def values_of(part: Part, scores: Scores) -> Floats:
    """One number per candidate, higher is better, NaN where it failed."""
    if isinstance(part, str):
        return upward(scores, part)
    ranks = part(scores)
    return np.where(ranks > 0, ranks, np.nan)


@dataclass(frozen=True)
class RankAggregate(Ranking):
    """A ranking that joins the ranks of its parts, so that it can be kept up to date (:class:`.Incremental`)."""

    parts: tuple[Part, ...]
    reference: str = field(default="", kw_only=True, compare=False, repr=False)
    kind: ClassVar[str] = ""

    @cached_property
    def proxies(self) -> tuple[str, ...]:  # type: ignore[override]
        nested = ((part,) if isinstance(part, str) else part.proxies for part in self.parts)
        return tuple(dict.fromkeys(name for names in nested for name in names))

    @cached_property
    def aggregate(self) -> str:  # type: ignore[override]
        return self.kind if all(isinstance(part, str) for part in self.parts) else ""

    @final
    def by_ranks(self) -> RankAggregate:
        return self

    @final
    def __call__(self, scores: Scores) -> Floats:
        return self.combine([values_of(part, scores) for part in self.parts])

    def voices(self, columns: list[Floats]) -> Mask:
        """Which parts count; all of them unless a ranking says otherwise."""
        return np.full(len(columns), True)

    @property
    def optional(self) -> Mask:
        """Which parts a candidate may lack: the mean of its other parts then stands in for them."""
        return np.full(len(self.parts), False)

    @abstractmethod
    def combine(self, columns: list[Floats]) -> Floats:
        """The aggregate of values that are higher for better candidates and NaN for failures."""

    @abstractmethod
    def term(self, better: int, equal: int, seen: int) -> float:
        """One part's share for a candidate by how many are better, equal (itself too) and seen."""

    @abstractmethod
    def expected(self, value: float, seen: int) -> float:
        """A value among so many seen as one among the places that they leave for the next."""


@dataclass(frozen=True)
class RankProduct(RankAggregate):
    """AZ-NAS's and VKDNW_agg's aggregate: Σ_p log(rank_p / n), the best having rank n, ties the mean of their ranks.

    Infinite scores count as the extreme finite ones, as in VKDNW's program. A failure is last in its proxy, below
    every number (the program makes it equal to the worst one).

    Example:
        >>> from trainless.core.scores import Record
        >>> scores = Scores([Record("a", "snip", 3.0, True), Record("b", "snip", 7.0, True)])
        >>> RankProduct(("snip",))(scores).round(3)
        array([-0.693,  0.   ])
    """

    kind = "product"

    def combine(self, columns: list[Floats]) -> Floats:
        total: Floats = np.sum([np.log(average_ranks(values) / len(values)) for values in columns], axis=0)
        return total

    def term(self, better: int, equal: int, seen: int) -> float:
        return float(np.log((seen - better - (equal - 1) / 2) / seen))

    def expected(self, value: float, seen: int) -> float:
        return value + len(self.parts) * math.log(seen / (seen + 1))


@dataclass(frozen=True)
class RankSum(RankAggregate):
    """TE-NAS's and TEG-NAS's sum of ranks: −Σ_p (number of candidates that are better in p).

    Equal candidates share the best of their ranks, as in TEG-NAS's program; a failure is last in its proxy.
    """

    kind = "sum"

    def combine(self, columns: list[Floats]) -> Floats:
        total: Floats = 0.0 - np.sum([better_counts(values) for values in columns], axis=0)
        return total

    def term(self, better: int, equal: int, seen: int) -> float:
        return -float(better)

    def expected(self, value: float, seen: int) -> float:
        return (value - len(self.parts)) / (seen + 1)


FEWEST = 16  # candidates below which correlations say nothing and every part is heard


@dataclass(frozen=True)
class Consensus(RankProduct):
    """The mean of log(rank_p / n) over the parts that are heard, times the number of parts.

    What a proxy says depends on the space: the Jacobian's correlations tell good networks of NAS-Bench-201 from bad
    ones and mislead on DARTS cells, where no network lacks paths. No accuracy is needed to find that out, because the
    measures that are right agree. Parts that look at the same thing form an aspect and are heard or silenced together:
    one measure may contradict the rest and still be right, but not all that look where it does. With fewer than 16
    candidates all are heard.

    With a ``core`` of measures that are always heard, an aspect is heard if the Spearman correlation of its product of
    ranks with the core's is at least ``agreement``. Without one the aspect with the lowest mean correlation with the
    other aspects' is silenced as long as that mean is below ``agreement``; two aspects always remain.

    The idea is that of spectral meta-learners (Parisi et al. 2014, doi:10.1073/pnas.1219097111): experts of unknown
    skill are judged by their agreement. They weigh; here an expert is heard or not, which did better.

    With ``mixed`` parts the core and its voices are heard only where the core's first measure agrees with ``size``:
    within a search space networks with more paths compute more. Where they do not, the candidates are of families that
    paths cannot compare, and the mixed parts are heard alone.

    A part that is named twice counts twice. A candidate that lacks what is not of the core is neither better nor worse
    for it: the mean of its core stands in. Without a core it is last there. ``together`` are aspects of several parts;
    every other part is one of its own. Unless given, parts whose proxies name the same aspect. ``agreement`` is the
    lowest correlation at which an aspect is heard, ``akin`` that at which candidates are of one family.
    """

    kind = ""
    together: tuple[tuple[str, ...], ...] | None = None
    agreement: float = 0.2
    core: tuple[str, ...] = ()
    size: str = ""
    mixed: tuple[str, ...] = ()
    akin: float = 0.4

    def __post_init__(self) -> None:
        named = [name for aspect in self.together or () for name in aspect]
        groups = (*named, *self.core, *self.mixed)
        unknown = [name for name in (*groups, *([self.size] if self.mixed else [])) if name not in self.parts]
        if not self.parts or unknown or len(set(groups)) < len(groups) or (self.mixed and not self.core):
            raise InputError(
                f"parts {self.parts!r}, together {self.together!r}, core {self.core!r} and mixed {self.mixed!r} were"
                " given; expected at least one part; aspects that are made of parts, as are core and mixed, none of"
                " them in two; and a core where there are mixed parts"
            )

    def heard(self, scores: Scores) -> tuple[str, ...]:
        """The parts that have a voice among these candidates."""
        columns = [values_of(part, scores) for part in self.parts]
        voices = zip(self.parts, self.voices(columns), strict=True)
        return tuple(dict.fromkeys(str(part) for part, voice in voices if voice))

    def agreements(self, scores: Scores) -> dict[tuple[str, ...], float]:
        """By aspect, its correlation with the core; without one, its mean correlation with the other aspects."""
        return self.agreements_of([values_of(part, scores) for part in self.parts])

    def silenced(self, scores: Scores) -> tuple[str, ...]:
        """The parts that have no voice because they contradict those that have."""
        if self.mixed and len(scores) >= FEWEST and self.likeness(scores) < self.akin:
            return ()
        heard, apart = self.heard(scores), dict(zip(self.parts, self._apart, strict=True))
        return tuple(str(part) for part in dict.fromkeys(self.parts) if not apart[part] and part not in heard)

    def likeness(self, scores: Scores) -> float:
        """How the core's first measure agrees with the size; NaN where that does not matter."""
        if not self.mixed:
            return math.nan
        return self._likeness(np.array([average_ranks(values_of(part, scores)) for part in self.parts]))

    def _likeness(self, ranks: Floats) -> float:
        return float(_correlations(ranks[[self.parts.index(self.core[0]), self.parts.index(self.size)]])[0, 1])

    def agreements_of(self, columns: list[Floats]) -> dict[tuple[str, ...], float]:
        """The same of values that are higher for better candidates and NaN for failures."""
        found = _correlations(self._products(np.array([average_ranks(values) for values in columns])))
        if not self.core:
            np.fill_diagonal(found, np.nan)
            means = np.nanmean(found, axis=1) if len(found) > 1 else np.full(len(found), np.nan)
            return dict(zip(self._named, means.tolist(), strict=True))
        return dict(zip(self._named[1:], found[0, 1:].tolist(), strict=True))

    def voices(self, columns: list[Floats]) -> Mask:
        return self._voices(np.array([average_ranks(values) for values in columns]))

    def combine(self, columns: list[Floats]) -> Floats:
        ranks = np.array([average_ranks(values) for values in columns])
        terms = np.log(ranks / ranks.shape[1])
        lacking = self.optional[:, None] & np.isnan(np.array(columns))
        if lacking.any():
            terms = np.where(lacking, terms[[part in self.core for part in self.parts]].mean(axis=0), terms)
        total: Floats = terms[self._voices(ranks)].mean(axis=0) * len(columns)
        return total

    @property
    def optional(self) -> Mask:
        needed = {*self.core, *self.mixed}
        return np.array([bool(self.core) and part not in needed for part in self.parts])

    @cached_property
    def _apart(self) -> Mask:
        """The parts that are heard only where candidates are of several families, or few."""
        apart = {*self.mixed, self.size} if self.mixed else set[str]()
        return np.array([part in apart for part in self.parts])

    @cached_property
    def _aspects(self) -> list[object]:
        """The aspect of each part."""
        if self.together is None:
            of = [_aspect(part) for part in self.parts]
        else:
            of = [next((tuple(each) for each in self.together if part in each), (part,)) for part in self.parts]
        return [CORE if part in self.core else own for part, own in zip(self.parts, of, strict=True)]

    @cached_property
    def _members(self) -> list[list[int]]:
        """The places of the parts of each aspect, each part once, the core's first."""
        of = self._aspects
        aspects = sorted(dict.fromkeys(of), key=lambda aspect: aspect != CORE)
        once = [
            place for place, part in enumerate(self.parts) if part not in self.parts[:place] and not self._apart[place]
        ]
        aspects = [aspect for aspect in aspects if any(of[place] == aspect for place in once)]
        return [[place for place in once if of[place] == aspect] for aspect in aspects]

    @property
    def _named(self) -> list[tuple[str, ...]]:
        return [tuple(str(self.parts[place]) for place in places) for places in self._members]

    def _products(self, ranks: Floats) -> Floats:
        return np.array([_product(ranks[places]) for places in self._members])

    def _voices(self, ranks: Floats) -> Mask:
        if ranks.shape[1] < FEWEST:
            return np.full(len(ranks), True)
        if self.mixed and self._likeness(ranks) < self.akin:
            return np.array([part in self.mixed for part in self.parts])
        products = self._products(ranks)
        heard = agreeing_with(products, self.agreement) if self.core else agreeing(products, self.agreement)
        of = [self._aspects[places[0]] for places in self._members]
        own = zip(self._aspects, self._apart, strict=True)
        found: Mask = np.array([not apart and bool(heard[of.index(aspect)]) for aspect, apart in own])
        return found


CORE = "the core"
"""The aspect of the core's parts."""


def _aspect(part: Part) -> object:
    """What a proxy says of itself that it looks at; anything else is an aspect of its own."""
    from trainless.proxies import registry  # when asked, because it imports torch

    return (registry[part].aspect if isinstance(part, str) and part in registry else "") or (part,)


def _product(ranks: Floats) -> Floats:
    """The ranks of the product of ranks; not of its logarithm, whose rounding would tell equal products apart."""
    return average_ranks(ranks.prod(axis=0)) if len(ranks) > 1 else ranks[0]


def agreeing_with(ranks: Floats, agreement: float) -> Mask:
    """Which rows of ranks (aspects × candidates) agree with the first one."""
    voices: Mask = _correlations(ranks)[0] >= agreement
    voices[0] = True
    return voices


def agreeing(ranks: Floats, agreement: float) -> Mask:
    """Which rows of ranks (aspects × candidates) agree with one another."""
    voices = np.full(len(ranks), True)
    correlations = _correlations(ranks)
    np.fill_diagonal(correlations, 0.0)
    while voices.sum() > 2:
        heard = np.flatnonzero(voices)
        agreements = correlations[np.ix_(heard, heard)].sum(axis=1) / (len(heard) - 1)
        worst = int(agreements.argmin())
        if agreements[worst] >= agreement:
            break
        voices[heard[worst]] = False
    return voices


def _correlations(ranks: Floats) -> Floats:
    """Of each row with each; of a row that tells nothing apart, zero."""
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1)
    units = centred / np.where(norms > 0, norms, 1.0)[:, None]
    found: Floats = units @ units.T
    return found
