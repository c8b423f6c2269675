"""Faults injected into every executor and every store of many machines, and what a candidate costs there.

    python -m benchmarks.cluster --out benchmarks/results/cluster.json [--only slurm,folder] [--share 0.1]

Searches are disturbed while they run: workers, nodes, allocations and coordinators are killed, allocations preempted,
connections and servers are ended. Afterwards each is compared with the same
search that nobody disturbed, in one process: candidates that are missing (lost), that are there twice (doubled), whose
value is another's (under a wrong name), and the bytes of the leaderboard. ``--share`` takes a part of all that. It uses
the tests' own means of injecting; PostgreSQL and Ray have to be installed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.render_cluster import PAGE, WRITERS, page
from tests.execution import cluster
from tests.execution.faulty import Place, begin, finish
from tests.postgres import Server
from tests.store.writers import own
from trainless.execution.executor import Execution, Job, pool_for
from trainless.runs.trajectory import read
from trainless.store import Key, Result, store_at, turns
from trainless.store.journal import entries
from trainless.testing.executors import Orders

Fault = Callable[["Scene"], str]


class Scene:
    """A search that is disturbed, and what has been done to it."""

    def __init__(self, place: Place, options: dict[str, Any], name: str) -> None:
        self.place, self.options, self.name = place, options, name
        self.process: BaseProcess = begin(place, **options)
        self.last = 0
        self.hit: set[int] = set()
        self.faults: list[dict[str, Any]] = []

    def workers(self) -> dict[int, int]:
        """Processes that live, with what each has computed last, but for what was hit before.

        A candidate with which two workers have died is given up, as if it had killed them.
        """
        last = {pid: size for pid, size in self.place.computed() if Path(f"/proc/{pid}").exists()}
        return {pid: size for pid, size in last.items() if size not in self.hit}

    def do(self, fault: Fault, seconds: float = 120.0) -> bool:
        """Inject a fault as soon as there is something to hit; False where the search has ended."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not self.process.is_alive():
                return False
            with suppress(LookupError, OSError):
                hit = fault(self)
                self.faults.append({"fault": hit, "after": len(self.place.computed())})
                return True
            time.sleep(0.05)
        raise RuntimeError(f"{self.name}: nothing to hit")


def kill_worker(scene: Scene) -> str:
    """Kill a process that computes."""
    pid, size = next(iter(scene.workers().items()), (0, 0))
    if not pid:
        raise LookupError
    scene.hit.add(size)
    os.kill(pid, signal.SIGKILL)
    return "worker killed"


def kill_coordinator(scene: Scene) -> str:
    """Kill the command itself, and give it again."""
    scene.process.kill()
    scene.process.join()
    scene.process = begin(scene.place, **scene.options)
    return "coordinator killed, command given again"


def hit_node(how: Callable[[int], None], said: str) -> Fault:
    """Do something to a node, or to the allocation that it is in; another than last time."""

    def fault(scene: Scene) -> str:
        there = cluster.busy(Path(scene.options["address"].rpartition("folder=")[2]))
        others = [name for name in sorted(there) if there[name] != scene.last]
        scene.last = there[(others or sorted(there))[0]]
        how(scene.last)
        return said

    return fault


def end_connections(scene: Scene) -> str:
    """Have the server end all connections."""
    with psycopg.connect(scene.options["store"], autocommit=True) as other:
        ended = other.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE application_name = 'trainless' AND datname = current_database()"
        ).fetchone()
    if not ended or not ended[0]:
        raise LookupError
    return "connections ended by the server"


def restart(server: Server) -> Fault:
    """Crash the server and start it again."""

    def fault(scene: Scene) -> str:
        server.stop("immediate")
        time.sleep(0.5)
        server.start()
        return "server crashed and started"

    return fault


def spread(faults: list[tuple[Fault, int]], seed: int = 0) -> list[Fault]:
    """So many of each, in a random order."""
    found = [fault for fault, number in faults for _ in range(number)]
    random.Random(seed).shuffle(found)  # noqa: S311 - no secret
    return found


def disturbed(
    label: str, folder: Path, faults: list[Fault], pause: float, every: float, evaluations: int, **options: Any
) -> dict[str, Any]:
    """Search while all faults are injected, and compare with the serial search."""
    searcher = options.get("searcher", "evolution")
    given = {"evaluations": evaluations, "ahead": max(4, 2 * options["workers"]), "searcher": searcher}
    serial = Place(folder / label / "serial", pause=0.0)
    if finish(begin(serial, workers=1, **given), 300):
        raise RuntimeError(f"{label}: the search that nobody disturbs has failed")
    began = time.monotonic()
    scene = Scene(Place(folder / label / "there", pause=pause), {**options, **given}, label)
    try:
        for fault in faults:
            time.sleep(every)
            if not scene.do(fault):
                break
        code = finish(scene.process, 600)
    finally:
        scene.process.kill()
    place = scene.place
    steps = [line.step for line in read(place.run / "trajectory.jsonl") if line.step]
    told = [tuple(each) for step in steps for each in step["candidates"]]
    numbers = Counter(step["step"] for step in steps)
    boards = [{row["arch"]: row for row in each.board()} for each in (serial, place)]
    rows = place.board()
    measured = len(place.computed())
    return {
        "faults": scene.faults,
        "evaluations": evaluations,
        "exit": code,
        "lost": evaluations - len(told) + len(boards[0].keys() - boards[1].keys()),
        "doubled": sum(numbers.values()) - len(numbers) + len(rows) - len(boards[1]),
        "wrong_name": sum(
            boards[1][arch]["faulty"] != row["faulty"] for arch, row in boards[0].items() if arch in boards[1]
        ),
        "same_leaderboard": (serial.run / "leaderboard.csv").read_bytes()
        == (place.run / "leaderboard.csv").read_bytes(),
        "computed": measured,
        "computed_again": measured - len(boards[1]),
        "seconds": round(time.monotonic() - began, 1),
    }


def writers(folder: Path, kills: int) -> dict[str, Any]:
    """Many processes write into a shared folder and are killed; what each has said to be kept is there."""
    place, script = f"{folder}/writers/", Path(__file__).parents[1] / "tests" / "store" / "writers.py"
    chance, began = random.Random(1), time.monotonic()  # noqa: S311 - no secret
    faults: list[dict[str, Any]] = []
    names = iter(range(10_000))

    def start(seconds: float = 3600.0) -> tuple[int, subprocess.Popen[bytes]]:
        number = next(names)
        said = folder / f"said-{number}"
        command = [sys.executable, str(script), place, str(number), str(seconds), str(said), "0.1"]
        return number, subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def begun(number: int) -> None:
        said, until = folder / f"said-{number}", time.monotonic() + 120
        while not (said.exists() and said.stat().st_size) and time.monotonic() < until:
            time.sleep(0.02)

    crowd = [start() for _ in range(WRITERS)]
    for each in range(kills):
        time.sleep(0.3 * chance.random())
        victim = chance.randrange(len(crowd))
        begun(crowd[victim][0])
        crowd[victim][1].kill()
        crowd[victim][1].wait()
        faults.append({"fault": "writer killed", "after": each})
        crowd[victim] = start()
    for number, _ in crowd:
        begun(number)
    for _, process in crowd:
        process.kill()
        process.wait()
    with store_at(place) as store:
        rows = list(store.rows())
    found = {row.key: row.result for row in rows}
    acknowledged = {
        own(number, int(line)): Result(float(line), "ok", 1.0, float(number))
        for number in range(next(names))
        for line in (folder / f"said-{number}").read_text().splitlines()
    }
    kept = Counter(
        (row[1], row[2])
        for path in Path(place, "journals").iterdir()
        for _, entry in entries(path)
        for row in entry.get("rows", ())
        if row[0] == "results"
    )
    return {
        "faults": faults,
        "evaluations": len(acknowledged),
        "lost": len(acknowledged.keys() - found.keys()),
        "doubled": sum(number - 1 for number in kept.values()) + len(rows) - len(found),
        "wrong_name": sum(found[key] != result for key, result in acknowledged.items() if key in found)
        + sum(result.value != 3.0 * int(key.arch) for key, result in found.items() if key.space == "shared"),
        "same_leaderboard": None,
        "seconds": round(time.monotonic() - began, 1),
    }


def all_faults(folder: Path, share: float, only: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every kind of search and what came of it."""

    def part(number: int) -> int:
        return max(1, round(share * number))

    def wanted(name: str) -> bool:
        return not only or name in only

    if wanted("writers"):
        yield "writers", writers(folder, part(25))
    if wanted("local"):
        faults = spread([(kill_worker, part(16)), (kill_coordinator, part(5))])
        yield "local", disturbed("local", folder, faults, 0.25, 0.3, 20 + part(100), workers=4)
    if wanted("folder"):
        faults = spread([(kill_worker, part(12)), (kill_coordinator, part(8))])
        shared = {"store": f"{folder}/shared/", "name": "disturbed"}
        yield "folder", disturbed("folder", folder, faults, 0.25, 0.3, 20 + part(100), workers=4, **shared)
    if wanted("postgresql"):
        server = Server()
        try:
            kinds = [(kill_worker, 8), (kill_coordinator, 5), (end_connections, 6), (restart(server), 3)]
            faults = spread([(fault, part(number)) for fault, number in kinds])
            there = {"store": server.fresh(), "name": "disturbed"}
            yield "postgresql", disturbed("postgresql", folder, faults, 0.25, 0.3, 20 + part(100), workers=4, **there)
        finally:
            server.remove()
    if wanted("slurm"):
        kinds = [
            (hit_node(cluster.preempt, "allocation preempted and requeued"), 20),
            (hit_node(cluster.kill, "node killed"), 12),
            (hit_node(cluster.kill_allocation, "allocation killed"), 8),
        ]
        faults = spread([(fault, part(number)) for fault, number in kinds])
        address = f"cluster=local,cpus=4,folder={folder}/queues"
        yield (
            "slurm",
            disturbed(
                *("slurm", folder, faults, 1.0, 1.0, 40 + part(360)),
                workers=WRITERS,
                executor="slurm",
                address=address,
                searcher="random",
            ),
        )
    if wanted("ray"):
        faults = spread([(kill_worker, part(12))])
        yield "ray", disturbed("ray", folder, faults, 0.5, 1.0, 20 + part(60), workers=2, executor="ray")


def cost(folder: Path, number: int = 300) -> dict[str, Any]:
    """Milliseconds that a candidate takes where its score takes none: in a shared folder, and through a node."""
    with store_at(f"{folder}/cost/") as store, timed_syncs() as syncs:
        times, used = [], time.process_time()
        for each in range(number):
            start = time.perf_counter()
            for _, mine in turns(store, [Key("space", str(each), "snip", 1, "own", "cafe", 0)]):
                store.keep([(key, Result(1.0, "ok", 1.0, 1.0)) for key in mine])
            times.append(1e3 * (time.perf_counter() - start))
        used = time.process_time() - used
    pool = pool_for(Orders(), Execution("slurm", 1, address=f"cluster=local,folder={folder}/queues"))
    rounds = []
    try:
        for each in range(number):
            start = time.perf_counter()
            pool.submit(Job(("double", each)))
            pool.next()
            rounds.append(1e3 * (time.perf_counter() - start))
    finally:
        pool.close()
    return {
        "folder_ms": _spread(times),
        "folder_cpu_ms": round(1e3 * used / number, 3),
        "sync_ms": _spread(syncs),
        "slurm_local_ms": _spread(rounds[1:]),
        "memory_bytes_per_score": _memory(folder),
    }


@contextmanager
def timed_syncs() -> Iterator[list[float]]:
    """The milliseconds of every ``os.fsync`` in the block: what the disk takes to have something for good."""
    times: list[float] = []
    sync = os.fsync

    def timed(file: int) -> None:
        start = time.perf_counter()
        sync(file)
        times.append(1e3 * (time.perf_counter() - start))

    os.fsync = timed
    try:
        yield times
    finally:
        os.fsync = sync


def _memory(folder: Path, number: int = 100_000) -> int:
    """Bytes that a process holds for each score of a shared folder, as the system counts them."""
    place = f"{folder}/memory/"
    with store_at(place) as store:
        for begun in range(0, number, 5000):
            keys = [Key("space", ",".join(str(begun + each)), "snip", 1, "own", "cafe", 0) for each in range(5000)]
            store.keep([(key, Result(1.5, "ok", 1.0, 1.0)) for key in keys])
    code = (
        "import sys\nfrom trainless.execution.limits import in_use\nimport os\nfrom trainless.store import store_at\n"
        "store_at(sys.argv[2]).close(); before = in_use(os.getpid())\nheld = store_at(sys.argv[1])\n"
        "print(in_use(os.getpid()) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, place, f"{folder}/empty/"], check=True, capture_output=True, text=True
    )
    return int(done.stdout) // number


def _spread(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {"median": round(statistics.median(ordered), 3), "p95": round(ordered[int(0.95 * len(ordered))], 3)}


def environment() -> dict[str, Any]:
    """Where this was measured."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Run what is asked for, and write the file and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--share", type=float, default=1.0)
    given = parser.parse_args()
    found: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {"faults": {}}
    only = set(filter(None, given.only.split(",")))
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        for name, outcome in all_faults(Path(folder), given.share, only):
            print(name, {key: value for key, value in outcome.items() if key != "faults"}, len(outcome["faults"]))
            found["faults"][name] = outcome | {"environment": environment()}
            given.out.write_text(json.dumps(found, indent=1) + "\n")
        if not only or "cost" in only:
            found |= {"cost": cost(Path(folder)), "environment": environment()}
            print(found["cost"])
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    if "cost" in found:
        PAGE.write_text(page(PAGE.read_text(), found))


if __name__ == "__main__":
    main()
