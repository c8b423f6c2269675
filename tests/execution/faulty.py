"""Searches that are run in a process of their own, to be killed, interrupted or led astray there."""

from __future__ import annotations

import csv
import multiprocessing
import multiprocessing.forkserver
import os
import signal
import sys
import time
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.commands import PRELOADED, share_server
from trainless.core.task import Task
from trainless.execution import fork_server
from trainless.runs.search import search
from trainless.runs.settings import SearchSettings
from trainless.runs.trajectory import read
from trainless.scoring.request import select
from trainless.spaces.nb201 import NasBench201

EVALUATIONS = 20
SPACE = NasBench201(2, 1)
if "pytest" not in sys.modules:
    SPACE.canonical((0,) * 6)  # in the fork server, so that processes forked from it need not find the twins again
SEARCHERS: dict[str, dict[str, Any]] = {
    "random": {},
    "evolution": {"population": 6, "tournament": 3},
    "nsga2": {"population": 6},
}
PROXY = """
import ctypes, os, time
import torch
import trainless as tl


@tl.proxy(higher_is_better=True, paper="none")
def faulty(p):
    "The number of weights, noted each time that it is computed."
    size = sum(tensor.numel() for tensor in p.weights.values())
    log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, f"{{os.getpid()}} {{size}}\\n".encode())
    os.close(log)
    time.sleep({pause})
    if size % 3 == 1:
        {fault}
    return size
"""
FAULTS = {
    "none": "pass",
    "raise": "raise ValueError('no')",
    "exit": "os._exit(3)",
    "null": "ctypes.c_int.from_address(0).value = 1",
    "hoard": "kept = [torch.ones(2**20) for _ in range(10**6)]",
    "bytes": "kept = bytearray(10**12)",
    "sleep": "time.sleep(3600)",
    "spin": "sum(range(10**12))",
}


class Place:
    """A folder with a proxy that misbehaves in one way, its log, and the run."""

    def __init__(self, folder: Path, fault: str = "none", pause: float = 0.002) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.run, self.log, self.proxy = folder / "run", folder / "log", folder / "own.py"
        self.proxy.write_text(PROXY.format(log=str(self.log), pause=pause, fault=FAULTS[fault]))

    def computed(self) -> list[tuple[int, int]]:
        """Process and size of everything that was computed."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [(int(pid), int(size)) for pid, size in map(str.split, lines)]

    def board(self, *, status: bool = True) -> list[dict[str, str]]:
        """The leaderboard."""
        with (self.run / "leaderboard.csv").open() as file:
            rows = list(csv.DictReader(file))
        return rows if status else [{name: row[name] for name in row if name != "status"} for row in rows]

    def require_whole(self, evaluations: int = EVALUATIONS) -> None:
        """Every step is there once, and all together are the budget."""
        steps = [line.step for line in read(self.run / "trajectory.jsonl") if line.step]
        assert [step["step"] for step in steps] == list(range(1, len(steps) + 1))
        assert sum(len(step["candidates"]) for step in steps) == evaluations


def coordinate(place: Place, searcher: str, options: Mapping[str, Any]) -> None:
    """Search; leaves with 130 where it is interrupted."""
    share_server()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        search(
            Task.noise((3, 8, 8)),
            SPACE,
            searcher,
            proxies=select(f"{place.proxy}:faulty"),
            seed=3,
            out=place.run,
            settings=SearchSettings(
                **{"evaluations": EVALUATIONS, "searcher_args": SEARCHERS[searcher], "batch": 4, "ahead": 4, **options}
            ),
        )
    except KeyboardInterrupt:
        sys.exit(130)


def begin(place: Place, searcher: str = "evolution", **options: Any) -> BaseProcess:
    """Start a search in a process of its own."""
    given = (place, searcher, {"workers": 2, **options})
    process = fork_server.context(False, *PRELOADED).Process(target=coordinate, args=given)
    process.start()
    return process


def finish(process: BaseProcess, seconds: float = 60.0) -> int | None:
    """Wait for the end; the exit code."""
    process.join(seconds)
    assert not process.is_alive(), "it hangs"
    return process.exitcode


def gone(pids: set[int], seconds: float = 5.0) -> bool:
    """Whether all of these processes have ended within so many seconds."""
    until = time.monotonic() + seconds
    while any(_alive(pid) for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z" and pid != os.getpid() and multiprocessing.current_process().pid != pid
