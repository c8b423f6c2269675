"""A node of a cluster: does the jobs of a folder, as long as it is there and somebody waits for them.

    python -m trainless.execution.node FOLDER DIGEST ALLOCATION

It has a pool of processes of its own, which keeps the limits of time and memory and replaces what dies. Asked to leave
by SIGTERM, SIGUSR1 or SIGUSR2 it gives back what it has not done and ends with ``LEFT``. The allocation is what the
scheduler calls this place: whoever was here under that name before is gone.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainless.core.errors import TrainlessError
from trainless.execution import fork_server
from trainless.execution.allocation import LEFT
from trainless.execution.executor import Execution, Job, pool_for
from trainless.execution.pool import Pool, Reply
from trainless.execution.queue import Name, Queue
from trainless.execution.worker import Packed

FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.1
SLOW_SECONDS = 0.5  # between two looks at what changes seldom


@dataclass(frozen=True)
class NodeWork:
    """What all jobs of a folder have in common.

    Args:
        packed: The work.
        execution: The workers of a node, and the limits of each.
        directory: Where to work.
        patience: Seconds without a sign of the coordinator, after which it is gone.
    """

    packed: Packed
    execution: Execution
    directory: str
    patience: float


class WorkingNode:
    """The jobs that this place has, and the pool that does them."""

    def __init__(
        self, queue: Queue, name: str, pool: Pool[Any, Any, Any], patience: float, leaving: Callable[[], bool]
    ) -> None:
        self._queue, self._name, self._pool, self._patience, self._leaving = queue, name, pool, patience, leaving
        self.alone = False
        self._mine: dict[int, Name] = {}
        self._parent = os.getppid()
        self._looked = self._heard = time.monotonic()
        self._beat = 0  # the coordinator's last

    def work(self) -> None:
        """Take jobs, each when a worker is ready for it, and answer them until nobody is left to do it for."""
        pause = FIRST_PAUSE
        while not self._over():
            took = self._pool.idle > 0 and self._take()
            if self._pool.idle == self._pool.slots:
                time.sleep(pause)
            elif self._pool.poll(pause):
                self._answer()
                took = True
            pause = FIRST_PAUSE if took else min(2 * pause, LONGEST_PAUSE)

    def give_back(self) -> None:
        for name in self._mine.values():
            self._queue.give_back(name)

    def _take(self) -> bool:
        self._queue.arrive(self._name)
        found = self._queue.take(self._name)
        if found is None:
            return False
        name, payload = found
        self._mine[name.id] = name
        self._pool.submit(Job(payload, name.id))
        return True

    def _answer(self) -> None:
        job, result = self._pool.next()
        self._queue.answer(self._mine.pop(job.id), Reply(job.id, result))

    def refuse(self, mistake: str) -> None:
        """A user's mistake ends everything: the coordinator hears of it by any job."""
        while not (self._mine or self._over()):
            if (found := self._queue.take(self._name)) is not None:
                self._mine[found[0].id] = found[0]
            time.sleep(LONGEST_PAUSE)
        for name in self._mine.values():
            self._queue.answer(name, Reply(name.id, mistake=mistake))
        self._mine.clear()

    def _over(self) -> bool:
        if self._leaving() or os.getppid() != self._parent:
            return True
        if time.monotonic() - self._looked < SLOW_SECONDS:
            return False
        self._looked = time.monotonic()
        beat = self._queue.waited_for()
        if beat != self._beat:
            self._beat, self._heard = beat, self._looked
        self.alone = self._looked - self._heard > self._patience
        return self._queue.stopped or self.alone


def main(folder: str, digest: str, allocation: str) -> int:
    """Be a node; the exit code."""
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda sent, frame: asked.append(sent))
    queue = Queue(Path(folder))
    before = [name for name in queue.nodes() if name.rpartition("-")[0] == allocation]
    for name in before:
        queue.forget(name)
    node = f"{allocation}-{secrets.token_hex(6)}"
    with queue.beating(node):
        if queue.stopped:
            return 0
        fork_server.prepare()
        given: NodeWork = queue.work(digest)
        os.chdir(given.directory)
        pool = pool_for(given.packed.unpack(), given.execution)
        place = WorkingNode(queue, node, pool, given.patience, lambda: bool(asked))
        try:
            place.work()
        except TrainlessError as error:
            place.refuse(str(error))
        except OSError:
            if not queue.stopped:
                raise
        finally:
            place.give_back()
            pool.close(now=True)
        if place.alone:
            queue.remove()
    return LEFT if asked else 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except TrainlessError as mistake:
        sys.exit(str(mistake))
