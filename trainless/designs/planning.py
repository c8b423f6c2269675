"""The plan of a design: its numbers, from the preset or from what fits into a time budget; written once and kept."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.files import from_json, to_json, write_json
from trainless.core.opening import is_there
from trainless.core.seeds import one_thread, seeded
from trainless.core.task import Task
from trainless.core.text import undamaged
from trainless.core.types import Json
from trainless.designs.budget import (
    FULL,
    JUDGING,
    LEAST_MEMBERS,
    PILOT,
    SEARCH,
    epoch_seconds,
    evaluations_within,
    good_epochs,
    members_within,
    require_time,
    score_seconds,
    training_seconds,
)
from trainless.designs.holdout import hold_back, scale_of, standardised
from trainless.designs.run import DesignRun
from trainless.designs.settings import DesignSettings, trainers
from trainless.learn import symmetry
from trainless.learn.loop import train
from trainless.learn.members import VERSION, read_document
from trainless.learn.recipe import DEFAULT, Augmentation, Recipe, augmentation_for, recipe_for
from trainless.rankings import ranking as named_ranking
from trainless.runs.folder import PLAN
from trainless.scoring.measures import ByProxies
from trainless.scoring.request import init_named, select
from trainless.spaces import registry as spaces
from trainless.spaces import space as named_space
from trainless.spaces.mlp import Mlp
from trainless.spaces.moves import sample
from trainless.spaces.protocol import Counted, Space, Supernet, key
from trainless.spaces.residual import STRIDES, Residual

SEARCHERS = {"rl": "teacup_reinforce", "genetic": "pmbga", "prune": "prune"}
CLOSED_FIRST = ("none",)  # what pruning closes before its first round, unless it is told
STEPS = 8  # of an epoch on small data: batches of the default recipe shrink to have as many
SYMMETRY = 0.06  # of a time budget that it may take to learn which flips and turns change nothing
ROWS_BAND = 8.0  # the same for rows of measurements, whose networks take seconds
BAND = 2.0  # times the plain network's multiply–accumulates that a searched one may have
SHORTEST = 8  # positions along the longest axis, below which inputs are not changed in training
MANY = 40  # epochs, from which on signals are changed more in training
PLAIN = "residual"  # the space of the plain network
BATCHES = {"teacup-published": 32}  # samples that a ranking was fitted on, where that is not each paper's number
LARGEST = 128  # samples in the papers' largest batch
ROWS = "mlp"  # the space for rows of measurements
CELLS, LEAST_SIDE = "nb201", 4  # the space for images with shorter axes than so many


@dataclass(frozen=True)
class Trial:
    """One search to be run."""

    name: str
    searcher: str
    seed: int
    evaluations: int | None
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class DesignPlan:
    """Everything that is to be done: ``plan.json``.

    Args:
        space: Where the searches look.
        searches: The searches.
        plain: The arch of the plain network of the space ``residual``; empty where the data have none.
        members: Networks that are trained: first one of each search and a plain one, then the next of each.
        plain_members: How many of them are plain.
        baseline: Members of an ensemble of one architecture, to compare with.
        recipe: How all of them are trained.
        folds: How many folds small data have.
        flops: The most multiply–accumulates of a searched network; 0 for any.
        pilot: What was measured, with a time budget.
        round: Seconds of a round of training, with a time budget; 0 for as long as it takes.
        begin: Seconds after which training began; below 0 until it did.
        notes: What the user should know.
    """

    space: Space
    searches: tuple[Trial, ...]
    plain: Arch
    members: int
    plain_members: int
    baseline: int
    recipe: Recipe
    folds: int
    flops: float = 0.0
    pilot: Mapping[str, Any] | None = None
    round: float = 0.0
    begin: float = -1.0
    notes: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """Plain data; the space by its key."""
        own = {each.name: to_json(getattr(self, each.name)) for each in fields(self) if each.name != "space"}
        return {"version": VERSION, "space": key(self.space), **own}


def ladder_of(settings: DesignSettings, task: Task) -> list[Space]:
    """The spaces to choose a width from, the thinnest first: the preset's, or the one that was asked for.

    Residual networks have the stem strides around that of the plain one, so that no input shrinks to nothing; images
    that are too small for them have cells, and rows of measurements linear layers.
    """
    name, parameters = settings.space, settings.space_args
    if name == PLAIN and not parameters and are_rows(task):
        name = ROWS
    elif name == PLAIN and not parameters and min(task.input_shape[1:]) < LEAST_SIDE:
        name = CELLS
    if ":" in name or parameters or not {"channels", "cells"} <= set(inspect.signature(spaces[name]).parameters):
        found = named_space(name, **parameters)
        if isinstance(found, Residual) and not parameters:
            found.check(task)
            usual = STRIDES.index(found.shape(found.plain(task), task.dims).stride)
            near = STRIDES[max(0, usual - 1) : usual + 2]
            found = replace(found, least_stride=near[0], most_stride=near[-1])
        return [found]
    return [named_space(name, channels=channels, cells=cells) for channels, cells in settings.rungs]


def plan_of(run: DesignRun, spent: float = 0.0) -> DesignPlan:
    """The plan that is there, or a new one that is written down.

    Without a time budget everything follows from the settings and the data, and two runs are the same. With one, the
    pilot decides, so that two runs may have other numbers; a resumed run keeps its own. So many seconds of the budget
    are spent already.
    """
    if is_there(run.folder / PLAN):
        return _read(run.folder / PLAN, run.ladder)
    plan = _planned(run) if run.settings.seconds is None else _within(run, run.settings.seconds, spent)
    plan = _symmetric(run, plan)
    write_plan(run, plan)
    return plan


def write_plan(run: DesignRun, plan: DesignPlan) -> None:
    """Write ``plan.json``."""
    write_json(run.folder / PLAN, plan.to_json())


def begun(run: DesignRun, plan: DesignPlan, elapsed: float, answering: float = 0.0) -> DesignPlan:
    """The plan with the rounds of training fitted to what is left of a time budget once the searches are over.

    ``answering`` are seconds that classical members will take at the end.
    """
    settings = run.settings
    if settings.seconds is None or plan.begin >= 0:
        return plan
    rounds = -(-(plan.members + plan.baseline) // trainers(settings))
    judging = (plan.pilot or {}).get("judging", 0.0) + answering
    left = training_seconds(settings.seconds, elapsed, judging) / rounds
    settled = replace(plan, begin=elapsed, round=max(1.0, min(left, (plan.pilot or {}).get("longest", left))))
    write_plan(run, settled)
    return settled


def are_rows(task: Task) -> bool:
    """Whether inputs are numbers side by side, not a grid: measurements, or a signal of a few values."""
    return not task.vocabulary and task.dims <= 1 and max(task.input_shape[1:], default=0) < SHORTEST


def plain_home(task: Task) -> Residual | Mlp:
    """The space of a task's plain network."""
    return Mlp() if are_rows(task) else Residual()


def plains(task: Task, limits: Mapping[str, float] | None = None) -> list[Arch]:
    """Plain networks for a task, the thinnest first: what a competent person takes, and thinner ones.

    There are none where images are too small, or where limits are on more than can be counted.

    Example:
        >>> from trainless.tasks import task
        >>> [named_space(PLAIN).format(arch)[:16] for arch in plains(task("digits"))]
        ['width=16,depth=1', 'width=16,depth=1', 'width=16,depth=2', 'width=32,depth=2']
    """
    if not set(limits or ()) <= {"params", "flops"}:
        return []
    home = plain_home(task)
    try:
        found = {home.plain(task)} if isinstance(home, Mlp) else _thinner(home, task)
    except InputError:
        return []
    counts = {arch: home.counts(arch, task) for arch in found}
    fit = [arch for arch in found if all(getattr(counts[arch], name) <= most for name, most in (limits or {}).items())]
    return sorted(fit, key=lambda arch: counts[arch].flops)


def _thinner(space: Residual, task: Task) -> set[Arch]:
    """The plain residual network and thinner ones."""
    usual = space.plain(task)
    names = [decision.name for decision in space.decisions]

    def changed(**options: int) -> Arch:
        return tuple(options.get(name, option) for name, option in zip(names, usual, strict=True))

    place = names.index("stride")
    further = min(usual[place] + 1, len(space.decisions[place]) - 1)
    found = {usual, changed(width=0), changed(width=0, depth=0), changed(width=0, depth=0, stride=further)}
    if task.dims == 3:
        found.add(changed(width=1))
    if min(-(-length // STRIDES[further]) for length in task.input_shape[1:]) < 4:
        found.discard(changed(width=0, depth=0, stride=further))
    return found


def trials(settings: DesignSettings, space: Space, evaluations: int | None = None) -> list[Trial]:
    """The searches of a design, each of so many evaluations."""
    return [
        Trial(
            f"{short}-{run:02d}",
            searcher,
            1000 * settings.seed + 100 * kind + run,
            None if short == "prune" else evaluations or settings.evaluations,
            settings.searcher_args.get(short, {}),
        )
        for kind, (short, searcher) in enumerate(SEARCHERS.items())
        if short in settings.methods and (short != "prune" or not no_pruning(settings, space))
        for run in range(settings.searches)
    ]


def no_pruning(settings: DesignSettings, space: Space) -> str:
    """Why pruning is left out; empty where it is not.

    It takes a fixed number of evaluations, which has to be within what a search may have. Its winner comes after those
    of the other searches, which have to leave it a place among the members. A design of nothing else keeps it.
    """
    others = settings.searches * sum(method != "prune" for method in settings.methods)
    if "prune" not in settings.methods or not others:
        return ""
    if not isinstance(space, Supernet):
        return f"{space.name} has no supernets"
    needed = prunings(space, **{"first": CLOSED_FIRST, **settings.searcher_args.get("prune", {})})
    if needed > settings.evaluations:
        return f"it takes {needed} evaluations, and a search was to have {settings.evaluations} at most"
    if settings.members <= others:
        return f"the other {others} searches come first, and {settings.members} members leave it no place"
    return ""


def recipe_of(settings: DesignSettings, task: Task, epochs: int | None = None) -> Recipe:
    """The recipe that was asked for, or the default one with batches and augmentation that fit the data."""
    found = recipe_for(task, settings.recipe)
    if found.name != DEFAULT:
        most = min(found.epochs, epochs or settings.epochs)
        return replace(found, epochs=most, patience=0 if found.patience >= most else found.patience)
    samples = len(task.part("train"))
    batch = max(8, min(found.batch, 2 ** max(0, (samples // STEPS).bit_length() - 1)))
    most = epochs or settings.epochs
    if max(task.input_shape[1:], default=0) < SHORTEST:  # too short to be changed
        return replace(found, epochs=most, batch=batch, augmentation=Augmentation())
    return replace(found, epochs=most, batch=batch, augmentation=augmentation_for(task.dims, strong=most >= MANY))


def prunings(space: Space, *, number: int = 1, first: Sequence[str] = ()) -> int:
    """The number of regions that a search by pruning looks at, whatever it finds.

    Each decision loses so many options in a round; the ``first`` ones are closed before.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> prunings(NasBench201()), prunings(NasBench201(), first=("none",))
        (88, 57)
    """
    sizes = [max(1, len(set(decision.options) - set(first))) for decision in space.decisions]
    total = 0
    while any(size > 1 for size in sizes):
        total += 1 + sum(size for size in sizes if size > 1)
        sizes = [max(1, size - number) for size in sizes]
    return total


def widest(ladder: list[Space], task: Task, flops: float) -> Space:
    """The widest space whose densest architecture is within so many multiply–accumulates; the thinnest at least.

    It depends on the data, not on this machine's pace, so that the same command makes the same networks everywhere.
    """
    chosen = ladder[0]
    for space in ladder[1:]:
        if densest_flops(space, task) <= flops:
            chosen = space
    return chosen


def densest_flops(space: Space, task: Task) -> float:
    """Multiply–accumulates of the most expensive of each decision's options; infinite where it cannot be counted."""
    if not isinstance(space, Counted):
        return float("inf")
    arch = tuple(0 for _ in space.decisions)
    for place, decision in enumerate(space.decisions):
        options = [(*arch[:place], option, *arch[place + 1 :]) for option in range(len(decision))]
        arch = max((one for one in options if space.valid(one)), key=lambda one: space.counts(one, task).flops)
    return float(space.counts(arch, task).flops)


def scored_samples(task: Task, ranking: str) -> int:
    """Samples per batch of the proxies: the ranking's own number or 0 for the papers', on small data all there are.

    Those are in whole eights.
    """
    n = len(task.part("train"))
    own = BATCHES.get(ranking, 0)
    return own if n >= (own or LARGEST) else n // 8 * 8 or n


def _planned(run: DesignRun) -> DesignPlan:
    """The plan without a time budget: the preset's numbers and the usual plain network."""
    settings, task = run.settings, run.task
    found = plains(task, settings.limits) if settings.plain else []
    usual = next((arch for arch in found if arch == plain_home(task).plain(task)), found[-1]) if found else ()
    recipe = recipe_of(settings, task)
    space, flops = _home(run, usual, recipe)
    searches, notes = tuple(trials(settings, space)), _notes(no_pruning(settings, space))
    members, plain = _shares(settings, settings.members, usual)
    return DesignPlan(
        space, searches, usual, members, plain, settings.baseline, recipe, _folds(settings), flops, notes=notes
    )


def _symmetric(run: DesignRun, plan: DesignPlan) -> DesignPlan:
    """The plan with the flips and turns in its recipe that were asked for, or that a short training does not mind."""
    settings, task, started = run.settings, run.task, time.monotonic()
    if not settings.symmetry:
        return plan
    if settings.symmetry != symmetry.LEARN:
        names, said = symmetry.named(settings.symmetry, task.dims), list[str]()
    elif not plan.plain:
        names, said = (), ["flips and turns could not be learnt: there is no plain network for these data"]
    else:
        seen, home = hold_back(task, plan.recipe, settings.seed, plan.folds).fold(0), plain_home(task)
        scale = scale_of(seen)
        if scale is not None:
            seen = standardised(seen, scale)
        short = replace(plan.recipe, epochs=max(2, plan.recipe.epochs // 2), keep="last", patience=0)
        until = None if settings.seconds is None else time.time() + SYMMETRY * settings.seconds
        with one_thread(), seeded(settings.seed):
            net = home.build(plan.plain, task)
            trained = train(net, seen, short, seed=settings.seed, device=settings.device, deadline=until)
            found = [] if trained.failed else symmetry.symmetries(trained.net, seen, seed=settings.seed)
        names, said = tuple(one.name for one in found if one.allowed), [str(one) for one in found]
    changed = replace(plan.recipe, augmentation=symmetry.allowed(plan.recipe.augmentation, names, task.dims))
    took = time.monotonic() - started
    pilot = None if plan.pilot is None else {**plan.pilot, "seconds": plan.pilot["seconds"] + took}
    return replace(plan, recipe=changed, pilot=pilot, notes=(*plan.notes, *said))


def _folds(settings: DesignSettings) -> int:
    """Folds; one where losses are compared to learn which architectures are good."""
    return 1 if settings.learn else settings.folds


def _shares(settings: DesignSettings, members: int, plain: Arch) -> tuple[int, int]:
    """All members, and those of them that are plain: two of three, where there is a plain network."""
    return members, members - max(1, members // 3) if settings.plain and plain else 0


def _home(run: DesignRun, plain: Arch, recipe: Recipe) -> tuple[Space, float]:
    """The space to search, and the most multiply–accumulates of a network there; 0 for any.

    That is a multiple of the plain network's, or what the preset's work allows where there is none.
    """
    settings, task = run.settings, run.task
    if plain:
        flops = (ROWS_BAND if are_rows(task) else BAND) * plain_home(task).counts(plain, task).flops
    else:
        samples = len(task.part("train")) * recipe.epochs * (settings.members + settings.baseline)
        flops = settings.work / (3 * samples)
    space = widest(run.ladder, task, flops)
    limited = isinstance(space, Counted) and len(run.ladder) == 1 and bool(plain) and "flops" not in settings.limits
    return space, flops if limited else 0.0


def _within(run: DesignRun, budget: float, spent: float) -> DesignPlan:
    """The plan within a time budget: a pilot times the plain network and the scores."""
    settings, task, start = run.settings, run.task, time.monotonic()

    def gone() -> float:
        return spent + time.monotonic() - start

    recipe = recipe_of(settings, task)
    good = good_epochs(len(task.part("train")), recipe.batch)
    seen = hold_back(task, recipe, settings.seed, _folds(settings)).fold(0)
    search = SEARCH * budget
    measured: dict[str, float] = {}
    found = plains(task, settings.limits) if settings.plain else []
    plain: Arch = ()
    least = min(LEAST_MEMBERS, settings.members)
    members, longest, one = settings.members, math.inf, 0.0
    home = plain_home(task)
    cost = {arch: home.counts(arch, task).flops for arch in found}
    for arch in found:
        if plain and gone() - spent > PILOT * budget:  # no time to measure: at worst it grows as the work does
            epoch = one * cost[arch] / max(1, cost[plain])
        else:
            epoch = epoch_seconds(home, arch, seen, recipe, settings.device)
        measured[home.format(arch)] = epoch
        left = training_seconds(budget, gone() + search, JUDGING * LEAST_MEMBERS * epoch)
        number, length = members_within(left, good * epoch, settings.members, trainers(settings))
        fits = number * good * epoch <= 1.3 * left * trainers(settings) and number >= least
        if not plain or fits:
            plain, members, longest, one = arch, number, length, epoch
        if not fits:
            break
    if not found:
        arch = sample(run.ladder[0], np.random.default_rng(settings.seed))
        one = epoch_seconds(run.ladder[0], arch, seen, recipe, settings.device)
        left = training_seconds(budget, gone() + search, JUDGING * LEAST_MEMBERS * one)
        members, longest = members_within(left, good * one, settings.members, trainers(settings))
    space, flops = _home(run, plain, recipe)
    options: dict[str, Any] = {"seed": settings.seed, "init": init_named(settings.init), "device": settings.device}
    proxies = select(named_ranking(settings.ranking).proxies)
    measure = ByProxies(space, task, proxies, batch=scored_samples(task, settings.ranking), **options)

    def affordable(arch: Arch) -> bool:
        return not flops or (isinstance(space, Counted) and space.counts(arch, task).flops <= flops)

    score = score_seconds(space, measure, settings.seed, PILOT * budget, affordable)
    require_time(budget, gone(), one)
    count = max(1, len(settings.methods) * settings.searches)
    evaluations = evaluations_within(search, score, count, settings.evaluations, settings.workers)
    fitted = replace(settings, evaluations=evaluations, members=members)
    chosen, why = trials(fitted, space), no_pruning(fitted, space)
    total, own = _shares(settings, members, plain)
    epochs = min(settings.epochs, good) if math.isinf(longest) else math.ceil(FULL * good)
    pilot = {"seconds": time.monotonic() - start, "epoch": measured, "score": score, "longest": longest}
    pilot["judging"] = JUDGING * members * one
    made = replace(recipe_of(settings, task, epochs), patience=0)
    return DesignPlan(
        space, tuple(chosen), plain, total, own, 0, made, _folds(settings), flops, pilot, longest, notes=_notes(why)
    )


def _notes(why: str) -> tuple[str, ...]:
    return (f"pruning was left out: {why}",) if why else ()


def _read(path: Path, ladder: list[Space]) -> DesignPlan:
    data = read_document(path)
    space = next((rung for rung in ladder if key(rung) == data["space"]), None)
    if space is None:
        raise InputError(f"{path} plans with {data['space']}, which was not asked for: give another folder")
    with undamaged(path, "give another folder with --out"):
        del data["version"]
        return from_json(DesignPlan, {**data, "space": space})
