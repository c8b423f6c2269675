"""The loop: what is told, and in which order."""

from __future__ import annotations

from tests.execution.hostile import Sum
from trainless.core.arch import Proposal
from trainless.core.task import Task
from trainless.execution.executor import InProcess, Job
from trainless.runs.loop import Loop, drive
from trainless.runs.signals import signal_for
from trainless.scoring.measures import Outcome
from trainless.searchers.evolution import Evolution
from trainless.searchers.stopping import Budget
from trainless.spaces.nb201 import NasBench201

SPACE, TASK = NasBench201(2, 1), Task.noise((3, 8, 8))


def test_in_flight_proposals_are_told_in_their_order() -> None:
    class Backwards:
        """Two at a time; the second comes back first."""

        slots = 2

        def __init__(self) -> None:
            self.jobs: list[Job[Proposal]] = []
            self.most = 0

        def submit(self, job: Job[Proposal]) -> None:
            self.jobs.append(job)
            self.most = max(self.most, len(self.jobs))

        def poll(self, seconds: float | None = None) -> bool:
            return bool(self.jobs)

        def next(self) -> tuple[Job[Proposal], Outcome]:
            job = self.jobs.pop()
            return job, Outcome({"sum": float(sum(job.payload.arch))})

        def close(self, *, now: bool = False) -> None:
            pass

    def loop(ahead: int) -> Loop:
        return Loop(Evolution(SPACE, seed=1, population=4), signal_for(None, {"sum": True}), lambda arch: arch, ahead)

    executor, steps = Backwards(), []
    first, again = loop(2), loop(2)
    drive(first, executor, Budget(30), write=steps.append)
    drive(again, InProcess(Sum()), Budget(30), write=lambda step: None)
    assert executor.most == 2
    assert first.searcher.state() == again.searcher.state()
    assert [step.number for step in steps] == list(range(1, 31))
