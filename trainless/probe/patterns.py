"""Activation patterns as bits: which units are open for which samples, eight to a byte."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trainless.core.errors import Unscorable
from trainless.core.types import Bytes, Labels
from trainless.probe.layout import channels_lie_last
from trainless.probe.probe import Probe, quantity, remark
from trainless.probe.record import Activation, trace

WORD = 8  # bytes
_STEPS = ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0))


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where a rectifier is open.

    Attributes:
        rows: One row of bits per sample, zeros to the end of a 64-bit word.
        units: How many bits of a row count.
        times: How often the same tensor was rectified.
        feeds_convolution: How many convolutions take the result.
    """

    rows: Bytes
    units: int
    times: int = 1
    feeds_convolution: int = 0


@quantity
def activation_patterns(p: Probe) -> tuple[Pattern, ...]:
    """The patterns of all rectifiers of a probe, a thirty-second of the activations' size."""
    return tuple(
        Pattern(packed(activation.gate), activation.gate[0].numel(), activation.times, activation.feeds_convolution)
        for activation in rectifiers(p)
    )


def rectifiers(p: Probe) -> list[Activation]:
    """The rectifying activations of a probe, every one with samples along its first axis.

    Those that do not depend on the input, such as in a network that makes position biases, are none of theirs.
    """
    found = []
    for activation in trace(p).activations:
        if activation.axes is not None:
            gate = activation.axes.by_sample(activation.gate, len(p.x))
            if gate is None:
                raise Unscorable("a rectifier mixes samples and positions: the samples' patterns cannot be told apart")
            found.append(activation if gate is activation.gate else replace(activation, gate=gate))
    if not found:
        raise Unscorable("the network has no rectifying activation")
    if kinds := sorted({activation.kind for activation in found} - {"ReLU"}):
        remark([f"activation patterns are those of {', '.join(kinds)}"])
    return found


def packed(gate: Tensor) -> Bytes:
    """Where the entries of each sample are positive, as rows of bits that end at a whole word.

    Example:
        >>> packed(torch.tensor([[1.0, -1.0, 2.0]]))[0].tolist()
        [5, 0, 0, 0, 0, 0, 0, 0]
    """
    if channels_lie_last(gate):
        gate = gate.movedim(1, -1)  # units in the order of memory: any order will do
    rows = gate.flatten(1)
    if rows.is_cuda:
        rows = rows.gt(0).cpu()
    bits = np.packbits(rows.numpy() > 0, axis=1, bitorder="little")
    return np.pad(bits, ((0, 0), (0, -bits.shape[1] % WORD)))


def disagreements(rows: Bytes) -> Labels:
    """For each pair of rows, in how many bits they differ.

    Example:
        >>> disagreements(packed(torch.tensor([[1.0, -1.0, 2.0], [1.0, 1.0, -2.0]]))).tolist()
        [[0, 2], [2, 0]]
    """
    words = np.ascontiguousarray(rows).view(np.uint64)
    found = np.zeros((len(rows), len(rows)), np.int64)
    for index, row in enumerate(words):
        found[index, index:] = np.bitwise_count(words[index:] ^ row).sum(1, dtype=np.int64)
    return found + np.triu(found, 1).T


def distinct_rows(rows: Bytes) -> int:
    """The number of different rows.

    Example:
        >>> distinct_rows(packed(torch.tensor([[1.0, -1.0], [1.0, -1.0], [-1.0, -1.0]])))
        2
    """
    return len({row.tobytes() for row in rows})


def distinct_columns(found: tuple[Pattern, ...]) -> int:
    """The number of different columns in all patterns: one column is what a unit shows over the samples.

    Example:
        >>> distinct_columns((Pattern(packed(torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])), 2),))
        2
    """
    words = torch.from_numpy(np.concatenate([_columns(pattern) for pattern in found], 1))
    _, names = words[0].unique(return_inverse=True)
    for row in words[1:]:
        others, second = row.unique(return_inverse=True)
        _, names = (names * len(others) + second).unique(return_inverse=True)
    return int(names.max()) + 1


def _columns(pattern: Pattern) -> Labels:
    """Every unit's bits over the samples as numbers of 64 bits: ``(words, units)``."""
    samples = len(pattern.rows)
    rows = np.pad(pattern.rows, ((0, -samples % 64), (0, 0)))
    squares = np.ascontiguousarray(rows.reshape(len(rows) // 8, 8, -1).transpose(2, 0, 1)).view(np.uint64)[..., 0]
    turned = _turned(squares).view(np.uint8).reshape(rows.shape[1], len(rows) // 8, 8)
    units = np.ascontiguousarray(turned.transpose(0, 2, 1)).reshape(rows.shape[1] * 8, -1).view(np.int64)
    return np.ascontiguousarray(units[: pattern.units].T)


def _turned(squares: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Each number read as 8 × 8 bits and reflected, so that the bits of a column come to lie in one byte."""
    for shift, mask in _STEPS:
        swapped = (squares ^ (squares >> np.uint64(shift))) & np.uint64(mask)
        squares = squares ^ swapped ^ (swapped << np.uint64(shift))
    return squares
