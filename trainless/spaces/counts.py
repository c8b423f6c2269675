"""The cost of a network from shapes alone, before anything is built: adding it up, and limits on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.protocol import Counted, Counts, Space


@dataclass
class Tally:
    """Parameters, multiply–accumulates and parameter tensors, layer by layer."""

    params: int = 0
    flops: int = 0
    tensors: int = 0

    def conv(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        size: Sequence[int],
        *,
        stride: int = 1,
        groups: int = 1,
        bias: bool = False,
    ) -> tuple[int, ...]:
        """Count a convolution with the padding of ``conv``; returns its output's size."""
        after = tuple((length - 1) // stride + 1 for length in size)
        weights = kernel ** len(after) * (inputs // groups) * outputs
        self.params += weights + outputs * bias
        self.flops += weights * math.prod(after)
        self.tensors += 1 + bias
        return after

    def norm(self, channels: int) -> None:
        self.params += 2 * channels
        self.tensors += 2

    def linear(self, inputs: int, outputs: int, positions: int = 1, *, bias: bool = True) -> None:
        self.params += inputs * outputs + outputs * bias
        self.flops += inputs * outputs * positions
        self.tensors += 1 + bias

    def parameter(self, size: int) -> None:
        self.params += size
        self.tensors += 1

    def counts(self) -> Counts:
        return Counts(self.params, self.flops, self.tensors)


def counter(space: Space, task: Task) -> Callable[[Arch], Counts]:
    """A fast function from archs to their counts, or an error where the space cannot tell."""
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
