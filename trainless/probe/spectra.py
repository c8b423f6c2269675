"""Eigenvalues and singular values, only those that are needed, on the device that the numbers are on.

A processor decomposes matrices of up to ``NEAR`` rows faster than a GPU, which such a matrix leaves at once.

The least eigenvalue comes from Lanczos iterations with the inverse (one Cholesky factor, no decomposition), the largest
singular value from Lanczos iterations with the matrix or its factors. Both are exact to ``TOLERANCE`` of themselves
unless stated; matrices of up to ``SMALL`` rows are decomposed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

SMALL, NEAR = 64, 128
TOLERANCE = 1e-6
_SHIFT = 1e-11  # of a correlation's unit diagonal: eigenvalues below it count as 0
_STEPS, _BETWEEN = 96, 8  # Lanczos steps at most, and between two looks at what was found
_WIDE = 256  # rows above which a GPU decomposes in single precision, in which such matrices were multiplied too


def near(matrix: Tensor) -> Tensor:
    """The matrix where it is decomposed fastest: on the processor, if it is small."""
    return matrix.cpu() if matrix.is_cuda and matrix.shape[-1] <= NEAR else matrix


def eigenvalues(matrices: Sequence[Tensor]) -> list[Tensor]:
    """All eigenvalues of symmetric matrices, ascending; those of one size are decomposed together.

    Example:
        >>> [each.tolist() for each in eigenvalues([torch.diag(torch.tensor([3.0, 1.0])), torch.tensor([[2.0]])])]
        [[1.0, 3.0], [2.0]]
    """
    return _together(matrices, lambda stacked: _decomposed(stacked).double().cpu())


def least_eigenvalues(correlations: Sequence[Tensor]) -> list[float]:
    """The least eigenvalue of correlation matrices, to 1e-6 of itself or 1e-11, whichever is more; never below 0.

    A row of zeros is a constant channel: it correlates with nothing, and the least eigenvalue is 0.

    Example:
        >>> [round(each, 6) for each in least_eigenvalues([torch.tensor([[1.0, 0.5], [0.5, 1.0]]), torch.eye(3)])]
        [0.5, 1.0]
    """
    return [float(each) for each in _together(correlations, lambda stacked: _least(stacked.double()).cpu())]


def largest_singular_value(left: Tensor, right: Tensor | None = None) -> float:
    """The largest singular value of a matrix, or of ``left @ right.T`` without multiplying it out.

    Example:
        >>> round(largest_singular_value(torch.diag(torch.tensor([2.0, 1.0]))), 6)
        2.0
    """
    left = left.double()
    right = None if right is None else right.double()
    columns = left.shape[1] if right is None else right.shape[0]
    if min(len(left), columns) <= SMALL:
        return float(torch.linalg.matrix_norm((left if right is None else left @ right.T).cpu(), 2))

    def square(v: Tensor) -> Tensor:
        if right is None:
            return left.T @ (left @ v)
        return right @ (left.T @ (left @ (right.T @ v)))

    start = torch.ones(1, columns, 1, dtype=left.dtype, device=left.device)
    start[:, ::3] = -0.5  # no direction of a network's
    return float(_lanczos(lambda v: square(v[0])[None], start).clamp_min(0).sqrt())


def _together(matrices: Sequence[Tensor], compute: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """Compute on matrices of one size at once; the results in the order of the matrices."""
    places: dict[int, list[int]] = {}
    for place, matrix in enumerate(matrices):
        places.setdefault(len(matrix), []).append(place)
    found: dict[int, Tensor] = {}
    for alike in places.values():
        found.update(zip(alike, compute(near(torch.stack([matrices[place] for place in alike]))), strict=True))
    return [found[place] for place in range(len(matrices))]


def _decomposed(stacked: Tensor) -> Tensor:
    single = stacked.is_cuda and stacked.shape[-1] > _WIDE
    values: Tensor = torch.linalg.eigvalsh(stacked.float() if single else stacked.double())
    return values


def _least(stacked: Tensor) -> Tensor:
    rows = stacked.shape[-1]
    if rows <= (SMALL // 2 if stacked.is_cuda else SMALL):
        return _decomposed(stacked)[:, 0].clamp_min(0)
    constant = (stacked.diagonal(dim1=-2, dim2=-1) == 0).any(-1)
    identity = torch.eye(rows, dtype=stacked.dtype, device=stacked.device)
    factor, failed = torch.linalg.cholesky_ex(stacked + _SHIFT * identity)
    zero = constant | (failed > 0)
    if bool(zero.all()):
        return torch.zeros_like(zero, dtype=stacked.dtype)
    factor = torch.where(zero[:, None, None], identity, factor)

    def solve(v: Tensor) -> Tensor:
        return torch.cholesky_solve(v, factor)

    source = torch.Generator().manual_seed(0)
    start = torch.randn(rows, 1, generator=source, dtype=stacked.dtype).to(stacked.device).expand(len(stacked), -1, -1)
    found = 1 / _lanczos(solve, start) - _SHIFT
    return torch.where(zero, 0.0, found.clamp_min(0))


def _lanczos(apply: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """The largest eigenvalue of symmetric positive operators on ``(batch, rows, 1)``, with full orthogonalisation."""
    vector = start / start.norm(dim=1, keepdim=True)
    basis, diagonal, beside = [vector], [], []
    steps = min(_STEPS, start.shape[1])
    found = torch.zeros(len(start), dtype=start.dtype, device=start.device)
    for step in range(1, steps + 1):
        image = apply(basis[-1])
        diagonal.append((basis[-1] * image).sum((1, 2)))
        held = torch.cat(basis, 2)
        for _ in range(2):
            image = image - held @ (held.mT @ image)
        size = image.norm(dim=1, keepdim=True)
        beside.append(size[:, 0, 0])
        if step % _BETWEEN == 0 or step == steps:
            before, (found, rest) = found, _ritz(diagonal, beside)
            if bool(((rest <= TOLERANCE * found) | ((found - before) <= TOLERANCE / 10 * found)).all()):
                break
        basis.append(image / size.clamp_min(torch.finfo(start.dtype).tiny))
    return found


def _ritz(diagonal: list[Tensor], beside: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The largest eigenvalue of the tridiagonal matrices so far, and how far from exact it may be."""
    small = torch.diag_embed(torch.stack(diagonal, 1).cpu())
    small = small + torch.diag_embed(torch.stack(beside[:-1], 1).cpu(), 1) if len(beside) > 1 else small
    small = small + torch.diag_embed(torch.stack(beside[:-1], 1).cpu(), -1) if len(beside) > 1 else small
    values, vectors = torch.linalg.eigh(small)
    rest = beside[-1] * vectors[:, -1, -1].abs().to(beside[-1].device)
    return values[:, -1].to(rest.device), rest
