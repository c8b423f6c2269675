"""Searched networks beside the plain one and random ones at equal training cost, by cross-validation.

On each set 60 random residual networks of half to twice the plain one's multiply–accumulates are ranked by the shipped
ranking without training; its first three, three random ones and the plain one with three seeds are trained on each fold
for the same number of core seconds. ``python -m benchmarks.searched --sets … --output results/searched.npz``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.recipes import PACE, SECONDS, fold_of
from trainless.core.arch import Arch, Proposal
from trainless.core.seeds import seeded
from trainless.core.task import Task
from trainless.designs.budget import FULL, good_epochs
from trainless.designs.planning import plains, recipe_of
from trainless.designs.settings import DesignSettings
from trainless.execution.executor import perform
from trainless.learn.loop import train
from trainless.learn.predictor import predict_part
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


def one(name: str, fold: int, kind: str, seed: int, arch: Arch, device: str) -> dict[str, Any]:
    """Train one network on one fold; what it says of the samples held out."""
    task = fold_of(opened(name), fold, FOLDS)
    n, flops = len(task.part("train")), float(SPACE.counts(arch, task).flops)
    settings = DesignSettings().resolved()
    epochs = SECONDS * PACE / (3 * flops * n)
    most = FULL * good_epochs(n, recipe_of(settings, task).batch)
    made = recipe_of(settings, task, max(1, round(min(most, max(1.0, epochs)))))
    if epochs < 1:
        made = replace(made, samples=max(64, int(epochs * n)))
    with seeded(seed):
        net = SPACE.build(arch, task)
    start = time.monotonic()
    trained = train(net, task, made, seed=seed, device=device)
    seconds = time.monotonic() - start
    said, valid = predict_part(trained.net, task, "valid", device), task.part("valid")
    about = {"set": name, "fold": fold, "variant": kind, "seed": seed, "epochs": made.epochs, "status": trained.status}
    about |= {"seconds": seconds, "flops": flops, "arch": SPACE.format(arch)}
    answers = np.log(np.maximum(said, 1e-30)).astype(np.float32)
    return {"about": about, "answers": answers, "y": np.asarray(valid.y)[valid.first]}


def main() -> None:
    """Run the study as the command line asks for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=500.0, help="No job is begun after so many.")
    parser.add_argument("--output", required=True)
    asked = parser.parse_args()
    start, found, chosen = time.monotonic(), [], []
    with ProcessPoolExecutor(asked.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        chosen = list(pool.map(found_by_ranking, asked.sets, [asked.device] * len(asked.sets)))
        print(f"ranked after {time.monotonic() - start:.0f} s", flush=True)
        jobs = []
        for fold, place, about in itertools.product(range(FOLDS), range(FIRST), chosen):
            trained = {"plain": about["plain"], "ranking": about["ranking"][place], "random": about["random"][place]}
            jobs += [(about["set"], fold, kind, place, tuple(arch), asked.device) for kind, arch in trained.items()]
        running = {pool.submit(one, *job) for job in jobs}
        for done in as_completed(running):
            if done.cancelled():
                continue
            found.append(done.result())
            if time.monotonic() - start > asked.seconds:
                for each in running:
                    each.cancel()
    arrays = {f"answers/{place}": each["answers"] for place, each in enumerate(found)}
    arrays |= {f"y/{place}": each["y"] for place, each in enumerate(found)}
    about = json.dumps([each["about"] for each in found])
    np.savez_compressed(asked.output, about=np.array(about), chosen=np.array(json.dumps(chosen)), **arrays)
    print(f"{len(found)} of {len(jobs)} trainings in {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
