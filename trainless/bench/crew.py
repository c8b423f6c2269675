"""The processes of a sweep: who works on what, and what happens when one of them dies."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

from trainless.bench.journal import Journal
from trainless.bench.plan import Plan
from trainless.bench.worker import DONE, READY, REFUSED, Job, failed, work
from trainless.core.errors import InputError

CHUNK = 4
ATTEMPTS = 2
START_FAILURES = 3
FAREWELL = 20.0


class _Hand:
    """One worker process and the archs that it holds."""

    def __init__(self, plan: Plan, writer: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, plan, writer), daemon=True)
        self.process.start()
        theirs.close()
        self.ready = self.leaving = False
        self.jobs: deque[Job] = deque()

    def give(self, jobs: list[Job]) -> None:
        self.jobs.extend(jobs)
        self._send(jobs)

    def dismiss(self) -> None:
        self.leaving = True
        self._send(None)

    def end(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.pipe.close()

    def _send(self, message: list[Job] | None) -> None:
        try:
            self.pipe.send(message)
        except (BrokenPipeError, ConnectionResetError):
            return  # it has died: found by its sentinel


class Crew:
    """Hands out jobs in small chunks; an arch that ends two workers is recorded as failed.

    Args:
        plan: The sweep.
        jobs: What is to be done.
        processes: How many workers.
    """

    def __init__(self, plan: Plan, jobs: deque[Job], processes: int) -> None:
        if processes < 1:
            raise InputError(f"processes={processes} was given; expected at least 1")
        self._plan, self._jobs, self._processes = plan, jobs, processes
        self._deaths: Counter[str] = Counter()
        self._start_failures = 0
        self._done = 0
        self._began = 0.0  # when the first worker was ready
        self._hands: list[_Hand] = []

    def run(self, deadline: float, tell: Callable[[int, float], None], tick: float) -> tuple[int, float]:
        """Work until all is done or the time is over; the number of archs done and archs per second."""
        self._hands = [self._hire(number) for number in range(self._processes)]
        heard = time.monotonic()
        try:
            while self._hands and time.monotonic() < deadline + FAREWELL:
                self._listen(min(1.0, tick), deadline)
                if time.monotonic() - heard >= tick:
                    heard = time.monotonic()
                    tell(self._done, self._rate())
        finally:
            for hand in self._hands:
                hand.end()
        tell(self._done, self._rate())
        return self._done, self._rate()

    def _hire(self, number: int) -> _Hand:
        return _Hand(self._plan, f"w{number:02d}")

    def _rate(self) -> float:
        return self._done / max(1e-9, time.monotonic() - self._began) if self._began else 0.0

    def _listen(self, patience: float, deadline: float) -> None:
        watched = {each: hand for hand in self._hands for each in (hand.pipe, hand.process.sentinel)}
        ready = multiprocessing.connection.wait(list(watched), patience)
        late = time.monotonic() >= deadline
        for hand in dict.fromkeys(watched[each] for each in ready if each in watched):
            self._hear(hand)
        for hand in self._hands:
            if late and not hand.leaving:
                hand.dismiss()  # heard after the chunk that it holds, at the latest
            elif hand.ready and not hand.leaving and not hand.jobs:
                self._feed(hand, deadline)

    def _feed(self, hand: _Hand, deadline: float) -> None:
        """The next chunk; single archs towards the end, so that all finish together."""
        few = len(self._jobs) < 2 * CHUNK * len(self._hands) or deadline - time.monotonic() < FAREWELL
        chunk = [self._jobs.popleft() for _ in range(min(1 if few else CHUNK, len(self._jobs)))]
        if chunk:
            hand.give(chunk)
        elif not any(other.jobs for other in self._hands):
            hand.dismiss()

    def _hear(self, hand: _Hand) -> None:
        try:
            while hand.pipe.poll():
                kind, text = hand.pipe.recv()
                if kind == REFUSED:
                    raise InputError(text)
                if kind == READY:
                    hand.ready, self._start_failures = True, 0
                    self._began = self._began or time.monotonic()
                elif kind == DONE:
                    hand.jobs.popleft()
                    self._done += 1
        except (EOFError, ConnectionResetError):
            hand.process.join()
        if not hand.process.is_alive():
            self._lose(hand)

    def _lose(self, hand: _Hand) -> None:
        """One is gone: if it was dismissed, well; else its archs go back and another comes in its place."""
        place = self._hands.index(hand)
        code = hand.process.exitcode
        hand.end()
        if hand.leaving and not hand.jobs:
            del self._hands[place]
            return
        if not hand.ready:
            self._start_failures += 1
            if self._start_failures >= START_FAILURES * self._processes:
                raise InputError(f"worker processes cannot start (exit code {code}): try one process on the CPU")
        if hand.jobs:
            self._blame(hand.jobs.popleft(), code)
            self._jobs.extendleft(reversed(hand.jobs))
        if hand.leaving:
            del self._hands[place]
        else:
            self._hands[place] = self._hire(place)

    def _blame(self, job: Job, code: int | None) -> None:
        arch, pairs = job
        self._deaths[arch] += 1
        if self._deaths[arch] < ATTEMPTS:
            self._jobs.append(job)
            return
        journal = Journal(Path(self._plan.out), "lost")
        journal.write(arch, failed(arch, pairs, f"the worker process died (exit code {code}), {ATTEMPTS} times"))
        journal.close()
        self._done += 1
