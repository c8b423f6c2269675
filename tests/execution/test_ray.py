"""Ray, each time in a process of its own: what Ray leaves behind in a driver may end that process later."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.execution.faulty import gone
from tests.execution.hostile import Hostile
from tests.execution.own import OWN_ARCHS, own_measure, own_outcomes, work
from trainless.core.arch import Proposal
from trainless.core.errors import InputError
from trainless.execution.executor import Execution, Job

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
