"""The contract of a search space and its optional parts, what spaces require of archs and tasks, a plain notation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import nn

from trainless.core.arch import Arch, Decision, Region
from trainless.core.errors import InputError
from trainless.core.markup import card
from trainless.core.task import Task
from trainless.core.text import counted
from trainless.core.user_files import class_digest
from trainless.spaces.moves import Choices, has_options, size

LARGEST = 1_000_000  # of any number that a space is made with


@runtime_checkable
class Space(Choices, Protocol):
    """Decisions, validity, canonical form, build and notation; sampling and moves are free functions."""

    def check(self, task: Task) -> None:
        """Raise InputError where networks of this space cannot take the task's inputs."""
        ...

    def build(self, arch: Arch, task: Task) -> nn.Module:
        """The network, freshly initialised by PyTorch's own rules."""
        ...

    def parse(self, text: str) -> Arch:
        """Read the field's own notation."""
        ...

    def format(self, arch: Arch) -> str:
        """Write the field's own notation."""
        ...


class ShownSpace:
    """A space as a notebook shows it: its decisions with their options."""

    def _repr_html_(self: Space) -> str:
        rows = [[decision.name, ", ".join(decision.options)] for decision in self.decisions]
        several = f"{size(self):,} combinations of {counted(len(self.decisions), 'decision')}"
        return card(f"Space {self.name}", several, head=["decision", "options"], rows=rows)


class IndependentDecisions(ShownSpace):
    """A space whose every combination of options is a network unlike all others, written as ``name=option,…``."""

    def valid(self: Space, arch: Arch) -> bool:
        return has_options(self, arch)

    def canonical(self, arch: Arch) -> Arch:
        return arch

    def parse(self: Space, text: str) -> Arch:
        return parse_pairs(self.name, self.decisions, text)

    def format(self: Space, arch: Arch) -> str:
        require_arch(self, arch)
        return format_pairs(self.decisions, arch)


@runtime_checkable
class Supernet(Space, Protocol):
    """A space whose regions are networks too: every open option is there with its own weights."""

    def build_region(self, region: Region, task: Task) -> nn.Module:
        """The network in which every open option of every decision takes part."""
        ...


@dataclass(frozen=True)
class Counts:
    """What a network costs, from shapes alone: parameters, multiply–accumulates, parameter tensors."""

    params: int
    flops: int
    layers: int


@runtime_checkable
class Counted(Space, Protocol):
    """A space that knows the counts of an arch without building it."""

    def counts(self, arch: Arch, task: Task) -> Counts:
        """Exactly what ``trainless.probe.counts.count`` finds on the built network."""
        ...


@runtime_checkable
class Scalable(Space, Protocol):
    """A space with thin variants for proxies whose papers score a smaller network."""

    def scaled(self, channels: int, cells: int) -> Space:
        """The same space at another width and number of cells per stage."""
        ...


@runtime_checkable
class CellSpace(Space, Protocol):
    """A space whose cell can stand alone: TE-NAS counts linear regions on a single cell of one channel."""

    def build_cell(self, arch: Arch, dims: int) -> nn.Module:
        """One cell (of each kind) of one channel, norm, ReLU, pooling and two outputs, without a stem."""
        ...


@runtime_checkable
class CellSupernet(CellSpace, Supernet, Protocol):
    """A space in which the cell of a region can stand alone too."""

    def build_cell_region(self, region: Region, dims: int) -> nn.Module:
        """As ``build_cell``, with every open option of every decision taking part."""
        ...


class Network(nn.Module):
    """A network of a space: it names the modules between which information flows block by block.

    AZ-NAS and MeCo look at the outputs of ``block_names``, which are in forward order. Training may leave out what
    ``path_names`` name, whose outputs are added up, and hear a second head at ``auxiliary_at``.
    """

    block_names: tuple[str, ...] = ()
    path_names: tuple[str, ...] = ()
    auxiliary_at: str = ""


def key(space: Space) -> str:
    """Name and parameters as one string: what a stored score belongs to."""
    described: Any = space
    ours = type(space).__module__.partition(".")[0] == __name__.partition(".")[0]
    own = "" if ours else f"#{class_digest(type(space))}"
    if not dataclasses.is_dataclass(described):
        return f"{space.name}{own}"
    fields = [(field.name, getattr(space, field.name)) for field in dataclasses.fields(described) if field.init]
    return f"{space.name}({', '.join(f'{name}={value!r}' for name, value in fields)}){own}"


def counter(space: Space, task: Task) -> Callable[[Arch], Counts]:
    """A fast function from archs to their counts, or an error where the space cannot tell."""
    if not isinstance(space, Counted):
        raise InputError(f"{space.name} cannot count before it builds: leave out the limits on FLOPs and parameters")
    space.check(task)
    counts = space.counts
    return lambda arch: counts(arch, task)


def require_arch(space: Space, arch: Arch, task: Task | None = None) -> None:
    """Raise InputError where an arch does not fit the decisions or is not valid, or the task does not fit the space."""
    if len(arch) != len(space.decisions):
        raise InputError(f"{space.name} has {len(space.decisions)} decisions, but {arch} has {len(arch)} entries")
    for option, decision in zip(arch, space.decisions, strict=True):
        if not 0 <= option < len(decision):
            raise InputError(
                f"{space.name}: option {option} was given for {decision.name!r}; expected 0 to {len(decision) - 1}"
                f" ({', '.join(decision.options)})"
            )
    if not space.valid(arch):
        raise InputError(f"{space.name}: {arch} is not a valid architecture of this space")
    if task is not None:
        space.check(task)


def require_region(space: Space, region: Region) -> None:
    """Raise InputError where nothing, or something that does not exist, is open of a decision."""
    for part, decision in zip(region, space.decisions, strict=True):
        if not part or not part <= set(range(len(decision))):
            raise InputError(
                f"{space.name}: the options {sorted(part)} of {decision.name!r} are not a non-empty choice"
            )


def require_grid(
    space: Space, task: Task, least: int = 1, reason: str = "", remedy: str = "give larger inputs, or --size for a task"
) -> None:
    """Raise InputError where a task's inputs have no one to three axes in space, or are too small along one.

    ``reason`` goes on after the space's name.
    """
    if not task.dims and not task.vocabulary:
        raise InputError(
            f"{space.name} takes signals, images and volumes; the task {task.name!r} has rows of {task.input_shape[0]}"
            " measurements: choose the space mlp, or read them as signals (--dims 1, in Python dims=1)"
        )
    if not 1 <= task.dims <= 3 or task.vocabulary:
        raise InputError(
            f"{space.name} takes signals, images and volumes; the task {task.name!r} has inputs of shape"
            f" {task.input_shape}: choose another space (trainless list spaces)"
        )
    if min(task.input_shape[1:]) < least:
        raise InputError(
            f"inputs of size {'x'.join(map(str, task.input_shape[1:]))} are too small for {space.name}{reason}: at"
            f" least {least} along every axis is needed ({remedy})"
        )


def require_least(space: Space, **least: int) -> None:
    """Raise InputError where a parameter of a space is below its least value, or beyond all sense."""
    for name, value in least.items():
        if getattr(space, name) < value:
            raise InputError(f"{space.name}: {name}={getattr(space, name)} was given; expected at least {value}")
        require_most(space, **{name: LARGEST})


def require_most(space: Space, **most: int) -> None:
    """Raise InputError where a parameter of a space is above its largest value."""
    for name, value in most.items():
        if getattr(space, name) > value:
            raise InputError(f"{space.name}: {name} was given as a number beyond {value:,}; expected at most that")


def format_pairs(decisions: Sequence[Decision], arch: Arch) -> str:
    """Write an arch as pairs."""
    return ",".join(f"{d.name}={d.options[option]}" for d, option in zip(decisions, arch, strict=True))


def parse_pairs(space: str, decisions: Sequence[Decision], text: str) -> Arch:
    """Read pairs in any order; every decision has to be there once."""
    named = {decision.name: decision for decision in decisions}
    chosen: dict[str, int] = {}
    for part in text.strip().split(","):
        name, equals, option = (piece.strip() for piece in part.partition("="))
        if not equals or name not in named:
            raise InputError(f"{space}: {part.strip()!r} is not name=option with a name of {', '.join(named)}")
        if option not in named[name].options:
            raise InputError(f"{space}: {name}={option} was given; expected one of {', '.join(named[name].options)}")
        if name in chosen:
            raise InputError(f"{space}: {name!r} is given twice in {text!r}: leave one of them out")
        chosen[name] = named[name].options.index(option)
    if missing := [name for name in named if name not in chosen]:
        raise InputError(f"{space}: {text!r} says nothing of {', '.join(missing)}: add {missing[0]}=… to it")
    return tuple(chosen[name] for name in named)
