"""Measures of activation patterns."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trainless.stack.stack import Stack, measure, mine, passed, remembered

WORD = 63  # samples whose bits a whole number of 64 holds beside its sign


@measure
def swap(s: Stack) -> Tensor:
    """A unit's pattern is a number or two, and counts once for each network that has it."""
    owners: list[Tensor] = []
    words: list[Tensor] = []
    for each in passed(s).notes.rectified:
        rows = (mine(each.gate.detach(), len(each.members), 1) > 0).flatten(2)  # (N, K, units)
        words.append(torch.stack([_word(part).flatten() for part in rows.split(WORD)]))
        owners.append(s.plan.index(each.members, rows.device).repeat_interleave(rows.shape[2]))
    if not words:
        return torch.full((len(s),), math.nan)
    owner = torch.cat(owners)
    names = owner
    for word in torch.cat(words, 1):
        others, second = word.unique(return_inverse=True)
        _, names = (names * len(others) + second).unique(return_inverse=True)
    first = owner.new_empty(int(names.max()) + 1).scatter_(0, names, owner)
    found = first.bincount(minlength=len(s)).double()
    return torch.where(found > 0, found, math.nan)


def _word(rows: Tensor) -> Tensor:
    """The columns of up to 63 rows of booleans as numbers.

    Example:
        >>> _word(torch.tensor([[True, False], [True, True]])).tolist()
        [3, 2]
    """
    if rows.is_cuda:
        shifts = torch.arange(len(rows), device=rows.device).view(-1, *[1] * (rows.ndim - 1))
        return (rows.long() << shifts).sum(0)
    word = torch.zeros(rows.shape[1:], dtype=torch.int64)
    for bit, row in enumerate(rows):
        word |= row.long() << bit
    return word


@remembered
def _alike(s: Stack) -> tuple[Tensor, Tensor]:
    """For each pair of samples, in how many units they agree, ``(K, N, N)``, and how many units there are, ``(K,)``."""
    terms, units = [], []
    for each in passed(s).notes.rectified:
        members, gate = each.members, each.gate.detach()
        rows = (mine(gate, len(members), 1) > 0).transpose(0, 1).flatten(2).float()  # (K, N, units)
        both = (rows @ rows.mT).double()  # exact below 2²⁴
        mine_open, count = both.diagonal(dim1=1, dim2=2), rows.shape[2]
        terms.append((members, count - mine_open[:, :, None] - mine_open[:, None] + 2 * both))
        units.append((members, torch.full((len(members),), float(count), device=gate.device)))
    return s.added(terms), s.added(units)


@measure
def naswot(s: Stack) -> Tensor:
    """A kernel of less than full rank has no determinant but rounding noise."""
    kernel, _ = _alike(s)
    whole = torch.linalg.matrix_rank(kernel, hermitian=True) == kernel.shape[1]
    return torch.where(whole, torch.linalg.slogdet(kernel)[1], math.nan)


@measure
def linear_regions(s: Stack) -> Tensor:
    """A sample counts unless an earlier one has its pattern."""
    kernel, units = _alike(s)
    seen = ((kernel == units[:, None, None]).tril(-1)).any(2)
    return torch.where(units > 0, (~seen).sum(1).double(), math.nan)
