"""A published table or figure as data: what was measured, on what, and which figures were printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from trainless.bench.score_library import ScoreLibrary
from trainless.bench.sheet import Interval, Share
from trainless.bench.statistics import Evaluation


@dataclass(frozen=True)
class Where:
    """On what a figure is measured.

    Args:
        table: The tabular benchmark.
        task: The dataset whose accuracy counts.
        metric: ``valid`` or ``test``.
        population: Which networks.
        fidelity: Epochs of training behind the accuracy; all where it is None.
        draws: Bootstrap draws behind an interval.
        runs: Runs of a search.
    """

    table: str = "nb201"
    task: str = "cifar10"
    metric: str = "test"
    population: str = "all"
    fidelity: int | None = None
    draws: int = 200
    runs: int = 500


@dataclass(frozen=True)
class Answer:
    """What we find: failures left out as the papers do, and failures counted.

    Args:
        out: The estimates with failures left out.
        last: The estimates with failures ranked last; the same where there are none.
        networks: How many networks.
        coverage: How many scores there are, of how many that were asked for.
        seeds: Number of seeds or runs.
    """

    out: Mapping[str, Interval]
    last: Mapping[str, Interval]
    networks: int
    coverage: Share
    seeds: int

    @classmethod
    def of(cls, judged: tuple[Evaluation, Evaluation]) -> Answer:
        """All statistics of a column."""
        last, out = judged
        return cls(out.statistics, last.statistics, last.population, Share(last.scored, last.asked), last.seeds)

    @classmethod
    def whole(cls, estimates: Mapping[str, Interval], networks: int, seeds: int) -> Answer:
        """Estimates to which no failure belongs."""
        return cls(estimates, estimates, networks, Share(networks, networks), seeds)


class FigureSource(Protocol):
    """Where our side of a figure comes from."""

    def answer(self, library: ScoreLibrary, where: Where) -> Answer:
        """The estimates; raises Missing where the data does not exist here."""
        ...


@dataclass(frozen=True)
class Figures:
    """One row of a published table.

    Args:
        label: What the paper calls it.
        source: Where our figures come from.
        published: Task to statistic to the printed figure; NaN where the paper shows a picture and no figure.
        metric: Overrides the definition's.
        note: What a reader has to know about this row.
    """

    label: str
    source: FigureSource
    published: Mapping[str, Mapping[str, float]]
    metric: str = ""
    note: str = ""


@dataclass(frozen=True)
class Definition:
    """A published table or figure.

    Args:
        name: ``paper:table``, such as ``vkdnw:table1``.
        title: What it shows.
        rows: Its rows.
        where: On what; each row names its task.
        notes: How our side differs from the paper's, where it does.
    """

    name: str
    title: str
    rows: tuple[Figures, ...]
    where: Where = field(default_factory=Where)
    notes: tuple[str, ...] = ()


TASKS = ("cifar10", "cifar100", "ImageNet16-120")
