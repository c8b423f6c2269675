"""What a search costs besides scoring: a FLOPs-constrained MobileNetV2 evolution, and ask/tell of every searcher.

``python benchmarks/search.py --evaluations 300 --out benchmarks/search.json`` measures a short search through the whole
loop, store and trajectory included, and extrapolates to 10,000 evaluations by measuring the loop's own cost again at
that length with scoring left out (so that nothing which grows with the history is missed).

``python benchmarks/search.py --whole --size 32 --out benchmarks/results/search_overhead.json`` extrapolates nothing: it
runs the evolution of 10,000 evaluations itself and writes the share of its time outside scoring, thousand by thousand.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from trainless.core.arch import Proposal
from trainless.core.task import Task
from trainless.execution.limits import keep_warm
from trainless.runs.loop import Loop
from trainless.runs.search import search
from trainless.runs.settings import SearchCallbacks, SearchSettings
from trainless.scoring.measures import ByFunction, ByProxies, Measure, Outcome
from trainless.scoring.request import select
from trainless.searchers import registry
from trainless.searchers.searcher import Told
from trainless.searchers.stopping import Budget
from trainless.spaces import space as find_space
from trainless.spaces.nb201 import NasBench201

WHOLE = 10_000
PUBLISHED_LIMIT = 450e6
ASSISTED = ("g_rs", "g_rea", "g_reinforce", "g_hb", "warm_random", "warm_evolution", "move_evolution")


class Stopwatch(Measure):
    """A measure, and the time spent in it."""

    def __init__(self, inner: ByProxies) -> None:
        self.inner, self.seconds, self.count = inner, 0.0, 0
        self.higher_is_better = inner.higher_is_better

    def __call__(self, proposal: Proposal) -> Outcome:
        start = time.perf_counter()
        outcome = self.inner(proposal)
        self.seconds += time.perf_counter() - start
        self.count += 1
        return outcome

    def close(self) -> None:
        self.inner.close()


class Instant(Measure):
    """A measure that costs nothing, so that a search is all overhead."""

    higher_is_better = {"value": True}  # noqa: RUF012

    def __call__(self, proposal: Proposal) -> Outcome:
        return Outcome({"value": float(sum(proposal.arch))})


def mobilenet(searcher: str, evaluations: int, proxy: str, size: int, batch: int) -> dict[str, float]:
    """A real search, and the share of its time outside scoring."""
    space, task = find_space("mobilenet"), Task.noise((3, size, size), 1000)
    limit = PUBLISHED_LIMIT * (size / 224) ** 2
    with tempfile.TemporaryDirectory() as folder:
        watch = Stopwatch(ByProxies(space, task, select(proxy), batch=batch, store=str(Path(folder) / "s.sqlite")))
        start = time.perf_counter()
        found = search(
            *(task, space, searcher),
            evaluations=evaluations,
            out=Path(folder) / "run",
            settings=SearchSettings(
                measure=watch,
                constraints={"flops": limit},
                searcher_args={"population": 64} if searcher == "evolution" else {},
            ),
        )
        total = time.perf_counter() - start
        begin = time.perf_counter()
        search(
            *(task, space, searcher),
            evaluations=WHOLE,
            out=Path(folder) / "instant",
            settings=SearchSettings(
                measure=Instant(),
                constraints={"flops": limit},
                searcher_args={"population": 64} if searcher == "evolution" else {},
            ),
        )
        alone = time.perf_counter() - begin
    scoring = watch.seconds / watch.count
    return {
        "evaluations": found.spent.evaluations,
        "networks_scored": watch.count,
        "seconds": total,
        "ms_scoring_each": 1000 * scoring,
        "share_outside_scoring": 1 - watch.seconds / total,
        "seconds_of_the_loop_alone_at_10000": alone,
        "extrapolated_share_at_10000": alone / (alone + WHOLE * scoring),
    }


class Thousands:
    """Seconds since the start, in all and within scoring, at every thousandth evaluation."""

    def __init__(self, scoring: Stopwatch) -> None:
        self.scoring, self.start, self.marks = scoring, time.perf_counter(), [(0, 0.0, 0.0)]

    def __call__(self, loop: Loop, budget: Budget) -> None:
        done = loop.spent.evaluations
        if done % 1000 == 0 and done > self.marks[-1][0]:
            self.marks.append((done, time.perf_counter() - self.start, self.scoring.seconds))

    def shares(self) -> dict[str, float]:
        """The share outside scoring of each thousand."""
        pairs = zip(self.marks, self.marks[1:], strict=False)
        return {str(b[0]): 1 - (b[2] - a[2]) / (b[1] - a[1]) for a, b in pairs}


def whole(evaluations: int, proxy: str, size: int, batch: int) -> dict[str, object]:
    """A real MobileNetV2 search by FLOPs-constrained evolution; all but building and scoring counts as outside.

    Opening the run, the limits, asking, telling, the store, the trajectory and the leaderboard are outside.
    """
    space, task = find_space("mobilenet"), Task.noise((3, size, size), 1000)
    limit, load = PUBLISHED_LIMIT * (size / 224) ** 2, os.getloadavg()[0]
    scoring = Stopwatch(ByProxies(space, task, select(proxy), batch=batch))
    with tempfile.TemporaryDirectory() as folder:
        kept = ByFunction(
            proxy,
            lambda arch, fidelity: scoring(Proposal(arch)).values[proxy],
            space,
            task=task.fingerprint,
            higher_is_better=scoring.higher_is_better[proxy],
            store=str(Path(folder) / "scores.sqlite"),
        )
        thousands, start = Thousands(scoring), time.perf_counter()
        found = search(
            *(task, space, "evolution"),
            evaluations=evaluations,
            out=Path(folder) / "run",
            settings=SearchSettings(measure=kept, constraints={"flops": limit}),
            callbacks=SearchCallbacks(measured=thousands),
        )
        total = time.perf_counter() - start
        written = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    return {
        "evaluations": found.spent.evaluations,
        "networks_scored": scoring.count,
        "steps": found.steps,
        "flops_limit": limit,
        "most_flops_proposed": max(place.costs["flops"] for place in found.places),
        "seconds": total,
        "seconds_scoring": scoring.seconds,
        "ms_scoring_each": 1000 * scoring.seconds / scoring.count,
        "ms_outside_each": 1000 * (total - scoring.seconds) / found.spent.evaluations,
        "share_outside_scoring": 1 - scoring.seconds / total,
        "share_by_thousand": thousands.shares(),
        "megabytes_written": written / 1e6,
        "load_before": load,
    }


def speed_up(evaluations: int, size: int, batch: int) -> dict[str, float]:
    """The same search by one worker and by two; a machine that others use too shows in its load."""
    space, task = find_space("nb201", channels=8, cells=1), Task.noise((3, size, size), 10)
    found = {"load_before": os.getloadavg()[0]}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            start, before = time.perf_counter(), os.times()
            search(
                *(task, space, "random"),
                proxies="ntk_condition",
                evaluations=evaluations,
                workers=workers,
                out=Path(folder) / "run",
                settings=SearchSettings(batch=batch, ahead=2),
            )
            after = os.times()
            found[f"seconds_{workers}"] = time.perf_counter() - start
            found[f"cpu_seconds_{workers}"] = sum(after[:4]) - sum(before[:4])
    found["speed_up"] = found["seconds_1"] / found["seconds_2"]
    return found


def ask_tell(name: str, candidates: int = 600) -> float:
    """Milliseconds of ask and tell per candidate."""
    space = NasBench201()
    options = {"proxy": lambda arch: float(sum(arch))} if name in ASSISTED else {}
    space.canonical((0,) * 6)  # its table is made once
    searcher = registry[name](space, seed=0, **options)
    rng, done = np.random.default_rng(0), 0
    start = time.process_time()
    while done < candidates and (proposals := searcher.ask()):
        searcher.tell(Told.of(proposals, rng.normal(size=len(proposals))))
        done += len(proposals)
    return 1000 * (time.process_time() - start) / max(1, done)


def main() -> None:
    """Measure and write JSON."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--evaluations", type=int, default=0, help="200, or 10,000 with --whole, by default")
    options.add_argument("--whole", action="store_true", help="run the MobileNetV2 evolution at its full length")
    options.add_argument("--proxy", default="naswot")
    options.add_argument("--size", type=int, default=64)
    options.add_argument("--batch", type=int, default=8)
    options.add_argument("--out", default="")
    asked = options.parse_args()
    evaluations = asked.evaluations or (WHOLE if asked.whole else 200)
    torch.set_num_threads(1)
    keep_warm()
    report: dict[str, object] = {
        "environment": {
            "torch": str(torch.__version__),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "machine": platform.processor() or platform.machine(),
        },
        "setting": {**vars(asked), "evaluations": evaluations},
    }
    if asked.whole:
        report["mobilenet"] = whole(evaluations, asked.proxy, asked.size, asked.batch)
    else:
        report |= {
            "mobilenet": {
                name: mobilenet(name, evaluations, asked.proxy, asked.size, asked.batch)
                for name in ("evolution", "history_evolution")
            },
            "workers": speed_up(evaluations, 32, 16),
            "ask_tell_ms": {name: ask_tell(name) for name in registry.names() if name != "optuna"},
        }
    text = json.dumps(report, indent=2)
    if asked.out:
        Path(asked.out).write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
