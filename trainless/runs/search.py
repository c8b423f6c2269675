"""``search``: any searcher, on any space, by any signal, under any limit, into a run folder."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from trainless.core.arch import Arch, Proposal
from trainless.core.errors import InputError
from trainless.core.files import write_atomic
from trainless.core.processes import one_interrupt
from trainless.core.settings import changed
from trainless.core.task import Task
from trainless.core.text import undamaged
from trainless.execution.executor import Job, executor_for
from trainless.proxies.proxy import Proxy
from trainless.rankings import Ranking
from trainless.runs.folder import (
    CONFIGURATION,
    ENDING,
    LEADERBOARD,
    STORE,
    TRAJECTORY,
    Ending,
    Shared,
    ending_by,
    forgotten_unless_begun,
    locked,
    open_folder,
    read_configuration,
)
from trainless.runs.leaderboard import Place, leaderboard, require_scored, to_csv
from trainless.runs.loop import End, Loop, Scorer, drive
from trainless.runs.settings import SearchCallbacks, SearchSettings
from trainless.runs.setup import SearchSetup, open_search
from trainless.runs.trajectory import Writer, fork, read, replay
from trainless.searchers.searcher import Searcher
from trainless.searchers.stopping import Spent
from trainless.spaces.protocol import Space
from trainless.store import SqliteStore, StoreError, merge, store_at

AHEAD = 4  # single proposals under way per worker


@dataclass(frozen=True)
class Found:
    """The result of a search.

    Args:
        best: The searcher's own choice: the best it was told, or what its policy or its pruning came to; written as
            the leaderboard writes it, which has one of a set of twins.
        places: The leaderboard, by the signal over everything that was evaluated.
        end: Whether the searcher had finished or the budget was used up.
        spent: What was used up.
        steps: How often the searcher was told.
        folder: The run folder; None where nothing was to be kept.
    """

    best: Arch
    places: list[Place]
    end: End
    spent: Spent
    steps: int
    folder: Path | None


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
        callbacks: What is called while the search goes on.

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
    callbacks = callbacks or SearchCallbacks()
    setup, budget, execution = open_search(task, space, asked), asked.budget, asked.execution
    with ExitStack() as stack:
        path = Path(out) if out is not None else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = stack.enter_context(store_at(asked.store)) if asked.store else None
        shared = None
        if store is not None and (out is not None or asked.name):
            shared = Shared(store, asked.name or path.resolve().name, path)
            stack.enter_context(shared.held())
        stack.enter_context(locked(path))
        fresh = not (path / CONFIGURATION).exists()
        stack.enter_context(forgotten_unless_begun(path, fresh))
        if shared:
            shared.fetch()

        ahead = asked.ahead
        if asked.fork:
            setup, ahead = _forked(setup, path)
        elif ahead is None and not (path / CONFIGURATION).exists():
            ahead = 1 if asked.workers == 1 else AHEAD * asked.workers
        with shared.refusing(fresh) if shared else nullcontext():
            described = {**setup.described(), "ahead": ahead, "parent": setup.parent}
            configuration = open_folder(path, described, asdict(budget))
        if shared:
            shared.settle()
        if store is None:
            store = stack.enter_context(store_at(path / STORE))
        measure = stack.enter_context(closing(setup.measure_at(store.url)))
        loop, costs = setup.loop(measure, store, int(configuration["ahead"]), callbacks.tried)
        with undamaged(path / TRAJECTORY, "give another folder with --out"):
            replay(loop, read(path / TRAJECTORY, mend=True))

        def publish(ending: Ending, to: Shared | None, also: Sequence[Proposal] = ()) -> list[Place]:
            """Write the leaderboard and how this session ended, here and in the store."""
            places = leaderboard(loop, setup.space, measure.higher_is_better, costs, also)
            if to:
                to.publish(to_csv(places), ending)
            write_atomic(path / LEADERBOARD, to_csv(places))
            write_atomic(path / ENDING, ending.to_json() + "\n")
            return places

        stopping = stack.enter_context(one_interrupt(callbacks.interrupted))
        executor = executor_for(measure, execution)
        (path / ENDING).unlink(missing_ok=True)
        try:
            with Writer(path / TRAJECTORY, loop, *([shared.write] if shared else [])) as writer:
                watch = partial(callbacks.measured, loop, budget)
                end = drive(loop, executor, budget, write=writer.write, stopping=stopping, watch=watch)
            final = _final(loop, executor)
            executor.close()
        except BaseException as error:
            executor.close(now=True)
            with suppress(OSError, InputError):  # such as a full disk, which is then the error already
                publish(ending_by(error), None if isinstance(error, StoreError) else shared)
            raise
        places = publish(Ending(end), shared, final)
        require_scored(loop, None if out is None else path / LEADERBOARD)
        best = loop.measured(Proposal(loop.searcher.best())).arch
        return Found(best, places, end, loop.spent, loop.steps, None if out is None else path)


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


def _forked(setup: SearchSetup, path: Path) -> tuple[SearchSetup, int]:
    """The setup of a child and its ``ahead``; into a new folder the parent's steps and scores are copied."""
    asked, source = setup.settings, Path(setup.settings.fork)
    configuration = read_configuration(source)
    if source.resolve() == path.resolve():
        raise InputError(f"{path} is the run to fork itself: give another folder with --out")
    child, ahead = setup.child_of(configuration), int(configuration["ahead"])
    if (path / CONFIGURATION).exists():
        return child, ahead
    for name, value in {**child.described(), "seed": configuration["seed"]}.items():
        if name in configuration and configuration[name] != value:
            raise InputError(
                f"{source} is a run with {name}={configuration[name]!r}, and {name}={value!r} was asked for: a fork"
                " changes the seed alone"
            )
    lines = read(source / TRAJECTORY)
    if not lines:
        raise InputError(f"{source} has no trajectory to fork from: nothing was evaluated there yet")
    if not asked.store and (source / STORE).exists():  # also while the parent is running
        with closing(sqlite3.connect(source / STORE)) as old, closing(sqlite3.connect(path / STORE)) as new:
            old.backup(new)
    with store_at(asked.store or path / STORE) as store, closing(child.measure_at(store.url)) as measure:
        if asked.store and (source / STORE).exists():
            with SqliteStore(source / STORE) as parents:
                merge(parents, store)
        loop, _ = child.loop(measure, store, ahead)
        write_atomic(path / TRAJECTORY, fork(loop, lines, asked.step, asked.seed))
    return child, ahead
