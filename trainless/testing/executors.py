"""The contract of an executor, as a check that anyone can run on theirs."""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from trainless.core.errors import InputError
from trainless.execution import registry
from trainless.execution.executor import Execution, Job, pool_for
from trainless.execution.pool import Pool

LONG = 60.0  # seconds that a job takes which is to be ended
SHORT = 1.0  # seconds of one that nobody can end
PART = 64 * 2**20  # bytes that a greedy job takes at a time
Order = tuple[str, float]


@dataclass(frozen=True)
class Orders:
    """Work that does as it is told: double a number, fail, leave, wait, or take memory."""

    def __call__(self, order: Order) -> str:
        what, number = order
        if what == "double":
            return f"{2 * number:g} with {torch.get_num_threads()} thread"
        if what == "fail":
            raise ValueError(f"no {number:g}")
        if what == "mistake":
            raise InputError(f"{number:g} was given; expected another")
        if what == "leave":
            os._exit(3)
        if what == "wait":
            time.sleep(number)
            return "waited"
        held = [np.ones(PART, np.uint8) for _ in range(int(number / PART) + 1)]
        return f"took {len(held)} parts"

    def failed(self, reason: str) -> str:
        return f"failed: {reason}"

    def close(self) -> None:
        pass


def check_executor(name: str, *, workers: int = 2, address: str = "", memory: int = 4 * 2**30) -> None:
    """Assert everything that searches, sweeps and designs rely on; the first broken promise is an AssertionError.

    Every result comes back once and under its own job, whatever the number of workers; each job runs on one thread; a
    job that fails or ends its process is a failure of that job alone; a user's mistake ends everything with its own
    words; no more jobs than slots are taken; limits of time and memory are kept, or refused by those who cannot keep
    them; and closing, also in the middle of a job, takes no longer than a moment.

    Args:
        name: The registered name of the executor.
        workers: How many workers to try it with.
        address: Where it is, for one that takes an address.
        memory: Bytes that a worker may take, more than it needs before it has done anything.
    """
    execution = Execution(name, workers, address=address)
    for number in {1, workers}:
        _check_results(replace(execution, workers=number))
    _check_failures(execution)
    _check_mistake(execution)
    _check_close(execution)
    _check_time(execution)
    _check_memory(execution, memory)


def _pool(execution: Execution) -> Pool[Any, Order, str]:
    return pool_for(Orders(), execution)


def _all(pool: Pool[Any, Order, str], orders: list[Order]) -> dict[Order, str]:
    """Have everything done, never more at a time than there are slots."""
    waiting, given, found = [Job(order) for order in orders], dict[int, Job[Order]](), dict[Order, str]()
    while waiting or given:
        while waiting and len(given) < pool.slots:
            job = waiting.pop()
            pool.submit(job)
            given[job.id] = job
        job, result = pool.next()
        assert given.pop(job.id, None) == job, f"a result came back under {job}, which was not at work"
        found[job.payload] = result
    return found


def _check_results(execution: Execution) -> None:
    orders: list[Order] = [("double", number) for number in range(12)]
    with closing(_pool(execution)) as pool:
        assert pool.slots == execution.workers, f"{execution.workers} workers were asked for; it has {pool.slots} slots"
        assert not pool.poll(0.0), "a result was there before anything was submitted"
        found = _all(pool, orders)
        assert not pool.poll(0.0), "a result was there after all had come"
    for order, said in found.items():
        expected = f"{2 * order[1]:g} with 1 thread"
        assert said == expected, f"{order} came to {said!r} with {execution.workers} workers; expected {expected!r}"


def _check_failures(execution: Execution) -> None:
    with closing(_pool(execution)) as pool:
        found = _all(pool, [("double", 1), ("fail", 2), ("leave", 0), ("double", 3), ("fail", 4)])
    assert found["fail", 2] == "failed: ValueError: no 2", f"a failed job came to {found['fail', 2]!r}"
    assert found["fail", 4] == "failed: ValueError: no 4", f"a failed job came to {found['fail', 4]!r}"
    said = found["leave", 0]
    assert said.startswith("failed: "), f"a job that ended its process came to {said!r}; expected a failure"
    for number in (1, 3):
        said = found["double", number]
        assert said == f"{2 * number} with 1 thread", f"a job beside failed ones came to {said!r}"


def _check_mistake(execution: Execution) -> None:
    with closing(_pool(execution)) as pool:
        pool.submit(Job(("mistake", 5)))
        try:
            said = str(pool.next())
        except InputError as error:
            if "5 was given; expected another" in str(error):
                return
            said = str(error)
    raise AssertionError(f"a user's mistake came back as {said}; expected an InputError in its own words")


def _check_close(execution: Execution) -> None:
    pool = _pool(execution)
    pool.submit(Job(("wait", LONG if registry[execution.executor].limits_time else SHORT)))
    try:
        for _ in range(pool.slots):
            pool.submit(Job(("double", 1)))
    except RuntimeError:
        pass
    else:
        raise AssertionError(f"more jobs than its {pool.slots} slots were taken")
    began = time.monotonic()
    pool.close(now=True)
    took = time.monotonic() - began
    assert took < LONG / 2, f"closing it now took {took:.0f} s; expected that nothing is waited for"


def _check_time(execution: Execution) -> None:
    if not registry[execution.executor].limits_time:
        _refused(execution, "a time limit", timeout=1.0)
        return
    with closing(_pool(replace(execution, timeout=1.0))) as pool:
        found = _all(pool, [("wait", LONG), ("double", 1)])
    said = found["wait", LONG]
    assert said == "failed: it took longer than 1 s", f"a job that took too long came to {said!r}"
    assert found["double", 1] == "2 with 1 thread", f"a job beside it came to {found['double', 1]!r}"


def _check_memory(execution: Execution, memory: int) -> None:
    if not registry[execution.executor].limits_memory:
        _refused(execution, "a memory limit", memory=memory)
        return
    with closing(_pool(replace(execution, memory=memory))) as pool:
        found = _all(pool, [("take", memory), ("double", 1)])
    said = found["take", memory]
    assert said.startswith("failed: it needed more than"), f"a job that took too much memory came to {said!r}"
    assert found["double", 1] == "2 with 1 thread", f"a job beside it came to {found['double', 1]!r}"


def _refused(execution: Execution, what: str, **limit: Any) -> None:
    try:
        replace(execution, **limit)
    except InputError:
        return
    raise AssertionError(f"{what} was taken by {execution.executor}, which does not keep one")
