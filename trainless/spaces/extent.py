"""How large a space is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from trainless.spaces.moves import Choices, enumerate_archs, size

COUNTED = 20_000
"""Spaces of up to so many archs are counted one by one where they do not know their numbers."""


@dataclass(frozen=True)
class Extent:
    """Numbers of archs, None where nobody knows.

    Attributes:
        combinations: What the decisions span.
        valid: Those that make a network.
        different: Those that are left when twins count once, by the space's canonical form.
    """

    combinations: int
    valid: int | None = None
    different: int | None = None


@runtime_checkable
class Sized(Protocol):
    """A space that knows its exact numbers without enumeration."""

    def extent(self) -> Extent:
        """Its numbers."""
        ...


def extent(space: Choices) -> Extent:
    """The numbers of a space: its own, or counted where it is small.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> extent(NasBench201())
        Extent(combinations=15625, valid=15625, different=5653)
    """
    if isinstance(space, Sized):
        return space.extent()
    if size(space) > COUNTED:
        return Extent(size(space))
    valid = list(enumerate_archs(space))
    return Extent(size(space), len(valid), len({space.canonical(arch) for arch in valid}))
