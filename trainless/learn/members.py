"""Members of an ensemble: what one is as plain data, how it is built, trained, written and read; no pickle."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.files import from_json, read_json, strict, to_json, write_json
from trainless.core.opening import below, is_there, remove
from trainless.core.seeds import seeded
from trainless.core.task import Task
from trainless.core.text import undamaged
from trainless.core.types import Json
from trainless.learn.callbacks import Callback
from trainless.learn.checkpoint import Epoch, Trained, load_weights, no_larger_than, read_tensors, write_tensors
from trainless.learn.loop import train
from trainless.learn.recipe import Recipe
from trainless.spaces import registry
from trainless.spaces import space as searched_space
from trainless.spaces.pretrained import Pretrained
from trainless.spaces.protocol import Space, require_arch
from trainless.spaces.trees import Trees

VERSION = 1
WEIGHTS, MEMBER, CHECKPOINT = "weights.safetensors", "member.json", "checkpoint.safetensors"
DESCRIPTION = ("name", "input_shape", "target", "mean", "std", "vocabulary", "fingerprint", "source")  # of a task


def space(name: str, **parameters: Any) -> Space:
    """The space of a member: a registered one, or one that nothing searches: trees, pretrained backbones."""
    own: dict[str, Callable[..., Space]] = {Trees.name: Trees, Pretrained.name: Pretrained}
    return own[name](**parameters) if name in own else searched_space(name, **parameters)


@dataclass(frozen=True)
class Member:
    """One network to be trained: everything that decides its weights, except the data and the machine.

    The space is a registered name with its parameters. ``fold`` is the fold of small data that it is not trained on.

    Example:
        >>> from trainless.learn.recipe import recipe
        >>> from trainless.spaces import space
        >>> member = member_of(space("nb201", channels=4, cells=1), (3, 0, 0, 1, 0, 0), recipe("default"))
        >>> member.space, member.parameters, member.seed
        ('nb201', {'channels': 4, 'cells': 1}, 0)
    """

    space: str
    parameters: Mapping[str, Any]
    arch: Arch
    seed: int
    recipe: Recipe
    fold: int = 0


def member_of(chosen: Space, arch: Arch, recipe: Recipe, seed: int = 0) -> Member:
    """The member of an arch; the space is described by its name and the parameters that its factory takes.

    A space that is not registered is described by its name alone and has to be given again where a member is built.
    """
    require_arch(chosen, arch)
    return Member(chosen.name, _parameters(chosen), arch, seed, recipe)


def of_architectures(chosen: Space, archs: Iterable[Arch], recipe: Recipe, seed: int = 0) -> list[Member]:
    """One member per arch, each with a seed of its own; archs may be the same (TEACUP's baseline, 7.7)."""
    return [member_of(chosen, arch, recipe, seed + number) for number, arch in enumerate(archs)]


def build(member: Member, task: Task, chosen: Space | None = None, *, begin: bool = True) -> nn.Module:
    """The member's network; ``chosen`` is a space that is not registered.

    To ``begin`` is to give it the weights that its training begins with: drawn by its seed, or those of a pretrained
    backbone. Without, a backbone's file is not needed.
    """
    if chosen is not None and chosen.name != member.space:
        chosen = None
    if chosen is None and ":" in member.space:
        raise InputError(
            f"the member's space is {member.space}, whose code runs only where you name it: give --space {member.space}"
        )
    home = chosen if chosen is not None else space(member.space, **member.parameters)
    with seeded(member.seed):
        return (
            home.build(member.arch, task)
            if begin or not isinstance(home, Pretrained)
            else home.skeleton(member.arch, task)
        )


def member_folder(folder: Path, name: str) -> Path:
    """The folder of a member; a name that would lead elsewhere is refused."""
    return below(folder, "members", name)


def read_document(path: Path) -> Json:
    """Read a JSON object that this version wrote."""
    found = read_json(path, "expected a folder that trainless wrote")
    if found.get("version") != VERSION:
        raise InputError(f"{path} is not of version {VERSION}: it was written by another trainless; train again")
    return found


def task_to_json(task: Task) -> Json:
    """Describe a task without its data."""
    return {name: to_json(getattr(task, name)) for name in DESCRIPTION}


def task_from_json(data: Json) -> Task:
    """The task without its data: enough to build networks and to normalise inputs."""
    return from_json(Task, {name: data[name] for name in DESCRIPTION if name in data})


def notation(member: Member, chosen: Space | None = None) -> str:
    """The arch of a member as its space writes it; ``chosen`` is a space that is not registered."""
    home = chosen if chosen is not None and chosen.name == member.space else None
    return (home or space(member.space, **member.parameters)).format(member.arch)


def save_member(folder: Path, member: Member, trained: Trained, task: Task, chosen: Space | None = None) -> None:
    """Write a trained member; its JSON is written last, so that a folder with one is complete."""
    write_tensors(folder / WEIGHTS, trained.net.state_dict(), {"member": to_json(member)})
    about = {"version": VERSION, "member": to_json(member), "status": trained.status}
    about["text"] = notation(member, chosen)
    write_json(folder / MEMBER, {**about, "history": strict(trained.history), "task": task_to_json(task)})


def load_member(folder: Path, chosen: Space | None = None) -> tuple[Member, Trained, Task]:
    """Read a trained member: build its network and put its weights in."""
    data, weights = read_document(folder / MEMBER), read_tensors(folder / WEIGHTS)[0]
    with undamaged(folder / MEMBER, "delete its folder and train again"), no_larger_than(weights):
        member, task, status = from_json(Member, data["member"]), task_from_json(data["task"]), str(data["status"])
        net = build(member, task, chosen, begin=False)
    load_weights(net, weights, str(folder))
    return member, Trained(net.eval(), history_in(data, folder), status), task


def history_of(folder: Path) -> tuple[Epoch, ...]:
    """The epochs of a trained member."""
    return history_in(read_document(folder / MEMBER), folder)


def history_in(data: Json, folder: Path) -> tuple[Epoch, ...]:
    """The epochs in a member's document."""
    with undamaged(folder / MEMBER, "delete its folder and train again"):
        return tuple(from_json(Epoch, epoch) for epoch in data["history"])


def finish_member(
    folder: Path,
    member: Member,
    task: Task,
    *,
    device: torch.device | str = "cpu",
    interval: float = 20.0,
    callbacks: Sequence[Callback] = (),
    chosen: Space | None = None,
    deadline: float | None = None,
) -> Trained:
    """Have a trained member in its folder: read it, resume from its checkpoint, or train it from the start."""
    if is_there(folder / MEMBER):
        held, trained, about = load_member(folder, chosen)
        if (held, about.fingerprint) != (member, task.fingerprint):
            raise InputError(f"{folder} holds another member or one of other data: choose another folder")
        return trained
    checkpoint, net, seed = folder / CHECKPOINT, build(member, task, chosen), member.seed
    trained = train(
        net,
        task,
        member.recipe,
        seed=seed,
        device=device,
        checkpoint=checkpoint,
        interval=interval,
        callbacks=callbacks,
        deadline=deadline,
    )
    save_member(folder, member, trained, task, chosen)
    remove(checkpoint)
    return trained


def _parameters(chosen: Space) -> dict[str, Any]:
    if isinstance(chosen, Pretrained):
        return dict(vars(chosen))
    if chosen.name not in registry:
        return {}
    described: Any = chosen
    own = {field.name for field in dataclasses.fields(described)} if dataclasses.is_dataclass(described) else set()
    taken = [name for name in inspect.signature(registry[chosen.name]).parameters if name in own]
    parameters = {name: getattr(chosen, name) for name in taken}
    if space(chosen.name, **parameters) != chosen:
        raise InputError(f"the space {chosen.name} cannot be made again from {parameters}: use a registered space")
    return parameters
