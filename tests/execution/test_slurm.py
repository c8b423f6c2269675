"""SLURM: what is asked of it, and that allocations may come, end, be preempted and be killed at any time."""

from __future__ import annotations

import math
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.execution import cluster
from tests.execution.faulty import EVALUATIONS, Place, begin, finish
from tests.execution.hostile import Hostile, Sum, Unmakable
from tests.execution.own import OWN_ARCHS, own_measure, own_outcomes, work
from trainless.core.arch import Proposal
from trainless.core.errors import InputError
from trainless.core.processes import one_interrupt
from trainless.execution import slurm
from trainless.execution.executor import Execution, Job, pool_for
from trainless.execution.node import WorkingNode
from trainless.execution.queue import Name, Queue
from trainless.execution.slurm import Slurm
from trainless.execution.slurm_options import SlurmOptions, slurm_options
from trainless.proxies.proxy import registry
from trainless.runs.settings import SearchSettings
from trainless.testing import check_executor


def local(tmp_path: Path, *more: str) -> str:
    return ",".join(["cluster=local", f"folder={tmp_path / 'queues'}", *more])


def test_options_and_a_file_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = slurm_options("partition=gpu,account=me,time=2h,cpus=4,memory=8GB,sbatch.qos=low")
    assert said == SlurmOptions("gpu", "me", "2h", 4, "8GB", sbatch={"qos": "low"})
    assert said.minutes == 120
    file = tmp_path / "slurm.toml"
    file.write_text(
        "partition = 'gpu'\naccount = 'me'\ntime = '2h'\ncpus = 4\nmemory = '8GB'\nsetup = ['module load python']\n"
        "[sbatch]\nqos = 'low'\n"
    )
    assert slurm_options(str(file)) == SlurmOptions(
        "gpu", "me", "2h", 4, "8GB", sbatch={"qos": "low"}, setup=("module load python",)
    )
    monkeypatch.setenv("TRAINLESS_SLURM", str(file))
    assert slurm_options("").partition == "gpu"
    assert slurm_options("partition=cpu").account == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("partitions=gpu", r"'partitions' was given for slurm; expected partition, account, .*sbatch.NAME"),
        ("gpu", r"'gpu' was given for slurm; expected partition=gpu,time=2h"),
        ("cpus=many", r"cpus='many' was given for slurm"),
        ("cpus=0", r"cpus=0, gpus=0 were given for slurm; expected at least one core"),
        ("time=soon", r"'soon' was given; expected a time such as"),
        ("time=5s", r"time='5s' was given for slurm; expected at least a minute"),
        ("cluster=moon", r"cluster='moon' was given for slurm; expected slurm or local"),
        ("sbatch=qos", r"'sbatch=qos' was given for slurm"),
        ("none.toml", r"none.toml cannot be read"),
    ],
)
def test_options_that_make_no_sense_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        slurm_options(text)


def test_without_slurm_it_says_where_to_give_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match="there is no SLURM here: give the command where sbatch and srun are"):
        Slurm(Sum(), Execution("slurm", address=f"folder={tmp_path}"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_for_one_machine_is_no_store_for_several() -> None:
    with pytest.raises(InputError, match=r"--store s.sqlite is a file for one machine, and --executor slurm works on"):
        _ = SearchSettings(executor="slurm", store="s.sqlite").execution
    assert SearchSettings(executor="slurm", store="shared/").execution.spans_machines
    assert not SearchSettings(store="s.sqlite").execution.spans_machines


@pytest.mark.slow
def test_it_keeps_the_contract_of_executors(tmp_path: Path) -> None:
    check_executor("slurm", workers=2, address=local(tmp_path, "cpus=2"))
    assert list((tmp_path / "queues").iterdir()) == []


@pytest.mark.slow
def test_hostile_jobs_and_files_of_the_users(tmp_path: Path) -> None:
    """One worker and one node for all: what dies, hangs or answers twice is a failure of that job alone."""
    executor = Slurm(Hostile(folder=str(tmp_path)), Execution("slurm", 1, timeout=5.0, address=local(tmp_path)))
    try:
        found = work(executor, [(0, 1), (2, 0), (4, 0), (6, 5), (3, 0), (0, 2), (14, 0), (0, 3)])
        assert [found[0, n].values["sum"] for n in (1, 2, 3)] == [1.0, 2.0, 3.0]
        assert found[2, 0].failures == {"sum": "the worker process died (exit code -11), 2 times"}
        assert found[4, 0].failures == {"sum": "ValueError: a bad network definition"}
        assert found[6, 5].values == {"sum": 11.0}
        assert found[3, 0].failures == {"sum": "it took longer than 5 s"}
        assert math.isnan(found[14, 0].values["sum"])
    finally:
        executor.close()
    executor = Slurm(own_measure(tmp_path), Execution("slurm", 1, address=local(tmp_path)))
    try:
        assert work(executor, OWN_ARCHS) == own_outcomes()
    finally:
        executor.close()
        del registry._entries["tensors"]


def test_an_answer_that_comes_too_late_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A node that was silent for long enough to be given up, and is there after all; played by hand."""
    monkeypatch.setattr(slurm, "SILENCE_SECONDS", 0.3)
    monkeypatch.setattr(Slurm, "_allocate", lambda pool, number: None)
    executor = Slurm(Sum(), Execution("slurm", 1, address=local(tmp_path)))
    queue = executor._queue
    try:
        executor.submit(Job(Proposal((1, 2))))
        (queue.folder / "nodes" / "silent").touch()
        first, proposal = queue.take("silent") or pytest.fail("nothing to take")
        until = [executor.poll(0.1) for _ in range(8)]
        assert not any(until)
        assert (queue.folder / "nodes" / "silent").exists() is False
        (queue.folder / "nodes" / "other").touch()
        second, _ = queue.take("other") or pytest.fail("it was not given to another")
        assert (second.id, second.attempt > first.attempt) == (first.id, True)
        (queue.folder / "taken" / str(first)).touch()
        queue.answer(first, slurm.Reply(first.id, Sum()(Proposal((9, 9)))))
        queue.answer(second, slurm.Reply(second.id, Sum()(proposal)))
        assert executor.next()[1].values == {"sum": 3.0}
        assert not executor.poll(0.1)
        assert "a node answered a job that was given to another: the answer was refused" in caplog.messages
    finally:
        queue.forget("other")
        executor.close(now=True)


@pytest.mark.slow
def test_nodes_that_cannot_start_are_said(tmp_path: Path) -> None:
    """Each is seen for a second before it ends."""
    executor = Slurm(Unmakable(), Execution("slurm", 1, address=local(tmp_path)))
    try:
        executor.submit(Job(Proposal((0, 1))))
        with pytest.raises(InputError, match=r"nodes cannot start \(its data .*\); use --executor local to see why"):
            executor.next()
    finally:
        executor.close(now=True)


def test_a_node_that_was_forgotten_comes_back(tmp_path: Path) -> None:
    queue = Queue.made(tmp_path)
    queue.put(Name(1, 1), "job")
    with queue.beating("one-1"):
        queue.forget("one-1")
        node = WorkingNode(queue, "one-1", pool_for(Sum(), Execution()), 60.0, lambda: False)
        try:
            assert node._take()
            assert list(queue.nodes()) == ["one-1"]
        finally:
            node._pool.close(now=True)


@pytest.fixture
def queues(tmp_path: Path) -> Iterator[Path]:
    """Where queues are; nobody is left there at the end."""
    yield tmp_path / "queues"
    for pid in cluster.nodes(tmp_path / "queues").values():
        os.kill(pid, 9)


@pytest.mark.slow
def test_kills_and_preemptions_change_nothing(tmp_path: Path, queues: Path) -> None:
    serial, place = Place(tmp_path / "serial"), Place(tmp_path / "there", pause=0.5)
    assert finish(begin(serial, workers=1)) == 0
    process = begin(place, workers=4, executor="slurm", address=local(tmp_path, "cpus=2"))
    faults = [(2, cluster.preempt), (6, cluster.kill), (10, cluster.preempt)]
    hit = list(cluster.disturb(queues, lambda: len(place.computed()), faults))
    assert len(hit) == 3
    assert finish(process, 120) == 0
    assert (place.run / "leaderboard.csv").read_bytes() == (serial.run / "leaderboard.csv").read_bytes()
    place.require_whole()
    assert len(place.computed()) >= EVALUATIONS
    assert list(queues.iterdir()) == []


@pytest.mark.slow
def test_the_script_for_sbatch_has_what_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """submitit's own executor for SLURM, with programs that run its script and requeue it when they are told to."""
    bin_ = cluster.programs(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    asked = "partition=gpu,account=me,time=2h,cpus=1,memory=2GB,sbatch.qos=low"
    executor = Slurm(Sum(), Execution("slurm", 2, address=f"{asked},folder={tmp_path / 'queues'}"))
    try:
        assert work(executor, [(0, 1), (0, 2), (0, 3)])[0, 3].values == {"sum": 3.0}
        node = next(iter(cluster.nodes(tmp_path / "queues").values()))
        cluster.preempt(node)
        archs = [(1, n) for n in range(40)]
        assert work(executor, archs) == {arch: Sum()(Proposal(arch)) for arch in archs}
    finally:
        executor.close()
    (script,) = (bin_ / "jobs").glob("*/script")
    lines = dict(re.findall(r"^#SBATCH --([\w-]+)=?(.*)$", script.read_text(), re.M))
    for name, value in {
        "array": "0-1%2",
        "requeue": "",
        "partition": "gpu",
        "account": "me",
        "time": "120",
        "cpus-per-task": "1",
        "mem": "2GB",
        "qos": "low",
        "job-name": "trainless",
    }.items():
        assert lines[name] == value
    assert lines["signal"].startswith("USR2@")
    until = time.monotonic() + 10
    while {path.read_text() for path in (bin_ / "states").iterdir()} - {"COMPLETED", "CANCELLED"}:
        assert time.monotonic() < until, "an allocation is left"


class NeverBegun:
    """An allocation that waits in the cluster's queue until it is cancelled."""

    job_id, state = "7", "PENDING"

    def __init__(self) -> None:
        self.cancelled = False

    def done(self) -> bool:
        return False

    def cancel(self, check: bool = True) -> None:
        self.cancelled = True


def test_one_ctrl_c_ends_a_wait_for_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is computed yet, so nothing has to be finished first."""
    asked = NeverBegun()
    monkeypatch.setattr(Slurm, "_allocate", lambda self, number: self._allocations.append(asked))
    executor = pool_for(Sum(), Execution("slurm", workers=2, address=local(tmp_path)))
    with one_interrupt():
        executor.submit(Job(Proposal((1, 2))))
        assert not executor.poll(0.05)
        os.kill(os.getpid(), signal.SIGINT)
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            executor.poll(10.0)
        executor.close(now=True)
        assert time.monotonic() - start < 2.0
    assert asked.cancelled
    assert not list((tmp_path / "queues").iterdir())
