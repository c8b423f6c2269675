"""Splits: stratified by class, or by whole groups so that nobody is in two parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainless.core.errors import InputError
from trainless.core.task import Part
from trainless.core.types import Array, Floats, Index

FRACTIONS = (0.7, 0.15, 0.15)


def divided(part: Part, seed: int, fractions: Sequence[float] = FRACTIONS, *, values: bool = False) -> list[Index]:
    """The rows of each piece of a part: whole cases, whole groups where there are some, stratified by class.

    Args:
        part: What to divide; all windows of a recording stay together.
        seed: Of the draw.
        fractions: Of the cases.
        values: Whether labels are values and no classes.
    """
    first = part.first
    strata = np.zeros(len(first), np.int64) if values else np.asarray(part.truth)
    groups = None if part.groups is None else part.groups[first]
    cases = stratified(strata, seed, fractions) if groups is None else grouped(strata, groups, seed, fractions)
    return [part.rows_of(piece) for piece in cases]


def stratified(strata: Array, seed: int, fractions: Sequence[float] = FRACTIONS) -> list[Index]:
    """Sorted indices of each part; every class is divided in the same proportions.

    A class with at least as many samples as there are parts is in every part; a smaller one is in the first
    part and then in the last ones.
    """
    random = np.random.default_rng(seed)
    parts: list[list[Index]] = [[] for _ in fractions]
    for label in np.unique(strata):
        mine = random.permutation(np.flatnonzero(strata == label))
        counts = _counts(len(mine), fractions)
        for part, piece in zip(parts, np.split(mine, np.cumsum(counts)[:-1]), strict=True):
            part.append(piece)
    return [np.sort(np.concatenate(part)) for part in parts]


def _counts(n: int, fractions: Sequence[float]) -> list[int]:
    """How many of n samples go to each part; the first part takes what rounding leaves."""
    held = len(fractions) - 1
    if n <= held:
        return [1, *[int(held - part < n) for part in range(1, held + 1)]]
    counts = [max(1, round(fraction * n)) for fraction in fractions[1:]]
    return [n - sum(counts), *counts]


def grouped(strata: Array, groups: Array, seed: int, fractions: Sequence[float] = FRACTIONS) -> list[Index]:
    """Sorted indices of each part, whole groups each, as close to stratified as the groups allow.

    Groups are taken from the largest to the smallest (ties by seed); each goes where its classes are missing
    most, and every part gets at least one.
    """
    _, member = np.unique(groups, return_inverse=True)
    member = member.reshape(-1)
    _, code = np.unique(strata, return_inverse=True)
    counts = np.zeros((member.max() + 1, code.max() + 1))
    np.add.at(counts, (member, code.reshape(-1)), 1)
    if len(counts) < len(fractions):
        raise InputError(
            f"{len(counts)} groups were given; expected at least {len(fractions)}, one for each part of the split"
        )
    place = _place(counts, np.asarray(fractions), np.random.default_rng(seed))
    _cover(counts, place)
    return [np.flatnonzero(place[member] == part) for part in range(len(fractions))]


def _place(counts: Floats, fractions: Floats, random: np.random.Generator) -> Index:
    """The part of each group, greedily by the classes' relative deficits."""
    total = counts.sum(0)
    missing = fractions[:, None] * total
    empty = np.ones(len(fractions), bool)
    place = np.zeros(len(counts), np.int64)
    shuffled = random.permutation(len(counts))
    order = shuffled[np.argsort(-counts.sum(1)[shuffled], kind="stable")]
    for done, group in enumerate(order):
        gain = (missing / total) @ counts[group]
        if len(order) - done <= empty.sum():
            gain[~empty] = -np.inf
        best = int(np.argmax(gain))
        place[group] = best
        missing[best] -= counts[group]
        empty[best] = False
    return place


def _cover(counts: Floats, place: Index) -> None:
    """Move the smallest group of each class that the first part lacks there, where its part has another."""
    for label in range(counts.shape[1]):
        if counts[place == 0, label].any():
            continue
        for group in np.argsort(counts.sum(1), kind="stable"):
            if counts[group, label] and (place == place[group]).sum() > 1:
                place[group] = 0
                break
