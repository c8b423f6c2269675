"""Sampling, mutation, crossover, enumeration and distance: free functions over a space's decisions.

They need decisions, validity and the canonical form and nothing else, so a new space has them at once, and no
network is ever built. Randomness comes from the generator that is passed in.

Example:
    >>> from trainless.spaces.nb201 import NasBench201
    >>> space, rng = NasBench201(), np.random.default_rng(0)
    >>> arch = sample(space, rng)
    >>> len(neighbours(space, arch)), distance(arch, mutate(space, arch, rng)), cross(space, arch, arch, rng) == arch
    (24, 1, True)
    >>> sum(1 for _ in enumerate_archs(space)), arch_at(space, 7)
    (15625, (0, 0, 0, 0, 1, 2))
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from trainless.core.arch import Arch, Decision, Region, whole
from trainless.core.errors import InputError

Rng: TypeAlias = np.random.Generator
Feasible: TypeAlias = Callable[[Arch], bool]
"""A limit on what may be proposed: asked about valid archs only, before anything is built or scored."""

TRIES = 100_000
LOOKED_AT = 2000  # draws that tell a rule that nothing keeps from limits that nothing keeps


@runtime_checkable
class Limit(Protocol):
    """A limit that can say what nothing has kept so far, how far off the nearest was, and what to do."""

    def refused(self) -> str:
        """The end of a sentence; empty where there is nothing to say."""
        ...


class Choices(Protocol):
    """The part of a space that moves and searchers look at."""

    @property
    def name(self) -> str: ...

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The open choices, in order."""
        ...

    def valid(self, arch: Arch) -> bool:
        """Whether these options make a network."""
        ...

    def canonical(self, arch: Arch) -> Arch:
        """The one key of all archs that compute the same function."""
        ...


@runtime_checkable
class Parted(Choices, Protocol):
    """A space in parts that have nothing to do with each other, such as two cells."""

    @property
    def parts(self) -> tuple[int, ...]:
        """How many decisions each part has; a part is valid and canonical whatever the other parts are."""
        ...


Cut: TypeAlias = tuple[int, frozenset[int]]
"""A decision and the options of it that are closed together."""


@runtime_checkable
class Cuttable(Choices, Protocol):
    """A space that says what pruning may close next, where that is not any open option of any decision."""

    def cuts(self, region: Region) -> list[Cut]:
        """What may be closed in this region.

        A decision whose cuts are of several options is left nothing to choose in one round; any other one loses as many
        options as pruning takes in a round.
        """
        ...


def has_options(space: Choices, arch: Arch) -> bool:
    """Whether there is an option for every decision, and it exists."""
    decisions = space.decisions
    return len(arch) == len(decisions) and all(
        option in range(len(decision)) for option, decision in zip(arch, decisions, strict=True)
    )


def allowed(space: Choices, arch: Arch, feasible: Feasible | None = None) -> bool:
    """Whether an arch is valid and, where there is a limit, within it."""
    return space.valid(arch) and (feasible is None or feasible(arch))


def size(space: Choices) -> int:
    """How many archs the decisions span, valid or not."""
    return math.prod(len(decision) for decision in space.decisions)


def arch_at(space: Choices, index: int) -> Arch:
    """The arch at a position of the enumeration; the last decision runs fastest."""
    options = []
    for decision in reversed(space.decisions):
        index, option = divmod(index, len(decision))
        options.append(option)
    return tuple(reversed(options))


def enumerate_archs(space: Choices, *, canonical: bool = False, feasible: Feasible | None = None) -> Iterator[Arch]:
    """Every valid and feasible arch in lexicographic order; with ``canonical`` one of each set of twins."""
    for arch in itertools.product(*(range(len(decision)) for decision in space.decisions)):
        if allowed(space, arch, feasible) and not (canonical and space.canonical(arch) != arch):
            yield arch


def sample(
    space: Choices,
    rng: Rng,
    *,
    canonical: bool = False,
    feasible: Feasible | None = None,
    region: Region | None = None,
    tries: int = TRIES,
) -> Arch:
    """Draw uniformly from the valid and feasible archs, by rejection.

    Args:
        space: What to draw from.
        rng: The source of randomness.
        canonical: Draw uniformly over functions rather than archs: an arch is accepted only where it is its own
            canonical representative, so every set of twins is equally likely. A space that says which of its
            ``parts`` are independent is drawn part by part. Where nearly every arch is a twin of another, as in
            ``recurrent`` with its unused nodes, no draw succeeds and the error says so.
        feasible: A limit; the draw is uniform over what it lets through.
        region: Draw from these open options only.
        tries: How many draws may be rejected before giving up.

    Raises:
        InputError: Where nothing was found.
    """
    options = [sorted(part) for part in (whole(space.decisions) if region is None else region)]
    if not canonical:
        return _drawn(space, rng, options, tries, lambda arch: allowed(space, arch, feasible), feasible)
    if isinstance(space, Parted):
        for _ in range(tries):
            arch = _part_by_part(space, rng, options, tries)
            if feasible is None or feasible(arch):
                return arch
        raise _nothing(space, tries, feasible)
    try:
        return _drawn(space, rng, options, tries, lambda arch: _own_twin(space, arch, feasible), feasible)
    except InputError as error:
        raise InputError(
            f"{space.name}: none of {tries} random architectures was the canonical one of its twins"
            f"{' and feasible' if feasible else ''}: there are too many twins, or too tight limits, to draw uniformly;"
            " leave canonical out and take space.canonical(arch) of what is drawn"
        ) from error


def _own_twin(space: Choices, arch: Arch, feasible: Feasible | None) -> bool:
    return allowed(space, arch, feasible) and space.canonical(arch) == arch


def _part_by_part(space: Parted, rng: Rng, options: list[list[int]], tries: int) -> Arch:
    """A canonical arch, each part drawn by rejection while the others stay: much rarer to reject than the whole."""
    arch = tuple(part[0] for part in options)
    start = 0
    for length in space.parts:
        part = slice(start, start + length)

        def accepted(other: Arch, part: slice = part) -> bool:
            return space.valid(other) and space.canonical(other)[part] == other[part]

        held = [[option] for option in arch]
        arch = _drawn(space, rng, [*held[: part.start], *options[part], *held[part.stop :]], tries, accepted, None)
        start += length
    return arch


def _drawn(
    space: Choices,
    rng: Rng,
    options: list[list[int]],
    tries: int,
    accepted: Callable[[Arch], bool],
    feasible: Feasible | None,
) -> Arch:
    """Draw all options uniformly until the arch is accepted."""
    counts = np.array([len(part) for part in options])
    block, left = 1, tries
    while left > 0:
        for row in rng.integers(counts, size=(min(block, left), len(counts))).tolist():
            arch = tuple(part[option] for part, option in zip(options, row, strict=True))
            if accepted(arch):
                return arch
        left -= block
        block = min(2 * block, 64)
    raise _nothing(space, tries, feasible)


def _nothing(space: Choices, tries: int, feasible: Feasible | None) -> InputError:
    """Why no draw was accepted: no arch is valid, or none of the valid ones keeps the limits."""
    rng = np.random.default_rng(0)
    counts = [len(decision) for decision in space.decisions]
    rows = rng.integers(counts, size=(LOOKED_AT, len(counts))).tolist()
    if feasible is None or not any(space.valid(tuple(row)) for row in rows):
        return InputError(
            f"{space.name}: none of {tries:,} random architectures was valid: the space's `valid` is true for none of"
            " them, or for too few; see what it says of an architecture that should be valid, and loosen it"
        )
    said = feasible.refused() if isinstance(feasible, Limit) else ""
    return InputError(
        f"{space.name}: none of {tries:,} random architectures was feasible: "
        + (said or "loosen the limits (parameters, FLOPs, depth, latency) or choose a space that can meet them")
    )


def neighbours(space: Choices, arch: Arch, *, feasible: Feasible | None = None) -> list[Arch]:
    """Every valid and feasible arch that differs in one decision."""
    near = (
        (*arch[:place], option, *arch[place + 1 :])
        for place, decision in enumerate(space.decisions)
        for option in range(len(decision))
        if option != arch[place]
    )
    return [other for other in near if allowed(space, other, feasible)]


def mutate(space: Choices, arch: Arch, rng: Rng, *, edits: int = 1, feasible: Feasible | None = None) -> Arch:
    """Pick ``edits`` decisions at random and give each another option, all options alike, until the result is allowed.

    Where no such change is allowed, as can happen in a constrained space, one more decision is changed at a time
    until something is; the result always differs from ``arch``.
    """
    counts = [len(decision) for decision in space.decisions]
    places = [place for place, count in enumerate(counts) if count > 1]
    for changed in range(min(edits, len(places)), len(places) + 1):
        for _ in range(8 * len(places) if changed == 1 else 400):
            other = _edited(arch, rng, counts, places, changed)
            if allowed(space, other, feasible):
                return other
        if changed == 1 and (near := neighbours(space, arch, feasible=feasible)):
            return _by_decision(arch, near, counts, rng)
    what = "valid" if feasible is None else "feasible"
    remedy = "it is the only one there is, or `valid` refuses the others" if feasible is None else "loosen the limits"
    raise InputError(f"{space.name}: no other {what} architecture was found around {arch}: {remedy}")


def _edited(arch: Arch, rng: Rng, counts: list[int], places: list[int], edits: int) -> Arch:
    single = edits == 1
    other = list(arch)
    for place in [places[int(rng.integers(len(places)))]] if single else rng.permutation(places)[:edits].tolist():
        option = int(rng.integers(counts[place] - 1))
        other[place] = option + (option >= arch[place])
    return tuple(other)


def _by_decision(arch: Arch, near: list[Arch], counts: list[int], rng: Rng) -> Arch:
    """One of the neighbours, each as likely as rejection would make it."""
    weights = np.array([1 / (counts[_changed(arch, other)] - 1) for other in near])
    return near[int(rng.choice(len(near), p=weights / weights.sum()))]


def _changed(arch: Arch, other: Arch) -> int:
    return next(place for place, (a, b) in enumerate(zip(arch, other, strict=True)) if a != b)


def cross(space: Choices, first: Arch, second: Arch, rng: Rng, *, feasible: Feasible | None = None) -> Arch:
    """Take every decision from either parent with equal chance; ``first`` where 100 such mixes are not allowed."""
    for _ in range(100):
        mask = (rng.random(len(first)) < 0.5).tolist()
        child = tuple(a if take else b for a, b, take in zip(first, second, mask, strict=True))
        if allowed(space, child, feasible):
            return child
    return first


def distance(first: Arch, second: Arch) -> int:
    """The number of decisions in which two archs differ."""
    return sum(a != b for a, b in zip(first, second, strict=True))


COUNTED = 20_000
"""Spaces of up to so many archs are counted one by one where they do not know their numbers."""


@dataclass(frozen=True)
class Extent:
    """Numbers of archs, None where nobody knows.

    ``valid`` ones make a network; twins count once among those that are ``different``.
    """

    combinations: int
    valid: int | None = None
    different: int | None = None


@runtime_checkable
class Sized(Protocol):
    """A space that knows its exact numbers without enumeration."""

    def extent(self) -> Extent: ...


def extent(space: Choices) -> Extent:
    """The numbers of a space: its own, or counted where it is small."""
    if isinstance(space, Sized):
        return space.extent()
    if size(space) > COUNTED:
        return Extent(size(space))
    valid = list(enumerate_archs(space))
    return Extent(size(space), len(valid), len({space.canonical(arch) for arch in valid}))
