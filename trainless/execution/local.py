"""Worker processes on this machine."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from trainless.core.processes import began_at, interrupts_later, kill_group
from trainless.execution import fork_server, limits
from trainless.execution.executor import Job, P, R
from trainless.execution.messages import Inbox
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
        self.began = began_at(self.process.pid or 0)
        theirs.close()
        self.inbox = Inbox(self.pipe)
        self.cut = 0.0  # when its end of the pipe was closed, by ``time.monotonic()``

    @property
    def answered(self) -> bool:
        return not self.cut and self.inbox.on_its_way

    def send(self, job: Job[P] | None) -> None:
        try:
            self.pipe.send(job)
        except (BrokenPipeError, ConnectionResetError):
            return  # it has died: found by its sentinel, and the job goes to another

    def end(self, *, now: bool) -> None:
        with interrupts_later():  # a process that is stopped and not killed would be waited for without end
            if self.pipe.closed:
                return
            if not now:
                self.send(None)
                self.process.join(FAREWELL_SECONDS)
            kill_group(self.process, self.began)
            fork_server.wake()  # it says that the process has ended
            self.process.join()
            self.process.close()
            self.pipe.close()


class Processes(Pool[Process[P], P, R]):
    """Several processes on this machine, each on one thread and, with one for every core, on a core of its own.

    What a job has started ends with its worker, and workers are ended by the system when this process is gone. What
    they print is passed on line by line. On a GPU they share it by NVIDIA's multi-process service where that is there.
    """

    limits_memory = True

    def _open(self, resources: ExitStack) -> Sequence[int | None]:
        execution = self._execution
        self._packed = pack(self._work)
        self._context = fork_server.context(execution.gpu, type(self._work).__module__)
        self.shared = resources.enter_context(fork_server.shared_gpu(execution.gpu and execution.workers > 1))
        if execution.gpu:
            resources.enter_context(fork_server.environment(GPU_MEMORY))
        self._output = resources.enter_context(closing(WorkerOutput()))
        return [None] * execution.workers if execution.gpu else cores(execution.workers)

    @property
    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers if worker.process.pid is not None]

    def _start(self, place: int | None) -> Process[P]:
        def start(pipe: Connection) -> BaseProcess:
            confined = None if self._execution.gpu else self._execution.memory
            arguments = (pipe, self._output.entry, self._packed, place, confined, dict(os.environ))
            process = self._context.Process(target=serve, args=arguments, daemon=True)
            fork_server.start(process)
            return process

        return Process(start, place)

    def _look(self, until: float | None) -> None:
        watched: dict[Any, Process[P]] = {worker.process.sentinel: worker for worker in self._workers}
        watched |= {worker.pipe: worker for worker in self._workers if not worker.cut}
        weighed = self._execution.memory is not None and bool(self._busy)
        often = WATCH_SECONDS if weighed else FAREWELL_SECONDS if len(watched) < 2 * self.slots else None
        ready = multiprocessing.connection.wait(list(watched), self._patience(until, often))
        for worker in dict.fromkeys(watched[each] for each in ready):
            self._hear(worker)
        for worker in [worker for worker in self._workers if worker.cut]:
            if time.monotonic() - worker.cut >= FAREWELL_SECONDS:
                self._replace(worker, "it closed its worker's connection")
        self._end_oversized()

    def _answered(self, worker: Process[P]) -> bool:
        return worker.answered

    def _hear(self, worker: Process[P]) -> None:
        """Take in an answer or a death; one that can answer no more has a moment left to die by itself."""
        if worker.cut or not worker.pipe.poll():
            if not worker.process.is_alive():
                self._replace(worker, f"the worker process died (exit code {worker.process.exitcode})")
            return
        try:
            answers = worker.inbox.take()
        except (EOFError, ConnectionResetError):
            worker.cut = time.monotonic()
            return
        for answer in answers:
            if worker in self._workers:  # not replaced for what it said before
                self._take(worker, answer)

    def _end_oversized(self) -> None:
        """Replace the workers whose jobs take too much memory."""
        memory = self._execution.memory
        for worker in self._busy if memory is not None else []:
            if not worker.answered and limits.in_use(worker.process.pid or 0) > (memory or 0):
                self._replace(worker, limits.words(memory or 0), attempts=1)
