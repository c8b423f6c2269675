"""A Ray cluster: started here, or one that is there already.

Each worker is a Ray actor, placed by Ray on one core and, with a GPU, on an equal share of one. What it measures brings
the text of the user's own files along; to a cluster that is there already this package goes too, as Ray's runtime
environment, so that all machines run the same code. Workers that Ray loses, with their machine or alone, are replaced
and their candidates given to others. Scores are kept where the workers are: on several machines the store has to be a
PostgreSQL database, or the run folder on a file system that they share. What workers print stays in Ray's own logs.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainless.core.arch import Proposal
from trainless.core.errors import InputError
from trainless.core.text import one_line
from trainless.execution.engine import Engine
from trainless.execution.pool import Crew
from trainless.execution.worker import Luggage, answer, pack, settle
from trainless.scoring.measures import Measure, Outcome

PATIENCE_SECONDS = 1.0
CONNECT_SECONDS = 5.0
PACKAGE = Path(__file__).resolve().parents[1]


class Remote:
    """What Ray makes an actor of."""

    def __init__(self, luggage: Luggage, memory: int | None) -> None:
        self._luggage, self._memory = luggage, memory
        self._measure: Measure | None = None

    def begin(self) -> str:
        """Unpack; what is wrong, or nothing."""
        from trainless.core.errors import TrainlessError

        try:
            self._measure = self._luggage.unpack()
            settle(None, self._memory)
        except TrainlessError as error:
            return str(error)
        return ""

    def measured(self, proposal: Proposal) -> Outcome | str:
        """The outcome, or what the user did wrong."""
        if self._measure is None:
            return self.begin() or self.measured(proposal)
        return answer(self._measure, proposal, self._memory)


class _Hand:
    """An actor, its present call, and since when."""

    def __init__(self, actor: Any, kill: Callable[[Any], None]) -> None:
        self.actor, self._kill = actor, kill
        self.call: Any = actor.begin.remote()
        self.ready = False
        self.job: tuple[int, Proposal] | None = None
        self.since = time.monotonic()

    def give(self, ticket: int, proposal: Proposal) -> None:
        self.job = (ticket, proposal)
        if self.ready:
            self.go()

    def go(self) -> None:
        if self.job is not None:
            self.since, self.call = time.monotonic(), self.actor.measured.remote(self.job[1])

    def end(self, *, now: bool) -> None:
        self._kill(self.actor)


class Cluster:
    """Workers on a Ray cluster; see the module's text.

    Args:
        measure: What to do.
        engine: How many workers, their limits, and the cluster's address.
    """

    def __init__(self, measure: Measure, engine: Engine) -> None:
        self._measure, self._engine = measure, engine
        self._ray = _ray()
        self._luggage = pack(measure, self._ray.cloudpickle.dumps)
        self._crew = Crew(measure, engine, lambda lost: self._start(), "use --engine local to see why")
        self._ours = not self._ray.is_initialized()
        if self._ours:
            self._connect()
        try:
            self._options = self._shares()
            self._held = self._ray.put(self._luggage)
            self._crew.workers += [self._start() for _ in range(engine.workers)]
        except BaseException:
            self._leave()
            raise

    @property
    def slots(self) -> int:
        """One candidate per worker."""
        return len(self._crew.workers)

    def submit(self, ticket: int, proposal: Proposal) -> None:
        """Give it to an idle worker, one that is ready if there is any."""
        self._crew.submit(ticket, proposal)

    def poll(self, seconds: float | None = None) -> bool:
        """Wait for whichever comes first; the lost are replaced on the way."""
        return self._crew.poll(seconds, self._look)

    def next(self) -> tuple[int, Outcome]:
        """Wait for whichever comes first."""
        self.poll()
        return self._crew.done.popleft()

    def close(self, *, now: bool = False) -> None:
        """End the workers, and the cluster where it was started here."""
        self._crew.end(now=now)
        self._leave()
        self._measure.close()

    def _connect(self) -> None:
        engine = self._engine
        where: dict[str, Any] = {
            "num_cpus": engine.workers,
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",  # nobody else's
        }
        if engine.address:
            require_answer(engine.address)
            where = {"address": engine.address, "runtime_env": {"py_modules": [str(PACKAGE)]}}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._ray.init(**where, log_to_driver=False, logging_level=logging.ERROR, namespace="trainless")
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InputError(
                f"the Ray cluster {engine.address or 'on this machine'} cannot be reached ({one_line(error)}): check"
                " --address, or leave it out to start one here"
            ) from error

    def _leave(self) -> None:
        if self._ours:
            self._ray.shutdown()

    def _shares(self) -> dict[str, Any]:
        """What Ray gives each worker."""
        options: dict[str, Any] = {"num_cpus": 1, "max_restarts": 0}
        there = self._ray.cluster_resources()
        if self._engine.gpu:
            gpus = there.get("GPU", 0.0)
            if not gpus:
                raise InputError("device 'cuda' was asked for, but the Ray cluster has no GPU: use --device cpu")
            options["num_gpus"] = _share(gpus, self._engine.workers)
        if there.get("CPU", 0.0) < self._engine.workers:
            options["num_cpus"] = _share(there.get("CPU", 0.0) or 1.0, self._engine.workers)
        return options

    def _start(self) -> _Hand:
        confined = None if self._engine.gpu else self._engine.memory
        remote = self._ray.remote(Remote).options(**self._options)
        return _Hand(remote.remote(self._held, confined), self._ray.kill)

    def _look(self, until: float | None) -> None:
        calls = {hand.call: hand for hand in self._crew.workers if hand.call is not None}
        if calls:
            patience = self._crew.patience(until, PATIENCE_SECONDS)
            ready, _ = self._ray.wait(list(calls), num_returns=1, timeout=patience)
            for call in ready:
                self._hear(calls[call])
        self._crew.end_overdue()

    def _hear(self, hand: _Hand) -> None:
        """Take in an outcome, or a loss."""
        call, hand.call = hand.call, None
        try:
            outcome = self._ray.get(call)
        except self._ray.exceptions.RayError as error:
            self._crew.replace(hand, _reason(error))
            return
        begun = hand.ready
        self._crew.take(hand, outcome)
        if not begun:
            hand.go()


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
        raise InputError("--engine ray needs Ray: pip install 'trainless[ray]'")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would send figures about this machine away
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # it would write about lost workers among our own output
    os.environ.setdefault("RAY_process_group_cleanup_enabled", "1")  # what a candidate started ends with its worker
    import ray

    return ray
