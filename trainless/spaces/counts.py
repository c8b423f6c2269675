"""Adding up what a network costs from shapes alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainless.spaces.protocol import Counts


@dataclass
class Tally:
    """Parameters, multiply–accumulates and parameter tensors, layer by layer.

    Example:
        >>> tally = Tally()
        >>> size = tally.conv(3, 8, 3, (32, 32), stride=2)
        >>> size, tally.counts()
        ((16, 16), Counts(params=216, flops=55296, layers=1))
    """

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
        """Count a convolution with the padding of ``ops.conv``; returns its output's size."""
        after = tuple((length - 1) // stride + 1 for length in size)
        weights = kernel ** len(after) * (inputs // groups) * outputs
        self.params += weights + outputs * bias
        self.flops += weights * math.prod(after)
        self.tensors += 1 + bias
        return after

    def norm(self, channels: int) -> None:
        """Count the scale and shift of a norm."""
        self.params += 2 * channels
        self.tensors += 2

    def linear(self, inputs: int, outputs: int, positions: int = 1, *, bias: bool = True) -> None:
        """Count a linear layer that is applied at so many positions."""
        self.params += inputs * outputs + outputs * bias
        self.flops += inputs * outputs * positions
        self.tensors += 1 + bias

    def parameter(self, size: int) -> None:
        """Count one learnt tensor that multiplies nothing."""
        self.params += size
        self.tensors += 1

    def counts(self) -> Counts:
        """What was added up so far."""
        return Counts(self.params, self.flops, self.tensors)
