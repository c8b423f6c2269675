"""Supernet pruning by importance (TE-NAS, TEG-NAS, TEACUP): the candidates are regions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trainless.core.arch import Arch, Proposal, Region, arch_of, is_region, whole
from trainless.core.errors import InputError
from trainless.core.ranks import rank_sum
from trainless.core.types import Floats
from trainless.searchers.searcher import Searcher, Told, room
from trainless.searchers.state import kept
from trainless.spaces.moves import Cut, Cuttable, sample


@dataclass(eq=False, kw_only=True)
class Prune(Searcher):
    """Start with everything open; each round, close on every decision the option whose loss does most good.

    A round evaluates the present region and every region with one option less. With columns c that are higher-is-
    better,

        gain = (c(without the option) − c(with it)) / |c(with it)|

    is ranked per column over all options of all decisions (dense ranks, the largest gain first), the ranks are added
    up, and each decision loses its ``number`` options with the lowest sums. Told −κ and R this is TE-NAS, told −κ, R
    and −MSE it is TEG-NAS's, told its four metrics it is TEACUP's (``first=()``).

    Deviations: TEACUP's program divides by a signed composite, so that what it prunes depends on the sign of the score;
    here the gain has the sign of the improvement. An option without a value is closed last. An option is not closed
    when the region would then hold no valid and feasible arch that could be found. Only that search is random.

    TE-NAS closes a ``number`` of 1 option per decision and round on NAS-Bench-201, 3 on DARTS for CIFAR-10 and 2 for
    ImageNet. Options called as in ``first`` are closed before the first round wherever others remain. Gains are rounded
    to ``decimals``, so that noise does not order them. A space may say itself what a round closes (:class:`.Cuttable`):
    the cells of DARTS edge by edge, whose nodes lose all edges but two at the end (``nds_edges``).
    """

    columns = None
    regions = True
    ranks = "any"
    number: int = 1
    first: Iterable[str] = ("none",)
    decimals: int = 3
    rounds: int = kept(0)
    _region: Region = kept()
    _witness: Arch = kept()
    _issued: int = kept(0)
    _results: dict[int, list[float]] = kept(dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.number < 1:
            raise InputError(f"prune was given number={self.number}; expected at least 1 option per decision and round")
        self._region = whole(self.space.decisions)
        self._witness = self._drawn()
        self._close_first(set(self.first))

    def _close_first(self, names: set[str]) -> None:
        for place, decision in enumerate(self.space.decisions):
            for option, name in enumerate(decision.options):
                if name in names:
                    self._close((place, frozenset({option})))

    def _close(self, cut: Cut) -> bool:
        """Close options unless nothing feasible would remain."""
        place, options = cut
        if self._region[place] <= options:
            return False
        smaller = without(self._region, cut)
        if self._witness[place] in options:
            witness = self._found(smaller)
            if witness is None:
                return False
            self._witness = witness
        self._region = smaller
        return True

    def _found(self, region: Region) -> Arch | None:
        """A feasible arch of a region: the witness with other options at one place, or a random one."""
        for place, part in enumerate(region):
            for option in sorted(part):
                arch = (*self._witness[:place], option, *self._witness[place + 1 :])
                inside = all(choice in open_ for choice, open_ in zip(arch, region, strict=True))
                if inside and self._allows(arch):
                    return arch
        try:
            return sample(self.space, self._rng, feasible=self.feasible, region=region, tries=2000)
        except InputError:
            return None

    def _round(self) -> list[Region]:
        """The regions of this round: the present one and each with one option less."""
        if all(len(part) == 1 for part in self._region):
            return []
        return [self._region, *(without(self._region, cut) for cut in self._open())]

    def _open(self) -> list[Cut]:
        if isinstance(self.space, Cuttable):
            return self.space.cuts(self._region)
        open_ = ((place, part) for place, part in enumerate(self._region) if len(part) > 1)
        return [(place, frozenset({option})) for place, part in open_ for option in sorted(part)]

    def ask(self, limit: int | None = None) -> list[Proposal]:
        regions = self._round()
        chosen = regions[self._issued : self._issued + room(limit, max(1, len(regions)))]
        self._issued += len(chosen)
        return [Proposal(region) for region in chosen]

    def tell(self, told: Told) -> None:
        """Collect a round, then prune; archs and regions of other rounds are not of interest."""
        places = {region: place for place, region in enumerate(self._round())}
        for proposal, row in told.rows():
            if is_region(proposal.candidate) and proposal.candidate in places:
                self._results[places[proposal.candidate]] = row
        if places and len(self._results) == len(places):
            self._prune(np.array([self._results[place] for place in range(len(places))]))

    def _prune(self, matrix: Floats) -> None:
        sums = rank_sum(gains(matrix[0], matrix[1:], self.decimals))
        ranked = sorted(zip(sums.tolist(), self._open(), strict=True), key=lambda each: each[0])
        self._issued, self._results = 0, {}
        self.rounds += 1
        before = self._region
        for place in range(len(self._region)):
            closed = 0
            for cut in [cut for _, cut in ranked if cut[0] == place]:
                if closed < self.number or len(cut[1]) > 1:
                    closed += self._close(cut)
        if self._region == before:
            self._region = tuple(frozenset({option}) for option in self._witness)

    @property
    def region(self) -> Region:
        return self._region

    def best(self) -> Arch:
        """The single path at the end; before it, some feasible arch of the region."""
        return arch_of(self._region) if all(len(part) == 1 for part in self._region) else self._witness


def without(region: Region, cut: Cut) -> Region:
    """The region with options closed."""
    place, options = cut
    return (*region[:place], region[place] - options, *region[place + 1 :])


def gains(present: Floats, cuts: Floats, decimals: int = 3) -> Floats:
    """By what part of its present size each column rises when an option goes.

    A column whose present value is 0, infinite or missing is compared as it is.
    """
    usable = np.isfinite(present) & (present != 0)
    base = np.where(usable, present, 0.0)
    return np.round((cuts - base) / np.where(usable, np.abs(base), 1.0), decimals)
