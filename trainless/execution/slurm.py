"""SLURM: workers in allocations of a cluster, which take jobs from a folder that all machines see.

Allocations are one job array, asked for by submitit and requeued when they are preempted or when their time is over.
A job waits in the folder until a node takes it, so an allocation that has to queue holds nobody up, and what a lost
node had is given to another. The coordinator runs where the command was given, such as on a login node.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from trainless.core.errors import InputError
from trainless.core.processes import Wait
from trainless.core.text import message, one_line
from trainless.execution.allocation import Allocation
from trainless.execution.executor import Execution, Job, P, R, Work
from trainless.execution.node import NodeWork
from trainless.execution.pool import Pool, Reply, Worker
from trainless.execution.queue import TAKEN, Name, Queue
from trainless.execution.slurm_options import SlurmOptions, slurm_options
from trainless.execution.worker import pack

SILENCE_SECONDS = 60.0  # of a node, after which it counts as lost
ALONE_SECONDS = 120.0  # of a node without a coordinator, after which it ends
FIRST_CHECK, LONGEST_CHECK = 2.0, 30.0  # seconds between two questions to the scheduler
FAREWELL_SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.1
GOING = (
    *("READY", "PENDING", "RUNNING", "UNKNOWN", "REQUEUE", "COMPLETING", "PREEMPTED", "CONFIGURING", "RESIZING"),
    *("SUSPENDED", "SIGNALING", "STOPPED"),
)
PREEMPTED_CHECKS = 4  # after which an allocation that was preempted was not requeued
LOSSES = 5  # of nodes with the same job, after which the job is given up
FAILED_STARTS = 3
PATIENCE_SECONDS = 15.0  # after which the cluster's queue is said to be waited for
REQUEUES = 1000
log = logging.getLogger("trainless.execution")
_attempt = count(1)


class Slot(Worker[P]):
    """A job under way: waiting in the folder, or with some node; ready once one has taken it."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self._queue = queue
        self.name: Name | None = None

    def send(self, job: Job[P]) -> None:
        self.ready, self.name = False, Name(job.id, next(_attempt))
        self._queue.put(self.name, job.payload)

    def end(self, *, now: bool) -> None:
        if self.name is not None:
            self._queue.retract(self.name)


class Slurm(Pool[Slot[P], P, R]):
    """Workers in SLURM's allocations; ``address`` says what is asked for (:class:`SlurmOptions`)."""

    takes_address = True
    limits_memory = True
    hint = "use --executor local to see why"

    def __init__(self, work: Work[P, R], execution: Execution) -> None:
        self._limits = execution  # kept by the nodes
        self._beats: dict[str, tuple[int, float]] = {}
        self._checked, self._every = time.monotonic(), FIRST_CHECK
        self._pause = FIRST_PAUSE
        self._preempted: Counter[str] = Counter()
        self._quiet = True  # nobody was told that the cluster takes its time
        super().__init__(work, replace(execution, timeout=None, memory=None))

    @classmethod
    def spans_machines(cls, address: str) -> bool:
        return True

    def _open(self, resources: ExitStack) -> Sequence[int | None]:
        options = slurm_options(self._execution.address)
        self._per_node = min(options.cpus, self._limits.workers)
        self._queue = Queue.made(Path(options.folder).expanduser())
        resources.callback(self._queue.remove)
        limits = replace(self._limits, executor="local", workers=self._per_node, address="")
        digest = self._queue.offer(NodeWork(pack(self._work), limits, os.getcwd(), ALONE_SECONDS))
        resources.enter_context(self._queue.beating())
        self._command, self._remote = Allocation((str(self._queue.folder), digest)), options.cluster == "slurm"
        self._executor = _submitter(options, self._queue.folder / "submitit", self._limits.gpu)
        self._allocations: list[Any] = []
        self._began = time.monotonic()
        resources.callback(self._leave)
        self._allocate(math.ceil(self._limits.workers / self._per_node))
        return [None] * self._execution.workers

    def _start(self, place: int | None) -> Slot[P]:
        return Slot(self._queue)

    def _look(self, until: float | None) -> None:
        """Take in answers, which jobs were taken, and which nodes are lost; wait a little where nothing is new."""
        news = self._hear()
        self._watch_nodes()
        if time.monotonic() - self._checked > self._every:
            self._every = min(2 * self._every, LONGEST_CHECK)
            self._watch_allocations()
        self._pause = FIRST_PAUSE if news else min(2 * self._pause, LONGEST_PAUSE)
        if not news:
            time.sleep(min(self._pause, self._patience(until, self._pause) or 0.0))

    def _hear(self) -> bool:
        slots = {slot.name: slot for slot in self._workers if slot.name is not None and slot.job is not None}
        news = False
        for name, answer in self._queue.answers():
            news, slot = True, slots.get(Name(name.id, name.attempt))
            if slot is None:
                log.warning("a node answered a job that was given to another: the answer was refused")
                continue
            if not slot.ready:
                self._take(slot, Reply(None))
            self._take(slot, answer)
        return news

    def _watch_nodes(self) -> None:
        """See which jobs were taken; give those of a lost node to another."""
        taken, there = self._queue.names(TAKEN), self._queue.nodes()
        now = time.monotonic()
        self._beats = {
            node: seen if (seen := self._beats.get(node)) and seen[0] == beat else (beat, now)
            for node, beat in there.items()
        }
        if there:
            self._quiet = False
        elif self._quiet and now - self._began > PATIENCE_SECONDS:
            log.warning(
                "waiting for SLURM to begin %d jobs; the same command goes on after Ctrl-C", len(self._allocations)
            )
            self._quiet = False
        for node, (_, since) in self._beats.items():
            if now - since > SILENCE_SECONDS:
                self._queue.forget(node)
                del there[node]
        slots = {slot.name: slot for slot in self._workers if slot.name is not None and slot.job is not None}
        for name in taken:
            slot = slots.get(Name(name.id, name.attempt))
            if slot is None:
                continue
            if not slot.ready:
                self._take(slot, Reply(None))
            if name.node not in there:
                self._replace(slot, "its node was lost", attempts=LOSSES)

    def _allocate(self, number: int) -> None:
        submitit = _submitit()
        try:
            if number == 1:
                self._allocations.append(self._executor.submit(self._command, 0))
            else:
                self._allocations += self._executor.map_array(self._command, range(number))
        except (OSError, submitit.core.utils.FailedSubmissionError, ValueError) as error:
            raise InputError(f"SLURM took no job ({one_line(error)}): check the options in --address") from error
        self._checked, self._every = time.monotonic(), FIRST_CHECK

    def _watch_allocations(self) -> None:
        """Ask again for allocations that have ended for good.

        Raises:
            InputError: They end before a node begins, again and again, or somebody has cancelled them all.
        """
        self._checked = time.monotonic()
        states = self._states()
        ended = [job for job in self._allocations if not states[job.job_id].startswith(GOING)]
        if not ended:
            return
        self._allocations = [job for job in self._allocations if job not in ended]
        lost = [job for job in ended if not states[job.job_id].startswith("CANCELLED")]
        if not self._allocations and not lost:
            raise InputError("the SLURM jobs were cancelled: the same command goes on")
        self._start_failures += not self._queue.nodes()  # until a node has taken a job
        if self._start_failures >= FAILED_STARTS:
            raise InputError(f"nodes cannot start ({_last_words(lost or ended)}); {self.hint}")
        if lost:
            log.warning(
                "%d of the SLURM jobs have ended (%s): asking for them again", len(lost), states[lost[0].job_id]
            )
            self._allocate(len(lost))

    def _states(self) -> dict[str, str]:
        """What the scheduler says of every allocation, by one question to it."""
        if not self._remote:
            return {job.job_id: str(job.state) for job in self._allocations}
        for job in self._allocations[:1]:
            job.watcher.update()
        states = {job.job_id: str(job.watcher.get_state(job.job_id, mode="cache")) for job in self._allocations}
        for job, state in states.items():
            self._preempted[job] = self._preempted[job] + 1 if state.startswith("PREEMPTED") else 0
        return {job: "LOST" if self._preempted[job] >= PREEMPTED_CHECKS else state for job, state in states.items()}

    def _leave(self) -> None:
        """End all nodes, which see it by themselves, and what still waits in the scheduler's queue."""
        self._queue.stop()
        wait = Wait()
        with suppress(KeyboardInterrupt):  # then they are cancelled at once
            while wait.seconds < FAREWELL_SECONDS and (self._queue.nodes() or not (self._remote or self._all_done())):
                wait.pause(FIRST_PAUSE)
        for job in self._allocations:
            if self._remote or not job.done():
                job.cancel(check=False)

    def _all_done(self) -> bool:
        return all(job.done() for job in self._allocations)


def _submitter(options: SlurmOptions, folder: Path, gpu: bool) -> Any:
    submitit = _submitit()
    if options.cluster == "local":
        executor = submitit.LocalExecutor(folder, max_num_timeout=REQUEUES)
        executor.update_parameters(timeout_min=options.minutes)
        return executor
    try:
        executor = submitit.SlurmExecutor(folder, max_num_timeout=REQUEUES)
    except RuntimeError as error:
        raise InputError(
            "there is no SLURM here: give the command where sbatch and srun are, or try it with --address cluster=local"
        ) from error
    asked = {
        "partition": options.partition,
        "account": options.account,
        "mem": options.memory,
        "gpus_per_node": options.gpus or int(gpu),
        "setup": list(options.setup),
    }
    executor.update_parameters(
        **{name: value for name, value in asked.items() if value},
        job_name="trainless",
        time=options.minutes,
        cpus_per_task=options.cpus,
        additional_parameters={"requeue": True, **options.sbatch},
    )
    return executor


def _last_words(jobs: Sequence[Any]) -> str:
    """The last line that a job has written, which says why it ended."""
    for job in jobs:
        with suppress(OSError):
            lines = [line for line in job.paths.stderr.read_text(errors="replace").splitlines() if line.strip()]
            if lines:
                return message(lines[-1])[:400]
    return "they end at once and say nothing"


def _submitit() -> Any:
    logging.getLogger("submitit").setLevel(logging.ERROR)  # it would warn of every question that is not answered
    try:
        import submitit
    except ImportError:
        raise InputError("--executor slurm needs submitit: pip install 'trainless[slurm]'") from None
    return submitit
