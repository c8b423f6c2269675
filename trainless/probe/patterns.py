"""Activation patterns as bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
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


def distinct_columns(parts: list[Tensor]) -> int:
    """How many different columns there are in matrices of booleans that stand side by side.

    Up to 48 rows make one exact number; more make several, which are compared together.

    Example:
        >>> distinct_columns([torch.tensor([[True, True], [False, False]]), torch.tensor([[False], [True]])])
        2
    """
    columns = []
    for bits in parts:
        chunks = bits.split(48)
        columns.append(torch.stack([_numbers(chunk) for chunk in chunks]))
    codes = torch.cat(columns, 1)
    if len(codes) == 1:
        return len(codes[0].unique())
    order = codes[0].argsort()
    for row in codes[1:]:
        order = order[row[order].argsort(stable=True)]
    ordered = codes[:, order]
    return 1 + int((ordered[:, 1:] != ordered[:, :-1]).any(0).sum())


def _numbers(bits: Tensor) -> Tensor:
    """Each column read as a binary number, exact in double precision."""
    powers = 2.0 ** torch.arange(len(bits), dtype=torch.float64, device=bits.device)
    return powers @ bits.double()
