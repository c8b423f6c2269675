"""Bits against plain loops over booleans."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trainless.probe.patterns import Pattern, disagreements, distinct_columns, distinct_rows, packed


def drawn(samples: int, units: int, share: float, seed: int) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return (torch.rand(samples, units, generator=source) < share).float() - 0.5


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 140), st.integers(1, 90), st.sampled_from([0.02, 0.5]), st.integers(0, 99))
def test_equal_to_loops(samples: int, units: int, share: float, seed: int) -> None:
    """Numbers of samples and units on both sides of bytes and words."""
    gates = [drawn(samples, units, share, seed), drawn(samples, 5, share, seed + 1)]
    bits = torch.cat(gates, 1).gt(0)
    patterns = tuple(Pattern(packed(gate), gate.shape[1]) for gate in gates)
    rows = np.hstack([pattern.rows for pattern in patterns])
    assert torch.equal(torch.from_numpy(disagreements(rows)), (bits[:, None] != bits[None]).sum(2))
    assert distinct_rows(rows) == len({tuple(row) for row in bits.tolist()})
    assert distinct_columns(patterns) == len({tuple(column) for column in bits.T.tolist()})
    assert np.array_equal(disagreements(bits), disagreements(rows))  # booleans: as on a GPU
    assert distinct_rows(bits) == distinct_rows(rows)
    assert distinct_columns(tuple(Pattern(gate > 0, gate.shape[1]) for gate in gates)) == distinct_columns(patterns)


def test_a_unit_is_open_where_it_is_positive() -> None:
    gate = torch.tensor([[0.0, -0.0, torch.nan, 1e-40, -1.0, torch.inf]])
    assert np.unpackbits(packed(gate), axis=1, bitorder="little")[0, :6].tolist() == [0, 0, 0, 1, 0, 1]
