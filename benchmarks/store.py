"""A store of two million scores: how long it takes to open, look up, go on, report and export, and in how much memory.

    python benchmarks/store.py PLACE [PLACE …] [--scores 2000000] [--out benchmarks/results/store.json]

A place is a new SQLite file or ``postgresql://…`` with an empty database. Every figure is that of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from trainless.store import Key, Result, store_at
from trainless.store.sql import PAGE, export

SETTING = "Setting(weights=Drawn(rule='kaiming'), inputs=None, batch=64, network='full', repeats=1, options=())"
PROXIES = tuple(f"proxy_{number:02d}" for number in range(32))
OPTIONS, EDGES = 5, 6


def keys(number: int) -> Iterator[Key]:
    """That many keys: archs of NAS-Bench-201's size by proxies by seeds."""
    yield from map(key_at, range(number))


def key_at(place: int) -> Key:
    """One of them."""
    rest, proxy = divmod(place, len(PROXIES))
    seed, arch = divmod(rest, OPTIONS**EDGES)
    options = ",".join(str(arch // OPTIONS**edge % OPTIONS) for edge in range(EDGES))
    return Key("nb201(channels=16, cells=5)", options, PROXIES[proxy], 1, SETTING, "0123456789abcdef", seed)


def fill(place: str, number: int, folder: Path) -> int:
    """Keep that many scores, one in a hundred of them a failure."""
    page: list[tuple[Key, Result]] = []
    with store_at(place) as store:
        for count, key in enumerate(keys(number)):
            bad = count % 100 == 99
            page.append((key, Result(math.nan if bad else count / 7, "a reason" if bad else "ok", 12.5, 1.5)))
            if len(page) == PAGE:
                store.keep(page)
                page = []
        store.keep(page)
    return number


def opened(place: str, number: int, folder: Path) -> int:
    """Open and close."""
    with store_at(place):
        return 1


def found(place: str, number: int, folder: Path) -> int:
    """A thousand scores looked up, one after the other."""
    with store_at(place) as store:
        step = max(1, number // 1000)
        return sum(len(store.find([key_at(place)])) for place in range(0, 1000 * step, step))


def listed(place: str, number: int, folder: Path) -> int:
    """What ``trainless store list`` counts."""
    with store_at(place) as store:
        return sum(count.scores for count in store.counts())


def exported(place: str, number: int, folder: Path) -> int:
    """Everything as CSV."""
    with store_at(place) as store:
        return export(store.rows(), folder / "scores.csv")


def searched(place: str, number: int, folder: Path) -> int:
    """A small search with its run and its scores in the store; called again it resumes."""
    from trainless.core.task import Task
    from trainless.runs.search import search
    from trainless.runs.settings import SearchSettings
    from trainless.spaces.nb201 import NasBench201

    settings = SearchSettings(proxies="params", evaluations=200, batch=8, store=place)
    run = search(Task.noise((3, 8, 8)), NasBench201(2, 1), out=folder / "run", settings=settings)
    return len(run.places)


ACTIONS: dict[str, Callable[[str, int, Path], int]] = {
    "fill": fill,
    "open": opened,
    "find 1000": found,
    "list": listed,
    "search": searched,
    "resume": searched,
    "export": exported,
}


def measured(action: str, place: str, number: int, folder: Path) -> dict[str, float]:
    """An action in a process of its own."""
    command = [sys.executable, __file__, "--child", action, "--scores", str(number), "--folder", str(folder), place]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(f"{place.partition(':')[0]:<12} {action:<10} {figures}", flush=True)
    return figures


def main() -> None:
    """Measure, or be measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("places", nargs="+")
    parser.add_argument("--scores", type=int, default=2_000_000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", choices=ACTIONS)
    parser.add_argument("--folder", type=Path, default=Path())
    given = parser.parse_args()
    if given.child:
        if given.child in ("search", "resume"):
            import trainless.runs.search  # noqa: F401 - so that importing torch is not measured
            from trainless.spaces.nb201 import NasBench201

            NasBench201(2, 1).canonical((0,) * 6)  # nor the making of the space's table of twins
        start = time.perf_counter()
        count = ACTIONS[given.child](given.places[0], given.scores, given.folder)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": round(time.perf_counter() - start, 3), "count": count, "peak_mib": round(peak)}))
        return
    results = {}
    for place in given.places:
        with tempfile.TemporaryDirectory() as folder:
            name = "postgresql" if "://" in place else "sqlite"
            results[name] = {action: measured(action, place, given.scores, Path(folder)) for action in ACTIONS}
    answer = {
        "scores": given.scores,
        "environment": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "load": round(os.getloadavg()[0], 1),
        },
        "results": results,
    }
    if given.out:
        given.out.write_text(json.dumps(answer, indent=1) + "\n")


if __name__ == "__main__":
    main()
