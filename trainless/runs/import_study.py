"""An Optuna study as a run folder, so that our leaderboard, report and page show it (extra ``optuna``)."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.runs.search import Found, search
from trainless.runs.settings import SearchSettings
from trainless.scoring.measures import Measure, Outcome
from trainless.searchers.searcher import Searcher, Told, told_first
from trainless.searchers.state import kept
from trainless.spaces.protocol import Space


def import_study(
    study: Any, space: Space, out: str | Path, *, storage: str | Path = "", task: Task | None = None
) -> tuple[Found, int]:
    """Make a run folder of a study whose parameters are a space's decisions, by the names of their options.

    Trials come in their order, and each architecture once, with the values of its first trial that has some. Trials
    that are still running are left out.

    Args:
        study: The study, or its name in a ``storage``.
        space: The space; parameters of other names are left aside.
        out: The run folder.
        storage: A SQLite file or an address of Optuna's; empty for a study that is given itself.
        task: The data that the values are about, where that should be said.

    Returns:
        The run, and how many trials were left out because their architecture came before.
    """
    opened = study if storage == "" else _opened(str(study), storage)
    columns = opened.metric_names or (
        ["value"] if len(opened.directions) == 1 else [f"value {n}" for n in range(len(opened.directions))]
    )
    higher = {name: way.name == "MAXIMIZE" for name, way in zip(columns, opened.directions, strict=True)}
    known, left_out = dict[Arch, Outcome](), 0
    for trial in opened.trials:
        if trial.state.is_finished():
            arch = space.canonical(_arch_of(trial, space))
            left_out += arch in known
            held = known.get(arch)
            if held is None or held.failures:
                known[arch] = _outcome(trial, columns, held)
    if not known:
        raise InputError(f"the study {opened.study_name!r} has no finished trial: nothing to import")

    def trials(space: Space, *, seed: int = 0, feasible: Any = None) -> Trials:
        return Trials(space, seed=seed, feasible=feasible, archs=tuple(known))

    trials.__qualname__ = f"study {opened.study_name}"
    settings = SearchSettings(measure=Recorded(known, higher), evaluations=len(known))
    return search(task or Task.noise((3, 32, 32)), space, trials, out=out, settings=settings), left_out


class Recorded(Measure):
    """Values that are there already."""

    def __init__(self, known: dict[Arch, Outcome], higher_is_better: dict[str, bool]) -> None:
        self._known, self.higher_is_better = known, higher_is_better

    def __call__(self, proposal: Proposal) -> Outcome:
        return self._known[proposal.arch]


@dataclass(eq=False, kw_only=True)
class Trials(Searcher):
    """Proposes what a study tried, in its order; its choice is the first among the best by the first value."""

    archs: tuple[Arch, ...] = ()
    columns: int | None = field(init=False, repr=False, default=None)
    _next: int = kept(0)
    _best: Arch | None = kept(None)
    _value: float = kept(-math.inf)

    def ask(self, limit: int | None = None) -> list[Proposal]:
        first, self._next = self._next, min(len(self.archs), self._next + (limit or 1))
        return [Proposal(arch) for arch in self.archs[first : self._next]]

    def tell(self, told: Told) -> None:
        for proposal, row in told.rows():
            if self._best is None or row[0] > self._value:
                self._best, self._value = proposal.arch, row[0] if math.isfinite(row[0]) else -math.inf

    def best(self) -> Arch:
        return told_first(self._best)


def _opened(name: str, storage: str | Path) -> Any:
    try:
        optuna: Any = importlib.import_module("optuna")
    except ModuleNotFoundError as missing:
        raise InputError("Optuna is not installed: pip install 'trainless[optuna]'") from missing
    address = str(storage)
    if "://" not in address:
        if not Path(address).is_file():
            raise InputError(f"{address} is no file: expected a SQLite file of Optuna's")
        address = f"sqlite:///{Path(address).as_posix()}"
    try:
        return optuna.load_study(study_name=name or None, storage=address)
    except (KeyError, ValueError) as error:
        there = ", ".join(map(repr, optuna.get_all_study_names(address))) or "none"
        raise InputError(f"{storage} has no single study {name!r}: expected one of {there}") from error


def _arch_of(trial: Any, space: Space) -> Arch:
    """The architecture that a trial's parameters name."""
    arch = []
    for decision in space.decisions:
        value = trial.params.get(decision.name)
        if value not in decision.options:
            raise InputError(
                f"trial {trial.number} has {value!r} for {decision.name}; expected one of"
                f" {', '.join(map(repr, decision.options[:5]))}: is it a study of the space {space.name}?"
            )
        arch.append(decision.options.index(value))
    return tuple(arch)


def _outcome(trial: Any, columns: list[str], before: Outcome | None) -> Outcome:
    if trial.values is not None and trial.state.name == "COMPLETE":
        return Outcome(dict(zip(columns, trial.values, strict=True)))
    said = str(trial.user_attrs.get(columns[0]) or f"the trial is {trial.state.name.lower()}")
    return before or Outcome(dict.fromkeys(columns, math.nan), dict.fromkeys(columns, said))
