"""``design``: the story of a design, from data to an ensemble that knows when it does not know.

Load the data and look at them, plan the numbers, search, train what was found, join the members, judge them on the test
part and report. Every stage writes what it came to into the run folder the moment it exists, and finds it there when
the run is resumed: ``run.json`` (what was asked for), ``plan.json`` (the numbers), ``searches/`` (a run folder each),
``members/`` (and ``learned.json``, where later members are chosen by the first ones, and ``late``, once no further
member is begun), ``ensemble.json`` and ``drift.safetensors`` (what joins them), ``predictions.npz`` (what the ensemble
says of the test part), ``summary.json``, and ``report.html``, which is made of these alone and of ``shown.npz``.
"""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.files import write_atomic
from trainless.core.markup import card
from trainless.core.opening import folders_in, is_there, without_links
from trainless.core.progress import Told, seen
from trainless.core.settings import changed
from trainless.core.task import Task
from trainless.core.text import counted
from trainless.designs.candidates import (
    LEARNED,
    Winner,
    architectures,
    first_members,
    later_members,
    run_search,
    unlike_members,
    values_of,
)
from trainless.designs.ensemble import BASELINE, join, judge, summarise
from trainless.designs.holdout import Holdout, hold_back
from trainless.designs.planning import DesignPlan, Trial, are_rows, begun, ladder_of, plain_home, plan_of
from trainless.designs.run import LATE, DesignRun, stored, write_settings
from trainless.designs.settings import DesignSettings, trainers
from trainless.designs.training import TrainedMembers, train_members
from trainless.learn.ensemble import most_common
from trainless.learn.members import MEMBER, Member, history_of, member_folder, of_architectures, read_document
from trainless.learn.predictor import Predictor, class_names, load_predictor
from trainless.learn.reading import class_index
from trainless.learn.recipe import recipe as named_recipe
from trainless.learn.sanity import metric_in_words
from trainless.learn.symmetry import LEARN
from trainless.learn.symmetry import named as symmetries_named
from trainless.rankings import ranking as named_ranking
from trainless.report.explained import SECONDS
from trainless.report.report import write_report
from trainless.report.words import answer_in_words, sanity_in_words, yardstick_rows
from trainless.runs.folder import CONFIGURATION, MEMBERS, REPORT, SUMMARY, forgotten_unless_begun, locked
from trainless.runs.loop import Loop
from trainless.runs.plots import DesignPlots
from trainless.searchers.stopping import Budget
from trainless.spaces.pretrained import pretrained
from trainless.spaces.protocol import Space
from trainless.spaces.rocket import Rocket
from trainless.spaces.trees import MOST_VALUES, Trees
from trainless.tasks import task as named_task

SLACK = 0.02  # of a time budget, by which a member may end after the rounds of training, as far as can be foreseen
SHORTEST = 0.5  # of a round, in which a member is still trained, and which it has at least
SEEDS, BASELINE_SEEDS, PLAIN_SEEDS = 10_000, 5_000, 3_000
PLAIN, ROCKET, TREES = "plain", "rocket", "trees"  # where members come from that were not searched; their names' start
PRETRAINED, PRETRAINED_SEEDS, GENTLE = "pretrained", 500, 0.1  # and at which share of the recipe's rate they learn
CLASSICAL_SEEDS, CLASSICAL_RECIPES = {ROCKET: 8_000, TREES: 8_500}, {ROCKET: "ridge", TREES: "trees"}
CLASSICAL = 0.1  # of a time budget that classical members may take
SHORT = 8  # positions of a signal, below which there is nothing to convolve


@dataclass(frozen=True, eq=False, repr=False)
class Designed(DesignPlots):
    """A finished design.

    Args:
        folder: Where everything is.
        predictor: The ensemble with its promises.
        summary: What ``summary.json`` says.
    """

    folder: Path
    predictor: Predictor
    summary: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"Designed({'; '.join([*self._alarms(), *self._facts()])})"

    def _repr_html_(self) -> str:
        test, rows, head = self.summary["test"], list[list[str]](), list[str]()
        if test is not None:
            names, rows = yardstick_rows(test)
            head = ["on the test part", *map(metric_in_words, names)]
        return card("Design", *self._facts(), alarms=self._alarms(), head=head, rows=rows)

    def _alarms(self) -> list[str]:
        test = self.summary["test"]
        if test is None:
            return ["It was judged on nothing: the data have no test part"]
        fine, first = sanity_in_words(test)
        return [] if fine else [first]

    def _facts(self) -> list[str]:
        test, task = self.summary["test"], self.summary["task"]
        networks = sum(bool(member["weight"]) for member in self.summary["members"])
        answer = [] if test is None else [answer_in_words(test)]
        return [*answer, f"{counted(networks, 'network')} on {task['name']}", f"in {self.folder}"]


def design(
    data: Task | Any,
    out: str | Path,
    *,
    preset: str | None = None,
    time: float | str | None = None,
    seed: int | None = None,
    workers: int | None = None,
    device: str | None = None,
    settings: DesignSettings | None = None,
    started: float | None = None,
    report: bool = True,
    progress: Told | None = None,
) -> Designed:
    """Search architectures for data, train the best ones, and make of them an ensemble that says how sure it is.

    Everything is written the moment it exists. Killed at any moment and called again, it is resumed and ends with the
    same result; on a CPU the same seed gives the same predictions, however many workers there are. With a time
    budget the numbers are planned from what a pilot measures (see :mod:`trainless.designs.budget`) and may differ from
    run to run, but never within a run.

    Args:
        data: A task, or anything that :func:`trainless.task` takes.
        out: The run folder.
        preset: ``fast``, ``thorough`` or ``teacup``: the numbers of everything. This and the following take the place
            of the settings' where they are given.
        time: Wall time in seconds, or text such as ``"30m"``.
        seed: The seed of everything.
        workers: Processes on a CPU, one thread each; 0 for one per core.
        device: Where to score and train; ``auto`` is a GPU where there is one.
        settings: Everything else, and what each means: :class:`~trainless.designs.settings.DesignSettings`.
        started: When the time budget began by ``time.monotonic()``; now by default.
        report: Whether to make ``report.html``.
        progress: Told how far it is; by default bars show it on a terminal and in a notebook.

    Raises:
        InputError: The data do not allow an ensemble, or the folder holds another run.
    """
    began = clock.monotonic() if started is None else started
    given = {"preset": preset, "time": time, "seed": seed, "workers": workers, "device": device}
    asked = changed(settings or DesignSettings(), **given).resolved().placed()
    task = load(data)
    ladder = look(task, asked)
    with seen(progress) as told:
        run = DesignRun(without_links(out), task, asked, ladder, began, told)
        with locked(run.folder), forgotten_unless_begun(run.folder, not is_there(run.folder / CONFIGURATION)):
            carry_out(run)
            if report:
                make_report(run)
    return designed(run.folder, run.chosen)


def carry_out(run: DesignRun) -> None:
    """Plan, search, train, join, judge and sum up; nothing where the run is finished."""
    write_settings(run)
    if is_there(run.folder / SUMMARY):
        return
    with stored(run) as run:
        plan = plan_numbers(run)
        winners = search_candidates(run, plan)
        elapsed = _elapsed(run, plan, winners)
        holdout = hold_back(run.task, plan.recipe, run.settings.seed, plan.folds, choosing=run.settings.learn)
        classical = train_classical(run, holdout)
        plan = begun(run, plan, elapsed(), answering(run, classical))
        trained = classical | train_found(run, plan, holdout, winners, elapsed)
        predictor, weights = join(run, holdout, trained)
        judged = judge(run, predictor, trained, weights)
        summarise(run, plan, holdout, winners, trained, weights, judged, elapsed())


def designed(folder: str | Path, chosen: Space | None = None) -> Designed:
    """Open a finished design.

    Args:
        folder: The run folder.
        chosen: The space, where it is not a registered one.
    """
    path = without_links(folder)
    return Designed(path, load_predictor(path, chosen), read_document(path / SUMMARY))


def load(data: Task | Any) -> Task:
    """Read the data, for which an ensemble has to be possible; writes nothing."""
    task = data if isinstance(data, Task) else named_task(data)
    if task.target.kind == "tokens":
        raise InputError(
            f"the task {task.name!r} predicts tokens; trainless design makes ensembles for classes and values: use"
            " trainless search"
        )
    for name, part, least in (("train", task.train, 4), ("valid", task.valid, 2)):
        count = 0 if part is None else len(part)
        if count < least:
            raise InputError(f"{task.name}: {count} samples in the {name} part; expected at least {least}: add samples")
    return task


def look(task: Task, settings: DesignSettings) -> list[Space]:
    """Look whether the data vary; the spaces to choose a width from, the thinnest first. Writes nothing."""
    x, _ = task.batch(64, seed=0)
    if bool((x == x[:1]).all()):
        raise InputError(f"{task.name}: all inputs of the train part are the same: there is nothing to learn from")
    positive = class_index(class_names(task.target), settings.positive)
    if positive is None and (settings.sensitivity or settings.prevalence):
        raise InputError(f"{task.name}: which class is to be found is not known: name it with --positive")
    if settings.symmetry not in ("", LEARN):
        symmetries_named(settings.symmetry, task.dims)
    if settings.pretrained:
        pretrained(settings.pretrained).check(task)
        if not settings.plain:
            raise InputError(f"--pretrained competes with plain networks, of which preset {settings.preset} has none")
    ladder = ladder_of(settings, task)
    ladder[0].check(task)
    named_ranking(settings.ranking)
    return ladder


def plan_numbers(run: DesignRun) -> DesignPlan:
    """Plan searches, width, members and epochs; writes ``plan.json``."""
    run.progress("planning", 0, 1, "")
    plan = plan_of(run, clock.monotonic() - run.started)
    run.keep()
    run.progress("planning", 1, 1, "; ".join(plan.notes))
    return plan


def search_candidates(run: DesignRun, plan: DesignPlan) -> list[Winner]:
    """Run all searches of a plan; writes ``searches/NAME/``, a run folder each."""
    total, winners = float(len(plan.searches)), list[Winner]()

    def search(trial: Trial) -> Winner:
        def measured(loop: Loop, budget: Budget) -> None:
            told = loop.spent.evaluations
            share = told / trial.evaluations if trial.evaluations else 1 - 1 / (1 + told / 50)
            run.progress("searching", len(winners) + min(1.0, share), total, f"{trial.name}: {told} evaluations")

        return run_search(run, plan, trial, measured)

    run.progress("searching", 0, total, "")
    for trial in plan.searches:
        winners.append(search(trial))
        run.progress("searching", len(winners), total, trial.name)
    return winners


def _elapsed(run: DesignRun, plan: DesignPlan, winners: list[Winner]) -> Callable[[], float]:
    """Seconds that a run has taken so far; what was recorded before it was resumed counts."""
    recorded = float((plan.pilot or {}).get("seconds", 0.0)) + sum(winner.seconds for winner in winners)
    if plan.begin >= 0:
        done = [run.folder / MEMBERS / name for name in folders_in(run.folder / MEMBERS, MEMBER)]
        trained = sum(epoch.seconds for folder in done for epoch in history_of(folder))
        recorded = max(recorded, plan.begin) + trained / trainers(run.settings)
    before = max(0.0, recorded - (clock.monotonic() - run.started))
    return lambda: before + clock.monotonic() - run.started


def train_classical(run: DesignRun, holdout: Holdout) -> TrainedMembers:
    """Fit what takes seconds, random convolutions with a ridge head and trees, on as many folds as there is time for.

    Writes ``members/rocket-NN/`` and ``members/trees-NN/``.
    """
    settings, task = run.settings, run.task
    members: dict[str, Member] = {}
    if settings.classical and not settings.limits and task.dims == 1 and min(task.input_shape[1:]) >= SHORT:
        panel = Rocket().panel(task)
        seconds = sum(Rocket().seconds(arch, task) for arch in panel)
        members |= _classical(run, holdout, ROCKET, Rocket(), panel, seconds)
    if settings.classical and not settings.limits and are_rows(task) and math.prod(task.input_shape) <= MOST_VALUES:
        arch = Trees().plain(task)
        members |= _classical(run, holdout, TREES, Trees(), (arch,), Trees().seconds(arch, task))
    if not members:
        return TrainedMembers()
    run.progress("training", 0, len(members), next(iter(members)).partition("-")[0])
    trained = train_members(run.folder, holdout, members, settings)
    run.keep()
    return replace(trained, origins={name: name.partition("-")[0] for name in members})


def _classical(
    run: DesignRun, holdout: Holdout, name: str, space: Space, archs: Sequence[Arch], seconds: float
) -> dict[str, Member]:
    """Classical members of some archs, which take so many seconds a fold, on as many folds as there is time for."""
    settings = run.settings
    share = math.inf if settings.seconds is None else CLASSICAL * settings.seconds * trainers(settings)
    folds = int(min(len(holdout.held), share / seconds))
    first, recipe = SEEDS * settings.seed + CLASSICAL_SEEDS[name], named_recipe(CLASSICAL_RECIPES[name])
    made = of_architectures(space, [arch for _ in range(folds) for arch in archs], recipe, first)
    return {f"{name}-{n:02d}": replace(member, fold=n // len(archs)) for n, member in enumerate(made)}


def answering(run: DesignRun, classical: TrainedMembers) -> float:
    """About how long classical members take to answer at the end: each case takes as long as one to fit."""
    places = [member_folder(run.folder, place) for place in classical.folders.values()]
    fitted = sum(epoch.seconds for place in places for epoch in history_of(place))
    parts = (run.task.train, run.task.valid, run.task.test)
    return fitted * sum(len(part) for part in parts if part is not None) / len(run.task.part("train"))


def train_found(
    run: DesignRun, plan: DesignPlan, holdout: Holdout, winners: list[Winner], elapsed: Callable[[], float]
) -> TrainedMembers:
    """Train all members, the later half by what the first half taught where that was asked for.

    Writes ``members/NAME/``, ``late`` once no further member is begun, and ``learned.json`` where later members are
    chosen by the first ones.
    """
    settings, space = run.settings, plan.space
    searched = plan.members - plan.plain_members
    count = first_members(searched) if settings.learn else searched
    if settings.diversity:
        found = unlike_members(run, plan, winners, count)
        run.keep()
    else:
        found = architectures(winners, space, count, distinct=settings.distinct)
    folds = len(holdout.held)
    others, baseline = _plain(run, plan, folds), _baseline(run, plan, winners, folds)
    later, began, before = searched - count, elapsed(), TrainedMembers()
    if later:
        first = _named(run, plan, found, folds)
        total = len(first) + later + len(others) + len(baseline)
        before = _train(run, plan, holdout, first, before, total, elapsed, began)
        known = values_of(run.folder, before)
        chosen = later_members(run.folder, space, winners, named_ranking(settings.ranking), known, later)
        run.keep()
        found += [(LEARNED, arch) for arch in chosen]
    named = _named(run, plan, found, folds)
    members = {**in_turn(others, named), **baseline}
    rest = {name: member for name, member in members.items() if name not in before.members}
    trained = _train(run, plan, holdout, rest, before, len(members), elapsed, began)
    origins = dict(zip(named, (origin for origin, _ in found), strict=True))
    return replace(trained, origins={name: origins.get(name, name.rpartition("-")[0]) for name in members})


def in_turn(first: Mapping[str, Member], second: Mapping[str, Member]) -> dict[str, Member]:
    """The members of both, one of each in turn, so that whatever is left out at the end is left out of both.

    Example:
        >>> list(in_turn({"a": None, "b": None}, {"c": None, "d": None, "e": None}))
        ['a', 'c', 'b', 'd', 'e']
    """
    pairs = zip_longest(first.items(), second.items())
    return dict(entry for pair in pairs for entry in pair if entry is not None)


def make_report(run: DesignRun) -> None:
    """Write ``report.html``, and the few samples that it shows to ``shown.npz``."""
    if not is_there(run.folder / REPORT):
        run.progress("reporting", 0, 1, "")
        write_report(run.folder, run.task, run.chosen, seconds=min(SECONDS, 0.03 * (run.settings.seconds or math.inf)))
        run.progress("reporting", 1, 1, "")


def _named(run: DesignRun, plan: DesignPlan, found: list[tuple[str, Arch]], folds: int) -> dict[str, Member]:
    made = of_architectures(plan.space, [arch for _, arch in found], plan.recipe, SEEDS * run.settings.seed)
    return {f"{number:02d}": replace(member, fold=number % folds) for number, member in enumerate(made)}


def _plain(run: DesignRun, plan: DesignPlan, folds: int) -> dict[str, Member]:
    """The plain networks, every second one a pretrained backbone where there are weights for one."""
    first, backbones = SEEDS * run.settings.seed + PLAIN_SEEDS, list[Member]()
    if run.settings.pretrained:
        home = pretrained(run.settings.pretrained)
        gentle = replace(plan.recipe, lr=GENTLE * plan.recipe.lr)
        count = (plan.plain_members + 1) // 2
        backbones = of_architectures(home, [home.plain(run.task)] * count, gentle, first + PRETRAINED_SEEDS)
    own = [plan.plain] * (plan.plain_members - len(backbones))
    same = of_architectures(plain_home(run.task), own, plan.recipe, first)
    families = {PLAIN: same, PRETRAINED: backbones}
    named = {f"{name}-{number:02d}": one for name, family in families.items() for number, one in enumerate(family)}
    ours, theirs = ({name: one for name, one in named.items() if name.startswith(kind)} for kind in families)
    turns = in_turn(theirs, ours)
    return {name: replace(member, fold=number % folds) for number, (name, member) in enumerate(turns.items())}


def _baseline(run: DesignRun, plan: DesignPlan, winners: list[Winner], folds: int) -> dict[str, Member]:
    if not plan.baseline:
        return {}
    arch = most_common([plan.space.canonical(winner.archs[0]) for winner in winners])
    first = SEEDS * run.settings.seed + BASELINE_SEEDS
    same = of_architectures(plan.space, [arch] * plan.baseline, plan.recipe, first)
    return {f"{BASELINE}-{number:02d}": replace(one, fold=number % folds) for number, one in enumerate(same)}


def _train(
    run: DesignRun,
    plan: DesignPlan,
    holdout: Holdout,
    members: Mapping[str, Member],
    before: TrainedMembers,
    total: int,
    elapsed: Callable[[], float],
    began: float,
) -> TrainedMembers:
    """Train some of the members, after those before; ``total`` is how many there are in all."""
    epochs, trained = plan.recipe.epochs, len(before.folders)
    places = {name: place for place, name in enumerate([*before.members, *members])}

    def epoch(name: str, number: int, loss: float) -> None:
        reached = trained * epochs + number + 1
        run.progress("training", reached, total * epochs, f"member {name}: validation loss {loss:.3f}")

    def done(name: str, status: str) -> None:
        nonlocal trained
        trained += status == "ok"
        run.keep()
        what = "is trained" if status == "ok" else status
        run.progress("training", trained * epochs, total * epochs, f"member {name} {what}")

    def late() -> bool:
        """Whether one more member, in half a round, would take time from judging; once so, it is kept so."""
        if run.settings.seconds is None or not trained:
            return False
        rounds = -(-(plan.members + plan.baseline) // trainers(run.settings))
        end = plan.begin + rounds * plan.round + SLACK * run.settings.seconds
        if elapsed() + SHORTEST * plan.round > end:
            write_atomic(run.folder / LATE, "")
            run.keep()
        return is_there(run.folder / LATE)

    def deadline(name: str) -> float | None:
        """The end of a member's round, or of a round from now on where its own is almost over."""
        if run.settings.seconds is None:
            return None
        rounds = places[name] // trainers(run.settings) + 1
        left = plan.begin + rounds * plan.round - elapsed()
        return clock.time() + max(left, SHORTEST * plan.round)

    run.progress("training", trained * epochs, total * epochs, "")
    return before | train_members(
        run.folder,
        holdout,
        members,
        run.settings,
        chosen=run.chosen,
        late=late,
        deadline=deadline,
        least=SHORTEST * plan.round,
        epoch=epoch,
        done=done,
    )
