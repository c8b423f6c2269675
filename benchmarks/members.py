"""Train many networks at once on one device and keep what each answers, for the figures on ensembles and rankings.

    python benchmarks/members.py pack breastmnist cinc2017 --out packed      # here: the data as plain arrays
    python benchmarks/members.py train jobs.json --data packed --processes 8 --device cuda --out members.npz

``jobs.json`` is a list of ``{"task", "role", "space": {"channels": 16, "cells": 5}, "arch": "…" | "resnet18", "seed",
"recipe", "epochs"}``. Training needs torch, NumPy and safetensors. Jobs are taken in the order of the list.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainless.core.target import Target
from trainless.core.task import Part, Task
from trainless.learn.loop import train
from trainless.learn.outputs import predict_part
from trainless.learn.recipe import Recipe, recipe
from trainless.spaces import space
from trainless.spaces.ops import CONV, GLOBAL, NORM

PARTS = ("train", "valid", "test")


def pack(name: str, folder: Path) -> None:
    """Write a task as arrays."""
    from trainless.tasks import task

    found = task(name)
    arrays = {f"{part}_{axis}": np.asarray(getattr(found.part(part), axis)[:]) for part in PARTS for axis in "xy"}
    target = {"kind": found.target.kind, "outputs": found.target.outputs, "names": found.target.names}
    about = json.dumps({"target": target, "mean": found.mean, "std": found.std})
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / f"{name}.npz", about=np.array(about), **arrays)


def unpack(name: str, folder: Path) -> Task:
    """Read what ``pack`` wrote."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        about = json.loads(str(file["about"]))
        parts = [Part(file[f"{part}_x"], file[f"{part}_y"]) for part in PARTS]
    target = Target(about["target"]["kind"], about["target"]["outputs"], tuple(about["target"]["names"]))
    return Task(name, parts[0].x.shape[1:], target, *parts, tuple(about["mean"]), tuple(about["std"]))


class Block(nn.Module):
    """ResNet-18's basic block in any number of dimensions."""

    def __init__(self, dims: int, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        conv, norm = CONV[dims], NORM[dims]
        self.body = nn.Sequential(
            conv(inner, outer, 3, stride, 1, bias=False),
            norm(outer),
            nn.ReLU(),
            conv(outer, outer, 3, 1, 1, bias=False),
            norm(outer),
        )
        same = inner == outer and stride == 1
        self.skip = nn.Identity() if same else nn.Sequential(conv(inner, outer, 1, stride, bias=False), norm(outer))
        self.last = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Body plus shortcut."""
        return self.last(self.body(x) + self.skip(x))


def resnet18(task: Task) -> nn.Module:
    """A ResNet-18 with a stem of one 3-wide convolution, as used on small images."""
    dims, wide = task.dims, (64, 128, 256, 512)
    conv, norm = CONV[dims], NORM[dims]
    layers: list[nn.Module] = [conv(task.input_shape[0], 64, 3, 1, 1, bias=False), norm(64), nn.ReLU()]
    inner = 64
    for stage, outer in enumerate(wide):
        layers += [Block(dims, inner, outer, 2 if stage else 1), Block(dims, outer, outer, 1)]
        inner = outer
    return nn.Sequential(*layers, GLOBAL[dims](1), nn.Flatten(), nn.Linear(inner, task.target.outputs))


def network(job: dict[str, Any], task: Task) -> nn.Module:
    """The job's network with PyTorch's own initial weights, drawn by its seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(job["seed"])
        if job["arch"] == "resnet18":
            return resnet18(task)
        chosen = space("nb201", **job["space"])
        return chosen.build(chosen.parse(job["arch"]), task)


def plan(job: dict[str, Any]) -> Recipe:
    """The job's recipe, cut to its epochs."""
    found = recipe(job["recipe"])
    epochs = job.get("epochs") or found.epochs
    return recipe(
        job["recipe"],
        epochs=epochs,
        warmup=min(found.warmup, epochs // 5),
        batch=job.get("batch") or found.batch,
        patience=0 if found.patience >= epochs else found.patience,
    )


def work(jobs: Any, done: Any, folder: Path, device: str, deadline: float) -> None:
    """Train what comes until nothing does or the time is over."""
    torch.set_num_threads(1)
    tasks: dict[str, Task] = {}
    while (item := jobs.get()) is not None:
        number, job = item
        if time.time() > deadline:
            done.put((number, {"status": "not begun: the time was over"}, {}))
            continue
        try:
            task = tasks.setdefault(job["task"], unpack(job["task"], folder))
            began = time.time()
            trained = train(network(job, task), task, plan(job), seed=job["seed"], device=device)
            answers = {part: predict_part(trained.net, task, part, device) for part in ("valid", "test")}
            about = {
                "status": trained.status,
                "seconds": round(time.time() - began, 1),
                "train_loss": [round(epoch.train_loss, 5) for epoch in trained.history],
                "valid_loss": [round(epoch.valid_loss, 5) for epoch in trained.history],
            }
        except Exception as error:  # one job must not end the others
            about, answers = {"status": f"{type(error).__name__}: {error}"[:300]}, {}
        done.put((number, about, answers))


def train_all(path: Path, data: Path, processes: int, device: str, limit: float, out: Path) -> None:
    """Train all jobs; the file is written again every time that another twenty are done."""
    listed = json.loads(path.read_text(encoding="utf-8"))
    context = multiprocessing.get_context("spawn")
    jobs, done = context.Queue(), context.Queue()
    for item in [*enumerate(listed), *[None] * processes]:
        jobs.put(item)
    deadline = time.time() + limit
    crew = [context.Process(target=work, args=(jobs, done, data, device, deadline)) for _ in range(processes)]
    for one in crew:
        one.start()
    arrays: dict[str, np.ndarray] = {}
    began = time.time()
    for count in range(len(listed)):
        number, about, answers = done.get()
        listed[number].update(about)
        arrays.update({f"{number}_{part}": values.astype(np.float32) for part, values in answers.items()})
        if count % 20 == 19 or count + 1 == len(listed):
            np.savez_compressed(out, jobs=np.array(json.dumps(listed)), **arrays)
            print(f"{time.time() - began:6.0f} s  {count + 1}/{len(listed)}", flush=True)
    for one in crew:
        one.join()


def main() -> None:
    """Pack or train."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("tasks", nargs="+")
    packing.add_argument("--out", type=Path, required=True)
    training = commands.add_parser("train")
    training.add_argument("jobs", type=Path)
    training.add_argument("--data", type=Path, required=True)
    training.add_argument("--processes", type=int, default=1)
    training.add_argument("--device", default="cpu")
    training.add_argument("--limit-s", type=float, default=1e9)
    training.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    if given.command == "pack":
        for name in given.tasks:
            pack(name, given.out)
    else:
        train_all(given.jobs, given.data, given.processes, given.device, given.limit_s, given.out)


if __name__ == "__main__":
    main()
