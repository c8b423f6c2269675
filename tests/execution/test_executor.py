from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.execution.hostile import Hostile, Sum
from tests.execution.own import work
from trainless.core.arch import Proposal
from trainless.core.errors import InputError, UnknownName
from trainless.execution import registry
from trainless.execution.executor import Execution, Executor, InProcess, Job, executor_for
from trainless.execution.local import Processes
from trainless.runs.loop import Loop, Step, drive
from trainless.runs.signals import signal_for
from trainless.scoring.measures import ByFunction, Outcome
from trainless.searchers import registry as searchers
from trainless.searchers.evolution import Evolution
from trainless.searchers.stopping import Budget
from trainless.spaces.nb201 import NasBench201


def test_in_process_is_on_one_thread_and_leaves_the_number_as_it_was() -> None:
    class Threads(Sum):
        def __call__(self, proposal: Proposal) -> Outcome:
            return Outcome({"sum": float(torch.get_num_threads())})

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        executor = InProcess(Threads())
        executor.submit(job := Job(Proposal((0,))))
        assert executor.next() == (job, Outcome({"sum": 1.0}))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_an_exception_is_the_reason_of_one_candidate() -> None:
    executor = InProcess(Hostile())
    executor.submit(Job(Proposal((4,))))
    outcome = executor.next()[1]
    assert math.isnan(outcome.values["sum"])
    assert outcome.failures == {"sum": "ValueError: a bad network definition"}


def test_a_job_here_cannot_end_the_command_in_silence() -> None:
    found = work(InProcess(Hostile()), [(13, 0), (0, 2)])
    assert found[13, 0].failures == {
        "sum": "RuntimeError: os._exit(0) was called, which would have ended the whole command"
    }
    assert found[0, 2].values == {"sum": 2.0}


def test_mistakes_are_named() -> None:
    with pytest.raises(InputError, match="workers=0"):
        Execution(workers=0)
    with pytest.raises(InputError, match="timeout=0"):
        Execution(timeout=0)
    with pytest.raises(UnknownName, match=r"no executor is called 'spark'.*trainless list executors"):
        Execution("spark")
    with pytest.raises(
        InputError, match=r"address='auto' was given, but the executor local cannot go to an address: .* use .*ray"
    ):
        Execution(address="auto")
    with pytest.raises(InputError, match="a memory limit of 0"):
        Execution(memory=0)
    with pytest.raises(InputError, match="cannot be sent to other processes"):
        Processes(ByFunction("local", lambda arch, fidelity: 1.0, NasBench201()), Execution())


class Clockwork:
    """Workers in simulated time, so that what they wait for can be counted exactly."""

    def __init__(self, slots: int, seed: int) -> None:
        self.slots, self.now, self.worked = slots, 0.0, 0.0
        self._rng, self._running = np.random.default_rng(seed), dict[Job[Proposal], float]()

    def submit(self, job: Job[Proposal]) -> None:
        takes = float(self._rng.lognormal(0.0, 0.7))
        self.worked += takes
        self._running[job] = self.now + takes
        assert len(self._running) <= self.slots

    def poll(self, seconds: float | None = None) -> bool:
        return bool(self._running)

    def next(self) -> tuple[Job[Proposal], Outcome]:
        job = min(self._running, key=lambda each: self._running[each])
        self.now = self._running.pop(job)
        return job, Outcome({"sum": float(sum(job.payload.arch))})

    def close(self, *, now: bool = False) -> None:
        pass


@pytest.mark.parametrize(("workers", "ahead", "least"), [(2, 2, 0.6), (2, 8, 0.95), (8, 32, 0.8)])
def test_workers_are_kept_busy_by_proposals_ahead(workers: int, ahead: int, least: float) -> None:
    space = NasBench201(2, 1)
    searcher = Evolution(space, seed=0, population=20, tournament=5)
    loop = Loop(searcher, signal_for(None, {"sum": True}), lambda candidate: candidate, ahead)
    executor = Clockwork(workers, seed=0)
    drive(loop, executor, Budget(400), write=lambda step: None)
    busy = executor.worked / (workers * executor.now)
    assert least < busy <= 1.0


@pytest.mark.parametrize(("searcher", "options"), [("nsga2", {"population": 10}), ("pmbga", {"batch": 5, "sets": 2})])
def test_searchers_of_batches_take_the_serial_path_however_many_workers(searcher: str, options: dict[str, int]) -> None:
    def path(executor: Executor[Proposal, Outcome], ahead: int) -> list[Proposal]:
        made = searchers[searcher](NasBench201(2, 1), seed=1, **options)
        loop = Loop(made, signal_for(None, {"sum": True}), lambda candidate: candidate, ahead)
        steps: list[Step] = []
        drive(loop, executor, Budget(60), write=steps.append)
        return [proposal for step in steps for proposal in step.proposals]

    serial = path(InProcess(Sum()), 1)
    assert len(serial) == 60
    assert path(Clockwork(4, seed=2), 8) == serial


def test_a_registered_executor_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere(Processes[Proposal, Outcome]):
        takes_address = True

    monkeypatch.setitem(registry._entries, "elsewhere", Elsewhere)
    able = " or ".join(name for name in registry.names() if registry[name].takes_address)
    assert "elsewhere" in able
    with pytest.raises(InputError, match=f"leave it out, or use {able}"):
        Execution(address="here:1")
    executor = executor_for(Sum(), Execution("elsewhere", address="here:1"))
    try:
        assert isinstance(executor, Elsewhere)
        assert work(executor, [(1, 2)])[1, 2].values == {"sum": 3.0}
    finally:
        executor.close()


def test_a_limit_that_an_executor_cannot_keep_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Careless(Processes[Proposal, Outcome]):
        limits_memory = limits_time = False

    monkeypatch.setitem(registry._entries, "careless", Careless)
    with pytest.raises(InputError, match="a memory limit of 5 was given, but the executor careless cannot limit mem"):
        Execution("careless", memory=5)
    with pytest.raises(InputError, match="timeout=2 was given, but the executor careless cannot end a job that takes"):
        Execution("careless", timeout=2.0)
    assert Execution("local", memory=5, timeout=2.0).memory == 5


def test_a_cluster_with_a_gpu_refuses_a_memory_limit() -> None:
    with pytest.raises(InputError, match="a memory limit and a GPU were given, which ray cannot keep"):
        registry["ray"](Sum(), Execution("ray", memory=2**30, device="cuda"))
