"""Many processes on this machine: the one way in which candidates are measured outside of this process."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from trainless.core.errors import InputError
from trainless.engine import limits, nursery
from trainless.engine.executors import Engine
from trainless.engine.measures import Measure, Outcome, failed
from trainless.engine.sharing import shared_gpu
from trainless.engine.worker import cores, pack, serve
from trainless.search.searcher import Proposal

ATTEMPTS = 2  # how often a candidate may end its worker before it is given up
START_FAILURES = 3
FAREWELL_SECONDS = 5.0
WATCH_SECONDS = 0.05  # between two looks at the workers' memory
GPU_MEMORY = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


class _Worker:
    """One process, what it is doing, and since when."""

    def __init__(self, start: Callable[[Connection], BaseProcess], core: int | None) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = start(theirs)
        theirs.close()
        self.core = core
        self.ready = False
        self.job: tuple[int, Proposal] | None = None
        self.since = time.monotonic()

    def give(self, ticket: int, proposal: Proposal) -> None:
        self.job, self.since = (ticket, proposal), time.monotonic()
        try:
            self.pipe.send((ticket, proposal))
        except (BrokenPipeError, ConnectionResetError):
            return  # it has died: found by its sentinel, and the job goes to another

    def end(self, *, now: bool) -> None:
        if now:
            self.process.kill()
        else:
            try:
                self.pipe.send(None)
            except (BrokenPipeError, ConnectionResetError):
                now = True
        self.process.join(None if now else FAREWELL_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()
        self.process.close()


class Processes:
    """Several processes on this machine, each on one thread and, with one for every core, on a core of its own.

    A worker that dies is replaced and its candidate given to another; a candidate that ends two workers, takes longer
    than the timeout or more memory than the limit is a failure with that reason. Workers are ended by the system when
    this process is gone. On a GPU they share it by NVIDIA's multi-process service where that is there.

    Args:
        measure: What to do; it is pickled to processes of our own, with the user's files that were named.
        engine: How many, and their limits.
    """

    def __init__(self, measure: Measure, engine: Engine) -> None:
        self._measure, self._engine = measure, engine
        self._luggage = pack(measure)
        self._attempts: dict[int, int] = {}
        self._done: deque[tuple[int, Outcome]] = deque()
        self._start_failures = 0
        self._workers: list[_Worker] = []
        self._context = nursery.context(engine.gpu)
        with ExitStack() as stack:
            self.shared = stack.enter_context(shared_gpu(engine.gpu and engine.workers > 1))
            if engine.gpu:
                stack.enter_context(nursery.environment(GPU_MEMORY))
            places = [None] * engine.workers if engine.gpu else cores(engine.workers)
            stack.callback(self._end_all, now=True)
            self._workers += [self._start(core) for core in places]
            self._stack = stack.pop_all()

    @property
    def slots(self) -> int:
        """One candidate per worker."""
        return len(self._workers)

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return [worker.process.pid for worker in self._workers if worker.process.pid is not None]

    @property
    def ready(self) -> bool:
        """Whether any worker has begun its work."""
        return any(worker.ready for worker in self._workers)

    def submit(self, ticket: int, proposal: Proposal) -> None:
        """Give it to an idle worker, one that is ready if there is any."""
        idle = [worker for worker in self._workers if worker.job is None]
        if not idle:
            raise RuntimeError(f"all {self.slots} workers are busy: wait for an outcome before submitting more")
        max(idle, key=lambda worker: worker.ready).give(ticket, proposal)

    def poll(self, seconds: float | None = None) -> bool:
        """Wait for whichever comes first; the dead are replaced on the way."""
        until = None if seconds is None else time.monotonic() + seconds
        while not self._done:
            watched: dict[Any, _Worker] = {}
            for worker in self._workers:
                watched[worker.pipe] = watched[worker.process.sentinel] = worker
            ready = multiprocessing.connection.wait(list(watched), self._patience(until))
            for worker in dict.fromkeys(watched[each] for each in ready):
                self._hear(worker)
            self._end_overdue()
            if until is not None and time.monotonic() >= until:
                break
        return bool(self._done)

    def next(self) -> tuple[int, Outcome]:
        """Wait for whichever comes first."""
        self.poll()
        return self._done.popleft()

    def close(self, *, now: bool = False) -> None:
        """End the workers and wait for them."""
        self._end_all(now=now)
        self._stack.close()
        self._measure.close()

    def _end_all(self, *, now: bool) -> None:
        while self._workers:
            worker = self._workers.pop()
            worker.end(now=now or worker.job is not None)

    def _start(self, core: int | None) -> _Worker:
        def start(pipe: Connection) -> BaseProcess:
            memory = self._engine.memory
            confined = None if self._engine.gpu else memory
            arguments = (pipe, self._luggage, core, confined, dict(os.environ))
            process = self._context.Process(target=serve, args=arguments, daemon=True)
            with nursery.undisturbed():
                process.start()
            return process

        return _Worker(start, core)

    def _hear(self, worker: _Worker) -> None:
        """Take in a message, or a death."""
        try:
            if not worker.pipe.poll():
                if not worker.process.is_alive():
                    self._replace(worker, f"the worker process died (exit code {worker.process.exitcode})")
                return
            ticket, outcome = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            worker.process.join()
            self._replace(worker, f"the worker process died (exit code {worker.process.exitcode})")
            return
        if isinstance(outcome, str):
            raise InputError(outcome)
        if ticket is None:
            worker.ready, worker.since, self._start_failures = True, time.monotonic(), 0
            return
        worker.job = None
        self._done.append((ticket, outcome))

    def _replace(self, worker: _Worker, reason: str, attempts: int = ATTEMPTS) -> None:
        """A fresh worker in its place; its candidate is tried again, or given up with the reason."""
        if not worker.ready:
            self._start_failures += 1
            if self._start_failures >= START_FAILURES * max(1, len(self._workers)):
                raise InputError(f"worker processes cannot start: {reason}; use workers=1 to see why")
        job, ready = worker.job, worker.ready
        worker.end(now=True)
        fresh = self._start(worker.core)
        self._workers[self._workers.index(worker)] = fresh
        if job is None:
            return
        ticket, proposal = job
        self._attempts[ticket] = self._attempts.get(ticket, 0) + ready
        if self._attempts[ticket] >= attempts:
            again = f", {attempts} times" if attempts > 1 else ""
            self._done.append((ticket, failed(self._measure, f"{reason}{again}")))
        else:
            fresh.give(ticket, proposal)

    def _patience(self, until: float | None) -> float | None:
        """Seconds until something has to be looked at."""
        times = [] if until is None else [until]
        busy = [worker.since for worker in self._workers if worker.ready and worker.job is not None]
        if self._engine.timeout is not None and busy:
            times.append(min(busy) + self._engine.timeout)
        if self._engine.memory is not None and busy:
            times.append(time.monotonic() + WATCH_SECONDS)
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _end_overdue(self) -> None:
        """Replace the workers whose candidates take too long or too much."""
        timeout, memory = self._engine.timeout, self._engine.memory
        for worker in list(self._workers):
            if not worker.ready or worker.job is None or worker.pipe.poll():
                continue
            if timeout is not None and time.monotonic() - worker.since >= timeout:
                self._replace(worker, f"it took longer than {timeout:g} s", attempts=1)
            elif memory is not None and limits.in_use(worker.process.pid or 0) > memory:
                self._replace(worker, limits.words(memory), attempts=1)
