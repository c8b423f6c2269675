"""Where measuring happens: in this process, in several on this machine, or on a Ray cluster.

An executor takes proposals under a ticket and gives outcomes back as they come, in any order. It never has more than
``slots`` of them at a time: whoever submits keeps the rest, and so can stop at any moment. A candidate that ends its
process, takes too long or too much memory is a failure with that reason, and the work goes on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from trainless.core.arch import Proposal
from trainless.core.errors import InputError
from trainless.core.seeds import one_thread
from trainless.scoring.measures import Measure, Outcome, guarded

ENGINES = ("local", "ray")


class Executor(Protocol):
    """Measures proposals; see the module's text."""

    @property
    def slots(self) -> int:
        """How many proposals it works on at a time."""
        ...

    def submit(self, ticket: int, proposal: Proposal) -> None:
        """Take a proposal."""
        ...

    def poll(self, seconds: float | None = None) -> bool:
        """Whether an outcome of what was submitted is there within so many seconds; None waits for one."""
        ...

    def next(self) -> tuple[int, Outcome]:
        """Wait for the next outcome of what was submitted."""
        ...

    def close(self, *, now: bool = False) -> None:
        """Let go of everything; ``now`` does not wait for what is being measured."""
        ...


@dataclass(frozen=True)
class Engine:
    """Where to measure.

    Args:
        kind: ``local`` for this machine, ``ray`` for a Ray cluster.
        workers: How many processes; one without a limit on this machine is this process itself.
        timeout: Seconds that one candidate may take; None for as long as it likes.
        memory: Bytes that one worker may take; None for as much as there is.
        device: Where the networks are; several workers share a GPU.
        address: Of a Ray cluster; empty starts one here.
    """

    kind: str = "local"
    workers: int = 1
    timeout: float | None = None
    memory: int | None = None
    device: str = "cpu"
    address: str = ""

    def __post_init__(self) -> None:
        if self.kind not in ENGINES:
            raise InputError(f"engine={self.kind!r} was given; expected {' or '.join(ENGINES)}")
        if self.workers < 1:
            raise InputError(f"workers={self.workers} was given; expected at least 1")
        if self.timeout is not None and not self.timeout > 0:
            raise InputError(f"timeout={self.timeout:g} was given; expected seconds above 0, or None")
        if self.memory is not None and not self.memory > 0:
            raise InputError(f"a memory limit of {self.memory} was given; expected bytes above 0, or None")
        if self.address and self.kind != "ray":
            raise InputError(f"address={self.address!r} was given without engine='ray': it is that of a Ray cluster")

    @property
    def gpu(self) -> bool:
        """Whether the networks are on a GPU."""
        return self.device.startswith("cuda")


LOCAL = Engine()


def executor_for(measure: Measure, engine: Engine) -> Executor:
    """The executor that an engine means.

    Example:
        >>> from trainless.scoring.measures import Lookup
        >>> import numpy as np
        >>> executor = executor_for(Lookup("accuracy", [(0,)], {1.0: np.array([90.0])}, np.array([5.0])), Engine())
        >>> executor.slots
        1
    """
    if engine.kind == "ray":
        from trainless.execution.ray import Cluster

        return Cluster(measure, engine)
    if engine.workers == 1 and engine.timeout is None and engine.memory is None:
        return InProcess(measure)
    from trainless.execution.local import Processes

    return Processes(measure, engine)


class InProcess:
    """One after the other, here, on one thread, so that a value does not depend on how many workers there are.

    Example:
        >>> from trainless.scoring.measures import Lookup
        >>> import numpy as np
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

    def poll(self, seconds: float | None = None) -> bool:
        """Whether anything was submitted: the outcome is made when it is asked for."""
        return bool(self._waiting)

    def next(self) -> tuple[int, Outcome]:
        """Measure the oldest."""
        ticket, proposal = self._waiting.popleft()
        with one_thread():
            return ticket, guarded(self._measure, proposal)

    def close(self, *, now: bool = False) -> None:
        """Close the measure."""
        self._measure.close()
