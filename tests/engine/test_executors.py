from __future__ import annotations

import math
import os
import pickle
import signal
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.engine.hostile import Hostile, Sum
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.engine.asked import select
from trainless.engine.executors import Executor, InProcess, Processes
from trainless.engine.measures import ByFunction, ByProxies, Outcome
from trainless.search.searcher import Proposal
from trainless.spaces.nb201 import NasBench201


def work(executor: Executor, archs: list[tuple[int, ...]]) -> dict[tuple[int, ...], Outcome]:
    """Everything, as the loop would do it."""
    queue, flying, found = list(enumerate(archs)), 0, {}
    while queue or flying:
        while queue and flying < executor.slots:
            ticket, arch = queue.pop(0)
            executor.submit(ticket, Proposal(arch))
            flying += 1
        ticket, outcome = executor.next()
        found[archs[ticket]] = outcome
        flying -= 1
    return found


def test_in_process_is_on_one_thread_and_leaves_the_number_as_it_was() -> None:
    class Threads(Sum):
        def __call__(self, proposal: Proposal) -> Outcome:
            return Outcome({"sum": float(torch.get_num_threads())})

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        executor = InProcess(Threads())
        executor.submit(3, Proposal((0,)))
        assert executor.next() == (3, Outcome({"sum": 1.0}))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_an_exception_is_the_reason_of_one_candidate() -> None:
    executor = InProcess(Hostile())
    executor.submit(0, Proposal((4,)))
    outcome = executor.next()[1]
    assert math.isnan(outcome.values["sum"])
    assert outcome.failures == {"sum": "ValueError: a bad network definition"}


@pytest.mark.slow
def test_processes_survive_everything(tmp_path: Path) -> None:
    executor = Processes(Hostile(folder=str(tmp_path)), 2)
    try:
        good = [(0, n) for n in range(6)]
        found = work(executor, [good[0], (2, 0), good[1], good[2], (4, 0), (6, 5), *good[3:]])
        assert [found[arch].values["sum"] for arch in good] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        assert found[2, 0].failures == {"sum": f"the worker process died (exit code {-signal.SIGSEGV}), 2 times"}
        assert found[4, 0].failures == {"sum": "ValueError: a bad network definition"}
        assert found[6, 5] == Outcome({"sum": 11.0})  # its first worker died, its second did not
        assert (tmp_path / "once").exists()
        _a_killed_idle_worker_is_replaced(executor)
        with pytest.raises(InputError, match="the store is on fire"):
            work(executor, [(5, 0)])
    finally:
        executor.close(now=True)


def _a_killed_idle_worker_is_replaced(executor: Processes) -> None:
    victim = executor.pids[0]
    os.kill(victim, signal.SIGKILL)
    assert {outcome.values["sum"] for outcome in work(executor, [(0, n) for n in range(4)]).values()} == {0, 1, 2, 3}
    assert victim not in executor.pids


@pytest.mark.slow
def test_a_timeout_is_a_reasoned_failure() -> None:
    executor = Processes(Hostile(), 1, timeout=1.0)
    try:
        found = work(executor, [(3, 0), (0, 2)])
        assert found[3, 0].failures == {"sum": "it took longer than 1 s"}
        assert found[0, 2].values == {"sum": 2.0}
    finally:
        executor.close()


@pytest.mark.slow
def test_scores_are_the_same_in_any_process(tmp_path: Path) -> None:
    space, task = NasBench201(4, 1), Task.noise((3, 8, 8))
    archs = [(3, 1, 2, 0, 3, 1), (1, 2, 3, 4, 0, 1), (2, 2, 3, 1, 1, 3)]

    def measure(store: str) -> ByProxies:
        return ByProxies(space, task, select("snip,naswot"), batch=16, store=store)

    here = InProcess(measure(""))
    there = Processes(measure(str(tmp_path / "scores.sqlite")), 2)
    try:
        assert work(here, archs) == work(there, archs)
    finally:
        there.close()
    assert (tmp_path / "scores.sqlite").stat().st_size > 0


def test_mistakes_are_named() -> None:
    with pytest.raises(InputError, match="workers=0"):
        Processes(Sum(), 0)
    with pytest.raises(InputError, match="timeout=0"):
        Processes(Sum(), 1, timeout=0)
    with pytest.raises(InputError, match="cannot be sent to other processes"):
        Processes(ByFunction("local", lambda arch, fidelity: 1.0, NasBench201()), 1)


def test_memory_maps_travel_by_name(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(100_000.0))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    text = bytes(ForkingPickler.dumps(mapped))
    assert len(text) < 1000
    np.testing.assert_array_equal(pickle.loads(text), mapped)  # noqa: S301
    part = bytes(ForkingPickler.dumps(mapped[10:20]))
    np.testing.assert_array_equal(pickle.loads(part), np.arange(10.0, 20.0))  # noqa: S301
