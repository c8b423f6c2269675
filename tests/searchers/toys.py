"""Small spaces whose every property can be counted by hand."""

from __future__ import annotations

from dataclasses import dataclass

from trainless.core.arch import Arch, Decision


@dataclass(frozen=True)
class Toy:
    """Decisions of 2, 3 and 4 options and one without a choice; the first two may not both be 1; sorted twins."""

    name: str = "toy"

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return tuple(
            Decision(name, tuple("abcd"[:count])) for name, count in (("p", 2), ("q", 3), ("r", 4), ("fixed", 1))
        )

    def valid(self, arch: Arch) -> bool:
        return not (arch[0] == 1 and arch[1] == 1)

    def canonical(self, arch: Arch) -> Arch:
        return (*arch[:2], 0, arch[3]) if arch[0] == 0 else arch


@dataclass(frozen=True)
class Parity:
    """Four bits of which an even number is set: no single change is valid."""

    name: str = "parity"

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return tuple(Decision(f"bit{place}", ("none", "one")) for place in range(4))

    def valid(self, arch: Arch) -> bool:
        return sum(arch) % 2 == 0

    def canonical(self, arch: Arch) -> Arch:
        return arch
