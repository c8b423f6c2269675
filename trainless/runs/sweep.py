"""Scoring a whole space: in many processes, on CPU or GPU, resumable, with every score journalled.

The workers journal what they score themselves, each in its own file, so that nothing but a word per network goes
through this process. It runs on a bare machine that has torch, numpy and scipy and nothing else::

    python -m trainless.runs.sweep --space nb201 --archs canonical --proxies all --init paper --task cifar10.npz \
        --workers 14 --device cuda --time 540s --out sweep
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainless.core.arch import Arch
from trainless.core.errors import InputError, TrainlessError
from trainless.core.files import parsed, strict, write_atomic
from trainless.core.opening import is_there, read_text, without_links
from trainless.core.processes import one_interrupt
from trainless.core.settings import parse_settings
from trainless.core.task import Task
from trainless.core.text import undamaged
from trainless.core.types import Json
from trainless.core.units import seconds_of
from trainless.execution.executor import Executor, Job, pool_for
from trainless.execution.fork_server import prepare
from trainless.proxies.proxy import Proxy, registry
from trainless.runs.folder import MERGED, SESSIONS, SETTINGS, locked
from trainless.runs.score_file import Journal, KnownScores, ProxySeed, ScoreFile, read_known, read_scores
from trainless.runs.settings import SweepSettings
from trainless.runs.sweep_work import Lacking, SweepWork, failed_records
from trainless.scoring.request import data_for, init_named, select, setting_for
from trainless.spaces import open_space
from trainless.spaces.moves import enumerate_archs, sample, size
from trainless.spaces.protocol import Space, key
from trainless.store import Key, Result, Store, is_away
from trainless.tasks import task as open_task

LARGEST = 10_000_000
TICK = 10.0
FAREWELL = 20.0  # seconds that networks in flight have when the time is over


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep is: archs done in this run and in all, how many there are, and archs per second."""

    done: int
    total: int
    seconds: float
    rate: float


def sweep(
    settings: SweepSettings,
    report: Callable[[SweepProgress], None] = lambda progress: None,
    tick: float = TICK,
    notice: Callable[[], None] = lambda: None,
) -> ScoreFile:
    """Score every arch that is asked for and write ``scores.npz``; what the folder's journals hold is not done again.

    Archs are taken in a shuffled order, so a sweep that was stopped is a fair sample. It reports about every ``tick``
    seconds and at the end. Ctrl-C once, of which ``notice`` is told, finishes what is in flight and writes what there
    is, twice stops at once; both keep everything and raise KeyboardInterrupt.
    """
    started, limit = time.monotonic(), seconds_of(settings.time)
    if not settings.out:
        raise InputError("no folder was given for the sweep; expected --out FOLDER")
    settings = settings.placed()
    init_named(settings.init)
    space, task = open_space(settings.space, settings.space_args), open_task(settings.task)
    proxies = select(settings.proxies)
    space.check(task)
    folder = without_links(settings.out)
    settings = dataclasses.replace(settings, out=str(folder))
    with locked(folder, shared=True):
        about = _described(folder, _identity(settings, space, task), proxies)
        archs = [space.format(arch) for arch in open_archs(settings.archs, space)]
        asked = {name: value for name, value in strict(settings).items() if name not in ("out", "store", "address")}
        _write(folder / SETTINGS, {**about, "networks": len(archs), "asked": asked})  # how many, for those who watch
        wanted = [(proxy.name, seed) for proxy in proxies for seed in settings.seed_numbers]
        known = read_known(folder)
        sessions = _sessions(folder)
        shuffle = int.from_bytes(os.urandom(4)) if settings.shared else 0  # with a store, where others do not begin
        order = np.random.default_rng(shuffle).permutation(len(archs))
        todo = [(archs[place], lacking) for place in order if (lacking := known.missing(archs[place], wanted))]

        def tell(done: int, rate: float) -> None:
            report(SweepProgress(len(archs) - len(todo) + done, len(archs), time.monotonic() - started, rate))

        with one_interrupt(notice) as stopping:
            deadline = math.inf if limit is None else started + limit
            sessions = [*sessions, _session(settings, todo, deadline, tell, tick, stopping)]
            _write(folder / SESSIONS, sessions)
            common = {**_identity(settings, space, task), "archs": Path(settings.archs).name}
            file = _merged(read_known(folder), archs, wanted)
            file = dataclasses.replace(file, settings=common, environment={"runs": sessions})
            file = _with_proxies(file, settings, task)
            file.write(folder / MERGED)
            if stopping():
                raise KeyboardInterrupt
        return file


def open_archs(text: str, space: Space) -> list[Arch]:
    """The archs that are meant, each once."""
    if text in ("canonical", "all"):
        if size(space) > LARGEST:
            raise InputError(f"{space.name} has {size(space):,} archs, too many to go through: give sample:500 instead")
        return list(enumerate_archs(space, canonical=text == "canonical"))
    if text.startswith("sample:"):
        count = text.removeprefix("sample:")
        if not count.isdigit() or int(count) < 1:
            raise InputError(f"archs {text!r} were given; expected a number of at least 1, such as sample:500")
        if int(count) > size(space):
            raise InputError(f"archs {text!r} were given, but {space.name} has {size(space):,}: give fewer, or all")
        return _drawn(space, int(count))
    if not Path(text).is_file():
        raise InputError(f"archs {text!r} were given; expected canonical, all, sample:500 or a file that exists")
    lines = Path(text).read_text(encoding="utf-8").splitlines()
    found = list(dict.fromkeys(space.parse(line.strip()) for line in lines if line.strip()))
    if not found:
        raise InputError(f"{text} has no archs: expected one notation per line")
    return found


def _drawn(space: Space, count: int) -> list[Arch]:
    """Distinct archs drawn uniformly, always the same."""
    rng, seen = np.random.default_rng(0), dict[Arch, None]()
    for _ in range(100 * count):
        seen[sample(space, rng)] = None
        if len(seen) == count:
            return list(seen)
    raise InputError(f"{space.name} has not {count} distinct archs to draw: give fewer, or all")


def _session(
    settings: SweepSettings,
    todo: Sequence[Lacking],
    deadline: float,
    tell: Callable[[int, float], None],
    tick: float,
    stopping: Callable[[], bool],
) -> Json:
    """Score until all is done, the time is over or it is to stop, and say how that went."""
    start = heard = time.monotonic()
    done, began, shared = 0, 0.0, False  # it began when the first was done: starting workers is not the pace of work
    jobs = [tuple(todo[start : start + settings.together]) for start in range(0, len(todo), settings.together)]
    execution = dataclasses.replace(settings.execution, workers=min(settings.workers, max(1, len(jobs))))

    def rate() -> float:
        return max(0, done - settings.together) / max(1e-9, time.monotonic() - began) if began else 0.0

    if todo:
        executor = pool_for(SweepWork(settings), execution)
        shared = executor.shared
        try:
            stuck = partial(is_away, settings.shared)
            for finished in _finished(executor, jobs, deadline, min(1.0, tick), stopping, stuck):
                if finished is not None:
                    done, began = done + len(finished[0]), began or time.monotonic()
                    _blame(settings, *finished)
                if time.monotonic() - heard >= tick:
                    heard = time.monotonic()
                    tell(done, rate())
        finally:
            executor.close(now=time.monotonic() >= deadline)
        tell(done, rate())
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if execution.gpu else "cpu",
        "processes": settings.workers,
        "mps": shared,
        "proxies": settings.proxies,
        "seeds": list(settings.seed_numbers),
        "archs": done,
        "of": len(todo),
        "seconds": round(time.monotonic() - start, 1),
        "archs_per_s": round(rate(), 3),
    }


def _finished(
    executor: Executor[tuple[Lacking, ...], str],
    todo: Sequence[tuple[Lacking, ...]],
    deadline: float,
    patience: float,
    stopping: Callable[[], bool],
    stuck: Callable[[], bool],
) -> Iterator[tuple[tuple[Lacking, ...], str] | None]:
    """Jobs and their results as they come; None whenever none came for a while. Archs that failed go one by one."""
    queue, flying = deque(todo), 0
    while time.monotonic() < deadline + FAREWELL:
        while flying < executor.slots and time.monotonic() < deadline and not stopping():
            if not queue:
                break
            executor.submit(Job(queue.popleft()))
            flying += 1
        if not flying:
            return
        if executor.poll(patience):
            job, reason = executor.next()
            flying -= 1
            if reason and len(job.payload) > 1:
                queue.extend((lacking,) for lacking in job.payload)
            else:
                yield job.payload, reason
        elif stopping() and stuck():
            raise KeyboardInterrupt
        else:
            yield None


def _blame(settings: SweepSettings, job: tuple[Lacking, ...], reason: str) -> None:
    """Write down why an arch has no scores: it ended two workers, or broke a limit."""
    if reason:
        journal = Journal(Path(settings.out), "lost")
        for lacking in job:
            journal.write(lacking[0], failed_records(*lacking, reason))
        journal.close()


def _identity(settings: SweepSettings, space: Space, task: Task) -> Json:
    """What all scores of one folder have in common."""
    return {
        "space": key(space),
        "task": task.name,
        "fingerprint": task.fingerprint,
        "init": settings.init,
        "batch": settings.batch if task.train is None else min(settings.batch, len(task.train)),
        "device": settings.device.partition(":")[0],
    }


def _described(folder: Path, identity: Json, proxies: Sequence[Proxy]) -> Json:
    """What ``settings.json`` is to say: what all scores have in common, and the versions of their proxies."""
    path, merged = folder / SETTINGS, folder / MERGED
    if is_there(path):
        held = _read(path, dict)
    else:
        stored = read_scores(merged).settings if is_there(merged) else identity
        held = {name: stored.get(name) for name in identity}
    for name, value in identity.items():
        if held.get(name) != value:
            raise InputError(
                f"{folder} holds a sweep with {name} {held.get(name)!r}, but {value!r} was given: choose another folder"
            )
    with undamaged(path, "delete it, or choose another folder"):
        versions = dict(held.get("versions", {}))
    for proxy in proxies:
        if versions.setdefault(proxy.name, proxy.version) != proxy.version:
            raise InputError(
                f"{folder} holds scores by {proxy.name} as it was before its code changed: choose another folder"
            )
    return {**held, "versions": versions}


def _sessions(folder: Path) -> list[Json]:
    path, merged = folder / SESSIONS, folder / MERGED
    if is_there(path):
        found: list[Json] = _read(path, list)
        return found
    return list(read_scores(merged).environment.get("runs", [])) if is_there(merged) else []


def _read(path: Path, kind: type[Any]) -> Any:
    with undamaged(path, "delete it, or choose another folder"):
        found = parsed(read_text(path))
        if not isinstance(found, kind):
            raise TypeError(f"expected a {kind.__name__}")
        return found


def _write(path: Path, content: Any) -> None:
    write_atomic(path, json.dumps(content, indent=1))


def _merged(known: KnownScores, archs: Sequence[str], wanted: Sequence[ProxySeed]) -> ScoreFile:
    """Everything that the folder holds: earlier sessions may have had other archs, proxies and seeds."""
    both = dict.fromkeys([*wanted, *known.values])
    names, seeds = dict.fromkeys(name for name, _ in both), sorted({seed for _, seed in both})
    every = dict.fromkeys([*archs, *(arch for rows in known.values.values() for arch in rows)])
    return known.to_file(list(every), list(names), seeds)


def _with_proxies(file: ScoreFile, settings: SweepSettings, task: Task) -> ScoreFile:
    """The file with what its proxies are, and the setting of each."""
    data = data_for(settings.batch or None, task, "cpu")
    described = {
        name: {
            "higher_is_better": registry[name].higher_is_better,
            "paper": str(registry[name].paper),
            "version": registry[name].version,
            "setting": setting_for(registry[name], init_named(settings.init), data).describe(),
        }
        for name in file.proxies
        if name in registry
    }
    return dataclasses.replace(file, settings={**file.settings, "proxies": described})


def to_store(file: ScoreFile, settings: SweepSettings, store: Store) -> int:
    """Keep every score of registered proxies that succeeded, for every other verb; the number of them."""
    space, task = open_space(settings.space, settings.space_args), open_task(settings.task)
    data = data_for(settings.batch or None, task, "cpu")
    archs = [",".join(map(str, space.parse(arch))) for arch in file.archs]
    where = "" if settings.device == "cpu" else f" on {settings.device.partition(':')[0]}"
    kept = 0
    for p, name in enumerate(file.proxies):
        if name not in registry:
            continue
        proxy = registry[name]
        setting = f"{setting_for(proxy, init_named(settings.init), data)!r}{where}"
        for s, seed in enumerate(file.seeds):
            there = [a for a in range(len(archs)) if file.codes[a, p, s] == 0]
            keys = [Key(key(space), archs[a], name, proxy.version, setting, task.fingerprint, seed) for a in there]
            results = [Result(float(file.values[a, p, s]), "ok", math.nan, math.nan) for a in there]
            store.keep(zip(keys, results, strict=True))
            kept += len(there)
    return kept


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a sweep from the command line; progress goes to standard output."""
    try:
        about = (__doc__ or "").split("\n")[0]
        settings = parse_settings(SweepSettings, "python -m trainless.runs.sweep", about, arguments)
        if settings.device == "cpu":
            prepare("trainless.runs.sweep_work")
        file = sweep(settings, _say)
    except TrainlessError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: what was scored is kept; give the same command again to resume\n")
        return 130
    run = file.environment["runs"][-1]
    sys.stdout.write(
        f"{run['archs']} of {run['of']} archs in {run['seconds']} s by {run['processes']} processes on"
        f" {run['device']}: {run['archs_per_s']} archs/s\n"
    )
    return 0


def _say(progress: SweepProgress) -> None:
    sys.stdout.write(
        f"{progress.seconds:6.0f} s  {progress.done}/{progress.total} archs  {progress.rate:.2f} archs/s\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
