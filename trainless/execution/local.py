"""Worker processes on this machine."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from trainless.core.processes import kill_group
from trainless.execution import fork_server, limits
from trainless.execution.engine import Job, P, R
from trainless.execution.gpu_sharing import shared_gpu
from trainless.execution.pool import Pool, Worker
from trainless.execution.worker import WorkerOutput, cores, pack, serve

FAREWELL_SECONDS = 5.0
WATCH_SECONDS = 0.05  # between two looks at the workers' memory
GPU_MEMORY = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


class Process(Worker[P]):
    """One process, and the pipe to it."""

    def __init__(self, start: Callable[[Connection], BaseProcess], core: int | None) -> None:
        super().__init__(core)
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = start(theirs)
        theirs.close()

    def send(self, job: Job[P] | None) -> None:
        try:
            self.pipe.send(job)
        except (BrokenPipeError, ConnectionResetError):
            return  # it has died: found by its sentinel, and the job goes to another

    def end(self, *, now: bool) -> None:
        if not now:
            self.send(None)
            self.process.join(FAREWELL_SECONDS)
        kill_group(self.process)
        self.process.join()
        self.pipe.close()
        self.process.close()


class Processes(Pool[Process[P], P, R]):
    """Several processes on this machine, each on one thread and, with one for every core, on a core of its own.

    What a job has started ends with its worker, and workers are ended by the system when this process is gone. What
    they print is passed on line by line. On a GPU they share it by NVIDIA's multi-process service where that is there.
    """

    def _open(self, resources: ExitStack) -> Sequence[int | None]:
        engine = self._engine
        self._packed = pack(self._work)
        self._context = fork_server.context(engine.gpu, type(self._work).__module__)
        self.shared = resources.enter_context(shared_gpu(engine.gpu and engine.workers > 1))
        if engine.gpu:
            resources.enter_context(fork_server.environment(GPU_MEMORY))
        self._output = resources.enter_context(closing(WorkerOutput()))
        return [None] * engine.workers if engine.gpu else cores(engine.workers)

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return [worker.process.pid for worker in self._workers if worker.process.pid is not None]

    def _start(self, place: int | None) -> Process[P]:
        def start(pipe: Connection) -> BaseProcess:
            confined = None if self._engine.gpu else self._engine.memory
            arguments = (pipe, self._output.entry, self._packed, place, confined, dict(os.environ))
            process = self._context.Process(target=serve, args=arguments, daemon=True)
            with fork_server.undisturbed():
                process.start()
            return process

        return Process(start, place)

    def _look(self, until: float | None) -> None:
        watched: dict[Any, Process[P]] = {}
        for worker in self._workers:
            watched[worker.pipe] = watched[worker.process.sentinel] = worker
        weighed = self._engine.memory is not None and bool(self._busy)
        patience = self._patience(until, WATCH_SECONDS if weighed else None)
        ready = multiprocessing.connection.wait(list(watched), patience)
        for worker in dict.fromkeys(watched[each] for each in ready):
            self._hear(worker)
        self._end_oversized()

    def _answered(self, worker: Process[P]) -> bool:
        return worker.pipe.poll()

    def _hear(self, worker: Process[P]) -> None:
        """Take in an answer, a death, or that it can answer no more."""
        try:
            answer = worker.pipe.recv() if worker.pipe.poll() else None
        except (EOFError, ConnectionResetError):
            worker.process.join(FAREWELL_SECONDS)
            if worker.process.is_alive():
                self._replace(worker, "it closed its worker's connection", attempts=1)
                return
            answer = None
        except Exception as error:
            answer = error  # it cannot be read: no answer of ours
        if answer is not None:
            self._take(worker, answer)
        elif not worker.process.is_alive():
            self._replace(worker, f"the worker process died (exit code {worker.process.exitcode})")

    def _end_oversized(self) -> None:
        """Replace the workers whose jobs take too much memory."""
        memory = self._engine.memory
        for worker in self._busy if memory is not None else []:
            if not worker.pipe.poll() and limits.in_use(worker.process.pid or 0) > (memory or 0):
                self._replace(worker, limits.words(memory or 0), attempts=1)
