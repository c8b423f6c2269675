"""``check_executor``: our own executors keep the contract, and whoever breaks a promise is named."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from contextlib import ExitStack
from threading import Lock, Thread
from typing import Any, ClassVar

import pytest

from trainless.core.errors import TrainlessError
from trainless.execution import registry
from trainless.execution.executor import Job, Work, perform
from trainless.execution.pool import Pool, Reply, Worker
from trainless.testing import check_executor

TURN = Lock()


class OneThread(Worker[Any]):
    def __init__(self, pool: Threads) -> None:
        super().__init__()
        self._pool, self._jobs = pool, queue.SimpleQueue[Any]()
        Thread(target=self._serve, daemon=True).start()

    def send(self, job: Job[Any]) -> None:
        self._jobs.put(job)

    def end(self, *, now: bool) -> None:
        self._jobs.put(None)

    def _serve(self) -> None:
        self._pool.news.put((self, Reply(None)))
        while (job := self._jobs.get()) is not None:
            with TURN:
                answer = self._pool.answer(job)
            self._pool.news.put((self, answer))


class Threads(Pool[OneThread, Any, Any]):
    """Threads that take turns; those who break a promise are made of it."""

    limits_time: ClassVar[bool] = False
    news: queue.SimpleQueue[Any]
    work: Work[Any, Any]

    def _open(self, resources: ExitStack) -> Sequence[int | None]:
        self.news, self.work = queue.SimpleQueue(), self._work
        return [None] * self._execution.workers

    def _start(self, place: int | None) -> OneThread:
        return OneThread(self)

    def _look(self, until: float | None) -> None:
        try:
            worker, answer = self.news.get(timeout=self._patience(until))
        except queue.Empty:
            return
        if worker in self._workers:
            self._take(worker, answer)

    def answer(self, job: Job[Any]) -> Reply:
        try:
            return Reply(job.id, perform(self.work, job.payload))
        except TrainlessError as error:
            return Reply(job.id, mistake=str(error))


class Confused(Threads):
    """Answers every job with the result of another."""

    def answer(self, job: Job[Any]) -> Reply:
        return super().answer(Job(("double", 7), job.id))


class Stray(Threads):
    """Answers under an id of its own."""

    def answer(self, job: Job[Any]) -> Reply:
        return Reply(job.id + 1_000_000, super().answer(job).result)


class Lenient(Threads):
    """Takes a user's mistake for a failure of the job."""

    def answer(self, job: Job[Any]) -> Reply:
        answer = super().answer(job)
        return Reply(job.id, self.work.failed(answer.mistake)) if answer.mistake else answer


class Harsh(Threads):
    """Takes a failure of a job for a user's mistake."""

    def answer(self, job: Job[Any]) -> Reply:
        answer = super().answer(job)
        return Reply(job.id, mistake=answer.result) if str(answer.result).startswith("failed") else answer


class Single(Threads):
    """Has one worker, however many were asked for."""

    def _open(self, resources: ExitStack) -> Sequence[int | None]:
        return super()._open(resources)[:1]


class Greedy(Threads):
    """Takes more jobs than it has workers for."""

    def submit(self, job: Job[Any]) -> None:
        if any(worker.job is None for worker in self._workers):
            super().submit(job)


class Boastful(Threads):
    """Says that it limits memory, and does not."""

    limits_memory: ClassVar[bool] = True


def test_threads_keep_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._entries, "tried", Threads)
    check_executor("tried", workers=3)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (Confused, "came to '14 with 1 thread' with .* workers; expected"),
        (Stray, "came to 'failed: its worker answered for a job that it did not have"),
        (Lenient, "a user's mistake came back as .*; expected an InputError"),
        (Single, "2 workers were asked for; it has 1 slots"),
        (Greedy, "more jobs than its 2 slots were taken"),
        (Boastful, "a job that took too much memory came to 'took"),
    ],
)
def test_a_broken_promise_is_named(broken: type[Threads], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._entries, "tried", broken)
    with pytest.raises(AssertionError, match=said):
        check_executor("tried", memory=2**20)


def test_a_failure_that_ends_everything_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._entries, "tried", Harsh)
    with pytest.raises(TrainlessError, match=r"failed: (ValueError: no|RuntimeError: os\._exit)"):
        check_executor("tried")


@pytest.mark.slow
def test_processes_keep_the_contract() -> None:
    check_executor("local")
