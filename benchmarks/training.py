"""Images per second of the training loop against a bare hand-written PyTorch loop for the same network.

    python benchmarks/training.py --out training.json [--device cuda]

Both loops shuffle, train with SGD and Nesterov momentum, follow a cosine, and validate after each epoch. The bare one
is float32 and has neither augmentation nor checkpoints nor best weights to keep; ours runs as it always does. The two
take turns, and the medians are compared.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from trainless.core.target import Target
from trainless.core.task import Part, Task
from trainless.learn.batches import Precision, precision_for
from trainless.learn.loop import train
from trainless.learn.recipe import Augmentation, Recipe
from trainless.spaces import space

Case = tuple[tuple[int, ...], int, int, int, int]  # input, channels, cells, samples, batch
ARCH = (3, 1, 3, 1, 3, 2)
CASES: dict[str, dict[str, Case]] = {
    "cpu": {
        "1d": ((1, 500), 4, 1, 512, 64),
        "2d": ((3, 32, 32), 8, 1, 512, 64),
        "3d": ((1, 12, 12, 12), 4, 1, 256, 32),
    },
    "cuda": {
        "1d": ((1, 1000), 16, 5, 4096, 256),
        "2d": ((3, 32, 32), 16, 5, 4096, 256),
        "2d-small": ((1, 28, 28), 16, 5, 546, 64),
        "2d-wide": ((3, 32, 32), 64, 5, 4096, 256),
        "3d": ((1, 28, 28, 28), 16, 5, 1152, 64),
    },
}
LIGHT = {1: Augmentation(shift=0.05, scale=0.1, noise=0.02), 2: Augmentation("last", 0.125), 3: Augmentation("all")}


def made_task(shape: tuple[int, ...], n: int) -> Task:
    """Random inputs and labels."""
    random = np.random.default_rng(0)

    def part(size: int) -> Part:
        return Part(random.normal(size=(size, *shape)).astype(np.float32), random.integers(10, size=size))

    return Task("random", shape, Target("multiclass", 10), part(n), part(n // 8), None, fingerprint="random")


def bare(net: nn.Module, task: Task, recipe: Recipe, how: Precision) -> None:
    """The loop that one would write by hand for this task alone."""
    device = how.device
    (x, y), (vx, vy) = ([t.to(device) for t in task.tensors(part)] for part in ("train", "valid"))
    x, vx = how.arrange(x), how.arrange(vx)
    net = how.place(net)
    optimiser = torch.optim.SGD(net.parameters(), recipe.lr, recipe.momentum, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, recipe.epochs)
    for _ in range(recipe.epochs):
        net.train()
        for index in torch.randperm(len(x), device=device).split(recipe.batch):
            with how.autocast():
                loss = F.cross_entropy(net(x[index]), y[index])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()
        net.eval()
        with torch.no_grad(), how.autocast():
            correct = [
                (net(part).argmax(1) == labels).sum() for part, labels in zip(vx.split(512), vy.split(512), strict=True)
            ]
        math.fsum(float(value) for value in correct)


def rate(run: Callable[[], object], task: Task, recipe: Recipe, device: torch.device) -> float:
    """Training samples per second of wall time, validation included."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return recipe.epochs * len(task.part("train")) / (time.perf_counter() - start)


def measure(case: Case, device: torch.device, epochs: int, turns: int) -> dict[str, object]:
    """Both loops in turn on one network, and the medians."""
    shape, channels, cells, n, batch = case
    task = made_task(shape, n)
    recipe = Recipe("bench", lr=0.01, epochs=epochs, batch=batch, keep="best", augmentation=LIGHT[task.dims])
    plain = Recipe("bench", lr=0.01, epochs=epochs, batch=batch)
    home = space("nb201", channels=channels, cells=cells)
    net = partial(home.build, ARCH, task)
    float32, ours = Precision(device), precision_for(device, task)
    runs = {
        "bare": lambda: bare(net(), task, recipe, float32),
        "ours": lambda: train(net(), task, recipe, device=device),
        "ours without augmentation": lambda: train(net(), task, plain, device=device),
    }
    if device.type == "cuda":
        last = {2: torch.channels_last, 3: torch.channels_last_3d}.get(task.dims, torch.contiguous_format)
        for dtype in (torch.float32, torch.bfloat16):
            for layout in {torch.contiguous_format, last}:
                how = Precision(device, dtype, layout)
                runs[f"ours {dtype} {layout}"] = partial(train, net(), task, recipe, device=device, precision=how)
    warm = Recipe("warm", lr=0.01, epochs=1, batch=batch)
    train(net(), task, warm, device=device)
    bare(net(), task, warm, float32)
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(turns):
        for name, run in runs.items():
            rates[name].append(rate(run, task, recipe, device))
    medians = {name: round(statistics.median(values), 1) for name, values in rates.items()}
    return {
        "input": list(shape),
        "channels": channels,
        "cells": cells,
        "batch": batch,
        "samples": n,
        "dtype": str(ours.dtype),
        "images_per_second": medians,
        "ratio": round(medians["ours"] / medians["bare"], 3),
        "ratio_without_augmentation": round(medians["ours without augmentation"] / medians["bare"], 3),
    }


def environment(device: torch.device) -> dict[str, object]:
    """What the numbers depend on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": name,
        "threads": torch.get_num_threads(),
        "system": platform.platform(),
    }


def main() -> None:
    """Measure all cases of a device and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("training.json"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    results = {}
    for name, case in CASES[device.type].items():
        results[name] = measure(case, device, options.epochs, options.turns)
        print(name, json.dumps(results[name]), flush=True)
    options.out.write_text(json.dumps({"environment": environment(device), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
