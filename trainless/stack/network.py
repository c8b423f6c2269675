"""Networks of one plan as one network: their channels side by side, each operation done once for all that have it.

Channels of all networks lie beside one another, ``(N, K · C, *positions)``: sums, poolings, rectifiers and batch norms
are those of one wide network, convolutions have groups of their own. Where networks have different operations in one
place, each operation is handed the channels of those that have it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from trainless.probe.norms import Norm
from trainless.spaces.nds_net import FactorizedReduce

_CONVOLVE = {nn.Conv1d: F.conv1d, nn.Conv2d: F.conv2d, nn.Conv3d: F.conv3d}
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_BY_CHANNEL = (  # what treats every channel alone
    *(nn.ReLU, nn.Identity, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d),
)


class NotAligned(Exception):
    """Networks that cannot be run side by side: they are run one after the other."""


@dataclass(frozen=True, eq=False)
class StackedLayer:
    """One application of a convolution or linear layer of some networks."""

    part: Operation
    x: Tensor
    output: Tensor


@dataclass(frozen=True, eq=False)
class Normed:
    """One application of a batch norm: ``output = scale · standard + bias``; ``standard`` of samples alone only."""

    part: Operation
    x: Tensor
    standard: Tensor | None
    output: Tensor


@dataclass(frozen=True, eq=False)
class Rectified:
    """What enters a rectifier of some networks; ``source`` is one object for all rectifiers of one tensor."""

    members: tuple[int, ...]
    gate: Tensor
    source: object


@dataclass(eq=False)
class Notes:
    """What a pass notes on its way, in forward order.

    Attributes:
        norm: How norms behave in it.
        weights: By part and name, the parameters of its members below one another.
        layers: The convolutions and linear layers.
        norms: The batch norms.
        rectified: The rectifiers.
        blocks: The outputs of the blocks that the networks name.
        maps: Every feature map, if asked for: the networks beside one another in it, the places of those whose it is,
            and the map.
    """

    norm: Norm = "batch"
    weights: Mapping[tuple[Operation, str], Tensor] = field(default_factory=dict)
    layers: list[StackedLayer] = field(default_factory=list)
    norms: list[Normed] = field(default_factory=list)
    rectified: list[Rectified] = field(default_factory=list)
    blocks: dict[str, Tensor] = field(default_factory=dict)
    maps: list[tuple[tuple[int, ...], tuple[int, ...], Tensor]] | None = None
    _seen: dict[int, tuple[Tensor, set[int]]] = field(default_factory=dict)
    _sources: WeakIdKeyDictionary = field(default_factory=WeakIdKeyDictionary)

    def source(self, tensor: Tensor) -> object:
        """What stands for a tensor and for the parts of it that some networks are handed."""
        found: object = self._sources.setdefault(tensor, object())
        return found

    def handed(self, part: Tensor, tensor: Tensor, members: Sequence[int]) -> None:
        """Some networks' part of a tensor is that tensor, as far as they know."""
        self._sources[part] = self.source(tensor)
        self.given(part, members)

    def given(self, tensor: Tensor, members: Sequence[int]) -> None:
        """A tensor that is no feature map of its own for these networks."""
        if self.maps is not None:
            self._seen.setdefault(id(tensor), (tensor, set()))[1].update(members)

    def made(self, tensor: Tensor, members: tuple[int, ...], apart: Tensor | None = None) -> None:
        """A feature map that these networks have, unless they have made it before; ``apart`` holds theirs alone."""
        if self.maps is None or tensor.ndim < 3:
            return
        known = self._seen.setdefault(id(tensor), (tensor, set()))[1]
        places = tuple(place for place, member in enumerate(members) if member not in known)
        if places:
            self.maps.append((members, places, (tensor if apart is None else apart).detach()))
            known.update(members)


class Operation(nn.Module):
    """An operation of some networks.

    Args:
        modules: Theirs, one each.
        names: What each network calls it.
        members: Which networks they are.
        notes: Where it notes what it does.
    """

    def __init__(
        self, modules: Sequence[nn.Module], names: Sequence[str], members: tuple[int, ...], notes: _Board
    ) -> None:
        super().__init__()
        self.names, self.members, self.board = tuple(names), members, notes
        self.own = {"like": modules[0]}  # no submodule

    @property
    def like(self) -> nn.Module:
        """That of the first network, for its sizes."""
        return self.own["like"]

    @property
    def notes(self) -> Notes:
        return self.board.notes

    def parameters_of(self) -> tuple[str, ...]:
        """Names of the parameters that each network has here."""
        return tuple(name for name, tensor in self.like._parameters.items() if tensor is not None)

    def weight(self) -> Tensor:
        """Everybody's weight."""
        return self.notes.weights[self, "weight"]

    def bias(self) -> Tensor | None:
        """Everybody's bias, where there is one."""
        return self.notes.weights.get((self, "bias"))

    def forward(self, x: Tensor) -> Tensor:
        output = self.compute(x)
        self.notes.made(output, self.members)
        return output

    def compute(self, x: Tensor) -> Tensor:
        """What it gives; channels that are handled alone are by the networks' own code."""
        if type(self.like) is nn.ReLU:
            self.notes.rectified.append(Rectified(self.members, x, self.notes.source(x)))
            return F.relu(x)
        return cast(Tensor, type(self.like).forward(self.like, x))


class _Convolution(Operation):
    def compute(self, x: Tensor) -> Tensor:
        conv = cast(nn.Conv2d, self.like)
        if conv.padding_mode != "zeros":
            raise NotAligned(f"a convolution pads with {conv.padding_mode}")
        how: Any = (conv.stride, conv.padding, conv.dilation, conv.groups * len(self.members))
        output: Tensor = _CONVOLVE[type(conv)](x, self.weight(), self.bias(), *how)
        self.notes.layers.append(StackedLayer(self, x, output))
        return output


class _Linear(Operation):
    def compute(self, x: Tensor) -> Tensor:
        count = len(self.members)
        bias = self.bias()
        rows = x.unflatten(1, (count, -1)).transpose(0, 1)  # (K, N, inputs)
        output: Tensor = rows @ self.weight().unflatten(0, (count, -1)).mT
        if bias is not None:
            output = output + bias.view(count, 1, -1)
        output = output.transpose(0, 1).flatten(1)
        self.notes.layers.append(StackedLayer(self, x, output))
        return output


class _BatchNorm(Operation):
    def compute(self, x: Tensor) -> Tensor:
        notes, eps, standard = self.notes, cast(nn.BatchNorm2d, self.like).eps, None
        if notes.norm == "off":
            return x.clone()
        if x.ndim == 2 or x[0, 0].numel() == 1:
            raise NotAligned("a norm sees a single value per channel and sample")
        weight, bias = notes.weights.get((self, "weight")), self.bias()
        if notes.norm == "batch":
            output = F.batch_norm(x, None, None, weight, bias, True, 0.0, eps)
        elif notes.norm == "isolated":
            output = standard = F.group_norm(x.contiguous(), x.shape[1], None, None, eps)
            if weight is not None:
                output = _scaled(standard, weight, bias)
        elif notes.norm == "fresh":
            output = standard = x * (1 / math.sqrt(1 + eps))
            if weight is not None:
                output = _scaled(standard, weight, bias)
        else:
            raise NotAligned(f"norms are {notes.norm}")
        notes.norms.append(Normed(self, x, standard, output))
        return output


def _scaled(standard: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    shape = (1, -1, *[1] * (standard.ndim - 2))
    scaled = standard * weight.view(shape)
    return scaled if bias is None else scaled + bias.view(shape)


_PARTS: dict[type[nn.Module], type[Operation]] = {
    **dict.fromkeys(_CONVOLVE, _Convolution),
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), _BatchNorm),
    **dict.fromkeys(_BY_CHANNEL, Operation),
    nn.Linear: _Linear,
}


class _FactorizedReduce(nn.Module):
    """Both halves of each network's channels beside one another."""

    def __init__(self, shell: nn.Module, count: int) -> None:
        super().__init__()
        self.shell, self.count = shell, count

    def forward(self, x: Tensor) -> Tensor:
        own = cast(FactorizedReduce, self.shell)
        x = own.relu(x)
        halves = own.first(x), own.second(F.pad(x, (-1, 1) * (x.ndim - 2)))
        beside = torch.cat([half.unflatten(1, (self.count, -1)) for half in halves], 2).flatten(1, 2)
        found: Tensor = own.norm(beside)
        return found


class _Board:
    """Where all parts of a network look for the notes of the pass that is under way."""

    notes = Notes()


class _Split(nn.Module):
    """A place at which networks have different operations."""

    def __init__(
        self, groups: Sequence[tuple[tuple[int, ...], nn.Module]], members: tuple[int, ...], board: _Board
    ) -> None:
        super().__init__()
        self.groups = nn.ModuleList(group for _, group in groups)
        self.places, self.members, self.board = tuple(at for at, _ in groups), members, board
        self.zero = tuple(_is_zero(group) for _, group in groups)
        self._indices: dict[torch.device, tuple[Tensor, ...]] = {}

    def indices(self, device: torch.device) -> tuple[Tensor, ...]:
        """The places of each group as tensors."""
        if device not in self._indices:
            self._indices[device] = tuple(torch.tensor(at, device=device) for at in self.places)
        return self._indices[device]

    def forward(self, x: Tensor) -> Tensor:
        notes, indices, count = self.board.notes, self.indices(x.device), len(self.members)
        run = [index for index, zero in zip(indices, self.zero, strict=True) if not zero]
        parts = iter(_Parted.apply(x.unflatten(1, (count, -1)), *run)) if run else iter(())  # type: ignore[no-untyped-call]
        made, there = [], []
        for at, index, group, zero in zip(self.places, indices, self.groups, self.zero, strict=True):
            mine = tuple(self.members[place] for place in at)
            if zero:
                continue
            part = next(parts).flatten(1, 2)
            notes.handed(part, x, mine)
            output = group(part)
            if output is part:
                notes.made(x, mine, part)
            made.append(output.unflatten(1, (len(at), -1)))
            there.append(index)
        output = _Placed.apply(count, tuple(there), *made).flatten(1, 2) if made else self.groups[0](x)  # type: ignore[no-untyped-call]
        notes.given(output, self.members)
        return cast(Tensor, output)


class _Parted(torch.autograd.Function):
    """Some networks' channels for each of several operations."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *indices: Tensor) -> tuple[Tensor, ...]:
        ctx.indices, ctx.shape = indices, x.shape
        return tuple(x.index_select(1, index) for index in indices)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        whole = gradients[0].new_zeros(ctx.shape)
        for index, gradient in zip(ctx.indices, gradients, strict=True):
            whole.index_copy_(1, index, gradient)
        return whole, *[None] * len(ctx.indices)


class _Placed(torch.autograd.Function):
    """What several operations gave, back in the networks' order; zeros of those that have none."""

    @staticmethod
    def forward(ctx: Any, count: int, indices: tuple[Tensor, ...], *parts: Tensor) -> Tensor:
        ctx.indices = indices
        samples, _, *rest = parts[0].shape
        whole = parts[0].new_zeros(samples, count, *rest)
        for index, part in zip(indices, parts, strict=True):
            whole.index_copy_(1, index, part)
        return whole

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(gradient.index_select(1, index) for index in ctx.indices)


def _is_zero(module: nn.Module) -> bool:
    """Whether a group multiplies by zero, within containers or not."""
    while not isinstance(module, Operation):
        inner = list(module.children())
        if len(inner) != 1:
            return False
        module = inner[0]
    return getattr(type(module.like), "gives_zero", False)


def _plan(module: nn.Module) -> tuple[object, ...]:
    """What modules must share to be run as one, their submodules aside."""
    own = {name: value for name, value in vars(module).items() if not name.startswith("_") and name != "training"}
    plain = tuple((name, repr(value)) for name, value in sorted(own.items()))
    parameters = tuple((name, tensor is None or tuple(tensor.shape)) for name, tensor in module._parameters.items())
    return type(module), tuple(module._modules), plain, parameters


def _joined(modules: Sequence[nn.Module], names: Sequence[str], members: tuple[int, ...], board: _Board) -> nn.Module:
    plans: dict[tuple[object, ...], list[int]] = {}
    for place, module in enumerate(modules):
        plans.setdefault(_plan(module), []).append(place)
    if len(plans) > 1:
        groups = []
        for at in plans.values():
            own = tuple(members[place] for place in at)
            part = _joined([modules[place] for place in at], [names[place] for place in at], own, board)
            groups.append((tuple(at), part))
        return _Split(groups, members, board)
    first = modules[0]
    kind, alone = type(first), getattr(type(first), "by_channel", False)
    if kind in _PARTS or (alone and not first._modules and not first._parameters):
        return _PARTS.get(kind, Operation)(modules, names, members, board)
    if kind is FactorizedReduce:
        return _FactorizedReduce(_shell(modules, names, members, board), len(modules))
    if kind not in _CONTAINERS and not alone:
        raise NotAligned(f"{kind.__name__} is not known to treat networks that lie side by side alone")
    return _shell(modules, names, members, board)


def _shell(modules: Sequence[nn.Module], names: Sequence[str], members: tuple[int, ...], board: _Board) -> nn.Module:
    """The first network's container, with everybody's parts in it."""
    first = modules[0]
    shell = object.__new__(type(first))
    nn.Module.__init__(shell)
    shell.__dict__.update({name: value for name, value in vars(first).items() if not name.startswith("_")})
    for name in first._modules:
        children = [cast(nn.Module, module._modules[name]) for module in modules]
        shell._modules[name] = _joined(children, [f"{each}.{name}" if each else name for each in names], members, board)
    if type(first).forward is not nn.Module.forward:
        shell.register_forward_hook(functools.partial(_note_container, board, members))
    return shell


def _note_container(board: _Board, members: tuple[int, ...], module: nn.Module, inputs: Any, output: Tensor) -> None:
    board.notes.made(output, members)


def _note_block(board: _Board, name: str, module: nn.Module, inputs: Any, output: Tensor) -> None:
    board.notes.blocks[name] = output


class SideBySide:
    """Networks of one plan.

    Args:
        nets: Networks whose containers treat every channel alone: their classes say so by ``by_channel``.

    Attributes:
        count: How many they are.
        net: The joined network.
        parts: Its operations.
        orders: Of each network, the place of every parameter among its own.
    """

    def __init__(self, nets: Sequence[nn.Module]) -> None:
        self.count = len(nets)
        self.orders = [{name: place for place, (name, _) in enumerate(net.named_parameters())} for net in nets]
        self._board = _Board()
        self.net = _joined(nets, [""] * len(nets), tuple(range(len(nets))), self._board)
        self.parts = tuple(part for part in self.net.modules() if isinstance(part, Operation))
        self._indices: dict[tuple[tuple[int, ...], torch.device], Tensor] = {}
        for name in getattr(self.net, "block_names", ()):
            self.net.get_submodule(name).register_forward_hook(functools.partial(_note_block, self._board, name))

    def index(self, members: tuple[int, ...], device: torch.device) -> Tensor:
        """Some networks as a tensor, made once."""
        if (members, device) not in self._indices:
            self._indices[members, device] = torch.tensor(members, device=device)
        return self._indices[members, device]

    def stacked(self, weights: Sequence[Mapping[str, Tensor]]) -> dict[tuple[Operation, str], Tensor]:
        """The networks' parameters, those of one part below one another."""
        found = {}
        for part in self.parts:
            for name in part.parameters_of():
                own = [weights[k][f"{where}.{name}"] for k, where in zip(part.members, part.names, strict=True)]
                found[part, name] = torch.cat([tensor.detach() for tensor in own])
        return found

    def run(
        self, weights: Mapping[tuple[Operation, str], Tensor], x: Tensor, norm: Norm, *, maps: bool = False
    ) -> tuple[Tensor, Notes]:
        """The outputs ``(N, K, outputs)`` of a pass, and what was noted; ``x`` has everybody's channels."""
        notes = self._board.notes = Notes(norm, weights, maps=[] if maps else None)
        try:
            outputs = self.net(x)
        finally:
            self._board.notes = Notes()
        return outputs.unflatten(1, (self.count, -1)), notes
