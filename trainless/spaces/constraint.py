"""Limits on what a network may cost, checked on shapes before anything is built."""

from __future__ import annotations

from collections.abc import Callable

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.protocol import Counted, Counts, Space


def counter(space: Space, task: Task) -> Callable[[Arch], Counts]:
    """A fast function from archs to their counts, or an error where the space cannot tell.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> count = counter(NasBench201(), Task.noise((3, 32, 32), classes=10))
        >>> count((3, 3, 3, 1, 3, 3)).layers
        246
    """
    if not isinstance(space, Counted):
        raise InputError(f"{space.name} cannot count before it builds: leave out the limits on FLOPs and parameters")
    space.check(task)
    counts = space.counts
    return lambda arch: counts(arch, task)


def constraint(
    space: Space, task: Task, *, flops: float | None = None, params: float | None = None
) -> Callable[[Arch], bool]:
    """Whether an arch is valid and within the limits: what samplers and searchers accept.

    Args:
        space: A space that has ``counts``.
        task: What gives the input's resolution.
        flops: The most multiply–accumulates of one sample.
        params: The most parameters.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> feasible = constraint(NasBench201(), Task.noise((3, 32, 32), classes=10), flops=50e6)
        >>> feasible((3, 3, 3, 1, 3, 3)), feasible((1, 1, 1, 1, 1, 1))
        (False, True)
    """
    for name, limit in (("flops", flops), ("params", params)):
        if limit is not None and not limit > 0:
            raise InputError(f"a limit of {limit} {name} was given; expected more than 0")
    count = counter(space, task)

    def feasible(arch: Arch) -> bool:
        if not space.valid(arch):
            return False
        cost = count(arch)
        return (flops is None or cost.flops <= flops) and (params is None or cost.params <= params)

    return feasible
