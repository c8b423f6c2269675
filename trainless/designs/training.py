"""Training the members of a run: in this process or in several, each into a folder of its own, diverged ones again."""

from __future__ import annotations

import dataclasses
import math
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from trainless.core.arch import Arch
from trainless.core.errors import Unscorable
from trainless.core.seeds import seeded
from trainless.core.task import Task
from trainless.designs.holdout import in_own_unit, scale_of, standardised
from trainless.execution.engine import LOCAL, Engine, Executor, InProcess, Job, executor_for
from trainless.learn.checkpoint import Epoch
from trainless.learn.loop import train
from trainless.learn.members import MEMBER, Member, finish_member, member_folder, read_document, save_member
from trainless.learn.recipe import Recipe
from trainless.scoring.measures import ByFunction
from trainless.spaces.protocol import Space

ATTEMPTS = 3  # how often a member that diverges is trained before it is given up
GENTLER = 0.3  # of the learning rate, at each further attempt
RESEED = 100_000


@dataclass(frozen=True)
class Entry:
    """A member and what it is called in a run."""

    name: str
    member: Member


@dataclass(frozen=True)
class Roster:
    """What training came to.

    Args:
        folders: The folder of each member that is of use, by its name.
        replaced: Why an attempt was of no use, by its folder.
        left_out: Why a member is missing, by its name.
    """

    folders: Mapping[str, str]
    replaced: Mapping[str, str]
    left_out: Mapping[str, str]


def attempt_of(entry: Entry, attempt: int) -> Entry:
    """What is trained in place of a member that diverged: the same architecture, more gently, from other weights.

    Example:
        >>> from trainless.learn.recipe import recipe
        >>> entry = Entry("00", Member("nb201", (), (1, 1, 1, 1, 1, 1), 7, recipe("nb201")))
        >>> again = attempt_of(entry, 1)
        >>> again.name, again.member.seed, round(again.member.recipe.lr, 3)
        ('00-1', 100007, 0.03)
    """
    if not attempt:
        return entry
    member = entry.member
    gentler = replace(member.recipe, lr=member.recipe.lr * GENTLER**attempt)
    return Entry(f"{entry.name}-{attempt}", replace(member, seed=member.seed + RESEED * attempt, recipe=gentler))


class Training:
    """Work whose jobs are members, trained where an executor puts it; the result is how each ended.

    A worker whose coordinator is gone leaves at the end of an epoch; what it had reached is in its checkpoint.
    """

    def __init__(self, folder: Path, task: Task, device: str, interval: float, chosen: Space | None) -> None:
        self.folder, self.task, self.chosen = folder, task, chosen
        self.device, self.interval = device, interval
        self.epoch: Callable[[Entry, Epoch], None] | None = None

    def __call__(self, entry: Entry) -> str:
        def report(epoch: Epoch) -> None:
            parent = multiprocessing.parent_process()
            if parent is not None and not parent.is_alive():
                os.kill(os.getpid(), signal.SIGKILL)
            if self.epoch is not None:
                self.epoch(entry, epoch)

        scale, folder = scale_of(self.task), member_folder(self.folder, entry.name)
        where, task = (folder, self.task)
        if scale is not None:
            where, task = self.folder / "standardised" / entry.name, standardised(self.task, scale)
        trained = finish_member(
            where,
            entry.member,
            task,
            device=self.device,
            interval=self.interval,
            report=report,
            chosen=self.chosen,
        )
        if scale is not None:
            net = trained.net if trained.failed else in_own_unit(trained.net, scale, task)
            save_member(folder, entry.member, replace(trained, net=net), self.task)
        return trained.status

    def failed(self, reason: str) -> str:
        return reason

    def close(self) -> None:
        """Nothing is open."""


def train_roster(
    folder: Path,
    task: Task,
    entries: Sequence[Entry],
    *,
    device: str = "cpu",
    workers: int = 1,
    engine: Engine = LOCAL,
    interval: float = 20.0,
    chosen: Space | None = None,
    late: Callable[[], bool] = lambda: False,
    epoch: Callable[[Entry, Epoch], None] | None = None,
    done: Callable[[Entry, str], None] = lambda entry, status: None,
) -> Roster:
    """Have all members trained, each on one thread, so that the result does not depend on the number of workers.

    A member that diverges is trained again from other weights at a lower learning rate, three times in all.

    Args:
        folder: The run folder; what is there already is kept.
        task: The data as training sees them.
        entries: The members.
        device: Where to train; on a GPU one after the other in this process.
        workers: Processes on a CPU.
        engine: Where they are, and the memory that each may take; a training may take as long as it likes.
        interval: Seconds between checkpoints.
        chosen: The space, where it is not a registered one.
        late: Asked before a member is begun, whose folder is made then; once true, those not begun are left out.
        epoch: Called after each epoch that is trained in this process.
        done: Called when an attempt has ended, with its status.
    """
    results: dict[tuple[int, int], str] = {}
    waiting = deque((number, 0) for number in range(len(entries)))
    executor: Executor[Entry, str] | None = None
    flying: dict[int, tuple[int, int]] = {}
    left_out: dict[str, str] = {}

    def settle(number: int, attempt: int, status: str) -> None:
        results[number, attempt] = status
        done(attempt_of(entries[number], attempt), status)
        if status != "ok" and attempt + 1 < ATTEMPTS:
            waiting.appendleft((number, attempt + 1))

    try:
        while waiting or flying:
            while waiting and (executor is None or len(flying) < executor.slots):
                number, attempt = waiting.popleft()
                entry = attempt_of(entries[number], attempt)
                place = member_folder(folder, entry.name)
                known = _status(place)
                if known:
                    settle(number, attempt, known)
                elif not place.exists() and late():
                    left_out[entries[number].name] = "the time budget was used up before it was begun"
                else:
                    executor = executor or _executor(
                        Training(folder, task, device, interval, chosen),
                        workers == 1,
                        replace(engine, workers=min(workers, len(entries)), timeout=None),
                        epoch,
                    )
                    place.mkdir(parents=True, exist_ok=True)
                    job = Job(entry)
                    flying[job.id] = number, attempt
                    executor.submit(job)
            if executor is not None and flying:
                job, status = executor.next()
                settle(*flying.pop(job.id), status)
    except BaseException:
        if executor is not None:
            executor.close(now=True)
            executor = None
        raise
    finally:
        if executor is not None:
            executor.close()
    return _roster(entries, results, left_out)


def _roster(entries: Sequence[Entry], results: Mapping[tuple[int, int], str], left_out: dict[str, str]) -> Roster:
    folders: dict[str, str] = {}
    replaced: dict[str, str] = {}
    for (number, attempt), status in sorted(results.items()):
        name = attempt_of(entries[number], attempt).name
        if status == "ok":
            folders[entries[number].name] = name
        else:
            replaced[name] = status
            if attempt + 1 == ATTEMPTS:
                left_out[entries[number].name] = status
    return Roster(folders, replaced, left_out)


def _status(place: Path) -> str:
    """How a member that is already there ended; empty where it is not."""
    return str(read_document(place / MEMBER)["status"]) if (place / MEMBER).exists() else ""


def _executor(
    work: Training, here: bool, engine: Engine, epoch: Callable[[Entry, Epoch], None] | None
) -> Executor[Entry, str]:
    if here or torch.device(work.device).type != "cpu":
        work.epoch = epoch
        return InProcess(work)
    return executor_for(work, engine)


def by_training(space: Space, task: Task, recipe: Recipe, *, seed: int = 0, store: str = "") -> ByFunction:
    """Measure archs by training them: the best validation accuracy, or minus the least loss where values are predicted.

    A proposal's fidelity is the share of the recipe's epochs. Give it to ``search(..., measure=...)``.

    Args:
        space: The space of the archs.
        task: The data; its validation part is what is measured on.
        recipe: How to train.
        seed: Of the weights and of the training.
        store: Path of the store; empty keeps nothing.

    Example:
        >>> from trainless.learn.recipe import recipe
        >>> from trainless.searchers.searcher import Proposal
        >>> from trainless.spaces import space
        >>> from trainless.tasks import task
        >>> measure = by_training(space("nb201", channels=2, cells=1), task("digits"), recipe("default", epochs=1))
        >>> 0 <= measure(Proposal((1, 0, 0, 3, 0, 0))).values["trained"] <= 1
        True
    """

    def trained(arch: Arch, fidelity: float) -> float:
        with seeded(seed):
            net = space.build(arch, task)
        epochs = max(1, round(recipe.epochs * fidelity))
        result = train(net, task, dataclasses.replace(recipe, epochs=epochs), seed=seed)
        if result.failed:
            raise Unscorable(result.status)
        if task.target.kind == "regression":
            return -min(epoch.valid_loss for epoch in result.history)
        return max(epoch.valid_accuracy for epoch in result.history if not math.isnan(epoch.valid_accuracy))

    return ByFunction("trained", trained, space, task=f"{task.fingerprint} {recipe!r}", seed=seed, store=store)
