"""The later members of a design: what promises most by a ranking that has learned from the members trained first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from trainless.core.arch import Arch
from trainless.core.files import write_json
from trainless.core.scores import Scores, merge
from trainless.core.text import undamaged
from trainless.designs.candidates import Winner
from trainless.designs.training import Entry, Roster
from trainless.learn.members import VERSION, history_of, member_folder, read_document
from trainless.rankings import Ranking, learn
from trainless.runs.signals import scores_of
from trainless.scoring.request import select
from trainless.searchers.learned import structure_of
from trainless.spaces.protocol import Space

ORIGIN = "learned"
CHOICE = "learned.json"  # the later members, once they are chosen


def first_members(size: int) -> int:
    """How many members are chosen before anything is learned: half of them, rounded up, and at least two.

    Example:
        >>> [first_members(size) for size in (1, 2, 3, 4, 5, 30)]
        [1, 2, 2, 2, 3, 15]
    """
    return min(size, max(2, math.ceil(size / 2)))


def later_members(
    folder: Path,
    space: Space,
    winners: Sequence[Winner],
    ranking: Ranking,
    trained: Sequence[tuple[Arch, float]],
    count: int,
) -> list[Arch]:
    """The later members by :func:`promising`, chosen once and written down, so that no other machine chooses others."""
    path = folder / CHOICE
    if not path.exists():
        archs = promising(winners, space, ranking, trained, count)
        texts = [space.format(arch) for arch in archs]
        write_json(path, {"version": VERSION, "archs": [list(arch) for arch in archs], "texts": texts})
    with undamaged(path, "give another folder with --out"):
        return [tuple(map(int, arch)) for arch in read_document(path)["archs"]]


def promising(
    winners: Sequence[Winner],
    space: Space,
    ranking: Ranking,
    trained: Sequence[tuple[Arch, float]],
    count: int,
) -> list[Arch]:
    """What to train next of all that the searches remember, by :func:`trainless.rankings.learn`.

    Archs that compute the same are one candidate, the first of them; its scores are the mean over the searches that
    found it, and its value the mean over its trainings that did not fail.

    Args:
        winners: What the searches came to.
        space: Their space, whose features of structure are learned from too.
        ranking: What the searches went by, and what is believed before anything is trained.
        trained: Archs of the winners with a value of which higher is better; NaN where training failed.
        count: How many; fewer where fewer are left.

    Example:
        >>> from trainless.rankings import RankProduct
        >>> from trainless.spaces.nb201 import NasBench201
        >>> archs = tuple((option,) * 6 for option in (3, 2, 1))
        >>> found = Winner("rl-00", archs, tuple({"synflow": float(v)} for v in (9, 8, 7)), 20, 1.0, archs[0])
        >>> promising([found], NasBench201(), RankProduct(("synflow",)), [(archs[0], 0.5)], 1)
        [(2, 2, 2, 2, 2, 2)]
    """
    archs, scores = _candidates(winners, space, ranking)
    values: dict[str, list[float]] = {}
    for arch, value in trained:
        values.setdefault(_name(space, arch), []).append(value)
    known = {name: _mean(each) for name, each in values.items()}
    features = structure_of(space)
    structure = np.array([features(archs[name]) for name in scores.candidates], np.float64)
    return [archs[name] for name in learn(ranking, scores, known, structure=structure).next(count)]


def values_of(folder: Path, entries: Sequence[Entry], roster: Roster) -> list[tuple[Arch, float]]:
    """Minus the validation loss of each member's kept weights, NaN where all attempts failed; none where none was made.

    Args:
        folder: The run folder.
        entries: The members.
        roster: What their training came to.
    """
    found = []
    for entry in entries:
        if entry.name in roster.folders:
            history = history_of(member_folder(folder, roster.folders[entry.name]))
            losses = [epoch.valid_loss for epoch in history]
            kept = losses[-1] if entry.member.recipe.keep == "last" else float(np.nanmin(losses))
            found.append((entry.member.arch, -kept))
        elif entry.name in roster.replaced:
            found.append((entry.member.arch, math.nan))
    return found


def _candidates(winners: Sequence[Winner], space: Space, ranking: Ranking) -> tuple[dict[str, Arch], Scores]:
    directions = {proxy.name: proxy.higher_is_better for proxy in select(ranking.proxies)}
    archs: dict[str, Arch] = {}
    tables = []
    for winner in winners:
        rows: dict[str, Mapping[str, float]] = {}
        for arch, values in zip(winner.archs, winner.values, strict=True):
            name = _name(space, arch)
            archs.setdefault(name, arch)
            rows.setdefault(name, values)
        tables.append(scores_of(rows, directions))
    return archs, merge(tables)  # a table has the mean where several say something of the same


def _name(space: Space, arch: Arch) -> str:
    return space.format(space.canonical(arch))


def _mean(values: Sequence[float]) -> float:
    fine = [value for value in values if not math.isnan(value)]
    return float(np.mean(fine)) if fine else math.nan
