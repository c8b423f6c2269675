"""What a report is made of: plain data that a run kept. Whoever makes a report fills this in; nothing here is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from trainless.core.arch import Arch, Candidate
from trainless.core.task import Task
from trainless.core.types import Floats
from trainless.learn.checkpoint import Epoch
from trainless.spaces.protocol import Space

Arrays = Mapping[str, npt.NDArray[Any]]
Json = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Searched:
    """What one search looked at, in its order.

    Args:
        name: Such as ``rl-00``; what stands before the dash is the method.
        searcher: Its registered name.
        ranking: What it went by; empty where there is none.
        directions: The measured columns, and whether more is better.
        candidates: Archs, or the regions of a pruning.
        steps: The step in which each was told.
        values: Each column's value of each candidate; NaN where it failed.
        best: Its leaderboard, best first; at least the winner.
        best_values: The scores of those.
        evaluations: Candidates that were told.
        seconds: What it took.
        seed: Of the search.
    """

    name: str
    searcher: str
    ranking: str
    directions: Mapping[str, bool]
    candidates: tuple[Candidate, ...]
    steps: tuple[int, ...]
    values: Mapping[str, Floats]
    best: tuple[Arch, ...]
    best_values: tuple[Mapping[str, float], ...]
    evaluations: int
    seconds: float
    seed: int

    @property
    def method(self) -> str:
        """``rl`` of ``rl-00``."""
        return self.name.partition("-")[0]


@dataclass(frozen=True, eq=False)
class Contents:
    """A whole run.

    Args:
        settings: What was asked for (``run.json``).
        decisions: The decisions of the space with the names of their options.
        space: The space, for drawing; None where it cannot be opened here.
        searches: What was looked at.
        summary: Everything that a design came to; empty for a search alone.
        predictions: What the ensemble said of the test part; empty where there is none.
        histories: Each trained member's epochs, by its name.
        shown: Counts, examples and cases of the data (:mod:`trainless.report.pictures`); empty where none were kept.
        ensemble: Weights, temperature and thresholds (``ensemble.json``).
        task: What the networks are for, without its data; None where that is not known.
    """

    settings: Json
    decisions: Mapping[str, tuple[str, ...]]
    space: Space | None
    searches: tuple[Searched, ...]
    summary: Json = field(default_factory=dict)
    predictions: Arrays = field(default_factory=dict)
    histories: Mapping[str, tuple[Epoch, ...]] = field(default_factory=dict)
    shown: Arrays = field(default_factory=dict)
    ensemble: Json = field(default_factory=dict)
    task: Task | None = None

    @property
    def test(self) -> Json | None:
        """The verdict on the test part."""
        found: Json | None = self.summary.get("test")
        return found

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; none for values."""
        task: Json = self.summary.get("task", {})
        if not task or task["kind"] == "regression":
            return ()
        return tuple(task["classes"]) or tuple(str(number) for number in range(task["outputs"]))
