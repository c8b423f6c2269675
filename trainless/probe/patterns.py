"""Activation patterns as bits: which units are open for which samples, eight to a byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trainless.core.errors import Unscorable
from trainless.core.types import Bytes, Labels
from trainless.probe.layout import channels_lie_last
from trainless.probe.probe import Probe, quantity, remark
from trainless.probe.record import Activation, require_followed, trace

WORD = 8  # bytes
PART = 1 << 21  # units that are looked at together on a GPU
EXACT = 48  # bits that a double holds as a whole number
_STEPS = ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0))


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where a rectifier is open.

    Attributes:
        rows: One row of bits per sample, zeros to the end of a 64-bit word; on a GPU, one boolean per unit.
        units: How many bits of a row count.
        times: How often the same tensor was rectified.
        feeds_convolution: How many convolutions take the result.
    """

    rows: Bytes | Tensor
    units: int
    times: int = 1
    feeds_convolution: int = 0


@quantity
def activation_patterns(p: Probe) -> tuple[Pattern, ...]:
    """The patterns of all rectifiers of a probe, a thirty-second of the activations' size; on a GPU a quarter."""
    return tuple(
        Pattern(
            activation.gate.flatten(1) > 0 if activation.gate.is_cuda else packed(activation.gate),
            activation.gate[0].numel(),
            activation.times,
            activation.feeds_convolution,
        )
        for activation in rectifiers(p)
    )


def rectifiers(p: Probe) -> list[Activation]:
    """The rectifying activations of a probe, every one with samples along its first axis.

    Those that do not depend on the input, such as in a network that makes position biases, are none of theirs.
    """
    found = []
    require_followed(p)
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
    bits = np.packbits(rows.numpy() > 0, axis=1, bitorder="little")
    return np.pad(bits, ((0, 0), (0, -bits.shape[1] % WORD)))


def joined(rows: Sequence[Bytes | Tensor], axis: int) -> Bytes | Tensor:
    """The rows of several patterns below (0) or beside (1) one another.

    Example:
        >>> joined([torch.tensor([[True]]), torch.tensor([[False]])], 1).tolist()
        [[True, False]]
    """
    tensors = [each for each in rows if isinstance(each, Tensor)]
    return torch.cat(tensors, axis) if tensors else np.concatenate([np.asarray(each) for each in rows], axis)


def disagreements(rows: Bytes | Tensor) -> Labels:
    """For each pair of rows, in how many bits they differ.

    Example:
        >>> gate = torch.tensor([[1.0, -1.0, 2.0], [1.0, 1.0, -2.0]])
        >>> disagreements(packed(gate)).tolist(), disagreements(gate > 0).tolist()
        ([[0, 2], [2, 0]], [[0, 2], [2, 0]])
    """
    if isinstance(rows, Tensor):
        return _disagreements(rows)
    words = np.ascontiguousarray(rows).view(np.uint64)
    found = np.zeros((len(rows), len(rows)), np.int64)
    for index, row in enumerate(words):
        found[index, index:] = np.bitwise_count(words[index:] ^ row).sum(1, dtype=np.int64)
    return found + np.triu(found, 1).T


def _disagreements(rows: Tensor) -> Labels:
    """The same of booleans, by products: sums below 2²⁴ are exact in single precision."""
    found = torch.zeros(len(rows), len(rows), dtype=torch.float64, device=rows.device)
    for part in rows.split(PART, 1):
        numbers = part.float()
        both = (numbers @ numbers.T).double()
        open_ = both.diagonal()
        found += open_[:, None] + open_[None] - 2 * both
    return found.long().cpu().numpy()


def distinct_rows(rows: Bytes | Tensor) -> int:
    """The number of different rows.

    Example:
        >>> gate = torch.tensor([[1.0, -1.0], [1.0, -1.0], [-1.0, -1.0]])
        >>> distinct_rows(packed(gate)), distinct_rows(gate > 0)
        (2, 2)
    """
    if isinstance(rows, Tensor):
        return int((np.tril(disagreements(rows) == 0, -1).any(1) == 0).sum())
    return len({row.tobytes() for row in rows})


def distinct_columns(found: tuple[Pattern, ...]) -> int:
    """The number of different columns in all patterns: one column is what a unit shows over the samples.

    Example:
        >>> gate = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
        >>> distinct_columns((Pattern(packed(gate), 2),)), distinct_columns((Pattern(gate > 0, 2),))
        (2, 2)
    """
    if isinstance(found[0].rows, Tensor):
        rows = torch.cat([torch.as_tensor(pattern.rows) for pattern in found], 1)
        words = torch.stack([_words(part) for part in rows.split(EXACT)])
    else:
        words = torch.from_numpy(np.concatenate([_columns(pattern) for pattern in found], 1))
    _, names = words[0].unique(return_inverse=True)
    for row in words[1:]:
        others, second = row.unique(return_inverse=True)
        _, names = (names * len(others) + second).unique(return_inverse=True)
    return int(names.max()) + 1


def _words(rows: Tensor) -> Tensor:
    """The columns of up to ``EXACT`` rows of booleans as numbers."""
    powers = 2.0 ** torch.arange(len(rows), dtype=torch.float64, device=rows.device)
    return torch.cat([powers @ part.double() for part in rows.split(PART, 1)]).long()


def _columns(pattern: Pattern) -> Labels:
    """Every unit's bits over the samples as numbers of 64 bits: ``(words, units)``."""
    samples = len(pattern.rows)
    rows = np.pad(np.asarray(pattern.rows), ((0, -samples % 64), (0, 0)))
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
