"""The one loop that drives every searcher: ask, measure wherever an executor does, tell, write down.

What is told, and in which order, depends on the searcher, on ``ahead`` and on the measured values, and on nothing else:
not on the number of workers, not on which of them is faster, not on interruptions. A searcher that proposes batches
(nsga2, pmbga, reinforce, prune) is told each batch at once, as its paper has it: its path is that of the serial run,
and at the end of a batch workers wait for the last of it. A searcher that proposes a single candidate at a time has
``ahead`` of them under way and is told each in the order of its proposal; there is no end of a generation to wait for.
With ``ahead`` above 1 one that learns from every candidate (evolution) takes another, equally reproducible path than
with 1, because it proposes before it has heard of the last ones; random search takes the same. A worker has nothing to
do only while one candidate takes longer than all those together that may be proposed before it is told: with times that
differ as e^(0.7 z) two workers with four proposals each are busy 98 % of the time, eight 86 %; with one each 70 and 42.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from trainless.core.arch import Arch, Candidate, Proposal
from trainless.core.errors import InputError
from trainless.core.types import Json
from trainless.execution.executor import Executor, Job
from trainless.runs.signals import Signal
from trainless.scoring.measures import Outcome
from trainless.searchers.searcher import Searcher, Told
from trainless.searchers.stopping import Budget, Spent

LOOK = 0.5  # seconds between two looks at what is in flight

End: TypeAlias = Literal["finished", "budget"]
Twin: TypeAlias = Callable[[Candidate], Candidate]
Scorer: TypeAlias = Executor[Proposal, Outcome]


@dataclass(frozen=True)
class Step:
    """The proposals that were told at once, from step 1 on, and the budget that was used up after them."""

    number: int
    proposals: tuple[Proposal, ...]
    outcomes: tuple[Outcome, ...]
    told: Mapping[str, list[float]]
    spent: Spent


@dataclass
class Loop:
    """A search in progress: the searcher, what it waits for, and everything measured so far.

    Args:
        searcher: Proposes and learns.
        signal: Turns measured values into what is told.
        twin: From a candidate to the twin that is measured in its place.
        ahead: How many single proposals are in flight at a time.
        objectives: Costs that are told as further columns, with their sign turned.
    """

    searcher: Searcher
    signal: Signal
    twin: Twin
    ahead: int = 1
    objectives: Mapping[str, Callable[[Arch], float]] = field(default_factory=dict)
    known: dict[Proposal, Outcome] = field(default_factory=dict)
    told: dict[Proposal, None] = field(default_factory=dict)
    waiting: deque[Proposal] = field(default_factory=deque)
    together: bool = False
    spent: Spent = field(default_factory=Spent)
    steps: int = 0

    def __post_init__(self) -> None:
        if self.ahead < 1:
            raise InputError(f"ahead={self.ahead} was given; expected at least 1")

    def fill(self) -> bool:
        """Ask for more where there is room; whether there is anything to do."""
        if not self.waiting:
            self.waiting.extend(self.searcher.ask())
            self.together = len(self.waiting) > 1
        while not self.together and 0 < len(self.waiting) < self.ahead:
            more = self.searcher.ask(self.ahead - len(self.waiting))
            if not more:
                break
            self.waiting.extend(more)
        return bool(self.waiting)

    def group(self, left: int | None) -> list[Proposal]:
        """The proposals to be told next: a whole batch or the oldest, as far as the budget goes."""
        number = len(self.waiting) if self.together else 1
        return list(self.waiting)[: number if left is None else min(number, left)]

    def measured(self, proposal: Proposal) -> Proposal:
        """The proposal that is measured in place of another: its twin at the same fidelity."""
        return Proposal(self.twin(proposal.candidate), proposal.fidelity)

    def take(self, proposals: Sequence[Proposal], outcomes: Sequence[Outcome], seconds: float) -> Step:
        """Tell the searcher the outcomes of the oldest proposals."""
        for _ in proposals:
            self.waiting.popleft()
        columns = self.learn(proposals, outcomes)
        self.searcher.tell(Told(tuple(proposals), {name: np.array(column) for name, column in columns.items()}))
        self.spent = Spent(self.spent.evaluations, seconds, self.spent.simulated)
        return Step(self.steps, tuple(proposals), tuple(outcomes), columns, self.spent)

    def learn(self, proposals: Sequence[Proposal], outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
        """Take outcomes in without telling the searcher: known values, the signal, the budget."""
        columns: dict[str, list[float]] = {}
        for proposal, outcome in zip(proposals, outcomes, strict=True):
            twin = self.measured(proposal)
            self.known.setdefault(twin, outcome)
            self.told.setdefault(twin)
            row = self.signal.tell(twin, outcome.values)
            row |= {name: -cost(proposal.arch) for name, cost in self.objectives.items()}
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
            self.spent = self.spent.plus(1, 0.0, outcome.cost)
        self.steps += 1
        return columns

    def state(self) -> Json:
        waiting = [plain(proposal) for proposal in self.waiting]
        return {"searcher": self.searcher.state(), "waiting": waiting, "together": self.together}

    def restore(self, state: Json) -> None:
        """Continue from a state; what was measured before it has to be learnt apart."""
        self.searcher.restore(state["searcher"])
        self.waiting = deque(proposal_of(each) for each in state["waiting"])
        self.together = state["together"]


class _Desk:
    """Hands proposals to an executor and keeps what comes back."""

    def __init__(
        self,
        loop: Loop,
        executor: Scorer,
        stopping: Callable[[], bool],
        watch: Callable[[], None],
        stuck: Callable[[], bool],
    ) -> None:
        self._loop, self._executor, self._stopping, self._watch = loop, executor, stopping, watch
        self._stuck = stuck
        self._flying: set[Proposal] = set()

    def outcomes(self, group: Sequence[Proposal], all_wanted: Sequence[Proposal]) -> list[Outcome]:
        """The outcomes of a group, or of its beginning where it was stopped; more is started while it waits."""
        known = self._loop.known
        needed = [self._loop.measured(proposal) for proposal in group]
        queue = deque(dict.fromkeys(self._loop.measured(proposal) for proposal in all_wanted))
        while not all(proposal in known for proposal in needed):
            self._start(queue)
            if not self._flying:
                break
            self._receive()
        return [known[proposal] for proposal in itertools.takewhile(known.__contains__, needed)]

    def drain(self) -> None:
        while self._flying:
            self._receive()

    def _start(self, queue: deque[Proposal]) -> None:
        while queue and len(self._flying) < self._executor.slots and not self._stopping():
            proposal = queue.popleft()
            if proposal not in self._loop.known and proposal not in self._flying:
                self._flying.add(proposal)
                self._executor.submit(Job(proposal))

    def _receive(self) -> None:
        while not self._executor.poll(LOOK):
            if self._stuck():
                raise KeyboardInterrupt
        job, outcome = self._executor.next()
        self._flying.remove(job.payload)
        self._loop.known[job.payload] = outcome
        self._watch()


def drive(
    loop: Loop,
    executor: Scorer,
    budget: Budget,
    *,
    write: Callable[[Step], None],
    stopping: Callable[[], bool] = lambda: False,
    watch: Callable[[], None] = lambda: None,
    stuck: Callable[[], bool] = lambda: False,
) -> End:
    """Go on until the searcher has finished or the budget, which includes what was used before, is used up.

    Every step is written after the searcher was told, and ``watch`` is called when anything has been measured. Once
    ``stopping`` is true, what is in flight is finished and kept, and KeyboardInterrupt is raised; the unfinished batch
    is not told, so that a resumed run tells it whole. What is in flight is not waited for where it is ``stuck``.
    """
    before, start = loop.spent.seconds, time.monotonic()

    def seconds() -> float:
        return before + time.monotonic() - start

    def late() -> bool:
        return budget.seconds is not None and seconds() >= budget.seconds

    desk = _Desk(loop, executor, lambda: stopping() or late(), watch, lambda: stopping() and stuck())
    last: int | None = None  # how many more are told after a stop: what was waiting then, as far as it is known
    while not budget.exhausted(loop.spent) and not late():
        if stopping():
            desk.drain()
            last = len(loop.waiting) if last is None else last
            if last <= 0:
                raise KeyboardInterrupt
        if not loop.fill():
            return "finished"
        left = budget.left(loop.spent)
        group = loop.group(left)
        outcomes = desk.outcomes(group, list(loop.waiting)[:left])
        if len(outcomes) < len(group) and stopping():
            desk.drain()
            raise KeyboardInterrupt
        outcomes = _affordable(outcomes, loop.spent, budget)
        if outcomes:
            write(loop.take(group[: len(outcomes)], outcomes, seconds()))
            last = None if last is None else last - len(outcomes)
            watch()
        if len(outcomes) < len(group):
            break
    desk.drain()
    return "budget"


def _affordable(outcomes: list[Outcome], spent: Spent, budget: Budget) -> list[Outcome]:
    """The beginning that the simulated budget allows."""
    paid: list[Outcome] = []
    for outcome in outcomes:
        spent = spent.plus(1, 0.0, outcome.cost)
        if not budget.allows(Spent(0, 0.0, spent.simulated)):
            break
        paid.append(outcome)
    return paid


def plain(proposal: Proposal) -> Json:
    """A proposal as JSON: options, or lists of open options; the fidelity where it is not 1."""
    candidate = [sorted(part) if isinstance(part, frozenset) else part for part in proposal.candidate]
    return {"candidate": candidate} | ({} if proposal.fidelity == 1.0 else {"fidelity": proposal.fidelity})


def proposal_of(json: Json) -> Proposal:
    """The proposal that :func:`plain` wrote."""
    parts = json["candidate"]
    candidate: Candidate
    if any(isinstance(part, list) for part in parts):
        candidate = tuple(frozenset(part) for part in parts)
    else:
        candidate = tuple(parts)
    return Proposal(candidate, float(json.get("fidelity", 1.0)))
