"""Render ``docs/durability.md``: what survives what, and what that costs on a disk.

    python -m benchmarks.durability [FOLDER]

measures on the disk of a folder and writes ``benchmarks/results/durability.json``; ``make docs-figures`` then writes
the page.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "durability.json"
TIMES, EVALUATIONS = 200, 100
TEXT = (ROOT / "benchmarks" / "durability_page.md").read_text(encoding="utf-8")


def median_ms(work: Callable[[int], object], times: int = TIMES) -> float:
    """The median milliseconds of a call."""
    spent = []
    for number in range(times):
        start = time.perf_counter()
        work(number)
        spent.append(1000 * (time.perf_counter() - start))
    return statistics.median(spent)


def measured(folder: Path, *, synced: bool) -> dict[str, float]:
    """All calls on the disk of a folder; where nothing is synced the system is not told to."""
    from trainless.core.files import write_atomic
    from trainless.core.opening import Appender
    from trainless.core.task import Task
    from trainless.runs.search import search
    from trainless.runs.settings import SearchSettings
    from trainless.spaces.nb201 import NasBench201
    from trainless.store import Key, Result, SqliteStore

    space = NasBench201(2, 1)
    space.canonical((0,) * 6)  # the making of its table of twins is not measured
    where = folder / f"{'synced' if synced else 'not'}"
    where.mkdir()
    key = Key(space="nb201", arch="", proxy="snip", version=1, setting="own", task="digits", seed=0)
    with SqliteStore(where / "scores.sqlite") as store:
        if not synced:
            store._database.write(lambda cursor: None, lasting=False)
            write = store._database.write
            store._database.write = lambda work, lasting=True: write(work, lasting=False)  # type: ignore[method-assign]
        keep = median_ms(lambda number: store.keep([(key._replace(arch=str(number)), Result(1.0, "ok", 1.0, 1.0))]))
        claim = median_ms(lambda number: store.claim([key._replace(arch=f"c{number}")]))
    appender = Appender(where / "trajectory.jsonl")
    append = median_ms(lambda number: (appender.write("x" * 299 + "\n"), appender.sync() if synced else None))
    replace = median_ms(lambda number: write_atomic(where / "file", "x" * 2000), TIMES // 4)
    settings = SearchSettings(searcher="random", proxies=["params"], evaluations=EVALUATIONS, batch=4)
    start = time.perf_counter()
    search(Task.noise((3, 8, 8)), space, out=where / "run", settings=settings)
    each = 1000 * (time.perf_counter() - start) / EVALUATIONS
    return {"keep": keep, "claim": claim, "append": append, "replace": replace, "search": each}


def measure(folder: Path) -> dict[str, Any]:
    """Measure with the disk told to keep things, and without."""
    import sqlite3

    found: dict[str, dict[str, float]] = {"on": measured(folder, synced=True)}
    fsync, connect = os.fsync, sqlite3.connect

    def lazy(*arguments: Any, **options: Any) -> sqlite3.Connection:
        class Lazy(sqlite3.Connection):
            def execute(self, sql: str, *more: Any) -> sqlite3.Cursor:
                return super().execute(
                    "PRAGMA synchronous = OFF" if sql.startswith("PRAGMA synchronous") else sql, *more
                )

        return connect(*arguments, factory=Lazy, **options)

    os.fsync, sqlite3.connect = lambda handle: None, lazy  # type: ignore[assignment]
    try:
        found["off"] = measured(folder, synced=False)
    finally:
        os.fsync, sqlite3.connect = fsync, connect
    return {
        "environment": {
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
            "system": f"Linux {platform.release().partition('-')[0]}"
            if sys.platform == "linux"
            else platform.platform(),
            "disk": kind_of_disk(folder),
            "date": time.strftime("%Y-%m-%d"),
            "load": round(os.getloadavg()[0], 1),
        },
        "times": TIMES,
        "evaluations": EVALUATIONS,
        "ms": {state: {name: round(value, 4) for name, value in each.items()} for state, each in found.items()},
    }


def kind_of_disk(folder: Path) -> str:
    """The file system of a folder, as the system calls it."""
    best = ("", "an unknown file system")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if str(folder.resolve()).startswith(place) and len(place) > len(best[0]):
            best = (place, kind)
    return best[1]


def rendered() -> str:
    """The page by the results."""
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    figures = {f"{name}_{state}": value for state, each in found["ms"].items() for name, value in each.items()}
    return TEXT.format(**found["environment"], times=found["times"], evaluations=found["evaluations"], **figures)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", default=".", type=Path, help="on whose disk")
    with tempfile.TemporaryDirectory(dir=parser.parse_args().folder) as folder:
        RESULTS.write_text(json.dumps(measure(Path(folder)), indent=1) + "\n")


if __name__ == "__main__":
    main()
