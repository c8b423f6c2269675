"""Activation patterns as bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from torch import Tensor

Bytes = npt.NDArray[np.uint8]


def packed_patterns(bits: Tensor) -> Bytes:
    """Rows of booleans, eight to a byte."""
    return np.packbits(bits.cpu().numpy(), axis=1)


def distinct_rows(rows: Bytes) -> int:
    """How many different rows there are.

    Example:
        >>> import torch
        >>> distinct_rows(packed_patterns(torch.tensor([[True, False], [True, False], [False, False]])))
        2
    """
    width = rows.shape[1]
    if width <= 8:
        whole = np.zeros((len(rows), 8), np.uint8)
        whole[:, :width] = rows
        return len(np.unique(whole.view(np.uint64)))
    return len(np.unique(np.ascontiguousarray(rows).view(np.dtype((np.void, width)))))
