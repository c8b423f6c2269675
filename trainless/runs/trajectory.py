"""The trajectory: every step as a line of JSON, and the searcher's state after it.

A step's line has the candidates as options per decision (lists of options for regions), every score, what the searcher
was told and what had been used up. The state (policy, population, generator) follows on a line of its own: after every
step while it is small, else as soon as the steps since the last one outweigh it; between two states the steps are
replayed, which gives the state after any step (:func:`states`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainless.core.errors import InputError
from trainless.core.files import numbers, unnumbers
from trainless.core.opening import GROWTH, Appender, is_there, open_file, read_bytes, whole_lines
from trainless.core.text import undamaged
from trainless.core.types import Json
from trainless.runs.loop import Loop, Step, plain, proposal_of
from trainless.scoring.measures import Outcome
from trainless.searchers.searcher import reseeded
from trainless.searchers.stopping import Spent

SMALL = 4096  # bytes of a state that is written after every step
_STATE = '{"state": '


@dataclass(frozen=True)
class Line:
    """A line of a trajectory: a step, or a state as it is written."""

    number: int
    step: Json | None
    state: str = ""


class Writer:
    """Appends steps; every line is sent, then with the operating system, before the next candidate is started.

    On the disk it is within a second: a step that a loss of power takes is asked for again, and answered by the store.
    """

    def __init__(self, path: Path, loop: Loop, send: Callable[[str], None] = lambda text: None) -> None:
        self._loop, self._send = loop, send
        self._since = self._size = 0
        self._file = Appender(path)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *raised: object) -> None:
        with self._explained():
            self._file.close()

    def write(self, step: Step) -> None:
        text = json.dumps(step_json(step), allow_nan=False) + "\n"
        self._since += len(text)
        if self._size <= SMALL or self._since >= self._size:
            state = state_line(step.number, self._loop.state())
            self._since, self._size = 0, len(state)
            text += state
        self._send(text)
        with self._explained():
            self._file.write(text)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(
                f"the trajectory cannot be written ({error.strerror}): free some space; the same command goes on"
            ) from error


def step_json(step: Step) -> Json:
    """A step as JSON; what is as usual is left out."""
    names = list(step.outcomes[0].values) if step.outcomes else []
    shares = [proposal.fidelity for proposal in step.proposals]
    failures = {str(place): dict(outcome.failures) for place, outcome in enumerate(step.outcomes) if outcome.failures}
    costs = [outcome.cost for outcome in step.outcomes]
    return {
        "step": step.number,
        "candidates": [plain(proposal)["candidate"] for proposal in step.proposals],
        "scores": {name: numbers(outcome.values[name] for outcome in step.outcomes) for name in names},
        "told": {name: numbers(column) for name, column in step.told.items()},
        "spent": [step.spent.evaluations, step.spent.seconds, step.spent.simulated],
        **({"fidelities": shares} if any(share != 1.0 for share in shares) else {}),
        **({"failures": failures} if failures else {}),
        **({"costs": costs} if any(costs) else {}),
    }


def step_of(line: Json) -> Step:
    """The step that :func:`step_json` wrote."""
    count = len(line["candidates"])
    shares, costs = line.get("fidelities", [1.0] * count), line.get("costs", [0.0] * count)
    failures, columns = line.get("failures", {}), {name: unnumbers(part) for name, part in line["scores"].items()}
    outcomes = [
        Outcome({name: part[place] for name, part in columns.items()}, failures.get(str(place), {}), costs[place])
        for place in range(count)
    ]
    parts = zip(line["candidates"], shares, strict=True)
    proposals = [proposal_of({"candidate": candidate, "fidelity": share}) for candidate, share in parts]
    told = {name: unnumbers(part) for name, part in line["told"].items()}
    return Step(line["step"], tuple(proposals), tuple(outcomes), told, _spent(line["spent"]))


def _spent(parts: Any) -> Spent:
    """What was used up; anything but numbers would end a budget never, or at once."""
    evaluations, seconds, simulated = parts
    if type(evaluations) is not int or not all(type(each) in (int, float) and 0 <= each < math.inf for each in parts):
        raise ValueError(f"{parts} are no evaluations, seconds and simulated seconds")
    return Spent(evaluations, seconds, simulated)


def state_line(number: int, state: Json) -> str:
    """A state as a line."""
    return f'{_STATE}{json.dumps(state, allow_nan=False)}, "step": {number}}}\n'


def read(path: Path, *, mend: bool = False) -> list[Line]:
    """The whole lines of a trajectory, in order; to ``mend`` removes a line that a crash cut off from the file."""
    if not is_there(path):
        return []
    content = read_bytes(path, growth=GROWTH)
    whole = whole_lines(content)
    if mend and whole != content:
        with open_file(path, "change") as file:
            file.truncate(len(whole))
    lines = []
    with undamaged(path, "give another folder with --out"):
        texts = whole.decode("utf-8").splitlines()
    for number, line in enumerate(texts, start=1):
        try:
            if line.startswith(_STATE):
                lines.append(Line(int(line.rpartition(" ")[2].rstrip("}")), None, line))
            else:
                step = json.loads(line)
                lines.append(Line(step["step"], step))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{path}: line {number} is damaged ({error}): give another folder with --out") from error
    return lines


def replay(loop: Loop, lines: list[Line], upto: int | None = None) -> None:
    """Bring a fresh loop to where a trajectory ends, or to a step of it."""
    lines = [line for line in lines if upto is None or line.number <= upto]
    last = max((place for place, line in enumerate(lines) if line.state), default=-1)
    for line in lines[: last + 1]:
        if line.step is not None:
            step = step_of(line.step)
            loop.learn(step.proposals, step.outcomes)
            loop.spent = step.spent
    if last >= 0:
        loop.restore(json.loads(lines[last].state)["state"])
    for line in lines[last + 1 :]:
        if line.step is not None:
            _again(loop, step_of(line.step))
    if upto is not None and loop.steps != upto:
        raise InputError(f"step {upto} was asked for, but the run has {loop.steps} steps")


def _again(loop: Loop, step: Step) -> None:
    """Ask as then and tell what was measured then."""
    loop.fill()
    if list(loop.waiting)[: len(step.proposals)] != list(step.proposals):
        raise InputError(
            f"step {step.number} of the trajectory is not what this searcher proposes: it, the space or a limit has"
            " changed since the run began; give another folder with --out"
        )
    loop.take(step.proposals, step.outcomes, step.spent.seconds)


def states(make: Callable[[], Loop], lines: list[Line]) -> Iterator[tuple[int, Json]]:
    """The searcher's state after every step, whether it was written or has to be replayed."""
    loop = make()
    for line in lines:
        if line.step is not None:
            _again(loop, step_of(line.step))
            yield loop.steps, loop.searcher.state()
        else:
            loop.restore(json.loads(line.state)["state"])  # where a fork began, the randomness is another from here on


def fork(loop: Loop, lines: list[Line], step: int, seed: int) -> str:
    """The text of a child's trajectory: the parent's steps up to one, then other randomness."""
    replay(loop, lines, step)
    child = loop.state()
    child["searcher"] = reseeded(child["searcher"], seed)
    kept = [json.dumps(line.step, allow_nan=False) + "\n" for line in lines if line.step and line.number <= step]
    return "".join(kept) + state_line(step, child)
