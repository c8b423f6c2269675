"""Training the members of a design: jobs of an executor, each in a folder of its own, diverged ones again."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import torch

from trainless.core.arch import Arch
from trainless.core.errors import Unscorable
from trainless.core.opening import is_there, make_folder
from trainless.core.seeds import seeded
from trainless.core.task import Task
from trainless.designs.holdout import Holdout, in_own_unit, scale_of, standardised
from trainless.designs.settings import DesignSettings
from trainless.execution.executor import Executor, InProcess, Job, executor_for
from trainless.learn.callbacks import loggers
from trainless.learn.loop import train
from trainless.learn.members import MEMBER, Member, finish_member, member_folder, read_document, save_member
from trainless.learn.recipe import Recipe
from trainless.scoring.measures import ByFunction
from trainless.spaces.protocol import Space

ATTEMPTS = 3  # how often a member that diverges is trained before it is given up
GENTLER = 0.3  # of the learning rate, at each further attempt
RESEED = 100_000
Following: TypeAlias = Callable[[str, int, float], None]
TOO_LATE = "not begun, since the time budget was used up"


@dataclass(frozen=True)
class TrainedMembers:
    """The result of training: everything that was to be trained, by its name, and the search that each comes from.

    ``folders`` has the folder of each member that is of use, ``replaced`` why an attempt was of no use, by its folder,
    and ``left_out`` why a member is missing.
    """

    members: Mapping[str, Member] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __or__(self, later: TrainedMembers) -> TrainedMembers:
        return TrainedMembers(*({**mine, **vars(later)[name]} for name, mine in vars(self).items()))


@dataclass(frozen=True)
class Attempt:
    """A member that is trained in place of one that diverged, or for the first time."""

    name: str
    member: Member
    number: int = 0
    deadline: float | None = None
    least: float = 0.0

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.number}" if self.number else self.name

    @property
    def trained(self) -> Member:
        """The same architecture, at each further attempt more gently and from other weights."""
        gentler = replace(self.member.recipe, lr=self.member.recipe.lr * GENTLER**self.number)
        return replace(self.member, seed=self.member.seed + RESEED * self.number, recipe=gentler)


class _Attended:
    """Ends the process of a worker whose coordinator is gone; else tells who follows the training."""

    def __init__(self, name: str, epoch: Following | None) -> None:
        self._name, self._epoch = name, epoch

    def log(self, step: int, values: Mapping[str, float]) -> None:
        parent = multiprocessing.parent_process()
        if parent is not None and not parent.is_alive():
            os.kill(os.getpid(), signal.SIGKILL)
        if self._epoch is not None:
            self._epoch(self._name, step, values.get("valid_loss", math.nan))

    def end(self, status: str) -> None:
        """There is nothing to end."""


class Training:
    """Work whose jobs are attempts at members, trained where an executor puts it; the result is how each ended.

    A worker whose coordinator is gone leaves at the end of an epoch; what it had reached is in its checkpoint.
    """

    def __init__(
        self, folder: Path, holdout: Holdout, device: str, interval: float, chosen: Space | None, log: str = ""
    ) -> None:
        self.folder, self.holdout, self.chosen = folder, holdout, chosen
        self.device, self.interval, self.log = device, interval, log
        self.epoch: Following | None = None

    def __call__(self, attempt: Attempt) -> str:
        logs = loggers(self.log, self.folder, f"members/{attempt.folder}")
        folder, member = member_folder(self.folder, attempt.folder), attempt.trained
        own = self.holdout.fold(member.fold)
        where, task, scale = folder, own, scale_of(own)
        if scale is not None:
            where, task = self.folder / "standardised" / attempt.folder, standardised(own, scale)
        end = attempt.deadline  # the process may have taken most of the time until then to start
        trained = finish_member(
            where,
            member,
            task,
            device=self.device,
            interval=self.interval,
            callbacks=[_Attended(attempt.folder, self.epoch), *logs],
            chosen=self.chosen,
            deadline=None if end is None else max(end, time.time() + attempt.least),
        )
        if scale is not None:
            net = trained.net if trained.failed else in_own_unit(trained.net, scale, task)
            save_member(folder, member, replace(trained, net=net), own, self.chosen)
        return trained.status

    def failed(self, reason: str) -> str:
        return reason

    def close(self) -> None:
        """Nothing is open."""


def train_members(
    folder: Path,
    holdout: Holdout,
    members: Mapping[str, Member],
    settings: DesignSettings,
    *,
    chosen: Space | None = None,
    late: Callable[[], bool] = lambda: False,
    deadline: Callable[[str], float | None] = lambda name: None,
    least: float = 0.0,
    epoch: Following | None = None,
    done: Callable[[str, str], None] = lambda folder, status: None,
) -> TrainedMembers:
    """Have all members trained, each on one thread, so that the result does not depend on the number of workers.

    A member that diverges is trained again from other weights at a lower learning rate, three times in all. On a GPU
    they are trained one after the other in this process; a training may take as long as it likes. ``late`` is asked
    before a member is begun, whose folder is made then; once true, those not begun are left out. ``deadline`` gives the
    time by which a member has to end by ``time.time()``, if there is one, when it is begun; it has ``least`` seconds
    from when its worker is really at it, however long that took to start. ``epoch`` is called with the member's folder,
    the epoch's number and its validation loss after each epoch that is trained in this process, ``done`` with the
    folder and the status after each attempt.
    """
    waiting = deque(Attempt(name, member) for name, member in members.items())
    in_flight: set[int] = set()
    ended: list[tuple[Attempt, str]] = []
    too_late: dict[str, str] = {}
    executor: Executor[Attempt, str] | None = None

    def settle(attempt: Attempt, status: str) -> None:
        ended.append((attempt, status))
        done(attempt.folder, status)
        if status != "ok" and attempt.number + 1 < ATTEMPTS:
            waiting.appendleft(replace(attempt, number=attempt.number + 1))

    try:
        while waiting or in_flight:
            while waiting and (executor is None or len(in_flight) < executor.slots):
                attempt = waiting.popleft()
                place = member_folder(folder, attempt.folder)
                if is_there(place / MEMBER):
                    settle(attempt, str(read_document(place / MEMBER)["status"]))
                elif not is_there(place) and late():
                    too_late[attempt.name] = TOO_LATE
                else:
                    work = Training(folder, holdout, settings.device, settings.interval, chosen, settings.log)
                    executor = executor or _executor(work, settings, len(members), epoch)
                    make_folder(place)
                    job = Job(replace(attempt, deadline=deadline(attempt.name), least=least))
                    in_flight.add(job.id)
                    executor.submit(job)
            if executor is not None and in_flight:
                job, status = executor.next()
                in_flight.remove(job.id)
                settle(job.payload, status)
    except BaseException:
        if executor is not None:
            executor.close(now=True)
            executor = None
        raise
    finally:
        if executor is not None:
            executor.close()
    order = {name: place for place, name in enumerate(members)}
    ended.sort(key=lambda one: (order[one[0].name], one[0].number))
    return TrainedMembers(
        members,
        folders={attempt.name: attempt.folder for attempt, status in ended if status == "ok"},
        replaced={attempt.folder: status for attempt, status in ended if status != "ok"},
        left_out=too_late
        | {one.name: status for one, status in ended if status != "ok" and one.number + 1 == ATTEMPTS},
    )


def _executor(work: Training, settings: DesignSettings, most: int, epoch: Following | None) -> Executor[Attempt, str]:
    if settings.workers == 1 or torch.device(settings.device).type != "cpu":
        work.epoch = epoch
        return InProcess(work)
    return executor_for(work, replace(settings.execution, workers=min(settings.workers, most), timeout=None))


def by_training(space: Space, task: Task, recipe: Recipe, *, seed: int = 0, store: str = "") -> ByFunction:
    """Measure archs by training them: the best validation accuracy, or minus the least loss where values are predicted.

    A proposal's fidelity is the share of the recipe's epochs. Give it to ``search(..., measure=...)``.

    Example:
        >>> from trainless.core.arch import Proposal
        >>> from trainless.learn.recipe import recipe
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
        result = train(net, task, replace(recipe, epochs=epochs), seed=seed)
        if result.failed:
            raise Unscorable(result.status)
        if task.target.kind == "regression":
            return -min(epoch.valid_loss for epoch in result.history)
        return max(epoch.valid_accuracy for epoch in result.history if not math.isnan(epoch.valid_accuracy))

    return ByFunction("trained", trained, space, task=f"{task.fingerprint} {recipe!r}", seed=seed, store=store)
