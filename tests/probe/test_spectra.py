"""Eigenvalues and singular values against full decompositions."""

from __future__ import annotations

import pytest
import torch

from trainless.probe import spectra
from trainless.probe.spectra import (
    TOLERANCE,
    eigenvalues,
    largest_singular_value,
    largest_singular_values,
    least_eigenvalues,
)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("places", [230, 400, 4000])
def test_least_eigenvalues_of_wide_correlations(places: int) -> None:
    """Well and badly conditioned, of several sizes at once; a constant channel and two equal ones give 0."""
    several = [torch.corrcoef(drawn(channels, places, seed=channels)) for channels in (200, 100, 200, 40)]
    twice = drawn(100, places)
    twice[7] = twice[3]
    constant = torch.corrcoef(drawn(100, places, seed=3))
    constant[5] = constant[:, 5] = 0
    found = least_eigenvalues([*several, torch.corrcoef(twice), constant])
    expected = [float(torch.linalg.eigvalsh(each)[0]) for each in several]
    assert found[:4] == pytest.approx(expected, rel=2 * TOLERANCE)
    assert found[4:] == pytest.approx([0, 0], abs=1e-10)


@pytest.mark.parametrize(("rows", "columns"), [(300, 200), (200, 300), (70, 65), (3, 500)])
def test_largest_singular_values(rows: int, columns: int) -> None:
    matrix = drawn(rows, columns)
    expected = float(torch.linalg.matrix_norm(matrix, 2))
    assert largest_singular_value(matrix) == pytest.approx(expected, rel=TOLERANCE)
    left, right = drawn(rows, 20), drawn(columns, 20, seed=1)
    expected = float(torch.linalg.matrix_norm(left @ right.T, 2))
    assert largest_singular_value(left, right) == pytest.approx(expected, rel=TOLERANCE)
    assert largest_singular_value(torch.zeros(rows, columns)) == 0


def test_eigenvalues_of_several_sizes() -> None:
    matrices = [each @ each.T for each in (drawn(5, 9), drawn(3, 9), drawn(5, 7))]
    for found, matrix in zip(eigenvalues(matrices), matrices, strict=True):
        torch.testing.assert_close(found, torch.linalg.eigvalsh(matrix))


def test_what_a_gpu_decomposes_together_is_what_each_has_alone() -> None:
    """Matrices are filled up to one size there: the functions that do it, on the processor."""
    source = torch.Generator().manual_seed(0)
    shapes = [(5, 40, None), (33, 20, None), (64, 64, None), (40, 3, 50)]
    factors = []
    for rows, columns, others in shapes:
        left = torch.randn(rows, columns, generator=source, dtype=torch.float64)
        right = None if others is None else torch.randn(others, columns, generator=source, dtype=torch.float64)
        factors.append((left, right))
    filled = [spectra._filled(spectra._gram(*each), 64, 0.0) for each in factors]
    expected = [torch.linalg.matrix_norm(left if right is None else left @ right.T, 2) for left, right in factors]
    torch.testing.assert_close(spectra._largest(torch.stack(filled)), torch.stack(expected), rtol=1e-6, atol=0)
    assert largest_singular_values(factors) == pytest.approx([float(each) for each in expected], rel=1e-6)


@pytest.mark.parametrize("rows", [3, 40, 100])
def test_further_rows_of_the_identity_leave_the_least_eigenvalue(rows: int) -> None:
    points = torch.randn(rows, 4 * rows, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    correlation = torch.corrcoef(points)
    expected = float(torch.linalg.eigvalsh(correlation)[0])
    assert least_eigenvalues([spectra._filled(correlation, 128, 1.0)]) == pytest.approx([expected], rel=1e-6)
