"""Eigenvalues and singular values against full decompositions."""

from __future__ import annotations

import pytest
import torch

from trainless.probe.spectra import TOLERANCE, eigenvalues, largest_singular_value, least_eigenvalues


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
