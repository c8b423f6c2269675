"""A Ray cluster: started here, or one that is there already.

Each worker is a Ray actor, placed by Ray on one core and, with a GPU, on an equal share of one. Its work brings
the text of the user's own files along; to a cluster that is there already this package goes too, as Ray's runtime
environment, so that all machines run the same code. Workers that Ray loses, with their machine or alone, are replaced
and their jobs given to others. Scores are kept where the workers are: on several machines the store has to be a
PostgreSQL database, or the run folder on a file system that they share. What workers print stays in Ray's own logs.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import socket
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from trainless.core.errors import InputError
from trainless.core.processes import Wait
from trainless.core.text import one_line
from trainless.execution.executor import Job, P, R
from trainless.execution.pool import Pool, Worker
from trainless.execution.worker import Packed, Performer, pack

PATIENCE_SECONDS = 1.0
CONNECT_SECONDS = 5.0
PACKAGE = Path(__file__).resolve().parents[1]


class RayPerformer(Performer):
    """A performer that ends with what started it, also where a job closed what Ray would tell it by."""

    def __init__(self, packed: Packed, memory: int | None = None) -> None:
        super().__init__(packed, memory)
        threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PATIENCE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


class Actor(Worker[P]):
    """A Ray actor, and the calls that it has not answered."""

    def __init__(self, actor: Any, kill: Callable[[Any], None]) -> None:
        super().__init__()
        self.actor, self._kill = actor, kill
        self.calls: deque[Any] = deque([actor.begin.remote()])

    def send(self, job: Job[P]) -> None:
        self.calls.append(self.actor.perform.remote(job))

    def end(self, *, now: bool) -> None:
        self._kill(self.actor)


class Cluster(Pool[Actor[P], P, R]):
    """Workers on a Ray cluster: that of an address, or one that is started on this machine."""

    takes_address = True
    limits_memory = True
    hint = "use --executor local to see why"

    @classmethod
    def spans_machines(cls, address: str) -> bool:
        return address not in ("", "local")

    def _open(self, resources: ExitStack) -> Sequence[int | None]:
        if self._execution.gpu and self._execution.memory is not None:
            raise InputError("a memory limit and a GPU were given, which ray cannot keep: leave one of them out")
        self._ray = _ray()
        packed = pack(self._work, self._ray.cloudpickle.dumps)
        if not self._ray.is_initialized():
            resources.callback(self._ray.shutdown)
            self._connect()
        self._options = self._shares()
        self._packed = self._ray.put(packed)
        return [None] * self._execution.workers

    def _connect(self) -> None:
        execution = self._execution
        where: dict[str, Any] = {
            "address": "local",  # one of our own, also where another runs on this machine
            "num_cpus": execution.workers,
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",  # nobody else's
        }
        if execution.address:
            require_answer(execution.address)
            where = {"address": execution.address, "runtime_env": {"py_modules": [str(PACKAGE)]}}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                where |= {"log_to_driver": False, "logging_level": logging.ERROR, "namespace": "trainless"}
                if execution.address:  # whoever is there may never say a word
                    Wait().result(lambda: self._ray.init(**where), lambda: None)
                else:  # what it starts ends with the thread that has started it
                    self._ray.init(**where)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InputError(
                f"the Ray cluster {execution.address or 'on this machine'} cannot be reached ({one_line(error)}): check"
                " --address, or leave it out to start one here"
            ) from error

    def _shares(self) -> dict[str, Any]:
        """The resources that Ray gives each worker."""
        options: dict[str, Any] = {"num_cpus": 1, "max_restarts": 0}
        there = self._ray.cluster_resources()
        if self._execution.gpu:
            gpus = there.get("GPU", 0.0)
            if not gpus:
                raise InputError("device 'cuda' was asked for, but the Ray cluster has no GPU: use --device cpu")
            options["num_gpus"] = _share(gpus, self._execution.workers)
        if there.get("CPU", 0.0) < self._execution.workers:
            options["num_cpus"] = _share(there.get("CPU", 0.0) or 1.0, self._execution.workers)
        return options

    def _start(self, place: int | None) -> Actor[P]:
        remote = self._ray.remote(RayPerformer).options(**self._options)
        return Actor(remote.remote(self._packed, self._execution.memory), self._ray.kill)

    def _look(self, until: float | None) -> None:
        waiting = {worker.calls[0]: worker for worker in self._workers if worker.calls}
        if not waiting:
            return
        patience = self._patience(until, PATIENCE_SECONDS)
        ready, _ = self._ray.wait(list(waiting), num_returns=1, timeout=patience)
        for call in ready:
            worker = waiting[call]
            try:
                answer = self._ray.get(worker.calls.popleft())
            except self._ray.exceptions.RayError as error:
                self._replace(worker, _reason(error))
            else:
                self._take(worker, answer)


def require_answer(address: str) -> None:
    """Ray itself tries for minutes before it says that nobody is there."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # "auto" and "local" are Ray's own words
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"no Ray cluster answers at {address} ({one_line(error)}): check --address, or leave it out to start one"
        ) from None


def _share(there: float, workers: int) -> float:
    """An equal share, in the ten-thousandths that Ray counts; whole units where there is one for each."""
    return float(there // workers) if there >= workers else int(10_000 * there / workers) / 10_000


def _reason(error: Exception) -> str:
    """Why a worker was lost, without the names and numbers that differ from time to time."""
    said = str(error)
    if "out of memory" in said.lower() or "OutOfMemory" in type(error).__name__:
        return "the worker process was ended because the machine ran out of memory"
    if "node" in said.lower() and "died" in said.lower() and "worker" not in said.lower():
        return "the worker's machine was lost"
    return "the worker process died"


def _ray() -> Any:
    if importlib.util.find_spec("ray") is None:
        raise InputError("--executor ray needs Ray: pip install 'trainless[ray]'")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would send figures about this machine away
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # it would write about lost workers among our own output
    os.environ.setdefault("RAY_process_group_cleanup_enabled", "1")  # what a job started ends with its worker
    import ray

    return ray
