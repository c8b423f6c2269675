"""Contents of a report: plain data that a run kept, as it is read from its folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from trainless.core.arch import Arch, Candidate
from trainless.core.errors import InputError
from trainless.core.files import read_arrays, unnumber
from trainless.core.opening import below, is_there
from trainless.core.task import Task
from trainless.core.types import Floats
from trainless.learn.checkpoint import Epoch
from trainless.learn.members import history_of, member_folder, read_document, task_from_json
from trainless.learn.predictor import ENSEMBLE
from trainless.report.page import Content
from trainless.report.words import Facts
from trainless.runs.folder import PREDICTIONS, RESULT, SEARCHES, SHOWN, SUMMARY
from trainless.runs.reader import RunReader, catch_up, space_of
from trainless.runs.reader_design import DesignReader
from trainless.runs.reader_search import SearchReader
from trainless.spaces.protocol import Space

Arrays = Mapping[str, npt.NDArray[Any]]
Need = Literal["design", "search", "tested", "untested", "classes", "values", "samples"]
BEST = 20  # of a leaderboard


@dataclass(frozen=True, eq=False)
class SearchRecord:
    """One search: the candidates that it looked at (archs, or the regions of a pruning), in its order.

    The name is such as ``rl-00``; what stands before the dash is the method. ``directions`` are the measured columns,
    and whether more is better; ``steps`` says in which step each candidate was told; values are NaN where it failed.
    ``best`` is the leaderboard, at least the winner.
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
    """A whole run: ``run.json``, the searches, and of a design what it came to.

    ``decisions`` are those of the space with the names of their options; the space is None where it cannot be opened
    here. ``predictions`` is what the ensemble said of the test part, ``histories`` each trained member's epochs,
    ``shown`` counts, examples and cases of the data (:mod:`trainless.report.training`), ``ensemble`` its weights,
    temperature and thresholds. What there is not is empty, and the task is without its data.
    """

    settings: Facts
    decisions: Mapping[str, tuple[str, ...]]
    space: Space | None
    searches: tuple[SearchRecord, ...]
    summary: Facts = field(default_factory=dict)
    predictions: Arrays = field(default_factory=dict)
    histories: Mapping[str, tuple[Epoch, ...]] = field(default_factory=dict)
    shown: Arrays = field(default_factory=dict)
    ensemble: Facts = field(default_factory=dict)
    task: Task | None = None

    @property
    def facts(self) -> frozenset[Need]:
        """The facts about the run that parts of the report may need."""
        found: list[Need] = ["design" if self.summary else "search"]
        if self.summary:
            found += ["tested" if self.test is not None else "untested", "classes" if self.classes else "values"]
        return frozenset([*found, "samples"] if self.shown else found)

    @property
    def test(self) -> Facts | None:
        """The verdict on the test part."""
        found: Facts | None = self.summary.get("test")
        return found

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; none for values."""
        task: Facts = self.summary.get("task", {})
        if not task or task["kind"] == "regression":
            return ()
        return tuple(task["classes"]) or tuple(str(number) for number in range(task["outputs"]))


MakesPart: TypeAlias = Callable[[Contents], Content | Sequence[Content]]


@dataclass(frozen=True)
class ReportPart:
    """One entry of a report: a figure, a table or some words; None and an empty sequence are nothing to show.

    It is made where the run has what it needs, and stands beside its neighbours where that is said and there is room.
    """

    make: MakesPart
    needs: frozenset[Need]
    beside: bool = False

    def contents(self, run: Contents) -> list[Content]:
        """Its contributions to the page of a run."""
        if not self.needs <= run.facts:
            return []
        found = self.make(run)
        return [part for part in ([found] if found is None or isinstance(found, str) else found) if part]


def report_part(*needs: Need, beside: bool = False) -> Callable[[MakesPart], ReportPart]:
    """Make a function an entry of the report; :data:`trainless.report.report.SECTIONS` says where it stands.

    Example:
        >>> from trainless.report.page import tag
        >>> @report_part("search")
        ... def space_name(run):
        ...     return tag("p", run.settings["space"])
        >>> space_name.contents(Contents({"space": "nb201"}, {}, None, ()))
        ['<p>nb201</p>']
    """
    return lambda make: ReportPart(make, frozenset(needs), beside)


def contents_of(path: Path, reader: RunReader, chosen: Space | None = None) -> Contents:
    """Gather what a run has kept for its report; its reader keeps the steps.

    ``chosen`` is the space, where it is not a registered one. Raises InputError where the folder is that of no search
    and no design, or of one that has nothing to report yet.
    """
    catch_up(reader)
    if isinstance(reader, DesignReader):
        return _of_design(path, reader, chosen)
    if isinstance(reader, SearchReader):
        return _of_search(path, reader, chosen)
    raise InputError(f"{path} is no folder of trainless design or search: give one of those")


def arrays_in(path: Path) -> Arrays:
    """The arrays of a file; none where there is no file."""
    return read_arrays(path, "run the same command again in a new folder") if is_there(path) else {}


def _of_design(path: Path, reader: DesignReader, chosen: Space | None) -> Contents:
    summary, ensemble = read_document(path / SUMMARY), read_document(path / ENSEMBLE)
    searches = {trial["name"]: reader.searches[trial["name"]] for trial in summary["plan"]["searches"]}
    folders = {member["name"]: member["folder"] for member in summary["members"] if member["folder"]}
    histories = {name: history_of(member_folder(path, folder)) for name, folder in folders.items()}
    settings = {name: value for name, value in reader.settings.items() if name != "plan"}
    return Contents(
        settings,
        _decisions(next(iter(searches.values()))),
        chosen or space_of(settings, summary["plan"]["space"]),
        tuple(_record(one, read_document(below(path, SEARCHES, name) / RESULT)) for name, one in searches.items()),
        summary,
        arrays_in(path / PREDICTIONS),
        histories,
        arrays_in(path / SHOWN),
        ensemble,
        task_from_json(ensemble["task"]),
    )


def _decisions(reader: SearchReader) -> dict[str, tuple[str, ...]]:
    return {name: tuple(options) for name, options in reader.settings["decisions"].items()}


def _of_search(path: Path, reader: SearchReader, chosen: Space | None) -> Contents:
    if not reader.steps:
        raise InputError(f"{path} has nothing to report yet: run the same trainless search again first")
    space = chosen or reader.space
    best = [] if space is None else [(space.parse(arch), values) for arch, values in reader.leaderboard(BEST)]
    spent = reader.steps[-1].spent
    result = {
        "trial": reader.settings["searcher"],
        "archs": [arch for arch, _ in best],
        "values": [values for _, values in best],
        "evaluations": spent.evaluations,
        "seconds": spent.seconds,
    }
    return Contents(reader.settings, _decisions(reader), space, (_record(reader, result),))


def _record(reader: SearchReader, result: Facts) -> SearchRecord:
    settings = reader.settings
    told = [
        (step.number, proposal.candidate, outcome.values)
        for step in reader.steps
        for proposal, outcome in zip(step.proposals, step.outcomes, strict=True)
    ]
    directions = {name: bool(up) for name, up in settings["higher_is_better"].items()}
    return SearchRecord(
        result["trial"],
        settings["searcher"],
        settings["ranking"] or "",
        directions,
        tuple(candidate for _, candidate, _ in told),
        tuple(number for number, _, _ in told),
        {name: np.array([values.get(name, np.nan) for _, _, values in told]) for name in directions},
        tuple(tuple(arch) for arch in result["archs"][:BEST]),
        tuple({name: unnumber(value) for name, value in row.items()} for row in result["values"][:BEST]),
        int(result["evaluations"]),
        float(result["seconds"]),
        int(settings["seed"]),
    )
