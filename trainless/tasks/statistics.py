"""What is computed from all values, in pieces that fit in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from trainless.core.errors import InputError
from trainless.core.task import Rows
from trainless.core.types import Array, Floats

PIECE = 2**23  # values held at once


def pieces(x: Array | Rows, values: int = PIECE) -> Iterator[Array]:
    """The array in consecutive slices of about so many values."""
    step = max(1, values // max(1, int(np.prod(x.shape[1:]))))
    for start in range(0, len(x), step):
        yield x[start : start + step]


def require_finite(x: Array | Rows, part: str = "") -> None:
    """Raise an error that counts the values that float32 cannot hold, and numbers the first sample as it was given."""
    if x.dtype.kind != "f":
        return
    bad = first = 0
    seen = 0
    for piece in pieces(x):
        wrong = ~(np.abs(piece) <= np.finfo(np.float32).max)
        if wrong.any():
            first = first if bad else seen + int(np.flatnonzero(wrong.reshape(len(piece), -1).any(1))[0])
            bad += int(wrong.sum())
        seen += len(piece)
    if bad:
        of = f" of the {part} part" if part else ""
        raise InputError(
            f"{bad} values{of} are NaN or infinite, first in sample {first} (counted from 0): remove or fill them"
        )


def moments(x: Array | Rows, values: int = PIECE) -> tuple[Floats, Floats]:
    """Mean and standard deviation per channel of ``(N, C, *spatial)``, merged piece by piece (Chan et al. 1979).

    Example:
        >>> mean, std = moments(np.array([[[1.0, 3.0]], [[5.0, 7.0]]]))
        >>> mean, std.round(6)
        (array([4.]), array([2.236068]))
    """
    count = 0
    mean, square = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    axes = (0, *range(2, len(x.shape)))
    for piece in pieces(x, values):
        block = np.asarray(piece, np.float64)
        n = block.size // block.shape[1]
        centre = block.mean(axes)
        shift = centre - mean
        inside = np.square(block - centre.reshape(-1, *[1] * (block.ndim - 2))).sum(axes)
        mean = mean + shift * (n / (count + n))
        square = square + inside + shift**2 * (count * n / (count + n))
        count += n
    return mean, np.sqrt(square / count)


def copies(train: Array, other: Array) -> int:
    """How many samples of another part are exact copies of training samples."""
    known = {_digest(row) for row in train}
    return sum(_digest(row) in known for row in other)


def _digest(row: Array) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(row).data, digest_size=16).digest()
