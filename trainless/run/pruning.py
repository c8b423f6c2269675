"""How much a search by pruning takes."""

from __future__ import annotations

from collections.abc import Sequence

from trainless.spaces.protocol import Space


def prunings(space: Space, *, number: int = 1, first: Sequence[str] = ()) -> int:
    """How many regions a search by pruning looks at, whatever it finds.

    Args:
        space: What is pruned.
        number: Options that each decision loses in a round.
        first: Options that are closed before.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> prunings(NasBench201()), prunings(NasBench201(), first=("none",))
        (88, 57)
    """
    sizes = [max(1, len(set(decision.options) - set(first))) for decision in space.decisions]
    total = 0
    while any(size > 1 for size in sizes):
        total += 1 + sum(size for size in sizes if size > 1)
        sizes = [max(1, size - number) for size in sizes]
    return total
