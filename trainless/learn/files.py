"""A trained ensemble as files: JSON and safetensors in one folder, no pickle, no search code to load it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainless.core.errors import InputError
from trainless.core.target import Target
from trainless.core.task import InputFormat, Task
from trainless.core.text import undamaged
from trainless.learn.checkpoint import epoch_from_json, load_weights, read_tensors, write_tensors
from trainless.learn.conformal import intervals_from_json, sets_from_json
from trainless.learn.deferral import deferral_from_json
from trainless.learn.drift import Drift
from trainless.learn.loop import Report, Trained
from trainless.learn.members import Member, build, member_from_json, train_member
from trainless.learn.predictor import Predictor
from trainless.spaces.protocol import Space

VERSION = 1
WEIGHTS, MEMBER, CHECKPOINT = "weights.safetensors", "member.json", "checkpoint.safetensors"
ENSEMBLE, DRIFT = "ensemble.json", "drift.safetensors"


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write strict JSON in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(part, path)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object of this version."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({error}): expected a folder that trainless wrote") from error
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise InputError(f"{path} is not of version {VERSION}: it was written by another trainless; train again")
    return data


def task_to_json(task: Task) -> dict[str, Any]:
    """What a task is, without its data."""
    return {
        "name": task.name,
        "input_shape": list(task.input_shape),
        "target": {"kind": task.target.kind, "outputs": task.target.outputs, "names": list(task.target.names)},
        "mean": list(task.mean),
        "std": list(task.std),
        "vocabulary": task.vocabulary,
        "fingerprint": task.fingerprint,
    }


def task_from_json(data: Mapping[str, Any]) -> Task:
    """The task without its data: enough to build networks and to normalise inputs.

    Example:
        >>> task = Task.noise((3, 8, 8))
        >>> again = task_from_json(task_to_json(task))
        >>> again.input_shape, again.target == task.target
        ((3, 8, 8), True)
    """
    target = data["target"]
    return Task(
        data["name"],
        tuple(data["input_shape"]),
        Target(target["kind"], target["outputs"], tuple(target["names"])),
        mean=tuple(data["mean"]),
        std=tuple(data["std"]),
        vocabulary=data["vocabulary"],
        fingerprint=data["fingerprint"],
    )


def save_member(folder: Path, member: Member, trained: Trained, task: Task) -> None:
    """Write a trained member; its JSON is written last, so that a folder with one is complete."""
    write_tensors(folder / WEIGHTS, trained.net.state_dict(), {"member": member.to_json()})
    history = [epoch.to_json() for epoch in trained.history]
    about = {"version": VERSION, "member": member.to_json(), "status": trained.status, "history": history}
    write_json(folder / MEMBER, {**about, "task": task_to_json(task)})


def load_member(folder: Path, chosen: Space | None = None) -> tuple[Member, Trained, Task]:
    """Read a trained member: build its network and put its weights in.

    Args:
        folder: Where ``save_member`` wrote it.
        chosen: The space, where it is not a registered one.
    """
    data = read_json(folder / MEMBER)
    with undamaged(folder / MEMBER, "delete its folder and train again"):
        member, task = member_from_json(data["member"]), task_from_json(data["task"])
        net = build(member, task, chosen)
        history = tuple(epoch_from_json(epoch) for epoch in data["history"])
        status = str(data["status"])
    load_weights(net, read_tensors(folder / WEIGHTS)[0], str(folder))
    return member, Trained(net.eval(), history, status), task


def finish_member(
    folder: Path,
    member: Member,
    task: Task,
    *,
    device: torch.device | str = "cpu",
    interval: float = 20.0,
    report: Report | None = None,
    chosen: Space | None = None,
) -> Trained:
    """Have a trained member in its folder: read it, go on from its checkpoint, or train it from the start.

    Args:
        folder: The member's own.
        member: What it has to be.
        task: The data.
        device: Where to train.
        interval: Seconds between checkpoints.
        report: Called after each epoch that is trained.
        chosen: The space, where it is not a registered one.
    """
    if (folder / MEMBER).exists():
        held, trained, about = load_member(folder, chosen)
        if (held, about.fingerprint) != (member, task.fingerprint):
            raise InputError(f"{folder} holds another member or one of other data: choose another folder")
        return trained
    checkpoint = folder / CHECKPOINT
    trained = train_member(
        member, task, device=device, checkpoint=checkpoint, interval=interval, report=report, chosen=chosen
    )
    save_member(folder, member, trained, task)
    checkpoint.unlink(missing_ok=True)
    return trained


def save_predictor(folder: Path, predictor: Predictor, members: list[str]) -> None:
    """Write what joins the members: weights, temperature, conformal thresholds, deferral rule and drift.

    Args:
        folder: Where the members' folders are.
        predictor: The ensemble.
        members: The name of each member's folder under ``members/``, in the ensemble's order.
    """
    for name in members:
        member_folder(folder, name)
    if predictor.drift is not None:
        tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in vars(predictor.drift).items()}
        write_tensors(folder / DRIFT, tensors, {})
    parts = {"sets": predictor.sets, "intervals": predictor.intervals, "deferral": predictor.deferral}
    about: dict[str, Any] = {
        "version": VERSION,
        "task": task_to_json(predictor.task),
        "source": predictor.task.source.to_json(),
        "members": members,
        "weights": [float(weight) for weight in predictor.weights],
        "temperature": predictor.temperature,
        "drift": predictor.drift is not None,
        **{name: None if part is None else part.to_json() for name, part in parts.items()},
    }
    write_json(folder / ENSEMBLE, about)


def load_predictor(folder: Path, chosen: Space | None = None) -> Predictor:
    """Read an ensemble with everything that it promises; nothing is executed but the spaces' own builders."""
    data = read_json(folder / ENSEMBLE)
    with undamaged(folder / ENSEMBLE, "run trainless design again in a new folder"):
        nets = [load_member(member_folder(folder, str(name)), chosen)[1].net for name in data["members"]]
        task = task_from_json(data["task"])
        source = InputFormat.from_json(data["source"]) if "source" in data else InputFormat()
        return Predictor(
            task=replace(task, source=source),
            nets=tuple(nets),
            weights=np.asarray(data["weights"], np.float64),
            temperature=float(data["temperature"]),
            sets=None if data["sets"] is None else sets_from_json(data["sets"]),
            intervals=None if data["intervals"] is None else intervals_from_json(data["intervals"]),
            deferral=None if data["deferral"] is None else deferral_from_json(data["deferral"]),
            drift=_drift(folder / DRIFT) if data["drift"] else None,
        )


def member_folder(folder: Path, name: str) -> Path:
    """The folder of a member; a name that would lead elsewhere is refused.

    Example:
        >>> member_folder(Path("run"), "00").as_posix()
        'run/members/00'
    """
    if not name or not all(sign.isalnum() or sign in "-_" for sign in name):
        raise InputError(f"{name!r} cannot name a member: expected letters, digits, '-' and '_' alone")
    return folder / "members" / name


def _drift(path: Path) -> Drift:
    tensors, _ = read_tensors(path)
    return Drift(*(tensors[name].numpy() for name in ("mean", "axes", "reference")))
