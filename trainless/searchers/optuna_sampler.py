"""Any Optuna sampler as a searcher, and any finished run as an Optuna study (extra ``optuna``)."""

from __future__ import annotations

import contextlib
import importlib
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from trainless.core.arch import Arch, Decision, Proposal
from trainless.core.errors import InputError
from trainless.core.files import numbers, unnumbers
from trainless.core.ranks import rank_sum
from trainless.core.types import Floats, Json
from trainless.searchers.pareto import fronts
from trainless.searchers.searcher import Told, room
from trainless.spaces.moves import Choices, Feasible, allowed, sample


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


class OptunaSearcher:
    """The ask and tell of an Optuna study over a space's decisions.

    Each decision is a categorical parameter. What the sampler suggests and the space or the limit does not allow is
    told to the study as failed and asked again; after 100 such suggestions a uniform draw takes their place. A
    sampler's own state is not JSON, so the state here is what happened, and restoring repeats it: exact, for a
    sampler with a seed.

    Args:
        space: What to search.
        seed: The seed of the sampler and of the uniform draws.
        feasible: A limit that every proposal keeps.
        sampler: The name of a class of ``optuna.samplers`` that takes a seed.
        objectives: The number of columns that will be told; all are maximised.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> searcher = OptunaSearcher(NasBench201(), sampler="RandomSampler")
        >>> proposals = searcher.ask(3)
        >>> searcher.tell(Told.of(proposals, [1.0, 3.0, 2.0]))
        >>> searcher.best() == proposals[1].candidate
        True
    """

    def __init__(
        self,
        space: Choices,
        *,
        seed: int = 0,
        feasible: Feasible | None = None,
        sampler: str = "TPESampler",
        objectives: int = 1,
    ) -> None:
        optuna = _optuna()
        if sampler not in optuna.samplers.__all__:
            raise InputError(f"Optuna has no sampler {sampler!r}; it has {', '.join(sorted(optuna.samplers.__all__))}")
        self._space, self._feasible = space, feasible
        self._sampler = getattr(optuna.samplers, sampler)
        self._objectives = objectives
        self._failed = optuna.trial.TrialState.FAIL
        self._distributions = _distributions(optuna, space)
        self._reset(seed)

    def _reset(self, seed: int) -> None:
        self._seed = seed
        self._study = _study(_optuna(), self._objectives, self._sampler(seed=seed))
        self._rng = np.random.default_rng(seed)
        self._events: list[list[Any]] = []
        self._outstanding: dict[Arch, list[Any]] = {}
        self._known: dict[Arch, list[float]] = {}

    @property
    def columns(self) -> int | None:
        """As many as the study has objectives."""
        return self._objectives

    def ask(self, limit: int | None = None) -> list[Proposal]:
        """What the sampler suggests."""
        count = room(limit, 1)
        self._events.append(["ask", count])
        return [Proposal(self._suggest()) for _ in range(count)]

    def _suggest(self) -> Arch:
        for _ in range(100):
            trial = self._study.ask(self._distributions)
            arch = tuple(trial.params[name] for name in self._distributions)
            if allowed(self._space, arch, self._feasible):
                self._outstanding.setdefault(arch, []).append(trial)
                return arch
            self._study.tell(trial, state=self._failed)
        return sample(self._space, self._rng, feasible=self._feasible)

    def tell(self, told: Told) -> None:
        """Pass values on to the study; a candidate without a value is told as failed."""
        if not len(told):
            return
        matrix = told.matrix()
        if matrix.shape[1] != self._objectives:
            raise InputError(
                f"the study has {self._objectives} objectives and {matrix.shape[1]} columns were told"
                f" ({', '.join(told.columns)}): say objectives={matrix.shape[1]}"
            )
        for proposal, row in zip(told.proposals, matrix.tolist(), strict=True):
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
        """The best told; with several objectives the lowest sum of ranks on the Pareto front."""
        if not self._known:
            raise InputError("nothing has been told to this searcher yet, so it has no best architecture")
        archs, matrix = list(self._known), np.array(list(self._known.values()))
        front = np.flatnonzero(fronts(matrix) == 0)
        return archs[int(front[np.argmin(rank_sum(matrix[front]))])]

    def state(self) -> Json:
        """The seed, and what was asked and told."""
        return {"seed": self._seed, "events": [list(event) for event in self._events]}

    def restore(self, state: Json) -> None:
        """Repeat what happened."""
        self._reset(state["seed"])
        for event in state["events"]:
            if event[0] == "ask":
                self.ask(event[1])
            else:
                self._events.append(event)
                self._learn(tuple(event[1]), unnumbers(event[2]))


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

    Args:
        decisions: The decisions of the space whose archs they are.
        archs: The evaluated archs in order.
        columns: Their values; an arch with a NaN becomes a failed trial.
        higher_is_better: The direction of each column; all up by default.
        attributes: What else is known of each arch, as Optuna's user attributes.
        storage: Where Optuna keeps the study, such as ``sqlite:///run.db``; in memory by default.
        name: The study's name.

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


def _study(optuna: Any, objectives: int, sampler: Any) -> Any:
    with _quiet(optuna):
        return optuna.create_study(directions=["maximize"] * objectives, sampler=sampler)


def _distributions(optuna: Any, space: Choices) -> dict[str, Any]:
    return {
        decision.name: optuna.distributions.CategoricalDistribution(tuple(range(len(decision))))
        for decision in space.decisions
    }


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
