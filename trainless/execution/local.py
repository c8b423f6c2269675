"""Many processes on this machine: the one way in which candidates are measured outside of this process."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from trainless.core.arch import Proposal
from trainless.core.processes import kill_group
from trainless.execution import fork_server as nursery
from trainless.execution import limits
from trainless.execution.engine import Engine
from trainless.execution.gpu_sharing import shared_gpu
from trainless.execution.pool import Crew
from trainless.execution.worker import Outlet, cores, pack, serve
from trainless.scoring.measures import Measure, Outcome

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
        if not now:
            try:
                self.pipe.send(None)
                self.process.join(FAREWELL_SECONDS)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has died
        kill_group(self.process)
        self.process.join()
        self.pipe.close()
        self.process.close()


class Processes:
    """Several processes on this machine, each on one thread and, with one for every core, on a core of its own.

    A worker that dies is replaced and its candidate given to another; a candidate that ends two workers, takes longer
    than the timeout or more memory than the limit is a failure with that reason. What a candidate has started ends with
    its worker, and workers are ended by the system when this process is gone. What they print is passed on line by
    line. On a GPU they share it by NVIDIA's multi-process service where that is there.

    Args:
        measure: What to do; it is pickled to processes of our own, with the user's files that were named.
        engine: How many, and their limits.
    """

    def __init__(self, measure: Measure, engine: Engine) -> None:
        self._measure, self._engine = measure, engine
        self._luggage = pack(measure)
        self._context = nursery.context(engine.gpu)
        self._crew = Crew(measure, engine, lambda lost: self._start(lost.core), "use workers=1 to see why")
        with ExitStack() as stack:
            self.shared = stack.enter_context(shared_gpu(engine.gpu and engine.workers > 1))
            if engine.gpu:
                stack.enter_context(nursery.environment(GPU_MEMORY))
            self._outlet = stack.enter_context(closing(Outlet()))
            places = [None] * engine.workers if engine.gpu else cores(engine.workers)
            stack.callback(self._crew.end, now=True)
            for core in places:
                self._crew.workers.append(self._start(core))
            self._stack = stack.pop_all()

    @property
    def slots(self) -> int:
        """One candidate per worker."""
        return len(self._crew.workers)

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return [worker.process.pid for worker in self._crew.workers if worker.process.pid is not None]

    @property
    def ready(self) -> bool:
        """Whether any worker has begun its work."""
        return any(worker.ready for worker in self._crew.workers)

    def submit(self, ticket: int, proposal: Proposal) -> None:
        """Give it to an idle worker, one that is ready if there is any."""
        self._crew.submit(ticket, proposal)

    def poll(self, seconds: float | None = None) -> bool:
        """Wait for whichever comes first; the dead are replaced on the way."""
        return self._crew.poll(seconds, self._look)

    def next(self) -> tuple[int, Outcome]:
        """Wait for whichever comes first."""
        self.poll()
        return self._crew.done.popleft()

    def close(self, *, now: bool = False) -> None:
        """End the workers and wait for them."""
        self._crew.end(now=now)
        self._stack.close()
        self._measure.close()

    def _start(self, core: int | None) -> _Worker:
        def start(pipe: Connection) -> BaseProcess:
            confined = None if self._engine.gpu else self._engine.memory
            arguments = (pipe, self._outlet.entry, self._luggage, core, confined, dict(os.environ))
            process = self._context.Process(target=serve, args=arguments, daemon=True)
            with nursery.undisturbed():
                process.start()
            return process

        return _Worker(start, core)

    def _look(self, until: float | None) -> None:
        crew, watched = self._crew, dict[Any, _Worker]()
        for worker in crew.workers:
            watched[worker.pipe] = watched[worker.process.sentinel] = worker
        weighed = self._engine.memory is not None and bool(crew.busy)
        patience = crew.patience(until, WATCH_SECONDS if weighed else None)
        ready = multiprocessing.connection.wait(list(watched), patience)
        for worker in dict.fromkeys(watched[each] for each in ready):
            self._hear(worker)
        crew.end_overdue(spared=lambda worker: worker.pipe.poll())
        self._end_oversized()

    def _hear(self, worker: _Worker) -> None:
        """Take in a message, or a death."""
        try:
            if not worker.pipe.poll():
                if not worker.process.is_alive():
                    self._lose(worker)
                return
            _, outcome = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            worker.process.join()
            self._lose(worker)
            return
        self._crew.take(worker, outcome)

    def _lose(self, worker: _Worker) -> None:
        self._crew.replace(worker, f"the worker process died (exit code {worker.process.exitcode})")

    def _end_oversized(self) -> None:
        """Replace the workers whose candidates take too much memory."""
        memory = self._engine.memory
        for worker in self._crew.busy if memory is not None else []:
            if not worker.pipe.poll() and limits.in_use(worker.process.pid or 0) > (memory or 0):
                self._crew.replace(worker, limits.words(memory or 0), attempts=1)
