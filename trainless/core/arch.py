"""Decisions, archs and regions: a search space seen without any network.

Nothing here imports torch, so that searchers can stand on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard, cast

from trainless.core.errors import InputError

Arch: TypeAlias = tuple[int, ...]
"""One option index per decision: hashable, JSON, the key everywhere."""

Region: TypeAlias = tuple[frozenset[int], ...]
"""The options still open per decision; an arch is a region of singletons."""

Candidate: TypeAlias = Arch | Region


@dataclass(frozen=True)
class Decision:
    """One open choice of a search space.

    Example:
        >>> Decision("depth", ("2", "3")).options
        ('2', '3')
    """

    name: str
    options: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.options)


def is_region(candidate: Candidate) -> TypeGuard[Region]:
    """Tell a region from an arch."""
    return any(isinstance(part, frozenset) for part in candidate)


def whole(decisions: Iterable[Decision]) -> Region:
    """The region in which everything is still open."""
    return tuple(frozenset(range(len(decision))) for decision in decisions)


def region_of(arch: Arch) -> Region:
    """The region that holds this arch alone."""
    return tuple(frozenset({option}) for option in arch)


def arch_of(region: Region) -> Arch:
    """The only arch of a region of singletons."""
    if any(len(part) != 1 for part in region):
        sizes = [len(part) for part in region]
        raise ValueError(f"a region with {sizes} open options per decision is not one arch")
    return tuple(next(iter(part)) for part in region)


@dataclass(frozen=True)
class Proposal:
    """A candidate to evaluate, and with how much effort: 1 is full training, or no training at all for a proxy."""

    candidate: Candidate
    fidelity: float = 1.0

    @property
    def arch(self) -> Arch:
        """The candidate, known to be an arch."""
        if is_region(self.candidate):
            raise InputError("a region was told to a searcher over architectures; only `prune` takes regions")
        return cast(Arch, self.candidate)
