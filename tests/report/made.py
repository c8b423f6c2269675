"""Very small runs of every kind, made once per process, for tests of reports."""

from __future__ import annotations

import atexit
import dataclasses
import itertools
import re
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from tests.designs.tiny import small, values
from trainless.core.task import Task
from trainless.designs.pipeline import design
from trainless.report.contents import SearchRecord
from trainless.tasks import task

HOSTILE = ("<script>alert(1)</script>", '"><img src=http://x.invalid/a.png onerror=alert(1)>', "it's & \u202e </svg>")


def classes(shape: tuple[int, ...], n: int = 72, kinds: int = 3, names: tuple[str, ...] = ()) -> Task:
    """Noise whose mean tells the class, not always."""
    random = np.random.default_rng(1)
    y = np.arange(n) % kinds
    x = random.normal(size=(n, *shape)) + 0.4 * y.reshape(-1, *[1] * len(shape))
    made = task((x.astype(np.float32), y), dims=len(shape) - 1)
    return dataclasses.replace(made, target=dataclasses.replace(made.target, names=names)) if names else made


KINDS = {
    "signal": lambda: classes((2, 40)),
    "image": lambda: classes((1, 8, 8), names=HOSTILE),
    "volume": lambda: classes((1, 8, 8, 8), kinds=2),
    "value": values,
}


@cache
def run(kind: str) -> Path:
    """The folder of a finished run."""
    place = mkdtemp(prefix="trainless-report-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    folder = Path(place) / "run"
    design(KINDS[kind](), folder, settings=small(baseline=2))
    return folder


ARCHS = tuple(itertools.product(range(3), range(2), range(4)))


def searched(name: str = "rl-00", ranking: str = "", **values: list[float]) -> SearchRecord:
    columns = {key: np.array(column) for key, column in values.items()}
    count = len(next(iter(columns.values())))
    best = int(np.argmax(next(iter(columns.values()))))
    scores = {key: float(column[best]) for key, column in columns.items()}
    directions = dict.fromkeys(columns, True)
    steps = tuple(range(1, count + 1))
    return SearchRecord(
        name, "rl", ranking, directions, ARCHS[:count], steps, columns, (ARCHS[best],), (scores,), count, 1.0, 0
    )


def tips(drawn: str) -> list[str]:
    return [tip.replace("\u00a0", " ") for tip in re.findall(r'data-tip="([^"]*)"', drawn)]


def widths(drawn: str) -> list[float]:
    return [float(width) for width in re.findall(r'<rect [^>]*?width="([\d.]+)"', drawn)]
