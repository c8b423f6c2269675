"""Training many networks at once on one device, keeping what each answers; tasks as plain arrays for a bare machine.

Needs torch, NumPy, SciPy and safetensors. ``benchmarks/teacup.py`` is the command line.

A job is ``{"task", "role", "space": {"channels": 16, "cells": 5}, "arch": "…" or "resnet18", "width", "seed", "recipe",
"epochs", "batch"}``; zero epochs or batch are the recipe's own, ``width`` is of ResNet-18's first stage.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import queue
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainless.core.target import Target
from trainless.core.task import Part, Task
from trainless.execution.fork_server import shared_gpu
from trainless.learn.loop import train
from trainless.learn.predictor import predict_part
from trainless.learn.recipe import Recipe, recipe
from trainless.probe.counts import count
from trainless.spaces import space
from trainless.spaces.nb201 import NasBench201
from trainless.spaces.ops import CONV, GLOBAL, NORM

PARTS = ("train", "valid", "test")
GIVEN = ("task", "role", "space", "arch", "width", "seed", "recipe", "epochs", "batch")
Job = dict[str, Any]


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


def resnet18(task: Task, width: int = 64) -> nn.Module:
    """A ResNet-18 with a stem of one 3-wide convolution, as used on small images."""
    dims = task.dims
    conv, norm = CONV[dims], NORM[dims]
    layers: list[nn.Module] = [conv(task.input_shape[0], width, 3, 1, 1, bias=False), norm(width), nn.ReLU()]
    inner = width
    for stage in range(4):
        outer = width * 2**stage
        layers += [Block(dims, inner, outer, 2 if stage else 1), Block(dims, outer, outer, 1)]
        inner = outer
    return nn.Sequential(*layers, GLOBAL[dims](1), nn.Flatten(), nn.Linear(inner, task.target.outputs))


def network(job: Job, task: Task) -> nn.Module:
    """The job's network with PyTorch's own initial weights, drawn by its seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(job["seed"])
        if job["arch"] == "resnet18":
            return resnet18(task, job["width"])
        chosen = space("nb201", **job["space"])
        return chosen.build(chosen.parse(job["arch"]), task)


def recipe_of(job: Job) -> Recipe:
    """The job's recipe, cut to its epochs."""
    found = recipe(job["recipe"])
    epochs = job["epochs"] or found.epochs
    return recipe(
        job["recipe"],
        epochs=epochs,
        warmup=min(found.warmup, epochs // 5),
        batch=job["batch"] or found.batch,
        patience=0 if found.patience >= epochs else found.patience,
    )


def work_of(job: Job, task: Task) -> float:
    """Multiply–accumulates of a whole training: three passes over every sample in every epoch."""
    if job["arch"] == "resnet18":
        flops = count(network(job, task), task.input_shape).flops
    else:
        chosen = NasBench201(**job["space"])
        flops = chosen.counts(chosen.parse(job["arch"]), task).flops
    return 3.0 * flops * len(task.part("train")) * recipe_of(job).epochs


def identity(job: Job) -> str:
    """What decides a job's result."""
    return json.dumps({name: job[name] for name in GIVEN}, sort_keys=True)


def train_all(
    jobs: list[Job], data: Path, out: Path, *, processes: int = 1, device: str = "cpu", limit: float = 1e9
) -> list[Job]:
    """Train all jobs, those with the most work first, until the time is over; the file is written after each.

    What the file holds already is not trained again, so that the same call goes on. It has ``jobs`` (a JSON list, each
    with its status, seconds and losses), ``NUMBER_valid`` and ``NUMBER_test`` (probabilities of each class), and
    ``TASK_valid`` and ``TASK_test`` (true classes).
    """
    deadline = time.monotonic() + limit
    tasks = {name: unpack(name, data) for name in dict.fromkeys(job["task"] for job in jobs)}
    listed, arrays = _known(jobs, out)
    for name, task in tasks.items():
        arrays |= {f"{name}_{part}": np.asarray(task.part(part).y) for part in ("valid", "test")}
    rest = [number for number, job in enumerate(listed) if "seconds" not in job]
    rest.sort(key=lambda number: -work_of(listed[number], tasks[listed[number]["task"]]))
    context = multiprocessing.get_context("spawn")
    todo, done = context.Queue(), context.Queue()
    for item in [*((number, listed[number]) for number in rest), *[None] * processes]:
        todo.put(item)
    began = time.monotonic()
    with shared_gpu(device.startswith("cuda") and processes > 1):
        crew = [context.Process(target=_work, args=(todo, done, data, device), daemon=True) for _ in range(processes)]
        for one in crew:
            one.start()
        try:
            for finished in range(1, len(rest) + 1):
                number, about, answers = _next(done, crew, deadline)
                listed[number] |= about
                arrays |= {f"{number}_{part}": values.astype(np.float32) for part, values in answers.items()}
                _write(out, listed, arrays)
                print(f"{time.monotonic() - began:6.0f} s  {finished}/{len(rest)}  {about['status'][:80]}", flush=True)
        except TimeoutError as reason:
            print(f"{reason}: the same command goes on with the rest", flush=True)
        finally:
            for one in crew:
                one.terminate()
                one.join()
    return listed


def _next(done: Any, crew: list[Any], deadline: float) -> Any:
    while time.monotonic() < deadline:
        try:
            return done.get(timeout=1.0)
        except queue.Empty:
            if not any(one.is_alive() for one in crew):
                raise TimeoutError("all processes have ended before their work") from None
    raise TimeoutError("the time is over")


def _known(jobs: list[Job], out: Path) -> tuple[list[Job], dict[str, Any]]:
    """The jobs with what is known of them, and their predictions by their present numbers."""
    listed, arrays = [dict(job) for job in jobs], {}
    if out.is_file():
        with np.load(out, allow_pickle=False) as file:
            held = json.loads(str(file["jobs"]))
            before = {identity(job): number for number, job in enumerate(held) if "seconds" in job}
            for number, job in enumerate(listed):
                if (old := before.get(identity(job))) is not None:
                    listed[number] = held[old]
                    for part in ("valid", "test"):
                        arrays[f"{number}_{part}"] = file[f"{old}_{part}"]
    return listed, arrays


def _write(out: Path, listed: list[Job], arrays: dict[str, Any]) -> None:
    waiting = out.with_name(f"{out.name}.part.npz")
    np.savez_compressed(waiting, jobs=np.array(json.dumps(listed)), **arrays)
    waiting.replace(out)


def _work(todo: Any, done: Any, data: Path, device: str) -> None:
    """Train what comes until nothing does; a job that fails has no seconds and is tried again by the next call."""
    torch.set_num_threads(1)
    tasks: dict[str, Task] = {}
    while (item := todo.get()) is not None:
        number, job = item
        about: dict[str, Any] = {}
        answers: dict[str, Any] = {}
        try:
            if job["task"] not in tasks:
                tasks[job["task"]] = unpack(job["task"], data)
            task, began = tasks[job["task"]], time.monotonic()
            trained = train(network(job, task), task, recipe_of(job), seed=job["seed"], device=device)
            answers = {part: predict_part(trained.net, task, part, device) for part in ("valid", "test")}
            about = {
                "status": trained.status,
                "seconds": round(time.monotonic() - began, 1),
                "train_loss": [round(epoch.train_loss, 5) for epoch in trained.history],
                "valid_loss": [round(epoch.valid_loss, 5) for epoch in trained.history],
            }
        except Exception as error:  # one job must not end the others
            about = {"status": f"{type(error).__name__}: {error}"[:300]}
        done.put((number, about, answers))
        gc.collect()  # a recorded step refers to itself and would keep its memory on the device
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
