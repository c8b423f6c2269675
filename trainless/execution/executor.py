"""Jobs, and the executors that run them: in this process, in several on this machine, or on a cluster.

An executor takes jobs and gives their results back as they come, in any order, each with the job that it is of. It
never has more than ``slots`` of them at a time: whoever submits keeps the rest, and so can stop at any moment. A job
that ends its process, takes too long or too much memory has a result that says so, and the work goes on.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from trainless.core.errors import InputError, TrainlessError
from trainless.core.processes import exit_refused, process_kept
from trainless.core.seeds import one_thread
from trainless.core.text import one_line
from trainless.execution import registry
from trainless.execution.limits import cool_down, explained

if TYPE_CHECKING:
    from trainless.execution.pool import Pool

P = TypeVar("P")
R = TypeVar("R")
P_contra = TypeVar("P_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
_next_id: Callable[[], int] = itertools.count(1).__next__


@dataclass(frozen=True)
class Job(Generic[P]):
    """Something to do, once; its result comes back under its id, which no other job of this process has."""

    payload: P
    id: int = field(default_factory=_next_id)


class Work(Protocol[P_contra, R_co]):
    """Does jobs: the same answer in any process, so it can be pickled."""

    def __call__(self, payload: P_contra, /) -> R_co:
        """Do a job; an exception is this job's failure, a ``TrainlessError`` ends everything."""

    def failed(self, reason: str) -> R_co:
        """The result of a job that could not be done."""

    def close(self) -> None: ...


class Executor(Protocol[P, R_co]):
    """Runs jobs; see the module's text."""

    @property
    def slots(self) -> int: ...

    def submit(self, job: Job[P]) -> None: ...

    def poll(self, seconds: float | None = None) -> bool:
        """Whether a result of what was submitted is there within so many seconds; None waits for one."""

    def next(self) -> tuple[Job[P], R_co]:
        """Wait for the next result of what was submitted, and say which job it is of."""

    def close(self, *, now: bool = False) -> None:
        """Let go of everything; ``now`` does not wait for what is being done."""


@dataclass(frozen=True)
class Execution:
    """Where and within which limits jobs are run.

    Args:
        executor: Its registered name, such as ``local`` for this machine.
        workers: How many workers; one without a limit on this machine is this process itself.
        timeout: Seconds that one job may take; None for as long as it likes.
        memory: Bytes that one worker may take; None for as much as there is.
        device: Where the networks are; several workers share a GPU.
        address: Of a cluster; empty starts one here. For SLURM what is asked of it.
    """

    executor: str = "local"
    workers: int = 1
    timeout: float | None = None
    memory: int | None = None
    device: str = "cpu"
    address: str = ""

    def __post_init__(self) -> None:
        chosen = registry[self.executor]
        if self.workers < 1:
            raise InputError(f"workers={self.workers} was given; expected at least 1")
        if self.timeout is not None and not self.timeout > 0:
            raise InputError(f"timeout={self.timeout:g} was given; expected seconds above 0, or None")
        if self.memory is not None and not self.memory > 0:
            raise InputError(f"a memory limit of {self.memory} was given; expected bytes above 0, or None")
        if self.timeout is not None and not chosen.limits_time:
            raise InputError(self._cannot(f"timeout={self.timeout:g}", "end a job that takes too long", "limits_time"))
        if self.memory is not None and not chosen.limits_memory:
            raise InputError(self._cannot(f"a memory limit of {self.memory}", "limit memory", "limits_memory"))
        if self.address and not chosen.takes_address:
            raise InputError(self._cannot(f"address={self.address!r}", "go to an address", "takes_address"))

    def _cannot(self, given: str, what: str, attribute: str) -> str:
        able = " or ".join(name for name in registry.names() if getattr(registry[name], attribute))
        return f"{given} was given, but the executor {self.executor} cannot {what}: leave it out, or use {able}"

    @property
    def spans_machines(self) -> bool:
        """Whether the workers may be on other machines than this process."""
        return registry[self.executor].spans_machines(self.address)

    @property
    def gpu(self) -> bool:
        return self.device.startswith("cuda")


def executor_for(work: Work[P, R], execution: Execution) -> Executor[P, R]:
    """Make the executor that is meant; one worker without limits on this machine is this process."""
    if execution == Execution(device=execution.device):
        return InProcess(work)
    return pool_for(work, execution)


def pool_for(work: Work[P, R], execution: Execution) -> Pool[Any, P, R]:
    """Make the pool of workers that is meant, apart from this process even where it is a single one."""
    return registry[execution.executor](work, execution)


def guarded(work: Work[P, R], payload: P) -> R:
    """Do a job; whatever goes wrong with this one is its failure, and this process stays as it was."""
    try:
        with process_kept():
            return work(payload)
    except (TrainlessError, KeyboardInterrupt):
        raise
    except BaseException as error:
        return work.failed(explained(one_line(error)))
    finally:
        cool_down()


def perform(work: Work[P, R], payload: P) -> R:
    """Do a job here, on one thread, so that a value does not depend on how many workers there are."""
    with one_thread(), exit_refused():
        return guarded(work, payload)


class InProcess(Generic[P, R]):
    """One job after the other, here; each is done when its result is asked for."""

    slots = 1

    def __init__(self, work: Work[P, R]) -> None:
        self._work = work
        self._waiting: deque[Job[P]] = deque()

    def submit(self, job: Job[P]) -> None:
        self._waiting.append(job)

    def poll(self, seconds: float | None = None) -> bool:
        return bool(self._waiting)

    def next(self) -> tuple[Job[P], R]:
        job = self._waiting.popleft()
        return job, perform(self._work, job.payload)

    def close(self, *, now: bool = False) -> None:
        self._work.close()
