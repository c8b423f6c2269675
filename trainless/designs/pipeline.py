"""``design``: from data to an ensemble that knows when it does not know, in a run folder.

The folder holds ``run.json`` (what was asked for), ``plan.json`` (the numbers that follow), ``searches/`` (a run folder
each, with its store), ``members/``, ``ensemble.json`` and ``drift.safetensors`` (what joins them), ``predictions.npz``
(what the ensemble says of the test part), ``summary.json``, ``shown.npz`` (the few samples that are shown) and
``report.html``, which is made of these alone; and ``learned.json``, where later members are chosen by the first ones.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainless.core.errors import InputError
from trainless.core.files import strict
from trainless.core.task import Task
from trainless.core.units import budget_of, quantity, seconds_of
from trainless.designs.ensemble import SUMMARY, join
from trainless.designs.holdout import hold_back
from trainless.designs.planning import Wish, plan_of, settle
from trainless.designs.settings import Preset, require_designable, require_promises, require_varied, rungs
from trainless.designs.settings import registry as presets
from trainless.designs.stages import Progress, Work, elapsed, search_stage, train_stage
from trainless.designs.stored import Carried
from trainless.execution.engine import Engine
from trainless.learn.members import read_document
from trainless.learn.predictor import Predictor, load_predictor
from trainless.rankings import ranking as named_ranking
from trainless.report.report import write_report
from trainless.runs.folder import CONFIGURATION, locked, open_folder
from trainless.runs.run_files import REPORT
from trainless.spaces import registry as spaces
from trainless.spaces.protocol import Space
from trainless.store import store_at
from trainless.tasks import task as named_task


@dataclass(frozen=True, eq=False)
class Designed:
    """A finished design.

    Args:
        folder: Where everything is.
        predictor: The ensemble with its promises.
        summary: What ``summary.json`` says.
    """

    folder: Path
    predictor: Predictor
    summary: Mapping[str, Any]


def design(
    data: Task | Any,
    out: str | Path,
    *,
    preset: str | Preset = "fast",
    space: str = "nb201",
    space_args: Mapping[str, Any] | None = None,
    ranking: str = "",
    init: str = "",
    constraints: Mapping[str, float | str] | None = None,
    evaluations: int | None = None,
    members: int | None = None,
    epochs: int | None = None,
    baseline: int | None = None,
    learn: bool = False,
    time_budget: float | str | None = None,
    coverage: float = 0.9,
    by_class: bool = False,
    accuracy: float = 0.95,
    seed: int = 0,
    device: str = "cpu",
    workers: int = 1,
    timeout: float | str | None = None,
    memory_limit: float | str | None = None,
    engine: str = "local",
    address: str = "",
    store: str = "",
    interval: float = 20.0,
    started: float | None = None,
    report: bool = True,
    progress: Progress = lambda stage, done, total, detail: None,
) -> Designed:
    """Search architectures for data, train the best ones, and make of them an ensemble that says how sure it is.

    Everything is written the moment it exists. Killed at any moment and called again, it goes on and ends with the
    same result; on a CPU the same seed gives the same predictions, however many workers there are. With a time
    budget the numbers are planned from what a pilot measures (see :mod:`trainless.designs.budget`) and may differ from
    run to run, but never within a run; what was planned is in ``plan.json``.

    Args:
        data: A task, or anything that :func:`trainless.task` takes.
        out: The run folder.
        preset: ``fast``, ``thorough`` or ``teacup``: the numbers of everything.
        space: The search space.
        space_args: Its parameters; by default the width that fits the data and the preset.
        ranking: What the searches go by; the preset's by default.
        init: ``"own"`` scores networks as they are built, ``"paper"`` each proxy in its published setting. By default
            ``"paper"`` for TEACUP's composite, which was fitted on it, and ``"own"`` for all other rankings.
        constraints: The most of a cost, as in :func:`trainless.searchers`.
        evaluations: The most candidates of each search, instead of the preset's number. Pruning takes a fixed number
            (57 on ``nb201``) and is left out where that is more, or where the members leave it no place.
        members: Members of the ensemble, instead of the preset's number.
        epochs: The most epochs, instead of the preset's.
        baseline: Members of the single-architecture ensemble, instead of the preset's number.
        learn: Whether only the first half of the members, two at least, is chosen by the ranking, and the others once
            those are trained, by what :func:`trainless.rankings.learn` makes of their validation losses.
        time_budget: Wall time in seconds, or text such as ``"30m"``.
        coverage: Of conformal sets or intervals.
        by_class: Whether sets keep their coverage for every class.
        accuracy: What the deferral rule promises on what it answers.
        seed: The seed of everything.
        device: Where to score and train.
        workers: Processes on a CPU, one thread each.
        timeout: Seconds that scoring one candidate may take.
        memory_limit: Bytes that one worker may take, such as ``"4g"``.
        engine: ``"local"`` for this machine, ``"ray"`` for a Ray cluster.
        address: Of a Ray cluster; one is started here by default.
        interval: Seconds between checkpoints of a training.
        started: When the time budget began by ``time.monotonic()``; now by default.
        store: A store to share scores with other machines, as in :func:`trainless.searchers`. The design itself is kept
            there too, its searches and its trained members, so that any machine can go on with it.
        report: Whether to make ``report.html``.
        progress: Told how far it is.

    Raises:
        InputError: The data do not allow an ensemble, or the folder holds another run.
    """
    started = time.monotonic() if started is None else started
    require_promises(coverage, accuracy)
    seconds = budget_of(time_budget)
    task = data if isinstance(data, Task) else named_task(data)
    require_designable(task)
    require_varied(task)
    folder = Path(out)
    numbers = _changed(preset, evaluations, members, epochs, baseline)
    most = None if memory_limit is None else int(quantity(memory_limit, "memory"))
    where = Engine(engine, workers, seconds_of(timeout), most, device, address)
    goal = ranking or numbers.ranking
    setting = init or ("paper" if goal == "teacup" else "own")
    wish = Wish(numbers, goal, setting, device, workers, seed, seconds, where, store, learn)
    limits = {name: quantity(most, name) for name, most in (constraints or {}).items()}
    ladder = rungs(numbers, space, space_args or {})
    ladder[0].check(task)
    named_ranking(goal)
    promises = {"coverage": coverage, "by_class": by_class, "accuracy": accuracy}
    chosen = None if space in spaces else ladder[0]
    work = Work(folder, task, wish, limits, promises, chosen, interval, progress)
    with locked(folder):
        fresh = not (folder / CONFIGURATION).exists()
        open_folder(folder, _asked(work, space, space_args or {}), {"seconds": wish.seconds})
        if not (folder / SUMMARY).exists():
            with _carried(work, fresh) as work:
                _work(work, ladder, started)
        if report and not (folder / REPORT).exists():
            progress("reporting", 0, 1, "")
            write_report(folder, task, chosen)
            progress("reporting", 1, 1, "")
        return designed(folder, chosen)


@contextmanager
def _carried(work: Work, fresh: bool) -> Iterator[Work]:
    """The work with what a store has of it, and with a place there for what comes."""
    if not work.wish.store:
        yield work
        return
    with store_at(work.wish.store) as store:
        carried = Carried(store, work.folder)
        with carried.held():
            try:
                carried.fetch()
            except InputError:
                if fresh:
                    (work.folder / CONFIGURATION).unlink()
                raise
            carried.keep()
            yield dataclasses.replace(work, keep=carried.keep)
            carried.keep()


def _work(work: Work, ladder: list[Space], started: float) -> None:
    """All stages; each finds what it did before."""
    work.progress("planning", 0, 1, "")
    plan = plan_of(work.folder, work.wish, work.task, ladder, time.monotonic() - started)
    work.keep()
    work.progress("planning", 1, 1, "; ".join(plan.notes))
    winners = search_stage(work, plan)
    held = hold_back(work.task, plan.recipe, work.wish.seed, choosing=work.wish.learn)
    spent = elapsed(plan, winners, started)
    plan = settle(work.folder, plan, work.wish, work.task, held, winners, spent)
    work.keep()
    entries, origins, roster = train_stage(work, plan, held, winners, spent)
    work.progress("calibrating", 0, 1, "")
    join(work, plan, held, winners, entries, origins, roster)
    work.progress("calibrating", 1, 1, "")


def designed(folder: str | Path, chosen: Space | None = None) -> Designed:
    """Open a finished design.

    Args:
        folder: The run folder.
        chosen: The space, where it is not a registered one.
    """
    path = Path(folder)
    return Designed(path, load_predictor(path, chosen), read_document(path / SUMMARY))


def _changed(
    preset: str | Preset, evaluations: int | None, members: int | None, epochs: int | None, baseline: int | None
) -> Preset:
    base = presets[preset] if isinstance(preset, str) else preset
    wanted = {"evaluations": evaluations, "members": members, "epochs": epochs, "baseline": baseline}
    given: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    for name, value in given.items():
        if value < (0 if name == "baseline" else 1):
            raise InputError(f"{name}={value} was given; expected at least {0 if name == 'baseline' else 1}")
    return dataclasses.replace(base, **given)


def _asked(work: Work, space: str, space_args: Mapping[str, Any]) -> dict[str, Any]:
    wish = work.wish
    return {
        "verb": "design",
        "task": {"name": work.task.name, "fingerprint": work.task.fingerprint},
        "space": space,
        "space_args": dict(space_args),
        "preset": strict(dataclasses.asdict(wish.preset)),
        "ranking": wish.ranking,
        "init": wish.init,
        "learn": wish.learn,
        "limits": dict(work.limits),
        "time_budget": wish.seconds or 0.0,
        "seed": wish.seed,
        "device": wish.device,
        **work.promises,
    }
