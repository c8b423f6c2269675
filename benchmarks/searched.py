"""Searched networks beside the plain one and random ones at equal training cost, by cross-validation.

On each set 60 random residual networks of half to twice the plain one's multiply–accumulates are ranked by the shipped
ranking without training; its first three, three random ones and the plain one with three seeds are trained on each fold
for the same number of core seconds. ``python -m benchmarks.searched --sets … --output results/searched.npz``.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.recipes import PACE, SECONDS, fold_of, options, pool_of, train_all, trained_on
from trainless.core.arch import Arch, Proposal
from trainless.core.seeds import seeded
from trainless.core.task import Task
from trainless.designs.budget import FULL, good_epochs
from trainless.designs.planning import plains, recipe_of
from trainless.designs.settings import DesignSettings
from trainless.execution.executor import perform
from trainless.learn.recipe import Recipe
from trainless.rankings import ranking
from trainless.runs.signals import scores_of
from trainless.scoring.measures import ByProxies
from trainless.scoring.request import init_named, select
from trainless.spaces.moves import sample
from trainless.spaces.residual import STRIDES, Residual
from trainless.tasks import task as named_task

LOOKED, FIRST, FOLDS = 60, 3, 3
SPACE = Residual()
_TASKS: dict[str, Task] = {}


def opened(name: str) -> Task:
    """A task, once in a process."""
    torch.set_num_threads(1)
    if name not in _TASKS:
        _TASKS[name] = named_task(name)
    return _TASKS[name]


def plain_of(task: Task) -> Arch:
    """The widest plain network that is trained well within a member's seconds."""
    n = len(task.part("train"))
    good = good_epochs(n, 32)
    fit = [arch for arch in plains(task) if 3 * SPACE.counts(arch, task).flops * n * good <= 1.3 * SECONDS * PACE]
    return (fit or plains(task)[:1])[-1]


def near(arch: Arch, plain: Arch, task: Task) -> bool:
    """Whether an arch costs half to twice as much as the plain one and does not shrink its input to nothing."""
    cost = SPACE.counts(arch, task).flops / SPACE.counts(plain, task).flops
    shape = SPACE.shape(arch, task.dims)
    steps = abs(STRIDES.index(shape.stride) - STRIDES.index(SPACE.shape(plain, task.dims).stride))
    return 0.5 <= cost <= 2.0 and steps <= 1


def found_by_ranking(name: str, device: str) -> dict[str, Any]:
    """The first of random candidates by the ranking, and as many random ones."""
    task = opened(name)
    plain = plain_of(task)
    random = np.random.default_rng(0)
    archs: list[Arch] = []
    while len(archs) < LOOKED:
        arch = sample(SPACE, random)
        if near(arch, plain, task) and arch not in archs and arch != plain:
            archs.append(arch)
    ours = ranking("trainless")
    measure = ByProxies(SPACE, task, select(ours.proxies), seed=0, init=init_named("own"), device=device)
    start = time.monotonic()
    rows = {SPACE.format(arch): perform(measure, Proposal(arch)).values for arch in archs}
    seconds = time.monotonic() - start
    directions = {proxy.name: proxy.higher_is_better for proxy in select(ours.proxies)}
    table = scores_of(rows, directions)
    order = np.argsort(-np.nan_to_num(ours(table), nan=-np.inf), kind="stable")
    best = [archs[place] for place in order[:FIRST]]
    others = [arch for arch in archs if arch not in best][:FIRST]
    return {"set": name, "plain": plain, "ranking": best, "random": others, "seconds": seconds}


def recipe_within(task: Task, arch: Arch, seconds: float) -> tuple[Recipe, float]:
    """What a design would train an arch by in so many core seconds, by its multiply–accumulates, which come with it."""
    n, flops = len(task.part("train")), float(SPACE.counts(arch, task).flops)
    settings = DesignSettings().resolved()
    epochs = seconds * PACE / (3 * flops * n)
    most = FULL * good_epochs(n, recipe_of(settings, task).batch)
    made = recipe_of(settings, task, max(1, round(min(most, max(1.0, epochs)))))
    return (made if epochs >= 1 else replace(made, samples=max(64, int(epochs * n)))), flops


def one(name: str, fold: int, kind: str, seed: int, arch: Arch, device: str) -> dict[str, Any]:
    """Train one network on one fold; what it says of the samples held out."""
    task = fold_of(opened(name), fold, FOLDS)
    made, flops = recipe_within(task, arch, SECONDS)
    with seeded(seed):
        net = SPACE.build(arch, task)
    about = {"set": name, "fold": fold, "variant": kind, "flops": flops, "arch": SPACE.format(arch)}
    return trained_on(task, net, made, seed, device, about)


def main() -> None:
    """Run the study as the command line asks for it."""
    asked, start = options(__doc__).parse_args(), time.monotonic()
    with pool_of(asked) as pool:
        chosen = list(pool.map(found_by_ranking, asked.sets, [asked.device] * len(asked.sets)))
        print(f"ranked after {time.monotonic() - start:.0f} s", flush=True)
        jobs = []
        for fold, place, about in itertools.product(range(FOLDS), range(FIRST), chosen):
            trained = {"plain": about["plain"], "ranking": about["ranking"][place], "random": about["random"][place]}
            jobs += [(about["set"], fold, kind, place, tuple(arch), asked.device) for kind, arch in trained.items()]
        train_all(pool, one, jobs, asked, chosen=chosen)


if __name__ == "__main__":
    main()
