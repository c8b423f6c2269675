"""``search``: any searcher, on any space, by any signal, under any limit, into a run folder."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from trainless.core.arch import Arch, Proposal, is_region
from trainless.core.errors import InputError
from trainless.core.files import write_atomic
from trainless.core.markup import card
from trainless.core.opening import is_plain, is_there, remove, without_links
from trainless.core.processes import one_interrupt
from trainless.core.progress import Bars, clock, on_a_terminal, tell_interrupted
from trainless.core.settings import changed
from trainless.core.task import Task
from trainless.core.text import counted, undamaged
from trainless.core.types import Json
from trainless.execution.executor import Job, executor_for
from trainless.learn.callbacks import loggers
from trainless.proxies.proxy import Proxy
from trainless.rankings import Ranking
from trainless.runs.folder import (
    CONFIGURATION,
    ENDING,
    LEADERBOARD,
    SHARED_STORE,
    STORE,
    TRAJECTORY,
    Ending,
    Shared,
    ending_by,
    forgotten_unless_begun,
    locked,
    open_folder,
    own_store,
    read_configuration,
)
from trainless.runs.leaderboard import Place, leaderboard, require_scored, to_csv
from trainless.runs.loop import End, Loop, Scorer, Step, drive
from trainless.runs.plots import RunPlots, lacking, table_rows
from trainless.runs.reader import SUM_OF_RANKS, Candidates, Measured, status_of, table_of
from trainless.runs.settings import SearchCallbacks, SearchSettings
from trainless.runs.setup import SearchSetup, open_search
from trainless.runs.trajectory import Writer, fork, read, replay
from trainless.scoring.costs import amount
from trainless.searchers.searcher import Searcher
from trainless.searchers.stopping import Budget, Spent
from trainless.spaces.protocol import Space
from trainless.store import StoreError, copy_database, is_away, merge, store_at
from trainless.store.folder import holds_store

FARTHEST = 100_000  # more proposals are never under way
AHEAD = 4  # single proposals under way per worker


@dataclass(frozen=True, repr=False)
class Found(RunPlots):
    """The result of a search.

    Args:
        best: The searcher's own choice: the best it was told, or what its policy or its pruning came to; written as
            the leaderboard writes it, which has one of a set of twins.
        places: The leaderboard, by the signal over everything that was evaluated.
        end: Whether the searcher had finished or the budget was used up.
        spent: What was used up.
        steps: How often the searcher was told.
        folder: The run folder; None where nothing was to be kept.
        higher_is_better: The direction of each score.
        history: Every value of each score in the order in which candidates were told.
        ranking: What decides the order, where that is not the only score.
    """

    best: Arch
    places: list[Place]
    end: End
    spent: Spent
    steps: int
    folder: Path | None
    higher_is_better: Mapping[str, bool] = field(default_factory=dict)
    history: Mapping[str, list[float]] = field(default_factory=dict)
    ranking: str = ""

    def table(self) -> Candidates:
        """The leaderboard as a table, with what decides the order in front where that is not a score itself."""
        columns = [Measured(name, up) for name, up in self.higher_is_better.items()]
        costs = [name for name in self.places[0].costs if name not in self.higher_is_better] if self.places else []
        several = [Measured(self.ranking or SUM_OF_RANKS, True)] if len(columns) > 1 else []
        rows = [
            [
                *([place.standing] if several else []),
                *(place.scores[name] for name in self.higher_is_better),
                *(place.costs[name] for name in costs),
            ]
            for place in self.places
        ]
        names = [*several, *columns, *(Measured(name, False) for name in costs)]
        status = [status_of(place.failures) for place in self.places]
        return table_of([place.text for place in self.places], names, rows, status, ranked=True)

    def told(self, column: str) -> tuple[list[float], bool]:
        return self.history.get(column, []), self.higher_is_better.get(column, True)

    def __repr__(self) -> str:
        where = f"; in {self.folder}" if self.folder else ""
        said, alarming = lacking(self.table())
        spent, first = self._spent(), self.places[0].text if self.places else "none"
        facts = [*said, spent] if alarming else [spent, *said]
        return f"Found({'; '.join(facts)}; first: {first}{where})"

    def _repr_html_(self) -> str:
        table = self.table()
        said, alarming = lacking(table)
        facts = [self._spent(), *([] if alarming else said), *([f"in {self.folder}"] if self.folder else [])]
        return card("Search", *facts, alarms=said if alarming else (), **table_rows(table))

    def _spent(self) -> str:
        return f"{counted(self.spent.evaluations, 'candidate')} in {clock(self.spent.seconds)}, {self.end}"


def search(
    task: Task | str,
    space: Space | str,
    searcher: str | Callable[..., Searcher] | None = None,
    *,
    proxies: str | Proxy | Sequence[str | Proxy] | None = None,
    ranking: str | Ranking | None = None,
    evaluations: int | None = None,
    time: float | str | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    settings: SearchSettings | None = None,
    callbacks: SearchCallbacks | None = None,
) -> Found:
    """Search a space without training.

    Every score is in the run folder's store the moment it exists and every step in its trajectory. Ctrl-C once
    finishes what is in flight, twice stops at once; both keep everything, and the same call resumes the run and ends
    exactly where an uninterrupted one would have ended. Twins that compute the same function are scored once.

    Args:
        task: The data.
        space: The search space.
        searcher: As in the settings; this and the following take the place of the settings' where they are given.
        proxies: What to score.
        ranking: A ranking over everything seen as the signal.
        evaluations: The most candidates to evaluate; 1,000 where there is no limit at all, here or in the settings.
        time: Wall time in seconds, or text such as ``"10m"``.
        seed: The seed of the searcher and of the scores.
        out: The run folder; None keeps nothing.
        workers: Processes, 0 for one per core; 1 works in this one. Each uses one thread, so that scores do not depend
            on their number.
        settings: Everything else, and what each means: :class:`~trainless.runs.settings.SearchSettings`.
        callbacks: What is called while the search goes on; by default bars show it on a terminal and in a notebook.

    Raises:
        InputError: What was asked for cannot be; or no candidate could be scored, with the reason.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> found = search(Task.noise((3, 8, 8)), NasBench201(2, 1), "random", proxies="params", evaluations=5)
        >>> found.spent.evaluations, found.places[0].rank
        (5, 1)
    """
    given = {"searcher": searcher, "proxies": proxies, "ranking": ranking, "workers": workers}
    asked = changed(settings or SearchSettings(), evaluations=evaluations, time=time, seed=seed, **given).placed()
    setup, budget, execution = open_search(task, space, asked), asked.budget, asked.execution
    with ExitStack() as stack:
        if callbacks is None and on_a_terminal():
            title = f"{setup.searcher_name} on {setup.task.name}"
            callbacks = on_bars(stack.enter_context(Bars()), title, setup.space)
        callbacks = callbacks or SearchCallbacks()
        path = without_links(stack.enter_context(tempfile.TemporaryDirectory()) if out is None else out)
        store = stack.enter_context(store_at(asked.store)) if asked.store else None
        shared = None
        if store is not None and (out is not None or asked.name):
            shared = Shared(store, asked.name or path.resolve().name, path)
            stack.enter_context(shared.held())
        stack.enter_context(locked(path))
        fresh = not is_there(path / CONFIGURATION)
        stack.enter_context(forgotten_unless_begun(path, fresh))
        if shared:
            shared.fetch()

        ahead = asked.ahead
        if asked.fork:
            setup, ahead = _forked(setup, path)
        elif ahead is None and not is_there(path / CONFIGURATION):
            ahead = 1 if asked.workers == 1 else AHEAD * asked.workers
        with shared.refusing(fresh) if shared else nullcontext():
            described = {**setup.described(), "ahead": ahead, "parent": setup.parent}
            configuration = open_folder(path, described, asdict(budget))
        if shared:
            shared.settle()
        if store is None:
            store = stack.enter_context(store_at(own_store(path, execution.spans_machines)))
        measure = stack.enter_context(closing(setup.measure_at(store.url)))
        with undamaged(path / CONFIGURATION, "give another folder with --out"):
            ahead = _ahead(configuration)
        loop, costs = setup.loop(measure, store, ahead, callbacks.tried)
        with undamaged(path / TRAJECTORY, "give another folder with --out"):
            replay(loop, read(path / TRAJECTORY, mend=True))

        def publish(ending: Ending, to: Shared | None, also: Sequence[Proposal] = ()) -> list[Place]:
            """Write the leaderboard and how this session ended, here and in the store."""
            places = leaderboard(loop, setup.space, measure.higher_is_better, costs, also)
            write_atomic(path / LEADERBOARD, to_csv(places))
            write_atomic(path / ENDING, ending.to_json() + "\n")
            if to:
                to.publish(to_csv(places), ending)
            return places

        stopping = stack.enter_context(one_interrupt(callbacks.interrupted))
        executor = executor_for(measure, execution)
        remove(path / ENDING)
        followers = [*callbacks.stepped, *loggers(asked.log, path, "search")]
        try:
            with Writer(path / TRAJECTORY, loop, *([shared.write] if shared else [])) as writer:
                watch = partial(callbacks.measured, loop, budget)
                stuck = partial(is_away, store.url)

                def write(step: Step) -> None:
                    writer.write(step)
                    for callback in followers:
                        callback.log(step.spent.evaluations, values_of(step, loop.signal.best()[1]))

                end = drive(loop, executor, budget, write=write, stopping=stopping, watch=watch, stuck=stuck)
            final = _final(loop, executor)
            executor.close()
        except BaseException as error:
            executor.close(now=True)
            for callback in followers:
                callback.end(f"ended by {type(error).__name__}")
            with suppress(OSError, InputError):  # such as a full disk, which is then the error already
                publish(ending_by(error), None if isinstance(error, StoreError) else shared)
            raise
        for callback in followers:
            callback.end("ok")
        places = publish(Ending(end), shared, final)
        require_scored(loop, None if out is None else path / LEADERBOARD)
        best = loop.measured(Proposal(loop.searcher.best())).arch
        alone = [proposal for proposal in loop.told if not is_region(proposal.candidate)]
        values = [loop.known[proposal].values for proposal in alone]
        history = {name: [each.get(name, math.nan) for each in values] for name in measure.higher_is_better}
        standing = {place.arch: place.standing for place in places}
        if len(history) > 1:
            history[setup.ranking_name or SUM_OF_RANKS] = [standing[proposal.arch] for proposal in alone]
        return Found(
            best,
            places,
            end,
            loop.spent,
            loop.steps,
            None if out is None else path,
            measure.higher_is_better,
            history,
            setup.ranking_name,
        )


def on_bars(
    bars: Bars, title: str, space: Space, interrupted: Callable[[], None] = tell_interrupted
) -> SearchCallbacks:
    """Callbacks that show how far a search is, the best so far, and how long it will take."""

    def best(loop: Loop) -> str:
        found, value = loop.signal.best()
        if not isinstance(found, Proposal) or math.isnan(value):
            return "best –"
        return f"best {value:.5g} {'a region' if is_region(found.candidate) else space.format(found.arch)}"

    def measured(loop: Loop, budget: Budget) -> None:
        left = None if budget.seconds is None else max(0.0, budget.seconds - loop.spent.seconds)
        done = loop.spent.evaluations
        bars.show(title, done, budget.evaluations, lambda: best(loop), seconds_left=left)

    def tried(name: str, count: int, least: float) -> None:
        bars.show(
            title, 0, None, count=f"{counted(count, 'network')} tried for {name}, the least {amount(least, name)}"
        )

    return SearchCallbacks(measured, interrupted, tried)


def values_of(step: Step, best: float) -> dict[str, float]:
    """What is logged of a step: the best signal so far, the mean of each value that was told, and the time."""
    columns = {name: np.array(column)[np.isfinite(column)] for name, column in step.told.items()}
    means = {name: float(column.mean()) for name, column in columns.items() if len(column)}
    found = {**means, "best": best, "seconds": step.spent.seconds}
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _final(loop: Loop, executor: Scorer) -> list[Proposal]:
    """The searcher's choice, measured too where it was not: a policy's or a pruned region's arch."""
    try:
        best = Proposal(loop.searcher.best())
    except InputError:
        return []
    proposal = loop.measured(best)
    if any(told.candidate == proposal.candidate for told in loop.told):
        return []
    if proposal not in loop.known:
        executor.submit(Job(proposal))
        loop.known[proposal] = executor.next()[1]
    return [proposal]


def _ahead(configuration: Json) -> int:
    """How many proposals are under way in a run."""
    ahead = configuration["ahead"]
    if type(ahead) is not int or not 1 <= ahead <= FARTHEST:
        raise InputError(f"ahead={ahead!r:.40} was given; expected 1 to {FARTHEST:,}")
    return ahead


def _forked(setup: SearchSetup, path: Path) -> tuple[SearchSetup, int]:
    """The setup of a child and its ``ahead``; into a new folder the parent's steps and scores are copied."""
    asked, source = setup.settings, without_links(setup.settings.fork)
    configuration = read_configuration(source)
    if source.resolve() == path.resolve():
        raise InputError(f"{path} is the run to fork itself: give another folder with --out")
    with undamaged(source / CONFIGURATION, "give another run to fork"):
        child, ahead = setup.child_of(configuration), _ahead(configuration)
    if is_there(path / CONFIGURATION):
        return child, ahead
    for name, value in {**child.described(), "seed": configuration.get("seed")}.items():
        if name in configuration and configuration[name] != value:
            raise InputError(
                f"{source} is a run with {name} {configuration[name]!r}, and {name} {value!r} was asked for: a fork"
                " changes the seed alone"
            )
    lines = read(source / TRAJECTORY)
    if not lines:
        raise InputError(f"{source} has no trajectory to fork from: nothing was evaluated there yet")
    place, file = asked.store or own_store(path, asked.execution.spans_machines), path / STORE
    has_store = is_plain(source / STORE)
    if place == str(file) and has_store:  # also while the parent is running
        copy_database(source / STORE, file)
    with store_at(place) as store, closing(child.measure_at(store.url)) as measure:
        if place != str(file) and has_store:
            with store_at(source / STORE) as parents:
                merge(parents, store)
        if holds_store(source / SHARED_STORE):
            with store_at(source / SHARED_STORE) as parents:
                merge(parents, store)
        loop, _ = child.loop(measure, store, ahead)
        with undamaged(source / TRAJECTORY, "give another run to fork"):
            text = fork(loop, lines, asked.step, asked.seed)
        write_atomic(path / TRAJECTORY, text)
    return child, ahead
