"""Any Optuna sampler as a searcher, and any finished run as an Optuna study (extra ``optuna``)."""

from __future__ import annotations

import contextlib
import importlib
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainless.core.arch import Arch, Decision, Proposal
from trainless.core.errors import InputError
from trainless.core.files import numbers, unnumbers
from trainless.core.ranks import rank_sum
from trainless.core.types import Floats
from trainless.searchers.pareto import fronts
from trainless.searchers.searcher import Searcher, Told, room, told_first
from trainless.searchers.state import kept, lazy


def _optuna() -> Any:
    try:
        return importlib.import_module("optuna")
    except ModuleNotFoundError as missing:
        raise InputError("Optuna is not installed: pip install 'trainless[optuna]'") from missing


@contextlib.contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Without Optuna's own messages and its notes on what is experimental; its verbosity is left as it was."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


@dataclass(eq=False, kw_only=True)
class OptunaSearcher(Searcher):
    """The ask and tell of an Optuna study over a space's decisions.

    Each decision is a categorical parameter. What the sampler suggests and the space or the limit does not allow is
    told to the study as failed and asked again; after 100 such suggestions a uniform draw takes their place. A
    sampler's own state is not JSON, so the state here is what happened, and restoring repeats it: exact, for a
    sampler with a seed.

    The ``sampler`` is a class of ``optuna.samplers`` that takes a seed; all ``objectives`` are maximised.
    """

    columns_by = "objectives"
    sampler: str = "TPESampler"
    objectives: int = 1
    _begun: int = kept()
    _events: list[list[Any]] = kept(list)
    _study: Any = lazy()

    def __post_init__(self) -> None:
        super().__post_init__()
        optuna = _optuna()
        if self.sampler not in optuna.samplers.__all__:
            known = ", ".join(sorted(optuna.samplers.__all__))
            raise InputError(f"Optuna has no sampler {self.sampler!r}; it has {known}")
        self._failed = optuna.trial.TrialState.FAIL
        categorical = optuna.distributions.CategoricalDistribution
        self._distributions = {d.name: categorical(tuple(range(len(d)))) for d in self.space.decisions}
        self._begun, self.columns = self.seed, self.objectives
        self._replay()

    def _replay(self) -> None:
        """Repeat what happened, where it was not this object that did it."""
        if self._study is not None:
            return
        optuna = _optuna()
        sampler = getattr(optuna.samplers, self.sampler)(seed=self._begun)
        with _quiet(optuna):
            self._study = optuna.create_study(directions=["maximize"] * self.objectives, sampler=sampler)
        self._rng = np.random.default_rng(self._begun)
        self._outstanding: dict[Arch, list[Any]] = {}
        self._known: dict[Arch, list[float]] = {}
        for kind, *event in self._events:
            if kind == "ask":
                self._suggested(event[0])
            else:
                self._learn(tuple(event[0]), unnumbers(event[1]))

    def ask(self, limit: int | None = None) -> list[Proposal]:
        count = room(limit, 1)
        self._replay()
        self._events.append(["ask", count])
        return self._suggested(count)

    def _suggested(self, count: int) -> list[Proposal]:
        return [Proposal(self._suggest()) for _ in range(count)]

    def _suggest(self) -> Arch:
        for _ in range(100):
            trial = self._study.ask(self._distributions)
            arch = tuple(trial.params[name] for name in self._distributions)
            if self._allows(arch):
                self._outstanding.setdefault(arch, []).append(trial)
                return arch
            self._study.tell(trial, state=self._failed)
        return self._drawn()

    def tell(self, told: Told) -> None:
        """Pass values on to the study; a candidate without a value is told as failed."""
        if len(told) and len(told.columns) != self.objectives:
            raise InputError(
                f"the study has {self.objectives} objectives and {len(told.columns)} columns were told"
                f" ({', '.join(told.columns)}): say objectives={len(told.columns)}"
            )
        self._replay()
        for proposal, row in told.rows():
            self._events.append(["tell", list(proposal.arch), numbers(row)])
            self._learn(proposal.arch, row)

    def _learn(self, arch: Arch, row: list[float]) -> None:
        self._known.setdefault(arch, row)
        trials = self._outstanding.get(arch)
        usable = all(map(math.isfinite, row))
        if trials:
            trial = trials.pop(0)
            self._study.tell(trial, row if usable else None, state=None if usable else self._failed)
        elif usable:
            self._study.add_trial(_frozen(self._distributions, arch, row))

    def best(self) -> Arch:
        self._replay()
        if not self._known:
            return told_first(None)
        archs, matrix = list(self._known), np.array(list(self._known.values()))
        front = np.flatnonzero(fronts(matrix) == 0)
        return archs[int(front[np.argmin(rank_sum(matrix[front]))])]


def to_study(
    decisions: Sequence[Decision],
    archs: Sequence[Arch],
    columns: Mapping[str, Floats],
    *,
    higher_is_better: Mapping[str, bool] | None = None,
    attributes: Sequence[Mapping[str, Any]] = (),
    storage: str | None = None,
    name: str = "trainless",
) -> Any:
    """A finished run as an Optuna study: one trial per arch, one objective per column, for its dashboard.

    Parameters are the decisions and their values the options' names, for people to read.

    An arch with a NaN becomes a failed trial; ``attributes`` are Optuna's user attributes. The study is in memory
    unless ``storage`` names a place, such as ``sqlite:///run.db``.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> archs = [(0, 0, 0, 0, 0, 3), (3, 3, 3, 3, 3, 3)]
        >>> study = to_study(NasBench201().decisions, archs, {"score": np.array([1.0, 2.0])})
        >>> study.best_value, study.best_params["0->1"]
        (2.0, 'nor_conv_3x3')
    """
    optuna = _optuna()
    directions = higher_is_better or dict.fromkeys(columns, True)
    with _quiet(optuna):
        try:
            study = optuna.create_study(
                directions=["maximize" if directions[column] else "minimize" for column in columns],
                storage=storage,
                study_name=name,
            )
        except optuna.exceptions.DuplicatedStudyError as error:
            raise InputError(f"{storage} has a study {name!r} already: give another name or file") from error
        study.set_metric_names(list(columns))
        choices = {d.name: optuna.distributions.CategoricalDistribution(d.options) for d in decisions}
        for row, arch in enumerate(archs):
            options = tuple(d.options[option] for d, option in zip(decisions, arch, strict=True))
            values = [float(column[row]) for column in columns.values()]
            study.add_trial(_frozen(choices, options, values, attributes[row] if attributes else {}))
    return study


def _frozen(
    distributions: Mapping[str, Any],
    options: Sequence[int | str],
    row: list[float],
    attributes: Mapping[str, Any] | None = None,
) -> Any:
    optuna = _optuna()
    known = all(map(math.isfinite, row))
    return optuna.trial.create_trial(
        params=dict(zip(distributions, options, strict=True)),
        distributions=dict(distributions),
        user_attrs=dict(attributes or {}),
        values=row if known else None,
        state=optuna.trial.TrialState.COMPLETE if known else optuna.trial.TrialState.FAIL,
    )
