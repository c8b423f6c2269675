"""Where measuring happens: in this process, or in several on this machine.

An executor takes proposals under a ticket and gives outcomes back as they come, in any order. It never has more than
``slots`` of them at a time: whoever submits keeps the rest, and so can stop at any moment.
"""

from __future__ import annotations

import mmap
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any, Protocol

import numpy as np
import torch

from trainless.core.errors import InputError, TrainlessError
from trainless.engine.measures import Measure, Outcome, failed, guarded
from trainless.engine.memory import keep_warm
from trainless.search.searcher import Proposal

ATTEMPTS = 2  # how often a candidate may end its worker before it is given up
START_FAILURES = 3
FAREWELL_SECONDS = 5.0


class Executor(Protocol):
    """Measures proposals; see the module's text."""

    @property
    def slots(self) -> int:
        """How many proposals it works on at a time."""
        ...

    def submit(self, ticket: int, proposal: Proposal) -> None:
        """Take a proposal."""
        ...

    def next(self) -> tuple[int, Outcome]:
        """Wait for the next outcome of what was submitted."""
        ...

    def close(self, *, now: bool = False) -> None:
        """Let go of everything; ``now`` does not wait for what is being measured."""
        ...


class InProcess:
    """One after the other, here, on one thread, so that a value does not depend on how many workers there are.

    Example:
        >>> from trainless.engine.measures import Lookup
        >>> executor = InProcess(Lookup("accuracy", [(0,)], {1.0: np.array([90.0])}, np.array([5.0])))
        >>> executor.submit(7, Proposal((0,)))
        >>> executor.next()
        (7, Outcome(values={'accuracy': 90.0}, failures={}, cost=5.0))
    """

    slots = 1

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._waiting: deque[tuple[int, Proposal]] = deque()

    def submit(self, ticket: int, proposal: Proposal) -> None:
        """Remember it until the outcome is asked for."""
        self._waiting.append((ticket, proposal))

    def next(self) -> tuple[int, Outcome]:
        """Measure the oldest."""
        ticket, proposal = self._waiting.popleft()
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return ticket, guarded(self._measure, proposal)
        finally:
            torch.set_num_threads(threads)

    def close(self, *, now: bool = False) -> None:
        """Close the measure."""
        self._measure.close()


class _Worker:
    """One process, what it is doing, and since when."""

    def __init__(self, start: Callable[[Connection], BaseProcess]) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = start(theirs)
        theirs.close()
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
    """Several processes on this machine, each on one thread.

    A worker that dies is replaced and its candidate given to another; a candidate that ends two workers, or takes
    longer than ``timeout``, is a failure with that reason. Workers leave by themselves when this process is gone.

    Args:
        measure: What to do; it is pickled to processes of our own.
        workers: How many processes.
        timeout: Seconds that one candidate may take; None for as long as it likes.
    """

    def __init__(self, measure: Measure, workers: int, *, timeout: float | None = None) -> None:
        if workers < 1:
            raise InputError(f"workers={workers} was given; expected at least 1")
        if timeout is not None and not timeout > 0:
            raise InputError(f"timeout={timeout} was given; expected seconds above 0, or None")
        self._measure, self._timeout = measure, timeout
        self._context = multiprocessing.get_context("spawn")
        self._require_portable()
        self._attempts: dict[int, int] = {}
        self._done: deque[tuple[int, Outcome]] = deque()
        self._start_failures = 0
        self._workers = [self._start() for _ in range(workers)]

    @property
    def slots(self) -> int:
        """One candidate per worker."""
        return len(self._workers)

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return [worker.process.pid for worker in self._workers if worker.process.pid is not None]

    def submit(self, ticket: int, proposal: Proposal) -> None:
        """Give it to an idle worker."""
        idle = next((worker for worker in self._workers if worker.job is None), None)
        if idle is None:
            raise RuntimeError(f"all {self.slots} workers are busy: wait for an outcome before submitting more")
        idle.give(ticket, proposal)

    def next(self) -> tuple[int, Outcome]:
        """Wait for whichever comes first; the dead are replaced on the way."""
        while not self._done:
            watched: dict[Any, _Worker] = {}
            for worker in self._workers:
                watched[worker.pipe] = watched[worker.process.sentinel] = worker
            ready = multiprocessing.connection.wait(list(watched), self._patience())
            for worker in dict.fromkeys(watched[each] for each in ready):
                self._hear(worker)
            self._end_overdue()
        return self._done.popleft()

    def close(self, *, now: bool = False) -> None:
        """End the workers and wait for them."""
        for worker in self._workers:
            worker.end(now=now or worker.job is not None)
        self._workers = []
        self._measure.close()

    def _require_portable(self) -> None:
        try:
            ForkingPickler.dumps(self._measure)
        except TrainlessError:
            raise
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"what is to be measured cannot be sent to other processes ({error}): define spaces and functions in a"
                " module, or use workers=1"
            ) from error

    def _start(self) -> _Worker:
        def start(pipe: Connection) -> BaseProcess:
            process = self._context.Process(target=serve, args=(pipe, self._measure), daemon=True)
            process.start()
            return process

        return _Worker(start)

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
        fresh = self._start()
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

    def _patience(self) -> float | None:
        """Seconds until the first worker is overdue."""
        if self._timeout is None:
            return None
        started = [worker.since for worker in self._workers if worker.ready and worker.job is not None]
        return max(0.0, min(started) + self._timeout - time.monotonic()) if started else None

    def _end_overdue(self) -> None:
        if self._timeout is None:
            return
        for worker in list(self._workers):
            if worker.ready and worker.job is not None and time.monotonic() - worker.since >= self._timeout:
                self._replace(worker, f"it took longer than {self._timeout:g} s", attempts=1)


def serve(pipe: Connection, measure: Measure) -> None:
    """A worker's life: say that it is ready, then measure what comes until nothing does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides
    torch.set_num_threads(1)
    keep_warm()
    pipe.send((None, None))
    while True:
        try:
            job = pipe.recv()
        except (EOFError, ConnectionResetError):
            break
        if job is None:
            break
        ticket, proposal = job
        try:
            answer: Outcome | str = guarded(measure, proposal)
        except TrainlessError as error:
            answer = str(error)
        try:
            pipe.send((ticket, answer))
        except (BrokenPipeError, ConnectionResetError):
            break
    measure.close()


def _mapped(array: np.memmap[Any, Any]) -> tuple[Any, ...]:
    """A memory-mapped file goes to another process by its name, not by its content."""
    whole = isinstance(array.base, mmap.mmap)
    if whole and array.filename is not None and os.path.exists(array.filename) and array.flags.c_contiguous:
        return np.memmap, (str(array.filename), array.dtype, "r", array.offset, array.shape)
    return np.array, (np.asarray(array),)


ForkingPickler.register(np.memmap, _mapped)
