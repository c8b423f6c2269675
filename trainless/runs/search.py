"""``search``: any searcher, on any space, by any signal, under any limit, into a run folder."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from trainless.core.errors import InputError
from trainless.store import SqliteStore, merge, store_at
from trainless.runs.folder import CONFIGURATION, STORE, TRAJECTORY, read_configuration, replace
from trainless.runs.settings import Plan
from trainless.runs.trajectory import fork, read_only
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass
from typing import Any
from trainless.core.arch import Arch
from trainless.core.text import undamaged
from trainless.core.task import Task
from trainless.scoring.costs import Tried
from trainless.execution.engine import Engine, Job, executor_for
from trainless.execution.interrupts import one_interrupt
from trainless.runs.loop import End, Loop, Scorer, drive
from trainless.scoring.measures import Measure
from trainless.store import StoreError, store_at
from trainless.proxies.proxy import Proxy
from trainless.rankings import Ranking
from trainless.runs.folder import ENDING, Ending, ending_by
from trainless.runs.folder import CONFIGURATION, Folder, forgotten_unless_begun, locked, open_folder, replace
from trainless.runs.leaderboard import Place, leaderboard, require_scored, to_csv
from trainless.runs.stored import Shared
from trainless.runs.trajectory import Writer, read, replay
from trainless.core.units import quantity, seconds_of
from trainless.core.arch import (Proposal)
from trainless.searchers.searcher import (Searcher)
from trainless.core.types import (Json)
from trainless.searchers.stopping import Budget, Spent
from trainless.spaces.protocol import Space

def forked(plan: Plan, path: Path, parent: tuple[str | Path, int], seed: int, named: str) -> tuple[Plan, int]:
    """The plan of a child and its ``ahead``; into a new folder the parent's steps and scores are copied."""
    source, step = Path(parent[0]), parent[1]
    configuration = read_configuration(source)
    if source.resolve() == path.resolve():
        raise InputError(f"{path} is the run to fork itself: give another folder with --out")
    child = plan.child(configuration, step, seed)
    if (path / CONFIGURATION).exists():
        return child, int(configuration["ahead"])
    present = {**child.described(), "seed": configuration["seed"]}
    for name, value in present.items():
        if name in configuration and configuration[name] != value:
            raise InputError(
                f"{source} is a run with {name}={configuration[name]!r}, and {name}={value!r} was asked for: a fork"
                " changes the seed alone"
            )
    path.mkdir(parents=True, exist_ok=True)
    if not named:
        _copy_store(source, path)
    with store_at(named or path / STORE) as store, closing(child.measure_at(store.url)) as measure:
        if named and (source / STORE).exists():
            with SqliteStore(source / STORE) as parents:
                merge(parents, store)
        loop, _ = child.loop(measure, store, int(configuration["ahead"]))
        replace(path / TRAJECTORY, fork(loop, read_only(source), step, seed))
    return child, int(configuration["ahead"])


def _copy_store(source: Path, path: Path) -> None:
    """The parent's scores, also while it is running."""
    if not (source / STORE).exists():
        return
    with (
        closing(sqlite3.connect(source / STORE)) as old,
        closing(sqlite3.connect(path / STORE)) as new,
    ):
        old.backup(new)


AHEAD = 4  # single proposals under way per worker


@dataclass(frozen=True)
class Found:
    """What a search came to.

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


Watch = Callable[[Loop, Budget], None]


def search(
    task: Task | str,
    space: Space | str,
    searcher: str | Callable[..., Searcher] = "evolution",
    *,
    proxies: str | Proxy | Sequence[str | Proxy] | None = None,
    ranking: str | Ranking | None = None,
    measure: Measure | None = None,
    searcher_args: Mapping[str, Any] | None = None,
    assist: str | Proxy | None = None,
    constraints: Mapping[str, float | str] | None = None,
    costs: Mapping[str, Callable[[Arch], float]] | None = None,
    objectives: Sequence[str] = (),
    evaluations: int | None = None,
    time: float | str | None = None,
    simulated: float | str | None = None,
    seed: int = 0,
    init: str = "own",
    batch: int = 0,
    device: str = "cpu",
    workers: int = 1,
    ahead: int | None = None,
    timeout: float | str | None = None,
    memory_limit: float | str | None = None,
    engine: str = "local",
    address: str = "",
    out: str | Path | None = None,
    store: str = "",
    name: str = "",
    parent: tuple[str | Path, int] | None = None,
    watch: Watch = lambda loop, budget: None,
    notice: Callable[[], None] = lambda: None,
    tried: Tried = lambda name, tried, least: None,
) -> Found:
    """Search a space without training.

    Every score is in the run folder's store the moment it exists and every step in its trajectory. Ctrl-C once
    finishes what is in flight, twice stops at once; both keep everything, and the same call goes on to exactly where
    an uninterrupted one would have ended. Twins that compute the same function are scored once. Evaluations count
    what the searcher was told, twins included.

    Args:
        task: The data.
        space: The search space.
        searcher: A registered name, or whatever makes a searcher from a space, ``seed`` and ``feasible``.
        proxies: What to score. One is the signal itself; of several, without a ranking, all are told as columns, for
            searchers that take them (evolution, history_evolution, teg_reinforce, prune, nsga2).
        ranking: A ranking over everything seen as the signal; its proxies are scored too. Searchers that rank by
            themselves are told its proxies as columns: ``prune``, ``history_evolution`` with a product of ranks
            (AZ-NAS) and ``evolution`` with a sum of ranks (TEG-NAS).
        measure: Anything else that measures a proposal, such as real training or a table.
        searcher_args: Parameters of the searcher.
        assist: The proxy of an assisted searcher (``g_rea`` and the like).
        constraints: The most of a cost: ``{"flops": 50e6, "latency": "5ms"}``; params, flops, layers, memory, latency.
        costs: Costs of one's own by name, such as a table's latency or energy.
        objectives: Costs that are told as further columns, the lower the better.
        evaluations: How many candidates to tell; None for no such limit.
        time: Wall time in seconds, or text such as ``"10m"``; what earlier sessions of the run took counts.
        simulated: Seconds that a table says training takes.
        seed: The seed of the searcher and of the scores.
        init: ``"own"``, ``"kaiming"`` or ``"paper"``, as in :func:`trainless.score`.
        batch: Samples per batch; 0 for 64, or the paper's number.
        device: Where to build the networks.
        workers: Processes; 1 works in this one. Each uses one thread, so that scores do not depend on their number.
        ahead: How many single proposals are in flight at a time; four for each worker by default, so that hardly one
            waits for a slow neighbour's candidate to be told first, and 1 with one worker.
        timeout: Seconds that one candidate may take; needs processes of its own.
        memory_limit: Bytes that one worker may take, such as ``"4g"``; needs processes of its own.
        engine: ``"local"`` for this machine, ``"ray"`` for a Ray cluster.
        address: Of a Ray cluster; one is started here by default.
        out: The run folder; None keeps nothing.
        store: A store to share scores with other runs and machines, as ``postgresql://user@host/database`` or a path.
            The run itself is kept there too, so that any machine can go on with it. By default the folder has its own.
        name: What the run is called in that store; the folder's name by default.
        parent: A run folder and a step: begin as that run was after that step, with the randomness of ``seed``.
        watch: Called whenever anything was measured.
        notice: Called at the first Ctrl-C.
        tried: Called with the cost, the number of networks and the least so far whenever a network was made to see
            whether it keeps a limit on memory or latency.

    Raises:
        InputError: What was asked for cannot be; or no candidate could be scored, with the reason.

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> found = search(Task.noise((3, 8, 8)), NasBench201(2, 1), "random", proxies="params", evaluations=5)
        >>> found.spent.evaluations, found.places[0].rank
        (5, 1)
    """
    budget = Budget(evaluations, seconds_of(time), seconds_of(simulated))
    most = None if memory_limit is None else int(quantity(memory_limit, "memory"))
    where = Engine(engine, workers, seconds_of(timeout), most, device, address)
    plan = Plan.of(
        task,
        space,
        searcher,
        proxies=proxies,
        ranking=ranking,
        measure=measure,
        parameters=searcher_args or {},
        assist=assist,
        limits={name: quantity(most, name) for name, most in (constraints or {}).items()},
        given=costs or {},
        objectives=tuple(objectives),
        seed=seed,
        init=init,
        batch=batch,
        device=device,
    )
    with ExitStack() as stack:
        path = Path(out) if out is not None else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fresh = not (path / CONFIGURATION).exists()
        shared = None
        if store:
            keeper = stack.enter_context(store_at(store))
            shared = Shared(keeper, name or path.resolve().name, path) if out is not None or name else None
        if shared:
            stack.enter_context(shared.held())
            shared.fetch()
        if parent is not None:
            plan, ahead = forked(plan, path, parent, seed, store)
        elif ahead is None and fresh:
            ahead = 1 if workers == 1 else AHEAD * workers
        asked = {**plan.described(), "ahead": ahead, "parent": plan.parent}
        with shared.refusing(fresh) if shared else nullcontext():
            folder = open_folder(path, asked, _budget_json(budget))
        stack.enter_context(locked(folder.path))
        stack.enter_context(forgotten_unless_begun(folder, fresh))
        if shared:
            shared.settle()
        if not store:
            keeper = stack.enter_context(store_at(folder.store))
        made = stack.enter_context(closing(plan.measure_at(keeper.url)))
        loop, known = plan.loop(made, keeper, int(folder.configuration["ahead"]), tried)
        with undamaged(folder.trajectory, "give another folder with --out"):
            replay(loop, read(folder.trajectory))
        stopping = stack.enter_context(one_interrupt(notice))
        executor = executor_for(made, where)
        (path / ENDING).unlink(missing_ok=True)
        try:
            end = _drive(loop, executor, budget, folder, shared, stopping, watch)
            final = _final(loop, executor)
            executor.close()
        except BaseException as error:
            executor.close(now=True)
            places = leaderboard(loop, plan.space, made.higher_is_better, known)
            with suppress(OSError):  # such as a full disk, which is then the error already
                _publish(folder, places, ending_by(error), None if isinstance(error, StoreError) else shared)
            raise
        places = leaderboard(loop, plan.space, made.higher_is_better, known, final)
        _publish(folder, places, Ending(end), shared)
        require_scored(loop, None if out is None else folder.leaderboard)
        best = loop.measured(Proposal(loop.searcher.best())).arch
        return Found(best, places, end, loop.spent, loop.steps, None if out is None else path)


def _drive(
    loop: Loop,
    executor: Scorer,
    budget: Budget,
    folder: Folder,
    shared: Shared | None,
    stopping: Callable[[], bool],
    watch: Watch,
) -> End:
    with Writer(folder.trajectory, loop, *([shared.write] if shared else [])) as writer:
        return drive(loop, executor, budget, write=writer.write, stopping=stopping, watch=lambda: watch(loop, budget))


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


def _publish(folder: Folder, places: list[Place], ending: Ending, shared: Shared | None) -> None:
    """What this session came to and how it ended, here and in the store."""
    if shared:
        shared.publish(to_csv(places), ending)
    replace(folder.leaderboard, to_csv(places))
    replace(folder.path / ENDING, ending.to_json() + "\n")


def _budget_json(budget: Budget) -> Json:
    return {"evaluations": budget.evaluations, "seconds": budget.seconds, "simulated": budget.simulated}
