"""The stages of a design before its members are joined: searches, and training of what they found."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainless.core.arch import Arch
from trainless.core.task import Task
from trainless.designs.candidates import Winner, architectures, run_searches
from trainless.designs.holdout import Held
from trainless.designs.learning import ORIGIN, first_members, later_members, values_of
from trainless.designs.planning import Plan, Wish
from trainless.designs.settings import Trial
from trainless.designs.training import Entry, Roster, train_roster
from trainless.learn.checkpoint import Epoch
from trainless.learn.ensemble import most_common
from trainless.learn.members import of_architectures, of_initialisations
from trainless.rankings import ranking as named_ranking
from trainless.runs.loop import Loop
from trainless.runs.settings import Watch
from trainless.searchers.stopping import Budget
from trainless.spaces.protocol import Space

SEARCHES = "searches"
LATE = 1.1  # of a time budget, within which a member has to end as far as can be foreseen
BASELINE = "single"
LATE_MARK = "late"  # a file that says that no further member is begun
SEEDS, BASELINE_SEEDS = 10_000, 5_000

Progress = Callable[[str, float, float, str], None]
"""Called with a stage, how much of it is done, of how much, and a detail."""


@dataclass(frozen=True, eq=False)
class Work:
    """What a design works on.

    Args:
        folder: The run folder.
        task: The data.
        wish: What was asked for.
        limits: The most of a cost.
        promises: Coverage, whether by class, and accuracy.
        chosen: The space, where it is not a registered one.
        interval: Seconds between checkpoints.
        progress: Told how far it is.
        keep: Called when there is something that another machine could go on with.
    """

    folder: Path
    task: Task
    wish: Wish
    limits: Mapping[str, float]
    promises: Mapping[str, Any]
    chosen: Space | None
    interval: float
    progress: Progress
    keep: Callable[[], None] = lambda: None


def search_stage(work: Work, plan: Plan) -> list[Winner]:
    """Run all searches of a plan."""
    total, ended = float(len(plan.searches)), 0

    def watch(trial: Trial) -> Watch:
        def show(loop: Loop, budget: Budget) -> None:
            told = loop.spent.evaluations
            share = told / trial.evaluations if trial.evaluations else 1 - 1 / (1 + told / 50)
            work.progress("searching", ended + min(1.0, share), total, f"{trial.name}: {told} evaluations")

        return show

    def done(trial: Trial) -> None:
        nonlocal ended
        ended += 1
        work.progress("searching", ended, total, trial.name)

    work.progress("searching", 0, total, "")
    return run_searches(
        work.folder / SEARCHES,
        work.task,
        plan.space,
        plan.searches,
        ranking=work.wish.ranking,
        constraints=work.limits,
        init=work.wish.init,
        device=work.wish.device,
        workers=work.wish.workers,
        engine=work.wish.engine,
        store=work.wish.store,
        watch=watch,
        done=done,
    )


def elapsed(plan: Plan, winners: list[Winner], started: float) -> Callable[[], float]:
    """Seconds that a run has taken so far; what earlier sessions recorded counts."""
    recorded = float((plan.pilot or {}).get("seconds", 0.0)) + sum(winner.seconds for winner in winners)
    before = max(0.0, recorded - (time.monotonic() - started))
    return lambda: before + time.monotonic() - started


def train_stage(
    work: Work, plan: Plan, held: Held, winners: list[Winner], spent: Callable[[], float]
) -> tuple[list[Entry], dict[str, str], Roster]:
    """Train all members of a plan, the later half by what the first half taught where that was asked for.

    Returns:
        The members, the search that each of the ensemble comes from (or that it was learned), and what training them
        came to.
    """
    began, space, before = spent(), plan.space, Roster({}, {}, {})
    count = first_members(plan.members) if work.wish.learn else plan.members
    found = architectures(winners, space, count, distinct=work.wish.preset.distinct)
    baseline = _baseline(work, plan, winners)
    first: list[Entry] = []
    if later := plan.members - count:
        first = _entries(work, plan, found)
        before = _train(work, plan, held, first, spent, began, before, len(first) + later + len(baseline))
        values = values_of(work.folder, first, before)
        chosen = later_members(work.folder, space, winners, named_ranking(work.wish.ranking), values, later)
        work.keep()
        found += [(ORIGIN, arch) for arch in chosen]
    members = _entries(work, plan, found)
    origins = {entry.name: origin for entry, (origin, _) in zip(members, found, strict=True)}
    entries = members + baseline
    return entries, origins, _train(work, plan, held, entries[len(first) :], spent, began, before, len(entries))


def _entries(work: Work, plan: Plan, found: list[tuple[str, Arch]]) -> list[Entry]:
    made = of_architectures(plan.space, [arch for _, arch in found], plan.recipe, SEEDS * work.wish.seed)
    return [Entry(f"{number:02d}", member) for number, member in enumerate(made)]


def _baseline(work: Work, plan: Plan, winners: list[Winner]) -> list[Entry]:
    if not plan.baseline:
        return []
    arch = most_common([plan.space.canonical(winner.archs[0]) for winner in winners])
    first = SEEDS * work.wish.seed + BASELINE_SEEDS
    same = of_initialisations(plan.space, arch, plan.baseline, plan.recipe, first)
    return [Entry(f"{BASELINE}-{number:02d}", member) for number, member in enumerate(same)]


def _train(
    work: Work,
    plan: Plan,
    held: Held,
    entries: list[Entry],
    spent: Callable[[], float],
    began: float,
    before: Roster,
    total: int,
) -> Roster:
    """Train some of the members, after those before; ``total`` is how many there are in all."""
    epochs, trained = plan.recipe.epochs, len(before.folders)

    def epoch(entry: Entry, one: Epoch) -> None:
        reached = trained * epochs + one.number + 1
        work.progress("training", reached, total * epochs, f"member {entry.name}: validation loss {one.valid_loss:.3f}")

    def done(entry: Entry, status: str) -> None:
        nonlocal trained
        trained += status == "ok"
        work.keep()
        what = "is trained" if status == "ok" else status
        work.progress("training", trained * epochs, total * epochs, f"member {entry.name} {what}")

    work.progress("training", trained * epochs, total * epochs, "")
    roster = train_roster(
        work.folder,
        held.task,
        entries,
        device=work.wish.device,
        workers=work.wish.workers,
        engine=work.wish.engine,
        interval=work.interval,
        chosen=work.chosen,
        late=lambda: _late(work, spent, began, trained),
        epoch=epoch,
        done=done,
    )
    return Roster(
        {**before.folders, **roster.folders},
        {**before.replaced, **roster.replaced},
        {**before.left_out, **roster.left_out},
    )


def _late(work: Work, spent: Callable[[], float], began: float, trained: int) -> bool:
    """Whether one more member, taking as long as those before, would end too late; once so, it is kept so."""
    if work.wish.seconds is None or not trained:
        return False
    one = (spent() - began) / math.ceil(trained / work.wish.workers)
    if spent() + one > LATE * work.wish.seconds:
        (work.folder / LATE_MARK).touch()
        work.keep()
    return (work.folder / LATE_MARK).exists()
