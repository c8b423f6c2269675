"""A searcher as a sampler of an Optuna study of one's own (extra ``optuna``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainless.core.arch import Arch, Proposal, is_region
from trainless.core.errors import InputError
from trainless.searchers.optuna_sampler import _optuna
from trainless.searchers.searcher import Searcher, Told
from trainless.spaces.moves import Choices, sample


def suggest(trial: Any, space: Choices) -> Arch:
    """Ask a trial for an architecture: a categorical parameter for each decision, with the options' names as values.

    Any of Optuna's samplers can answer; with :func:`as_sampler` a searcher does.
    """
    names = [trial.suggest_categorical(decision.name, decision.options) for decision in space.decisions]
    return tuple(decision.options.index(name) for decision, name in zip(space.decisions, names, strict=True))


def as_sampler(searcher: Searcher) -> Any:
    """A searcher as an ``optuna.samplers.BaseSampler``, for a study whose objective calls :func:`suggest`.

    The searcher is told of every trial that ends: its values, their signs turned where they are to be minimised, or
    that there are none where it failed or was pruned. Where a searcher waits for others before it goes on, as many
    parallel trials may make it, an architecture is drawn at random. Parameters that are none of the space's decisions
    are drawn at random, too.

    Example:
        >>> import optuna
        >>> from trainless.searchers import make
        >>> from trainless.spaces.nb201 import NasBench201
        >>> space = NasBench201()
        >>> study = optuna.create_study(direction="maximize", sampler=as_sampler(make("evolution", space, seed=0)))
        >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
        >>> study.optimize(lambda trial: float(sum(suggest(trial, space))), n_trials=5)
        >>> len(study.trials)
        5
    """
    optuna = _optuna()
    if searcher.regions:
        raise InputError(f"{type(searcher).__name__} proposes regions, which are no trials: choose another searcher")
    space = searcher.space
    distributions = {d.name: optuna.distributions.CategoricalDistribution(d.options) for d in space.decisions}
    others = optuna.samplers.RandomSampler(seed=searcher.seed)
    rng = np.random.default_rng([searcher.seed, 1])

    class SearcherSampler(optuna.samplers.BaseSampler):  # type: ignore[misc, name-defined]
        """Asks and tells the searcher."""

        def __init__(self) -> None:
            self._asked: dict[int, Proposal] = {}

        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            return dict(distributions)

        def sample_relative(self, study: Any, trial: Any, search_space: Mapping[str, Any]) -> dict[str, Any]:
            proposals = searcher.ask(1)
            proposal = proposals[0] if proposals else Proposal(sample(space, rng, feasible=searcher.feasible))
            if is_region(proposal.candidate) or proposal.fidelity != 1.0:
                raise InputError("a searcher of regions or of fidelities cannot sample a study: choose another one")
            self._asked[trial.number] = proposal
            return {d.name: d.options[option] for d, option in zip(space.decisions, proposal.arch, strict=True)}

        def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
            return others.sample_independent(study, trial, param_name, param_distribution)

        def after_trial(self, study: Any, trial: Any, state: Any, values: Any) -> None:
            proposal = self._asked.pop(trial.number, None)
            if proposal is None:
                return
            signs = [1.0 if way == optuna.study.StudyDirection.MAXIMIZE else -1.0 for way in study.directions]
            there = values is not None and state == optuna.trial.TrialState.COMPLETE
            told = np.array(signs) * (np.array(values, np.float64) if there else math.nan)
            columns = ["value"] if len(signs) == 1 else [f"value {number}" for number in range(len(signs))]
            row = {name: told[[place]] for place, name in enumerate(columns)}
            searcher.tell(Told((proposal,), row))

    return SearcherSampler()
