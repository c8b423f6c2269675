"""What the executors cost and gain: start-up, overhead per candidate, and the throughput of two workers over one.

    python benchmarks/executors.py --out benchmarks/results/executors.json [--repeats 3] [--archs 200] [--no-ray]

Whole commands are timed from their start to their end, start-up included; one worker and two take turns, and ratios are
of neighbours in time. Beside them is the ratio of the processor time that they take: near 1, two workers do no more
work than one, and free cores give nearly twice the throughput. How many cores everybody together kept busy meanwhile is
written down with each run: where one worker alone finds all cores in use, two have nothing to gain.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from trainless.core.arch import Proposal
from trainless.execution.executor import Execution, Executor, Job, pool_for
from trainless.scoring.measures import Measure, Outcome

SPACE = ("--space", "nb201", "--space-args", "channels=16,cells=2", "--batch", "32")
ADOPT = 36  # Linux: processes whose parent has ended become children of this one
HERTZ = os.sysconf("SC_CLK_TCK")


class Nothing(Measure):
    """A measure that costs nothing, so that a round is all overhead."""

    higher_is_better: Mapping[str, bool] = {"nothing": True}

    def __call__(self, proposal: Proposal) -> Outcome:
        return Outcome({"nothing": 0.0})


def work(executor: Executor[Proposal, Outcome], count: int) -> float:
    """Seconds that so many candidates take, all slots in use."""
    start, given, taken = time.perf_counter(), 0, 0
    while taken < count:
        while given < count and given - taken < executor.slots:
            executor.submit(Job(Proposal((given,))))
            given += 1
        executor.next()
        taken += 1
    return time.perf_counter() - start


def overhead(execution: Execution, count: int, repeats: int) -> dict[str, float]:
    """Milliseconds per candidate beyond measuring it, and seconds until the first outcome."""
    start = time.perf_counter()
    executor = pool_for(Nothing(), execution)
    try:
        work(executor, execution.workers)
        first = time.perf_counter() - start
        rounds = [1000 * work(executor, count) / count for _ in range(repeats)]
    finally:
        executor.close()
    return {"first_outcome_s": first, "ms_per_candidate": statistics.median(rounds), "best_ms": min(rounds)}


def busy() -> float:
    """Processor seconds that everybody on this machine has used."""
    fields = [int(part) for part in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / HERTZ


def spent() -> float:
    """Processor seconds of all processes that were started here and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def command(arguments: list[str]) -> dict[str, float]:
    """Wall and processor seconds of a whole command, and how many cores everybody together used meanwhile."""
    everybody, own, start = busy(), spent(), time.perf_counter()
    subprocess.run([sys.executable, "-m", *arguments], check=True, capture_output=True)
    seconds, used = time.perf_counter() - start, busy() - everybody
    while True:  # what it leaves behind for a moment ends here and is counted
        try:
            os.wait()
        except ChildProcessError:
            break
    return {"seconds": seconds, "processor_seconds": spent() - own, "cores_in_use": used / seconds}


def swept(archs: int, workers: int) -> dict[str, float]:
    """A sweep as a command."""
    with tempfile.TemporaryDirectory() as folder:
        limits = [
            "--archs",
            f"sample:{archs}",
            "--task",
            "noise:3x32x32:10",
            "--init",
            "own",
            "--proxies",
            "snip,naswot,synflow",
        ]
        found = command(["trainless.runs.sweep", *SPACE, *limits, "--workers", str(workers), "--out", folder])
        run = json.loads((Path(folder) / "runs.json").read_text())[-1]
    return {**found, "archs_per_s": archs / found["seconds"], "without_start_per_s": run["archs_per_s"]}


def searched(archs: int, workers: int) -> dict[str, float]:
    """A search as a command."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "run")
        asked = ["--searcher", "random", "--evaluations", str(archs), "--workers", str(workers), "--out", out]
        found = command(["trainless", "search", "digits", *SPACE, "--proxies", "synflow", *asked])
    return {**found, "archs_per_s": archs / found["seconds"]}


def compared(measure: Any, archs: int, repeats: int) -> dict[str, Any]:
    """One worker and two, in turns."""
    runs = [{str(workers): measure(archs, workers) for workers in (1, 2)} for _ in range(repeats)]
    ratios = [run["2"]["archs_per_s"] / run["1"]["archs_per_s"] for run in runs]
    work = [run["2"]["processor_seconds"] / run["1"]["processor_seconds"] for run in runs]
    found: dict[str, Any] = {"archs": archs, "runs": runs, "ratio": statistics.median(ratios), "ratios": ratios}
    found["processor_ratio"] = statistics.median(work)
    if "without_start_per_s" in runs[0]["1"]:
        pure = [run["2"]["without_start_per_s"] / run["1"]["without_start_per_s"] for run in runs]
        found |= {"ratio_without_start": statistics.median(pure), "ratios_without_start": pure}
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", default="benchmarks/results/executors.json")
    parser.add_argument("--archs", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--candidates", type=int, default=1000)
    parser.add_argument("--no-ray", action="store_true")
    given = parser.parse_args()
    ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0)
    found: dict[str, Any] = {
        "environment": {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "machine": platform.machine(),
            "cores": len(os.sched_getaffinity(0)),
            "load": os.getloadavg()[0],
        }
    }
    found["sweep"] = compared(swept, given.archs, given.repeats)  # first: no process of ours is running yet
    found["search"] = compared(searched, given.archs, given.repeats)
    found["processes"] = {
        str(workers): overhead(Execution(workers=workers), given.candidates, given.repeats) for workers in (1, 2)
    }
    if not given.no_ray:
        found["ray"] = {"2": overhead(Execution("ray", 2), given.candidates, given.repeats)}
    Path(given.out).parent.mkdir(parents=True, exist_ok=True)
    Path(given.out).write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({name: part for name, part in found.items() if name != "environment"}, indent=1))


if __name__ == "__main__":
    main()
