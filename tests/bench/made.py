"""A small table with scores, and its leaderboard, for tests of what is made of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainless.bench.leaderboard import Contest, Leaderboard, measured
from trainless.bench.score_library import ScoreLibrary
from trainless.bench.tables.table import ColumnKey, Table
from trainless.runs.score_file import ScoreFile
from trainless.spaces.moves import arch_at
from trainless.spaces.nb201 import NasBench201

SPACE = NasBench201()
ARCHS = tuple(dict.fromkeys(SPACE.format(SPACE.canonical(arch_at(SPACE, index))) for index in range(15_000, 15_150)))[
    :60
]
ACCURACY = np.random.default_rng(5).uniform(60, 94, len(ARCHS)).round(2)
CONTESTS = (Contest("toy", "cifar10", "test", "all"), Contest("toy", "ImageNet16-120", "test", "all"))
COSTS = {"zico": 0.5, "snip": 0.25}


class ToyLibrary(ScoreLibrary):
    """Scores in a folder, of a table that is nowhere else."""

    def table(self, name: str) -> Table:
        assert name == "toy"
        columns = {ColumnKey(contest.task, "test", 200): ACCURACY.copy() for contest in CONTESTS}
        return Table("toy", "nb201", ARCHS, {frozenset(columns): lambda: columns})


def library(folder: Path) -> ToyLibrary:
    """Scores by ``zico``, by ``snip`` with two failures, and by ``trainability``, the lower the better."""
    noise = np.random.default_rng(0).normal(size=(len(ARCHS), 3))
    values = np.stack([ACCURACY + 5 * noise[:, 0], ACCURACY + 20 * noise[:, 1], noise[:, 2] - ACCURACY], axis=1)
    values[:2, 1] = np.nan
    codes = np.isnan(values)[:, :, None].astype(np.uint16) * 2
    about = {"proxies": {"trainability": {"higher_is_better": False}}}
    names, reasons = ("zico", "snip", "trainability"), ("ok", "not scored", "all outputs are equal")
    ScoreFile(ARCHS, names, (0,), values[:, :, None], codes, reasons, settings=about).write(folder / "toy.npz")
    return ToyLibrary(folder)


def leaderboard(folder: Path, draws: int = 20) -> Leaderboard:
    """The leaderboard of these scores."""
    return measured(library(folder), COSTS, draws, contests=CONTESTS)
