"""The processes of a sweep: who works on what, until when, and what becomes of an arch that ends its process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from trainless.bench.journal import Journal
from trainless.bench.plan import Plan
from trainless.bench.worker import Missing, Sweeping, failed
from trainless.execution.engine import Engine, Executor, Job, pool_for

FAREWELL = 20.0


class Crew:
    """Hands out jobs one by one; an arch that ends two workers, or breaks a limit, is recorded as failed.

    Args:
        plan: The sweep.
        jobs: What is to be done.
        engine: How many workers, where, and their limits.
    """

    def __init__(self, plan: Plan, jobs: Sequence[Missing], engine: Engine) -> None:
        self._plan, self._jobs = plan, list(jobs)
        self._engine = engine
        self._done = 0
        self._began = 0.0  # when the first arch was done: starting the workers is not the pace of the work
        self.shared = False

    def run(
        self,
        deadline: float,
        tell: Callable[[int, float], None],
        tick: float,
        stopping: Callable[[], bool] = lambda: False,
    ) -> tuple[int, float]:
        """Work until all is done, the time is over or it is to stop; the number of archs done and archs per second."""
        executor = pool_for(Sweeping(self._plan), self._engine)
        self.shared = executor.shared
        try:
            self._work(executor, deadline, tell, tick, stopping)
        finally:
            executor.close(now=time.monotonic() >= deadline)
        tell(self._done, self._rate())
        return self._done, self._rate()

    def _work(
        self,
        executor: Executor[Missing, str],
        deadline: float,
        tell: Callable[[int, float], None],
        tick: float,
        stopping: Callable[[], bool],
    ) -> None:
        queue, flying, heard = iter(self._jobs), 0, time.monotonic()
        while time.monotonic() < deadline + FAREWELL:
            while flying < executor.slots and time.monotonic() < deadline and not stopping():
                missing = next(queue, None)
                if missing is None:
                    break
                executor.submit(Job(missing))
                flying += 1
            if not flying:
                return
            if executor.poll(min(1.0, tick)):
                job, reason = executor.next()
                flying, self._done = flying - 1, self._done + 1
                self._began = self._began or time.monotonic()
                if reason:
                    self._blame(job.payload, reason)
            if time.monotonic() - heard >= tick:
                heard = time.monotonic()
                tell(self._done, self._rate())

    def _rate(self) -> float:
        return (self._done - 1) / max(1e-9, time.monotonic() - self._began) if self._began else 0.0

    def _blame(self, missing: Missing, reason: str) -> None:
        arch, pairs = missing
        journal = Journal(Path(self._plan.out), "lost")
        journal.write(arch, failed(arch, pairs, reason))
        journal.close()
