"""What a search space is."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import nn

from trainless.core.arch import Arch, Decision, Region
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.custom_source import class_digest


@runtime_checkable
class Space(Protocol):
    """Decisions, validity, canonical form, build and notation; sampling and moves are free functions."""

    @property
    def name(self) -> str:
        """The registered name."""
        ...

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The open choices, in order."""
        ...

    def check(self, task: Task) -> None:
        """Raise InputError where networks of this space cannot take the task's inputs."""
        ...

    def valid(self, arch: Arch) -> bool:
        """Whether these options make a network."""
        ...

    def canonical(self, arch: Arch) -> Arch:
        """The one key of all archs that compute the same function."""
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

    Attributes:
        block_names: Qualified module names, in forward order; AZ-NAS and MeCo look at their outputs.
    """

    block_names: tuple[str, ...] = ()


def key(space: Space) -> str:
    """Name and parameters as one string: what a stored score belongs to.

    Example:
        >>> from trainless.spaces import space
        >>> key(space("nb201", channels=8))
        'nb201(channels=8, cells=5)'
    """
    described: Any = space
    ours = type(space).__module__.partition(".")[0] == __name__.partition(".")[0]
    own = "" if ours else f"#{class_digest(type(space))}"
    if not dataclasses.is_dataclass(described):
        return f"{space.name}{own}"
    fields = [(field.name, getattr(space, field.name)) for field in dataclasses.fields(described) if field.init]
    return f"{space.name}({', '.join(f'{name}={value!r}' for name, value in fields)}){own}"


def require_arch(space: Space, arch: Arch) -> None:
    """Raise InputError where an arch does not fit the decisions or is not valid."""
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
