"""Members of an ensemble as plain data: space, arch, seed, recipe; how they are built and trained."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.seeds import seeded
from trainless.core.task import Task
from trainless.learn.loop import Report, Trained, train
from trainless.learn.recipe import Recipe, recipe_from_json
from trainless.spaces import registry, space
from trainless.spaces.protocol import Space, require_arch


@dataclass(frozen=True)
class Member:
    """One network to be trained: everything that decides its weights, except the data and the machine.

    Args:
        space: The registered name of its space.
        parameters: The space's parameters, by name.
        arch: Which architecture.
        seed: Of initial weights, order, augmentation and dropout.
        recipe: How it is trained.

    Example:
        >>> from trainless.learn.recipe import recipe
        >>> member = member_of(space("nb201", channels=4, cells=1), (3, 0, 0, 1, 0, 0), recipe("default"))
        >>> member.space, dict(member.parameters), member.seed
        ('nb201', {'channels': 4, 'cells': 1}, 0)
        >>> member_from_json(member.to_json()) == member
        True
    """

    space: str
    parameters: tuple[tuple[str, Any], ...]
    arch: Arch
    seed: int
    recipe: Recipe

    def to_json(self) -> dict[str, Any]:
        """Plain data from which ``member_from_json`` makes the same member."""
        return {
            "space": self.space,
            "parameters": dict(self.parameters),
            "arch": list(self.arch),
            "seed": self.seed,
            "recipe": self.recipe.to_json(),
        }


def member_from_json(data: Mapping[str, Any]) -> Member:
    """Read what ``Member.to_json`` wrote."""
    try:
        arch = tuple(int(option) for option in data["arch"])
        parameters = tuple((name, _frozen(value)) for name, value in dict(data["parameters"]).items())
        return Member(str(data["space"]), parameters, arch, int(data["seed"]), recipe_from_json(data["recipe"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"a stored member cannot be read ({error}): train it again") from error


def member_of(chosen: Space, arch: Arch, recipe: Recipe, seed: int = 0) -> Member:
    """The member of an arch; the space is described by its name and the parameters that its factory takes.

    A space that is not registered is described by its name alone and has to be given again where a member is built.
    """
    require_arch(chosen, arch)
    return Member(chosen.name, _parameters(chosen), arch, seed, recipe)


def of_architectures(chosen: Space, archs: Iterable[Arch], recipe: Recipe, seed: int = 0) -> list[Member]:
    """One member per arch, each with a seed of its own (TEACUP's ensemble).

    Example:
        >>> from trainless.learn.recipe import recipe
        >>> members = of_architectures(space("nb201"), [(1, 1, 1, 1, 1, 1), (2, 2, 2, 2, 2, 2)], recipe("nb201"))
        >>> [member.seed for member in members]
        [0, 1]
    """
    return [member_of(chosen, arch, recipe, seed + number) for number, arch in enumerate(archs)]


def of_initialisations(chosen: Space, arch: Arch, size: int, recipe: Recipe, seed: int = 0) -> list[Member]:
    """Members of one arch that differ in their seed (TEACUP's single-architecture ensemble, 7.7)."""
    return of_architectures(chosen, [arch] * size, recipe, seed)


def build(member: Member, task: Task, chosen: Space | None = None) -> nn.Module:
    """The member's network with the weights that its seed gives.

    Args:
        member: Which network.
        task: Its input shape and target; no data are needed.
        chosen: The space, where it is not a registered one.
    """
    if chosen is None and ":" in member.space:
        raise InputError(
            f"the member's space is {member.space}, whose code runs only where you name it: give --space {member.space}"
        )
    home = chosen if chosen is not None else space(member.space, **dict(member.parameters))
    with seeded(member.seed):
        return home.build(member.arch, task)


def train_member(
    member: Member,
    task: Task,
    *,
    device: torch.device | str = "cpu",
    checkpoint: Path | None = None,
    interval: float = 20.0,
    report: Report | None = None,
    chosen: Space | None = None,
) -> Trained:
    """Build and train a member; goes on from the checkpoint where there is one."""
    return train(
        build(member, task, chosen),
        task,
        member.recipe,
        seed=member.seed,
        device=device,
        checkpoint=checkpoint,
        interval=interval,
        report=report,
    )


def healthy(trained: Sequence[Trained]) -> tuple[list[Trained], dict[int, str]]:
    """Those that can be averaged, and why the others cannot, by their number."""
    failures = {number: one.status for number, one in enumerate(trained) if one.failed}
    return [one for one in trained if not one.failed], failures


def _frozen(value: Any) -> Any:
    """JSON's lists as the tuples that they were."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _parameters(chosen: Space) -> tuple[tuple[str, Any], ...]:
    if chosen.name not in registry:
        return ()
    described: Any = chosen
    own = {field.name for field in dataclasses.fields(described)} if dataclasses.is_dataclass(described) else set()
    taken = [name for name in inspect.signature(registry[chosen.name]).parameters if name in own]
    parameters = {name: getattr(chosen, name) for name in taken}
    if space(chosen.name, **parameters) != chosen:
        raise InputError(f"the space {chosen.name} cannot be made again from {parameters}: use a registered space")
    return tuple(parameters.items())
