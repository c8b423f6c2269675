"""A pool of workers: who is idle, who was lost, and what becomes of their jobs, wherever the workers are."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from trainless.core.errors import InputError
from trainless.core.processes import LOOK, Wait, raise_if_insisted
from trainless.execution.executor import Execution, Job, P, R, Work

log = logging.getLogger("trainless.execution")
ATTEMPTS = 2  # how often a job may end its worker before it is given up
START_FAILURES = 3
STRAY = "its worker answered for a job that it did not have"


@dataclass(frozen=True)
class Reply:
    """A worker's message to the pool.

    Without an id it says that the worker is ready; a mistake is the user's and ends everything.
    """

    id: int | None
    result: Any = None
    mistake: str = ""


class Worker(ABC, Generic[P]):
    """Does one job at a time, wherever it is.

    Attributes:
        place: Where it is; a worker that takes its place gets the same.
        ready: Whether it has begun its work.
        job: What it is doing.
        since: When it was given its job, by ``time.monotonic()``.
    """

    def __init__(self, place: int | None = None) -> None:
        self.place, self.ready, self.since = place, False, time.monotonic()
        self.job: Job[P] | None = None
        self.done: Job[P] | None = None  # the last one

    def give(self, job: Job[P]) -> None:
        self.job, self.since = job, time.monotonic()
        self.send(job)

    @abstractmethod
    def send(self, job: Job[P]) -> None:
        """Tell the worker; one that has died is found later."""

    @abstractmethod
    def end(self, *, now: bool) -> None:
        """End it, unless it has ended; ``now`` does not wait for what it is doing."""


W = TypeVar("W", bound=Worker[Any])


class Pool(ABC, Generic[W, P, R]):
    """Workers of one kind. The lost are replaced and their jobs given to others, or given up with a reason.

    An answer that is not of the job that its worker has is refused, and the worker replaced.

    Args:
        work: What they do; it is pickled, with the user's files that were named.
        execution: How many there are, and their limits.

    Attributes:
        takes_address: Whether an address may say where they are.
        limits_time: Whether ``Worker.end`` really ends a job that takes too long.
        limits_memory: Whether a job that takes too much memory fails; a limit is refused where it is not so.
        hint: What to do where they cannot start.
        shared: Whether they share a GPU by NVIDIA's multi-process service.
    """

    takes_address: ClassVar[bool] = False
    limits_time: ClassVar[bool] = True
    limits_memory: ClassVar[bool] = False
    hint: ClassVar[str] = "use workers=1 to see why"
    shared = False

    def __init__(self, work: Work[P, R], execution: Execution) -> None:
        self._work, self._execution = work, execution
        self._workers: list[W] = []
        self._done: deque[tuple[Job[P], R]] = deque()
        self._attempts: Counter[int] = Counter()
        self._start_failures = 0
        self._idle: Wait | None = None  # while no worker is at work
        with ExitStack() as resources:
            places = self._open(resources)
            resources.callback(self._end, now=True)
            for place in places:
                self._workers.append(self._start(place))
            self._resources = resources.pop_all()

    @classmethod
    def spans_machines(cls, address: str) -> bool:
        """Whether the workers may be on other machines, which see no file of this one but on a disk that they share."""
        return False

    @abstractmethod
    def _open(self, resources: ExitStack) -> Sequence[int | None]:
        """Make ready what all workers need; where each of them is to be."""

    @abstractmethod
    def _start(self, place: int | None) -> W:
        """Start a worker, without waiting for it."""

    @abstractmethod
    def _look(self, until: float | None) -> None:
        """Wait for news of the workers, until a moment at most, and take it in."""

    @property
    def slots(self) -> int:
        return len(self._workers)

    @property
    def ready(self) -> bool:
        return any(worker.ready for worker in self._workers)

    @property
    def idle(self) -> int:
        """How many workers are ready and have nothing to do."""
        return sum(worker.ready and worker.job is None for worker in self._workers)

    def submit(self, job: Job[P]) -> None:
        """Give it to an idle worker, one that is ready if there is any."""
        idle = [worker for worker in self._workers if worker.job is None]
        if not idle:
            raise RuntimeError(f"all {self.slots} workers are busy: wait for a result before submitting more")
        max(idle, key=lambda worker: worker.ready).give(job)

    def poll(self, seconds: float | None = None) -> bool:
        until = None if seconds is None else time.monotonic() + seconds
        while not self._done:
            self._look(until)
            raise_if_insisted()
            self._end_overdue()
            self._idle = None if self._busy else self._idle or Wait()
            if self._idle is not None:  # nothing is computed that is to be finished after Ctrl-C
                self._idle.look()
            if until is not None and time.monotonic() >= until:
                break
        return bool(self._done)

    def next(self) -> tuple[Job[P], R]:
        self.poll()
        return self._done.popleft()

    def close(self, *, now: bool = False) -> None:
        """End the workers and wait for them."""
        try:
            self._end(now=now)
        finally:
            self._resources.close()
            self._work.close()

    @property
    def _busy(self) -> list[W]:
        return [worker for worker in self._workers if worker.ready and worker.job is not None]

    def _take(self, worker: W, answer: object) -> None:
        """Take in that a worker is ready, or the result of its job, or what the user did wrong; refuse all else."""
        job = worker.job if worker.ready else None
        if not isinstance(answer, Reply) or answer.id != (job.id if job else None) or (worker.ready and not job):
            self._refuse(worker, answer)
        elif answer.mistake:
            raise InputError(answer.mistake)
        elif job is None:
            worker.ready, worker.since, self._start_failures = True, time.monotonic(), 0
        else:
            worker.job, worker.done = None, job
            self._finish(job, answer.result)

    def _refuse(self, worker: W, answer: object) -> None:
        second = isinstance(answer, Reply) and worker.done is not None and worker.done.id == answer.id
        about = "answered a job a second time" if second else "gave an answer to no job that it had"
        log.warning("a worker %s: the answer was refused and the worker replaced", about)
        self._replace(worker, STRAY, blamed=not second)

    def _finish(self, job: Job[P], result: R) -> None:
        self._attempts.pop(job.id, None)
        self._done.append((job, result))

    def _replace(self, worker: W, reason: str, attempts: int = ATTEMPTS, *, blamed: bool = True) -> None:
        """Put a fresh worker in its place; its job is tried again, or given up with the reason.

        Raises:
            InputError: Workers die before they begin, again and again.
        """
        if not worker.ready:
            self._start_failures += 1
            if self._start_failures >= START_FAILURES * max(1, self.slots):
                raise InputError(f"worker processes cannot start: {reason}; {self.hint}")
        place = self._workers.index(worker)
        del self._workers[place]
        worker.end(now=True)
        fresh = self._start(worker.place)
        self._workers.insert(place, fresh)
        if worker.job is None:
            return
        self._attempts[worker.job.id] += worker.ready and blamed
        if self._attempts[worker.job.id] >= attempts:
            again = f", {attempts} times" if attempts > 1 else ""
            self._finish(worker.job, self._work.failed(f"{reason}{again}"))
        else:
            fresh.give(worker.job)

    def _patience(self, until: float | None, most: float | None = None) -> float | None:
        """Seconds until something has to be looked at: a moment, a timeout, Ctrl-C, or after so many seconds."""
        now = time.monotonic()
        times = [] if until is None else [until]
        times += [] if most is None else [now + most]
        times += [] if self._busy else [now + LOOK]
        if self._execution.timeout is not None:
            ends = {worker: worker.since + self._execution.timeout for worker in self._busy}
            times += [max(end, now + LOOK) if self._answered(worker) else end for worker, end in ends.items()]
        return max(0.0, min(times) - now) if times else None

    def _answered(self, worker: W) -> bool:
        """Whether an answer is on its way that was not taken in yet."""
        return False

    def _end_overdue(self) -> None:
        """Replace the workers whose jobs take too long, but for those that have just answered."""
        timeout = self._execution.timeout
        for worker in self._busy if timeout is not None else []:
            if time.monotonic() - worker.since >= (timeout or 0.0) and not self._answered(worker):
                self._replace(worker, f"it took longer than {timeout:g} s", attempts=1)

    def _end(self, *, now: bool = False) -> None:
        """End all; those that are at work at once, and after a Ctrl-C all others, too."""
        pressed: KeyboardInterrupt | None = None
        while self._workers:
            worker = self._workers.pop()
            try:
                worker.end(now=now or worker.job is not None)
            except KeyboardInterrupt as error:
                pressed, now = error, True
                worker.end(now=True)
        if pressed is not None:
            raise pressed
