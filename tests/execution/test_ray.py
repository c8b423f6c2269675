"""Ray, each time in a process of its own: what Ray leaves behind in a driver may end that process later."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import multiprocessing
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Command
from tests.execution.faulty import gone
from tests.execution.hostile import Hostile
from tests.execution.machines import Machine, add, machines, missing
from tests.execution.own import OWN_ARCHS, own_measure, own_outcomes, work
from trainless.core.arch import Proposal
from trainless.core.errors import InputError
from trainless.execution.executor import Execution, Job

PACKAGE = Path(__file__).parents[2] / "trainless"
pytestmark = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")


def alone(what: Callable[[Path], None], folder: Path) -> None:
    """Run it in a fresh process; what fails there is printed there."""
    process = multiprocessing.get_context("spawn").Process(target=what, args=(folder,))
    process.start()
    process.join(300)
    try:
        assert process.exitcode == 0
    finally:
        process.kill()


def same_and_survives_the_loss_of_a_node(folder: Path) -> None:
    from ray.cluster_utils import Cluster as Machines

    from trainless.execution.ray import Cluster

    machines = Machines(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    lost = machines.add_node(num_cpus=1)
    executor = Cluster(own_measure(folder), Execution("ray", 2, address=machines.address))
    try:
        assert work(executor, OWN_ARCHS) == own_outcomes()
        for arch in OWN_ARCHS[:2]:
            executor.submit(Job(Proposal(arch)))
        machines.remove_node(lost)
        machines.add_node(num_cpus=1)
        found = {job.payload.arch: outcome for job, outcome in (executor.next() for _ in range(2))}
        assert found == {arch: own_outcomes()[arch] for arch in OWN_ARCHS[:2]}
        assert work(executor, OWN_ARCHS) == own_outcomes()
    finally:
        executor.close()
        machines.shutdown()


def survives_everything(folder: Path) -> None:
    from trainless.execution.ray import Cluster

    executor = Cluster(Hostile(folder=str(folder)), Execution("ray", 2, timeout=5.0))
    try:
        good = [(0, n) for n in range(4)]
        found = work(executor, [*good[:2], (2, 0), (4, 0), (6, 5), *good[2:]])
        assert [found[arch].values["sum"] for arch in good] == [0.0, 1.0, 2.0, 3.0]
        assert found[2, 0].failures == {"sum": "the worker process died, 2 times"}
        assert found[4, 0].failures == {"sum": "ValueError: a bad network definition"}
        assert found[6, 5].values == {"sum": 11.0}
        assert work(executor, [(7, 0)])[7, 0].failures == {"sum": "it took longer than 5 s"}
        assert gone(set(map(int, (folder / "child-7").read_text().split()))), "what it started is left"
        found = work(executor, [(11, 1), (0, 5), (12, 0), (0, 6)])
        assert [found[arch].values["sum"] for arch in [(11, 1), (0, 5), (0, 6)]] == [12.0, 5.0, 6.0]
        assert math.isnan(found[12, 0].values["sum"])  # lost or late: Ray finds it before its time is over, or not
        with pytest.raises(InputError, match="the store is on fire"):
            work(executor, [(5, 0)])
    finally:
        executor.close(now=True)
    assert gone(orphans(), 10), "a worker that lost its sockets is left"


def orphans() -> set[int]:
    """Workers of Ray whose parent is gone."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            text = status.read_text()
            if "RayPerformer" in (status.parent / "cmdline").read_text() and "\nPPid:\t1\n" in text:
                found.add(int(status.parent.name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("what", [same_and_survives_the_loss_of_a_node, survives_everything])
def test_a_ray_cluster(what: Callable[[Path], None], tmp_path: Path) -> None:
    alone(what, tmp_path)


def keeps_the_contract(folder: Path) -> None:
    import ray

    from trainless.testing import check_executor

    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)  # once for all of it
    check_executor("ray", workers=1)


@pytest.mark.slow
def test_it_keeps_the_contract_of_executors(tmp_path: Path) -> None:
    alone(keeps_the_contract, tmp_path)


SPACE = """
from dataclasses import dataclass
from torch import nn
from trainless.core.arch import Decision


@dataclass(frozen=True)
class Mine:
    "Fully connected networks."

    name: str = "mine"
    decisions = (Decision("depth", ("1", "2", "3", "4")), Decision("width", ("4", "8", "12", "16", "20", "24")))

    def check(self, task): pass

    def valid(self, arch): return True

    def canonical(self, arch): return arch

    def build(self, arch, task):
        width = 4 * arch[1] + 4
        hidden = [nn.Linear(width, width) for _ in range(arch[0] + 1)]
        return nn.Sequential(nn.Flatten(), nn.Linear(12, width), *hidden, nn.Linear(width, task.target.outputs))

    def parse(self, text): return tuple(map(int, text.split("-")))

    def format(self, arch): return "-".join(map(str, arch))
"""
PROXY = """
import os, time
import trainless as tl


@tl.proxy(higher_is_better=True, paper="none")
def mean(p):
    "The mean of all weights; which network it was computed in is written down."
    log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, (os.readlink("/proc/self/ns/net") + "\\n").encode())
    os.close(log)
    time.sleep({pause})
    return float(sum(each.double().sum() for each in p.weights.values()))
"""
SEARCH = (
    "search noise:3x2x2:4 --space mine/space.py:Mine --searcher random --proxies mine/proxy.py:mean"
    " --evaluations 24 --ahead 8 --batch 4 --seed 5"
)


@pytest.mark.slow
def test_three_machines_of_which_one_is_lost_and_another_joins_late(tmp_path: Path) -> None:
    """The user's files and our own package are hidden from all machines but the first: they have to be sent."""
    if why := missing():
        pytest.skip(why)
    mine, log, home = tmp_path / "mine", tmp_path / "log", tmp_path / "home"
    for folder in (mine, home):
        folder.mkdir()
    (mine / "space.py").write_text(SPACE)
    (mine / "proxy.py").write_text(PROXY.format(log=str(log), pause=0.0))
    alone = Command([*SEARCH.split(), "--out", "alone", "--store", "none"], tmp_path)
    assert alone.wait() == 0, alone.err
    log.unlink()
    (mine / "proxy.py").write_text(PROXY.format(log=str(log), pause=0.4))
    checks = {"initial_delay_ms": "5000", "period_ms": "500", "timeout_ms": "3000", "failure_threshold": "3"}
    settings = {
        **{f"RAY_health_check_{name}": value for name, value in checks.items()},
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
        "HOME": str(home),
    }
    options: dict[str, Any] = {"env": {**os.environ, **settings}, "cwd": tmp_path}
    programs = Path(sys.executable).parent
    with (
        (tmp_path / "started").open("w") as started,
        machines(3) as there,
        tempfile.TemporaryDirectory(prefix="ray-") as short,
    ):  # sockets have short names
        head, address = there[0], f"{there[0].address}:6379"

        def start(machine: Machine, *words: str, hidden: tuple[Path, ...] = ()) -> subprocess.Popen[str]:
            own = f"--node-ip-address={machine.address}"
            command = ("start", *words, own, "--num-cpus=1", "--disable-usage-stats", "--object-store-memory=80000000")
            return machine.start(programs / "ray", *command, hidden=hidden, stdout=started, stderr=started, **options)

        first = start(head, "--head", "--port=6379", "--include-dashboard=false", f"--temp-dir={short}")
        assert first.wait(90) == 0
        elsewhere = (mine, PACKAGE)
        for machine in there[1:]:  # one after the other: Ray gives a node half a minute, however busy the cores are
            other = start(machine, f"--address={address}", hidden=elsewhere)
            assert other.wait(90) == 0, (tmp_path / "started").read_text()
        command = [programs / "trainless", *SEARCH.split(), "--out", "there", "--executor", "ray", "--workers", "3"]
        with (tmp_path / "said").open("w") as said:
            search = head.start(*command, "--address", address, stdout=said, stderr=said, **options)
        try:
            wait(log, lambda used: len(used) == 3, search)
            there[2].unplug()
            late = add(there, 4)
            assert start(late, f"--address={address}", hidden=elsewhere).wait(90) == 0
            assert search.wait(120) == 0, (tmp_path / "said").read_text()
        finally:
            search.kill()
            search.wait()
        assert set(log.read_text().split()) == {machine.network() for machine in there}
    boards = [(tmp_path / name / "leaderboard.csv").read_bytes() for name in ("alone", "there")]
    assert boards[0] == boards[1]
    assert boards[0].count(b"\n") > 12  # the search draws some twice


def wait(log: Path, enough: Callable[[set[str]], bool], search: subprocess.Popen[str], seconds: float = 120.0) -> None:
    """Until the networks in which something was computed are enough."""
    until = time.monotonic() + seconds
    while not (log.exists() and enough(set(log.read_text().split()))):
        assert time.monotonic() < until
        assert search.poll() is None
        time.sleep(0.05)
