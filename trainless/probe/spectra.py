"""Eigenvalues and singular values, only those that are needed, on the device that the numbers are on.

A processor decomposes matrices of up to ``NEAR`` rows faster than a GPU, whose smaller ones are moved there together; a
GPU fills matrices up to few sizes, because it waits for every single operation.

The least eigenvalue comes from Lanczos iterations with the inverse (one Cholesky factor, no decomposition), the largest
singular value from Lanczos iterations with the matrix or its factors. Both are exact to ``TOLERANCE`` of themselves
unless stated; matrices of up to ``SMALL`` rows are decomposed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

SMALL = NEAR = 64
FEW = 4096  # rows of all matrices together that a GPU decomposes rather than iterates with
TOLERANCE = 1e-6
_SHIFT = 1e-11  # of a correlation's unit diagonal: eigenvalues below it count as 0
_NOISE = 1e-13  # of a vector: what rounding leaves of it when all directions are taken away
_STEPS, _BETWEEN = 96, 8  # Lanczos steps at most, and between two looks at what was found


def eigenvalues(matrices: Sequence[Tensor]) -> list[Tensor]:
    """All eigenvalues of symmetric matrices, ascending, on the processor; those of one size are decomposed together.

    Example:
        >>> [each.tolist() for each in eigenvalues([torch.diag(torch.tensor([3.0, 1.0])), torch.tensor([[2.0]])])]
        [[1.0, 3.0], [2.0]]
    """
    return _together(_near(matrices), lambda stacked: _decomposed(stacked).double().cpu())


def least_eigenvalues(correlations: Sequence[Tensor]) -> list[float]:
    """The least eigenvalue of correlation matrices, to 1e-6 of itself or 1e-11, whichever is more; never below 0.

    A row of zeros is a constant channel: it correlates with nothing, and the least eigenvalue is 0.

    Example:
        >>> [round(each, 6) for each in least_eigenvalues([torch.tensor([[1.0, 0.5], [0.5, 1.0]]), torch.eye(3)])]
        [0.5, 1.0]
    """
    if _are_few(correlations):
        return [max(0.0, float(values[0])) for values in eigenvalues(correlations)]
    filled = [_filled(matrix, _step(matrix), 1.0) for matrix in correlations]  # the least is never above 1
    return [float(each) for each in _together(filled, lambda stacked: _least(stacked.double()).cpu())]


def _are_few(matrices: Sequence[Tensor]) -> bool:
    """Whether a GPU is done with decomposing matrices before it could iterate, for which it waits at every step."""
    rows = sum(len(matrix) for matrix in matrices)
    return 0 < rows <= FEW and all(matrix.is_cuda for matrix in matrices)


def _near(matrices: Sequence[Tensor]) -> list[Tensor]:
    """The matrices where they are decomposed fastest: on the processor if they are small, moved there together."""
    moved = [matrix.dtype == matrices[0].dtype and matrix.is_cuda and len(matrix) <= NEAR for matrix in matrices]
    small = [matrix for matrix, moves in zip(matrices, moved, strict=True) if moves]
    if not small:
        return list(matrices)
    parts = torch.cat([matrix.flatten() for matrix in small]).cpu().split([matrix.numel() for matrix in small])
    near = (part.view(matrix.shape) for part, matrix in zip(parts, small, strict=True))
    return [next(near) if moves else matrix for matrix, moves in zip(matrices, moved, strict=True)]


def _step(matrix: Tensor) -> int:
    """The number of rows to fill a matrix up to: on a GPU the next power of two, so that many are of one size."""
    return 1 << max(5, (len(matrix) - 1).bit_length()) if matrix.is_cuda else len(matrix)


def _filled(matrix: Tensor, rows: int, diagonal: float) -> Tensor:
    """A matrix with further rows and columns that have one number on the diagonal and zeros elsewhere.

    Example:
        >>> _filled(torch.tensor([[2.0]]), 2, 1.0).tolist()
        [[2.0, 0.0], [0.0, 1.0]]
    """
    more = rows - len(matrix)
    if more == 0:
        return matrix
    filled = torch.nn.functional.pad(matrix, (0, more, 0, more))
    if diagonal:
        filled.diagonal()[-more:] = diagonal
    return filled


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


def largest_singular_values(factors: Sequence[tuple[Tensor, Tensor | None]]) -> list[float]:
    """The largest singular value of each matrix, or of each ``left @ right.T``; on a GPU, of all of them together.

    Example:
        >>> [round(each, 6) for each in largest_singular_values([(torch.diag(torch.tensor([2.0, 1.0])), None)])]
        [2.0]
    """
    if not all(left.is_cuda for left, _ in factors):
        return [largest_singular_value(left, right) for left, right in factors]
    grams = [_gram(*each) for each in factors]
    if _are_few(grams):
        return [math.sqrt(max(0.0, float(values[-1]))) for values in eigenvalues(grams)]
    return [float(each) for each in _together([_filled(each, _step(each), 0.0) for each in grams], _largest)]


def _gram(left: Tensor, right: Tensor | None = None) -> Tensor:
    """The smaller matrix of inner products; its eigenvalues are the singular values squared.

    Example:
        >>> _gram(torch.tensor([[3.0, 4.0]])).tolist()
        [[25.0]]
    """
    matrix = left.double() if right is None else left.double() @ right.double().T
    return matrix @ matrix.T if len(matrix) < matrix.shape[1] else matrix.T @ matrix


def _largest(grams: Tensor) -> Tensor:
    """The roots of the largest eigenvalues of stacked matrices."""
    start = torch.ones(1, grams.shape[1], 1, dtype=grams.dtype, device=grams.device)
    start[:, ::3] = -0.5  # no direction of a network's
    return _lanczos(lambda v: grams @ v, start.expand(len(grams), -1, -1)).clamp_min(0).sqrt()


def _together(matrices: Sequence[Tensor], compute: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """Compute on matrices of one size at once; the results in the order of the matrices."""
    places: dict[int, list[int]] = {}
    for place, matrix in enumerate(matrices):
        places.setdefault(len(matrix), []).append(place)
    found: dict[int, Tensor] = {}
    for alike in places.values():
        found.update(zip(alike, compute(torch.stack([matrices[place] for place in alike])), strict=True))
    return [found[place] for place in range(len(matrices))]


def _decomposed(stacked: Tensor) -> Tensor:
    values: Tensor = torch.linalg.eigvalsh(stacked.double())
    return values


def _least(stacked: Tensor) -> Tensor:
    rows = stacked.shape[-1]
    if rows <= SMALL and not stacked.is_cuda:
        return _decomposed(stacked)[:, 0].clamp_min(0)
    constant = (stacked.diagonal(dim1=-2, dim2=-1) == 0).any(-1)
    identity = torch.eye(rows, dtype=stacked.dtype, device=stacked.device)
    factor, failed = torch.linalg.cholesky_ex(stacked + _SHIFT * identity)
    zero = constant | (failed > 0)
    if not stacked.is_cuda and bool(zero.all()):
        return torch.zeros_like(zero, dtype=stacked.dtype)
    factor = torch.where(zero[:, None, None], identity, factor)
    inverse = torch.linalg.solve_triangular(factor, identity, upper=False) if stacked.is_cuda else None

    def solve(v: Tensor) -> Tensor:
        return torch.cholesky_solve(v, factor) if inverse is None else inverse.mT @ (inverse @ v)

    source = torch.Generator().manual_seed(0)
    start = torch.randn(rows, 1, generator=source, dtype=stacked.dtype).to(stacked.device).expand(len(stacked), -1, -1)
    found = 1 / _lanczos(solve, start) - _SHIFT
    return torch.where(zero.cpu(), 0.0, found.clamp_min(0))


def _lanczos(apply: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """The largest eigenvalues of symmetric positive operators on ``(batch, rows, 1)``, with full orthogonalisation.

    They come on the processor, which decides how many steps there are.
    """
    vector = start / start.norm(dim=1, keepdim=True)
    basis, diagonal, beside = [vector], [], []
    steps = min(_STEPS, start.shape[1])
    found = torch.zeros(len(start), dtype=start.dtype)
    for step in range(1, steps + 1):
        image = apply(basis[-1])
        diagonal.append((basis[-1] * image).sum((1, 2)))
        held, whole = torch.cat(basis, 2), image.norm(dim=1, keepdim=True)
        for _ in range(2):
            image = image - held @ (held.mT @ image)
        size = image.norm(dim=1, keepdim=True)
        size = torch.where(size > _NOISE * whole, size, 0)  # else it has nowhere to go: what is left is rounding
        beside.append(size[:, 0, 0])
        if step % (2 * _BETWEEN if start.is_cuda else _BETWEEN) == 0 or step == steps:
            before, (found, rest) = found, _ritz(diagonal, beside)
            if bool(((rest <= TOLERANCE * found) | ((found - before) <= TOLERANCE / 10 * found)).all()):
                break
        basis.append(torch.where(size > 0, image / size, 0))
    return found


def _ritz(diagonal: list[Tensor], beside: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The largest eigenvalue of the tridiagonal matrices so far, and how far from exact it may be, on the processor."""
    numbers = torch.stack([*diagonal, *beside], 1).cpu()
    within, between = numbers[:, : len(diagonal)], numbers[:, len(diagonal) : -1]
    small = torch.diag_embed(within)
    if len(beside) > 1:
        small = small + torch.diag_embed(between, 1) + torch.diag_embed(between, -1)
    values, vectors = torch.linalg.eigh(small)
    return values[:, -1], numbers[:, -1] * vectors[:, -1, -1].abs()
