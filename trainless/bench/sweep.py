"""Scoring a whole space: in many processes, on CPU or GPU, resumable, with every score journalled.

Runs on a bare machine that has torch, numpy and scipy and nothing else::

    python -m trainless.bench.sweep --space nb201 --archs canonical --proxies all --init paper --task cifar10.npz \
        --seeds 0 --processes 14 --device cuda --limit-s 540 --out sweep
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainless.bench.crew import Crew
from trainless.bench.journal import KnownScores, read_known
from trainless.bench.plan import Plan, open_archs
from trainless.core.errors import InputError, TrainlessError
from trainless.core.task import Task
from trainless.core.text import undamaged
from trainless.execution.engine import Engine
from trainless.execution.fork_server import prepare
from trainless.execution.interrupts import one_interrupt
from trainless.proxies.proxy import Proxy, registry
from trainless.scoring.request import data_for, init_named, select, setting_for
from trainless.spaces import open_space
from trainless.spaces.protocol import Space, key
from trainless.store.score_file import ScoreFile, read_scores
from trainless.tasks import task as open_task

TICK = 10.0


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep is: archs done in this run and in all, how many there are, and archs per second."""

    done: int
    total: int
    seconds: float
    rate: float


Report = Callable[[SweepProgress], None]


def sweep(
    plan: Plan, report: Report | None = None, tick: float = TICK, notice: Callable[[], None] = lambda: None
) -> ScoreFile:
    """Score every arch of a plan and write ``scores.npz``; what the folder's journals hold is not computed again.

    Archs are taken in a shuffled order, so a sweep that was stopped is a fair sample. Ctrl-C once finishes what is in
    flight and writes what there is, twice stops at once; both keep everything.

    Args:
        plan: What to do.
        report: Called about every ``tick`` seconds and at the end.
        tick: Seconds between reports.
        notice: Called at the first Ctrl-C.

    Raises:
        KeyboardInterrupt: It was stopped; ``scores.npz`` has what was scored.
    """
    started = time.monotonic()
    init_named(plan.init)
    require_seeds(plan.seeds)
    space, task, proxies = open_space(plan.space, plan.space_args), open_task(plan.task), select(plan.proxies)
    space.check(task)
    folder = Path(plan.out)
    folder.mkdir(parents=True, exist_ok=True)
    _require_same(folder, _identity(plan, space, task))
    versions = _versions(folder, proxies)
    archs = [space.format(arch) for arch in open_archs(plan.archs, space)]
    settings = folder / "settings.json"  # how many there are, for those who watch
    about = {**_read(settings, dict), "networks": len(archs), "versions": versions}
    settings.write_text(json.dumps(about, indent=1), encoding="utf-8")
    pairs = [(proxy.name, seed) for proxy in proxies for seed in plan.seeds]
    known = read_known(folder)
    if (folder / "runs.json").exists():
        _read(folder / "runs.json", list)
    shuffle = int.from_bytes(os.urandom(4)) if plan.store else 0  # who shares a store begins where others do not
    order = np.random.default_rng(shuffle).permutation(len(archs))
    jobs = [(archs[i], wanted) for i in order if (wanted := known.missing(archs[i], pairs))]
    before, total = len(archs) - len(jobs), len(archs)

    def tell(done: int, rate: float) -> None:
        if report is not None:
            report(SweepProgress(before + done, total, time.monotonic() - started, rate))

    with one_interrupt(notice) as stopping:
        run = _run(plan, jobs, started + plan.limit_s, tell, tick, stopping)
        _append(folder, run)
        file = _merged(read_known(folder), archs, proxies, plan, space, task)
        file.write(folder / "scores.npz")
        if stopping():
            raise KeyboardInterrupt
    return file


def require_seeds(seeds: Sequence[int]) -> None:
    """Seeds that can be stored."""
    for seed in seeds:
        if not 0 <= seed < 2**63:
            raise InputError(f"seed {seed} was given; expected whole numbers from 0 to {2**63 - 1}")


def _run(
    plan: Plan,
    jobs: Sequence[Any],
    deadline: float,
    tell: Callable[[int, float], None],
    tick: float,
    stopping: Callable[[], bool],
) -> Any:
    """Do the jobs, and say how that went."""
    start, wanted = time.monotonic(), len(jobs)
    engine = Engine(
        plan.engine, plan.processes, plan.timeout or None, plan.memory_limit or None, plan.device, plan.address
    )
    crew = Crew(plan, jobs, dataclasses.replace(engine, workers=min(plan.processes, max(1, wanted))))
    done, rate = crew.run(deadline, tell, tick, stopping) if wanted else (0, 0.0)
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if engine.gpu else "cpu",
        "processes": plan.processes,
        "mps": crew.shared,
        "proxies": plan.proxies,
        "seeds": list(plan.seeds),
        "archs": done,
        "of": wanted,
        "seconds": round(time.monotonic() - start, 1),
        "archs_per_s": round(rate, 3),
    }


def _identity(plan: Plan, space: Space, task: Task) -> dict[str, Any]:
    """What all scores of one folder have in common."""
    return {
        "space": key(space),
        "task": task.name,
        "fingerprint": task.fingerprint,
        "init": plan.init,
        "batch": plan.batch if task.train is None else min(plan.batch, len(task.train)),
        "device": plan.device.partition(":")[0],
    }


def _require_same(folder: Path, identity: dict[str, Any]) -> None:
    path, merged = folder / "settings.json", folder / "scores.npz"
    if path.exists():
        held = _read(path, dict)
    else:
        held = read_scores(merged).settings if merged.exists() else identity
        path.write_text(json.dumps({name: held.get(name) for name in identity}, indent=1), encoding="utf-8")
    for name, value in identity.items():
        if held.get(name) != value:
            raise InputError(
                f"{folder} holds a sweep with {name} {held.get(name)!r}, but {value!r} was given: choose another folder"
            )


def _versions(folder: Path, proxies: Sequence[Proxy]) -> dict[str, int]:
    """The versions of all proxies that the folder has scores of; a proxy's may not change within it."""
    held = dict(_read(folder / "settings.json", dict).get("versions", {}))
    for proxy in proxies:
        if held.setdefault(proxy.name, proxy.version) != proxy.version:
            raise InputError(
                f"{folder} holds scores by {proxy.name} as it was before its code changed: choose another folder"
            )
    return held


def _read(path: Path, kind: type[Any]) -> Any:
    with undamaged(path, "delete it, or choose another folder"):
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, kind):
            raise TypeError(f"expected a {kind.__name__}")
        return found


def _append(folder: Path, run: dict[str, Any]) -> None:
    path, merged = folder / "runs.json", folder / "scores.npz"
    if path.exists():
        runs = _read(path, list)
    else:
        runs = read_scores(merged).environment.get("runs", []) if merged.exists() else []
    path.write_text(json.dumps([*runs, run], indent=1), encoding="utf-8")


def _merged(
    known: KnownScores, archs: list[str], proxies: Sequence[Proxy], plan: Plan, space: Space, task: Task
) -> ScoreFile:
    """Everything that the folder holds: earlier runs may have had other proxies and seeds."""
    names = dict.fromkeys([*(proxy.name for proxy in proxies), *(name for name, _ in known.values)])
    seeds = sorted({*plan.seeds, *(seed for _, seed in known.values)})
    all_archs = dict.fromkeys([*archs, *(arch for rows in known.values.values() for arch in rows)])
    data = data_for(plan.batch or None, task, [], "cpu")
    described = {
        name: {
            "higher_is_better": registry[name].higher_is_better,
            "paper": str(registry[name].paper),
            "version": registry[name].version,
            "setting": setting_for(registry[name], init_named(plan.init), data).describe(),
        }
        for name in names
        if name in registry
    }
    runs = _read(Path(plan.out) / "runs.json", list)
    return dataclasses.replace(
        known.to_file(list(all_archs), list(names), seeds),
        settings={**_identity(plan, space, task), "archs": plan.archs, "proxies": described},
        environment={"runs": runs},
    )


def options() -> argparse.ArgumentParser:
    """The command line of ``python -m trainless.bench.sweep``."""
    parser = argparse.ArgumentParser(prog="python -m trainless.bench.sweep", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", required=True, help="folder of journals and scores.npz")
    parser.add_argument("--space", default="nb201")
    parser.add_argument("--space-args", default="", help="name=value,name=value")
    parser.add_argument("--archs", default="canonical", help="canonical, all, sample:500 or a file")
    parser.add_argument("--proxies", default="all", help="all, names with commas (zico/batches=4), or file.py:name")
    parser.add_argument("--init", default="paper", help="paper, own or kaiming")
    parser.add_argument("--batch", type=int, default=0, help="0: each proxy's own")
    parser.add_argument("--task", default="noise:3x32x32:10", help="file.npz, noise:3x32x32:10 or a name")
    parser.add_argument("--seeds", default="0", help="0,1,2")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--limit-s", type=float, default=math.inf)
    parser.add_argument("--store", default="", help="a store that the workers share with other machines")
    parser.add_argument("--timeout", type=float, default=0.0, help="seconds that one network may take; 0: any")
    parser.add_argument("--memory-limit", type=int, default=0, help="bytes that one process may take; 0: any")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a sweep from the command line; progress goes to standard output."""
    given = vars(options().parse_args(arguments))
    if given["device"] == "cpu":
        prepare("trainless.bench.worker")
    try:
        plan = Plan(**{**given, "seeds": tuple(int(seed) for seed in given["seeds"].split(","))})
        file = sweep(plan, _say)
    except (TrainlessError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: what was scored is kept; the same command goes on from there\n")
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
