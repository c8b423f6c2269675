"""Recipes and plain networks on all data that we have, by cross-validation on training and validation parts alone.

``python -m benchmarks.recipes --output results/recipes.npz`` trains every variant on every fold of every set for the
same number of core seconds (by counted multiply–accumulates), and keeps the logarithms of the held-out probabilities.
No test part is read.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from trainless.core.seeds import seeded
from trainless.core.task import Task
from trainless.designs.holdout import joined
from trainless.learn.loop import train
from trainless.learn.predictor import predict_part
from trainless.learn.recipe import Augmentation, Recipe, recipe
from trainless.spaces import space
from trainless.tasks import task as named_task
from trainless.tasks.split import divided

PACE = 25e9  # multiply–accumulates per second of one core in training
SECONDS = 80.0  # of one core for a member: six of them in five minutes on two cores
FOLDS = 3
MOST_EPOCHS, FEWEST_STEPS = 150, 60
LIGHT = {
    1: Augmentation(shift=0.08, scale=0.1, noise=0.02),
    2: Augmentation(shift=0.08, scale=0.1, noise=0.02),
    3: Augmentation(shift=0.08, scale=0.1, noise=0.02),
}
FULL = {
    1: Augmentation(shift=0.1, zoom=0.1, scale=0.2, noise=0.05, mask=0.1),
    2: Augmentation(shift=0.1, zoom=0.1, rotate=15.0, scale=0.2, noise=0.05),
    3: Augmentation(shift=0.08, zoom=0.1, rotate=15.0, scale=0.1, noise=0.02),
}
Variant = Mapping[str, Any]
VARIANTS: dict[str, Variant] = {
    "base": {},
    "none": {"augmentation": "none"},
    "full": {"augmentation": "full"},
    "flips": {"flip": True},
    "full+flips": {"augmentation": "full", "flip": True},
    "full+mask": {"augmentation": "full", "mask": 0.4},
    "mixup": {"recipe": {"mixup": 0.2}},
    "full+mixup": {"augmentation": "full", "recipe": {"mixup": 0.2}},
    "average": {"recipe": {"average": 0.1}},
    "unweighted": {"recipe": {"class_weights": "none"}},
    "smooth0": {"recipe": {"smoothing": 0.0}},
    "lr1": {"recipe": {"lr": 0.001}},
    "lr10": {"recipe": {"lr": 0.01}},
    "decay5": {"recipe": {"weight_decay": 0.005}},
    "decay20": {"recipe": {"weight_decay": 0.2}},
    "sgd": {"recipe": {"optimiser": "sgd", "lr": 0.05, "weight_decay": 5e-4, "decayed": "all"}},
    "batch64": {"recipe": {"batch": 64}},
    "batch16": {"recipe": {"batch": 16}},
    "width16": {"arch": {"width": "16"}},
    "width64": {"arch": {"width": "64"}},
    "width16/stride-": {"arch": {"width": "16"}, "stride": -1},
    "width16/meanmax": {"arch": {"width": "16", "pool": "mean+max"}},
    "stride+": {"stride": 1},
    "stride-": {"stride": -1},
    "depth1": {"arch": {"depth": "1"}},
    "depth3": {"arch": {"depth": "3"}},
    "gate": {"arch": {"gate": "yes"}},
    "meanmax": {"arch": {"pool": "mean+max"}},
    "wide": {"arch": {"kernel": "wide"}},
    "narrow": {"arch": {"kernel": "narrow"}},
    "zero": {"space": {"zero_gain": True}},
    "long": {"seconds": 2 * SECONDS},
    "short": {"seconds": SECONDS / 2},
}


def fold_of(task: Task, fold: int, folds: int = FOLDS) -> Task:
    """The task with the other folds of its training and validation parts to train on, and this one held out."""
    pool = joined(task.part("train"), task.part("valid"))
    held = divided(pool, 0, (1 / folds,) * folds)[fold]
    rest = np.setdiff1d(np.arange(len(pool)), held)
    x = np.asarray(pool.x[rest], np.float32)
    axes = (0, *range(2, x.ndim))
    mean, std = x.mean(axes, dtype=np.float64), x.std(axes, dtype=np.float64)
    return replace(
        task,
        train=pool.take(rest),
        valid=pool.take(held),
        test=None,
        mean=tuple(map(float, mean)),
        std=tuple(float(each) or 1.0 for each in std),
        fingerprint=f"{task.name}/{fold}",
    )


def setting_of(task: Task, variant: Variant) -> tuple[Any, tuple[int, ...], Recipe, float]:
    """Space, arch, recipe and multiply–accumulates of a variant on a task."""
    chosen: Any = space("residual", **variant.get("space", {}))
    arch = list(chosen.plain(task))
    for place, decision in enumerate(chosen.decisions):
        if decision.name in variant.get("arch", {}):
            arch[place] = decision.options.index(variant["arch"][decision.name])
        if decision.name == "stride":
            arch[place] = min(max(0, arch[place] + variant.get("stride", 0)), len(decision.options) - 1)
    kinds = {"none": Augmentation(), "full": FULL[task.dims], "light": LIGHT[task.dims]}
    how = kinds[variant.get("augmentation", "light")]
    if variant.get("flip"):
        how = replace(how, flip=tuple(range(task.dims)))
    if "mask" in variant:
        how = replace(how, mask=variant["mask"])
    n, flops = len(task.part("train")), float(chosen.counts(tuple(arch), task).flops)
    batch = min(32, max(8, n // 8))
    made = recipe("default", **{"batch": batch, "augmentation": how, **variant.get("recipe", {})})
    epochs = variant.get("seconds", SECONDS) * PACE / (3 * flops * n)
    if epochs < 4:  # schedules are planned in steps: parts of epochs on large data
        samples = max(made.batch * FEWEST_STEPS // 4, int(epochs * n / 4))
        made = replace(made, samples=samples, epochs=4)
    else:
        made = replace(made, epochs=min(MOST_EPOCHS, round(epochs)))
    return chosen, tuple(arch), made, flops


_TASKS: dict[str, Task] = {}


def one(name: str, fold: int, label: str, seed: int, device: str) -> dict[str, Any]:
    """Train one variant on one fold; its held-out logits."""
    torch.set_num_threads(1)
    if name not in _TASKS:
        _TASKS[name] = named_task(name)
    task = fold_of(_TASKS[name], fold)
    chosen, arch, made, flops = setting_of(task, VARIANTS[label])
    with seeded(seed):
        net = chosen.build(arch, task)
    about = {"set": name, "fold": fold, "variant": label, "flops": flops, "arch": chosen.format(arch)}
    return trained_on(task, net, made, seed, device, about)


def trained_on(task: Task, net: Any, made: Recipe, seed: int, device: str, about: dict[str, Any]) -> dict[str, Any]:
    """Train a network; the logarithms of what it says of the samples held out, with what is known about it."""
    start = time.monotonic()
    trained = train(net, task, made, seed=seed, device=device)
    about |= {"seconds": time.monotonic() - start, "status": trained.status}
    about |= {"seed": seed, "epochs": made.epochs, "samples": made.samples}
    said, valid = predict_part(trained.net, task, "valid", device), task.part("valid")
    answers = np.log(np.maximum(said, 1e-30)).astype(np.float32)
    return {"about": about, "answers": answers, "y": np.asarray(valid.y)[valid.first]}


def options(description: str | None) -> argparse.ArgumentParser:
    """What a study of trainings can be asked for."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--sets", nargs="+", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=500.0, help="No job is begun after so many.")
    parser.add_argument("--output", required=True)
    return parser


def pool_of(asked: argparse.Namespace) -> ProcessPoolExecutor:
    """The processes that train."""
    return ProcessPoolExecutor(asked.processes, mp_context=multiprocessing.get_context("spawn"))


def train_all(
    pool: ProcessPoolExecutor,
    one: Callable[..., dict[str, Any]],
    jobs: Sequence[tuple[Any, ...]],
    asked: argparse.Namespace,
    **more: Any,
) -> None:
    """Do all trainings that can be begun in time, and write what they came to."""
    start, found = time.monotonic(), []
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
    texts = {"about": [each["about"] for each in found], **more}
    np.savez_compressed(asked.output, **{name: np.array(json.dumps(text)) for name, text in texts.items()}, **arrays)
    print(f"{len(found)} of {len(jobs)} trainings in {time.monotonic() - start:.0f} s")


def main() -> None:
    """Run the study as the command line asks for it."""
    parser = options(__doc__)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    every = itertools.product(range(asked.seeds), range(asked.folds), asked.variants, asked.sets)
    jobs = [(name, fold, label, seed, asked.device) for seed, fold, label, name in every]
    with pool_of(asked) as pool:
        train_all(pool, one, jobs, asked)


if __name__ == "__main__":
    main()
