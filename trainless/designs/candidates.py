"""The candidates of a design: its searches, the architectures they end with, and the later members that are learned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.files import from_json, to_json, write_json
from trainless.core.opening import below, is_there
from trainless.core.scores import Scores, merge
from trainless.core.text import undamaged
from trainless.designs.diversity import POOL, disagreeing
from trainless.designs.planning import DesignPlan, Trial, scored_samples
from trainless.designs.run import CHOICE, DIVERSE, DesignRun
from trainless.designs.training import TrainedMembers
from trainless.learn.callbacks import loggers
from trainless.learn.members import VERSION, history_of, member_folder, read_document
from trainless.rankings import Ranking, learn
from trainless.runs.folder import RESULT, SEARCHES
from trainless.runs.leaderboard import Place
from trainless.runs.search import Found, search
from trainless.runs.settings import ExecutionSettings, SearchCallbacks, SearchSettings, Watch
from trainless.runs.signals import scores_of
from trainless.scoring.request import select
from trainless.searchers.learned import structure_of
from trainless.spaces.protocol import Space

RUNNERS = 50  # architectures that are remembered of each search
LEARNED = "learned"  # where a member comes from that was chosen by the first ones


@dataclass(frozen=True)
class Winner:
    """The result of one search: its ``result.json``.

    ``archs`` are the winner and its leaderboard without failures, best first (where all failed in something, those that
    failed least), with their notation and scores; ``own`` is the searcher's choice: what its policy or its pruning came
    to.
    """

    trial: str
    archs: tuple[Arch, ...]
    texts: tuple[str, ...]
    values: tuple[Mapping[str, float], ...]
    evaluations: int
    seconds: float
    own: Arch


def run_search(run: DesignRun, plan: DesignPlan, trial: Trial, measured: Watch) -> Winner:
    """Run a search to its end in a folder of its own, or read what it came to; killed, it is resumed.

    Its winner is, as the settings say, the first of its leaderboard, the best by the ranking of everything that it
    looked at, or its own choice: TEACUP's program takes the best of the history, its paper what the policy came to.
    """
    folder, task, settings = below(run.folder, SEARCHES, trial.name), run.task, run.settings
    affordable = {"flops": plan.flops} if plan.flops else {}
    if not is_there(folder / RESULT):
        own = SearchSettings(
            searcher=trial.searcher,
            searcher_args=trial.arguments,
            ranking=settings.ranking,
            evaluations=trial.evaluations,
            seed=trial.seed,
            constraints={**affordable, **settings.limits},
            init=settings.init,
            batch=scored_samples(task, settings.ranking),
            ahead=1,
            name=f"{run.folder.resolve().name}/{trial.name}",
            **{each.name: getattr(settings, each.name) for each in fields(ExecutionSettings)},
        )
        logs = loggers(settings.log, run.folder, f"{SEARCHES}/{trial.name}")
        callbacks = SearchCallbacks(measured=measured, stepped=logs)
        found = search(task, plan.space, out=folder, settings=own, callbacks=callbacks)
        write_json(folder / RESULT, {"version": VERSION, **to_json(_winner(trial, found, settings.winner))})
    data = read_document(folder / RESULT)
    with undamaged(folder / RESULT, "give another folder with --out"):
        return from_json(Winner, {name: value for name, value in data.items() if name != "version"})


def architectures(winners: Sequence[Winner], space: Space, size: int, *, distinct: bool) -> list[tuple[str, Arch]]:
    """The architectures to train with the search that each comes from: winners first, then runners-up in turn.

    There are fewer where there are no more; ``distinct`` leaves out those that compute the same as one before.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> archs = ((3, 3, 3, 3, 3, 3), (1, 1, 1, 1, 1, 1))
        >>> found = Winner("rl-00", archs, (), ({}, {}), 20, 1.0, archs[0])
        >>> architectures([found, found], NasBench201(), 3, distinct=True)
        [('rl-00', (3, 3, 3, 3, 3, 3)), ('rl-00', (1, 1, 1, 1, 1, 1))]
    """
    chosen: list[tuple[str, Arch]] = []
    seen: set[Arch] = set()
    for place in range(max((len(winner.archs) for winner in winners), default=0)):
        for winner in winners:
            if place < len(winner.archs) and len(chosen) < size:
                twin = space.canonical(winner.archs[place])
                if not (distinct or place) or twin not in seen:
                    chosen.append((winner.trial, winner.archs[place]))
                    seen.add(twin)
    return chosen


def unlike_members(run: DesignRun, plan: DesignPlan, winners: Sequence[Winner], count: int) -> list[tuple[str, Arch]]:
    """The architectures to train where disagreement counts, chosen once and written down."""
    path, space = run.folder / DIVERSE, plan.space
    pool = architectures(winners, space, POOL * count, distinct=True)
    if not is_there(path):
        archs = [arch for _, arch in pool]
        settings = run.settings
        found = disagreeing(space, archs, run.task, count, diversity=settings.diversity, seed=settings.seed)
        texts = [space.format(arch) for arch in found]
        write_json(path, {"version": VERSION, "archs": [list(arch) for arch in found], "texts": texts})
    with undamaged(path, "give another folder with --out"):
        kept = [tuple(map(int, arch)) for arch in read_document(path)["archs"]]
    origins = {arch: origin for origin, arch in reversed(pool)}
    return [(origins[arch], arch) for arch in kept]


def first_members(size: int) -> int:
    """The number of members that are chosen before anything is learned: half, rounded up, and at least two."""
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
    if not is_there(path):
        archs = promising(winners, space, ranking, trained, count)
        texts = [space.format(arch) for arch in archs]
        write_json(path, {"version": VERSION, "archs": [list(arch) for arch in archs], "texts": texts})
    with undamaged(path, "give another folder with --out"):
        return [tuple(map(int, arch)) for arch in read_document(path)["archs"]]


def promising(
    winners: Sequence[Winner], space: Space, ranking: Ranking, trained: Sequence[tuple[Arch, float]], count: int
) -> list[Arch]:
    """The most promising candidates of all that the searches remember, by :func:`trainless.rankings.learn`.

    Archs that compute the same are one candidate, the first of them; its scores are the mean over the searches that
    found it, and its value, of which higher is better, the mean over its trainings that did not fail.
    """
    archs, scores = _candidates(winners, space, ranking)
    values: dict[str, list[float]] = {}
    for arch, value in trained:
        values.setdefault(_name(space, arch), []).append(value)
    known = {name: _mean(each) for name, each in values.items()}
    features = structure_of(space)
    structure = np.array([features(archs[name]) for name in scores.candidates], np.float64)
    return [archs[name] for name in learn(ranking, scores, known, structure=structure).next(count)]


def values_of(folder: Path, trained: TrainedMembers) -> list[tuple[Arch, float]]:
    """Minus the validation loss of each member's kept weights, NaN where all attempts failed; none without any."""
    found = []
    for name, member in trained.members.items():
        if name in trained.folders:
            losses = [epoch.valid_loss for epoch in history_of(member_folder(folder, trained.folders[name]))]
            kept = losses[-1] if member.recipe.keep == "last" else float(np.nanmin(losses))
            found.append((member.arch, -kept))
        elif name in trained.replaced:
            found.append((member.arch, math.nan))
    return found


def _winner(trial: Trial, found: Found, winner: str) -> Winner:
    sound = [place for place in found.places if not place.failures] or _least_failed(trial, found)
    if winner == "own":  # first, unless it failed
        sound.sort(key=lambda place: place.arch != found.best)
    rows = [(place.arch, place.text, place.scores) for place in sound[:RUNNERS]]
    archs, texts, scores = zip(*rows, strict=True)
    return Winner(trial.name, archs, texts, scores, found.spent.evaluations, found.spent.seconds, found.best)


def _least_failed(trial: Trial, found: Found) -> list[Place]:
    """The candidates that lack the fewest scores, in their order, where none has all."""
    if not found.places or all(len(place.failures) == len(place.scores) for place in found.places):
        reasons = [reason for place in found.places for reason in place.failures.values()]
        raise InputError(
            f"no architecture that {trial.name} looked at could be scored"
            f" ({reasons[0] if reasons else 'nothing was evaluated'}): look at the data, or choose another --ranking"
        )
    fewest = min(len(place.failures) for place in found.places)
    return [place for place in found.places if len(place.failures) == fewest]


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
