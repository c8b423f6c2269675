"""The scatter of a block's channels against the covariance itself."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainless.probe.features import least_correlations, scatter, scattered_eigenvalues


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(2, 12), st.integers(0, 99))
def test_eigenvalues_and_least_correlation(channels: int, places: int, seed: int) -> None:
    """As many places as channels, more, or fewer: what is left out of the smaller matrix is zero."""
    rows = torch.randn(channels, places, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    found = scatter(rows)
    expected = torch.linalg.eigvalsh(torch.cov(rows, correction=0).reshape(channels, channels)).clamp_min(0)
    values = scattered_eigenvalues([found])[0]
    shared = min(len(values), channels)
    torch.testing.assert_close(values[-shared:], expected[-shared:], rtol=1e-9, atol=1e-12)
    assert float(expected[:-shared].sum() + values[:-shared].sum()) == pytest.approx(0, abs=1e-12)
    correlation = torch.corrcoef(rows).reshape(channels, channels)
    smallest = float(torch.linalg.eigvalsh(correlation)[0])
    assert least_correlations([found])[0] == pytest.approx(max(0, smallest), abs=1e-9)


def test_a_constant_channel_correlates_with_nothing() -> None:
    rows = torch.tensor([[1.0, 1.0, 1.0], [0.0, 1.0, 2.0]])
    assert least_correlations([scatter(rows)])[0] == 0
