"""What the workers of any executor have in common: who is idle, who was lost, and what becomes of their candidates."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from trainless.core.arch import Proposal
from trainless.core.errors import InputError
from trainless.execution.engine import Engine
from trainless.scoring.measures import Measure, Outcome, failed

ATTEMPTS = 2  # how often a candidate may end its worker before it is given up
START_FAILURES = 3


class Worker(Protocol):
    """Measures one candidate at a time, wherever it is."""

    ready: bool  # whether it has begun its work
    job: tuple[int, Proposal] | None
    since: float  # when it was given its job, by ``time.monotonic()``

    def give(self, ticket: int, proposal: Proposal) -> None:
        """Have it measured."""
        ...

    def end(self, *, now: bool) -> None:
        """End it; ``now`` does not wait for what it is doing."""
        ...


W = TypeVar("W", bound=Worker)


class Crew(Generic[W]):
    """Workers of one kind. The lost are replaced and their candidates given to others, or given up with a reason.

    Args:
        measure: What they do.
        engine: Their limits.
        start: Starts a worker in the place of a lost one.
        hint: What to do where they cannot start.
    """

    def __init__(self, measure: Measure, engine: Engine, start: Callable[[W], W], hint: str) -> None:
        self._measure, self._engine, self._start, self._hint = measure, engine, start, hint
        self.workers: list[W] = []
        self.done: deque[tuple[int, Outcome]] = deque()
        self._attempts: dict[int, int] = {}
        self._start_failures = 0

    @property
    def busy(self) -> list[W]:
        """Those that are at work on a candidate."""
        return [worker for worker in self.workers if worker.ready and worker.job is not None]

    def submit(self, ticket: int, proposal: Proposal) -> None:
        """Give it to an idle worker, one that is ready if there is any."""
        idle = [worker for worker in self.workers if worker.job is None]
        if not idle:
            raise RuntimeError(f"all {len(self.workers)} workers are busy: wait for an outcome before submitting more")
        max(idle, key=lambda worker: worker.ready).give(ticket, proposal)

    def poll(self, seconds: float | None, look: Callable[[float | None], None]) -> bool:
        """Whether an outcome is there within so many seconds; ``look`` waits for news until a moment at most."""
        until = None if seconds is None else time.monotonic() + seconds
        while not self.done:
            look(until)
            if until is not None and time.monotonic() >= until:
                break
        return bool(self.done)

    def take(self, worker: W, outcome: Outcome | str | None) -> None:
        """What a worker says: that it is ready, an outcome, or in words what the user did wrong."""
        if isinstance(outcome, str) and outcome:
            raise InputError(outcome)
        if isinstance(outcome, Outcome):
            if worker.job is not None:
                self.done.append((worker.job[0], outcome))
            worker.job = None
        else:
            worker.ready, worker.since, self._start_failures = True, time.monotonic(), 0

    def replace(self, worker: W, reason: str, attempts: int = ATTEMPTS) -> None:
        """A fresh worker in its place; its candidate is tried again, or given up with the reason.

        Raises:
            InputError: Workers die before they begin, again and again.
        """
        if not worker.ready:
            self._start_failures += 1
            if self._start_failures >= START_FAILURES * max(1, len(self.workers)):
                raise InputError(f"worker processes cannot start: {reason}; {self._hint}")
        job, ready, place = worker.job, worker.ready, self.workers.index(worker)
        del self.workers[place]
        worker.end(now=True)
        fresh = self._start(worker)
        self.workers.insert(place, fresh)
        if job is None:
            return
        ticket, proposal = job
        self._attempts[ticket] = self._attempts.get(ticket, 0) + ready
        if self._attempts[ticket] >= attempts:
            again = f", {attempts} times" if attempts > 1 else ""
            self.done.append((ticket, failed(self._measure, f"{reason}{again}")))
        else:
            fresh.give(ticket, proposal)

    def patience(self, until: float | None, most: float | None = None) -> float | None:
        """Seconds until something has to be looked at: a moment, a timeout, or after so many seconds."""
        now = time.monotonic()
        times = [] if until is None else [until]
        times += [] if most is None else [now + most]
        if self._engine.timeout is not None:
            times += [worker.since + self._engine.timeout for worker in self.busy]
        return max(0.0, min(times) - now) if times else None

    def end_overdue(self, spared: Callable[[W], bool] = lambda worker: False) -> None:
        """Replace the workers whose candidates take too long, but for those that have just answered."""
        timeout = self._engine.timeout
        for worker in self.busy if timeout is not None else []:
            if time.monotonic() - worker.since >= (timeout or 0.0) and not spared(worker):
                self.replace(worker, f"it took longer than {timeout:g} s", attempts=1)

    def end(self, *, now: bool = False) -> None:
        """End all; those that are at work at once."""
        while self.workers:
            worker = self.workers.pop()
            worker.end(now=now or worker.job is not None)
