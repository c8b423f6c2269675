"""The CIFAR and ImageNet skeletons of DARTS around a normal and a reduction cell, and their counts."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainless.core.task import Task
from trainless.spaces.genotype import CellPlan, Slot
from trainless.spaces.ops import CONV, GLOBAL, MAXIMUM, NORM, ReluConvNorm, Tally, Zero, average, conv
from trainless.spaces.protocol import Counts, Network

_SEPARABLE = {"sep_conv_3x3": (3, 1), "sep_conv_5x5": (5, 1), "sep_conv_7x7": (7, 1), "dil_sep_conv_3x3": (3, 2)}
_DILATED = {"dil_conv_3x3": 3, "dil_conv_5x5": 5}
_PLAIN = {"conv_1x1": 1, "conv_3x3": 3}
_AXIAL = {"conv_3x1_1x3": 3, "conv_7x1_1x7": 7}
_MAXIMUM = {"max_pool_3x3": 3, "max_pool_5x5": 5, "max_pool_7x7": 7}


class FactorizedReduce(nn.Module):
    """ReLU, two 1×1 convolutions of stride 2, the second shifted by one along every axis, batch norm.

    Odd sizes are padded by a zero at their end, so that both halves have the size ⌈n/2⌉; an odd number of channels
    gives the first convolution one more.
    """

    def __init__(self, dims: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.relu = nn.ReLU()
        self.first = conv(dims, inputs, outputs - outputs // 2, 1, 2)
        self.second = conv(dims, inputs, outputs // 2, 1, 2)
        self.norm = NORM[dims](outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(x)
        shifted = F.pad(x, (-1, 1) * (x.ndim - 2))
        halves: Tensor = self.norm(torch.cat([self.first(x), self.second(shifted)], 1))
        return halves


class _HalvedZero(nn.Module):
    """Zero at half the size: the gradient path stays."""

    def forward(self, x: Tensor) -> Tensor:
        every = (slice(None), slice(None), *[slice(None, None, 2)] * (x.ndim - 2))
        return x[every] * 0


def operation(name: str, dims: int, channels: int, stride: int) -> nn.Module:
    """One operation from ``channels`` to as many channels.

    ``sep_conv``: twice ReLU, depthwise and 1×1 convolution, norm; ``dil_conv``: the same once, with dilation 2;
    ``dil_sep_conv``: twice, with dilation 2; ``conv_3x1_1x3``: ReLU, one convolution along each axis, the last axis
    first, norm; ``skip_connect`` becomes a FactorizedReduce at stride 2.
    """
    if name == "none":
        return Zero() if stride == 1 else _HalvedZero()
    if name == "skip_connect":
        return nn.Identity() if stride == 1 else FactorizedReduce(dims, channels, channels)
    if name == "avg_pool_3x3":
        return average(dims, 3, stride, 1)
    if name in _MAXIMUM:
        return MAXIMUM[dims](_MAXIMUM[name], stride, _MAXIMUM[name] // 2)
    if name in _PLAIN:
        return ReluConvNorm(dims, channels, channels, _PLAIN[name], stride)
    if name in _AXIAL:
        return _axial(dims, channels, _AXIAL[name], stride)
    if name in _DILATED:
        return nn.Sequential(*_depthwise(dims, channels, _DILATED[name], stride, 2))
    kernel, dilation = _SEPARABLE[name]
    return nn.Sequential(
        *_depthwise(dims, channels, kernel, stride, dilation), *_depthwise(dims, channels, kernel, 1, dilation)
    )


def _depthwise(dims: int, channels: int, kernel: int, stride: int, dilation: int) -> list[nn.Module]:
    return [
        nn.ReLU(),
        conv(dims, channels, channels, kernel, stride, groups=channels, dilation=dilation),
        conv(dims, channels, channels, 1),
        NORM[dims](channels),
    ]


def _axial(dims: int, channels: int, kernel: int, stride: int) -> nn.Module:
    layers: list[nn.Module] = [nn.ReLU()]
    convolution: Callable[..., nn.Module] = CONV[dims]
    for axis in reversed(range(dims)):
        shape, steps, padding = [1] * dims, [1] * dims, [0] * dims
        shape[axis], steps[axis], padding[axis] = kernel, stride, kernel // 2
        layers.append(convolution(channels, channels, tuple(shape), tuple(steps), tuple(padding), bias=False))
    return nn.Sequential(*layers, NORM[dims](channels))


def tally_operation(tally: Tally, name: str, channels: int, stride: int, size: tuple[int, ...]) -> None:
    """Add what ``operation`` costs on inputs of this size."""
    if name == "skip_connect" and stride == 2:
        tally_reduce(tally, channels, channels, size)
    elif name in _PLAIN:
        tally.conv(channels, channels, _PLAIN[name], size, stride=stride, norm=True)
    elif name in _AXIAL:
        _tally_axial(tally, channels, _AXIAL[name], stride, size)
    elif name in _DILATED:
        _tally_depthwise(tally, channels, _DILATED[name], stride, size)
    elif name in _SEPARABLE:
        kernel, _ = _SEPARABLE[name]
        size = _tally_depthwise(tally, channels, kernel, stride, size)
        _tally_depthwise(tally, channels, kernel, 1, size)


def tally_reduce(tally: Tally, inputs: int, outputs: int, size: tuple[int, ...]) -> None:
    """Add what a FactorizedReduce costs on inputs of this size."""
    tally.conv(inputs, outputs - outputs // 2, 1, size, stride=2)
    tally.conv(inputs, outputs // 2, 1, size, stride=2)
    tally.norm(outputs)


def _tally_depthwise(tally: Tally, channels: int, kernel: int, stride: int, size: tuple[int, ...]) -> tuple[int, ...]:
    size = tally.conv(channels, channels, kernel, size, stride=stride, groups=channels)
    return tally.conv(channels, channels, 1, size, norm=True)


def _tally_axial(tally: Tally, channels: int, kernel: int, stride: int, size: tuple[int, ...]) -> None:
    lengths = list(size)
    weights = kernel * channels * channels
    for axis in reversed(range(len(size))):
        lengths[axis] = (lengths[axis] - 1) // stride + 1
        tally.params += weights
        tally.flops += weights * math.prod(lengths)
        tally.tensors += 1
    tally.norm(channels)


Skeleton = Literal["cifar", "imagenet"]
STEM_MULTIPLIER = 3


@dataclass(frozen=True)
class Frame:
    """The two cells and everything around them."""

    normal: CellPlan
    reduction: CellPlan
    channels: int
    cells: int
    skeleton: Skeleton


@dataclass(frozen=True)
class _Step:
    """One cell's place: channels of the two cells before it and of its nodes."""

    older: int
    newer: int
    channels: int
    reduces: bool
    after_reduction: bool


def _steps(frame: Frame) -> list[_Step]:
    channels = frame.channels
    older = newer = channels * (STEM_MULTIPLIER if frame.skeleton == "cifar" else 1)
    after = frame.skeleton == "imagenet"
    steps = []
    for index in range(frame.cells):
        reduces = index in (frame.cells // 3, 2 * frame.cells // 3)
        channels *= 1 + reduces
        steps.append(_Step(older, newer, channels, reduces, after))
        outputs = (frame.reduction if reduces else frame.normal).outputs
        older, newer, after = newer, len(outputs) * channels, reduces
    return steps


class _Slot(nn.ModuleDict):
    """The sum of the open pairs of one slot, named by operation and source so that weights can be carried over."""

    def __init__(self, slot: Slot, dims: int, channels: int, reduces: bool) -> None:
        super().__init__(
            {
                f"{name}_from_{source}": operation(name, dims, channels, 2 if reduces and source < 2 else 1)
                for name, source in slot
            }
        )
        self.sources = tuple(source for _, source in slot)

    def forward(self, states: list[Tensor]) -> Tensor:
        first, *rest = (apply(states[source]) for apply, source in zip(self.values(), self.sources, strict=True))
        total: Tensor = first
        for term in rest:
            total = total + term
        return total


class _Cell(nn.Module):
    def __init__(self, dims: int, plan: CellPlan, step: _Step) -> None:
        super().__init__()
        channels = step.channels
        self.older: nn.Module = (
            FactorizedReduce(dims, step.older, channels)
            if step.after_reduction
            else ReluConvNorm(dims, step.older, channels, 1)
        )
        self.newer = ReluConvNorm(dims, step.newer, channels, 1)
        self.slots = nn.ModuleList(_Slot(slot, dims, channels, step.reduces) for slot in itertools.chain(*plan.nodes))
        self.sizes = tuple(len(node) for node in plan.nodes)
        self.outputs = plan.outputs

    def forward(self, older: Tensor, newer: Tensor) -> Tensor:
        states = [self.older(older), self.newer(newer)]
        slots = iter(self.slots)
        for size in self.sizes:  # a slot without a source is an edge that was cut
            terms = [slot(states) for slot in itertools.islice(slots, size) if slot.sources]
            states.append(functools.reduce(operator.add, terms))
        return torch.cat([states[index] for index in self.outputs], 1)


def _stems(frame: Frame, dims: int, inputs: int) -> list[nn.Module]:
    channels = frame.channels
    if frame.skeleton == "cifar":
        wide = STEM_MULTIPLIER * channels
        return [nn.Sequential(conv(dims, inputs, wide, 3), NORM[dims](wide))]
    half = channels // 2
    first = nn.Sequential(
        conv(dims, inputs, half, 3, 2),
        NORM[dims](half),
        nn.ReLU(),
        conv(dims, half, channels, 3, 2),
        NORM[dims](channels),
    )
    return [first, ReluConvNorm(dims, channels, channels, 3, 2)]


class CellsNetwork(Network):
    """Stem, cells that each read the two before them, global average and a linear classifier.

    Training may drop every operation but an identity, and hear a second head after two thirds of the cells.
    """

    def __init__(self, frame: Frame, task: Task) -> None:
        super().__init__()
        dims = task.dims
        self.stems = nn.ModuleList(_stems(frame, dims, task.input_shape[0]))
        steps = _steps(frame)
        self.cells = nn.ModuleList(
            _Cell(dims, frame.reduction if step.reduces else frame.normal, step) for step in steps
        )
        self.pool = GLOBAL[dims](1)
        self.classifier = nn.Linear(_features(frame, steps), task.target.outputs)
        self.block_names = (
            *(f"stems.{index}" for index in range(len(self.stems))),
            *(f"cells.{index}" for index in range(len(steps))),
        )
        slots = [(name, slot) for name, slot in self.named_modules() if isinstance(slot, _Slot)]
        self.path_names = tuple(
            f"{name}.{pair}"
            for name, slot in slots
            for pair, apply in slot.items()
            if not isinstance(apply, nn.Identity)
        )
        self.auxiliary_at = f"cells.{2 * len(steps) // 3}"

    def forward(self, x: Tensor) -> Tensor:
        older = newer = self.stems[0](x)
        for stem in self.stems[1:]:
            newer = stem(newer)
        for cell in self.cells:
            older, newer = newer, cell(older, newer)
        logits: Tensor = self.classifier(self.pool(newer).flatten(1))
        return logits


class CellsAlone(nn.Module):
    """A normal cell of one channel, a reduction cell of two, norm, ReLU, global average and two outputs; no stem."""

    def __init__(self, normal: CellPlan, reduction: CellPlan, dims: int) -> None:
        super().__init__()
        width = len(normal.outputs)
        self.normal = _Cell(dims, normal, _Step(1, 1, 1, reduces=False, after_reduction=False))
        self.reduction = _Cell(dims, reduction, _Step(1, width, 2, reduces=True, after_reduction=False))
        self.norm = NORM[dims](2 * len(reduction.outputs))
        self.pool = GLOBAL[dims](1)
        self.classifier = nn.Linear(2 * len(reduction.outputs), 2)

    def forward(self, x: Tensor) -> Tensor:
        features = torch.relu(self.norm(self.reduction(x, self.normal(x, x))))
        outputs: Tensor = self.classifier(self.pool(features).flatten(1))
        return outputs


def _features(frame: Frame, steps: list[_Step]) -> int:
    last = steps[-1]
    return last.channels * len((frame.reduction if last.reduces else frame.normal).outputs)


def count(frame: Frame, task: Task) -> Counts:
    """Parameters, multiply–accumulates and parameter tensors of that network, from shapes alone."""
    steps, tally = _steps(frame), Tally()
    older, newer = _tally_stems(tally, frame, task)
    places: Counter[tuple[_Step, tuple[int, ...], tuple[int, ...]]] = Counter()
    for step in steps:
        places[step, older, newer] += 1
        older, newer = newer, _halved(newer) if step.reduces else newer
    for (step, first, second), times in places.items():
        cell = Tally()
        _tally_cell(cell, frame, step, first, second)
        tally.add(cell, times)
    tally.linear(_features(frame, steps), task.target.outputs)
    return tally.counts()


def _halved(size: tuple[int, ...]) -> tuple[int, ...]:
    return tuple((length + 1) // 2 for length in size)


def _tally_stems(tally: Tally, frame: Frame, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]]:
    inputs, *size = task.input_shape
    if frame.skeleton == "cifar":
        full = tally.conv(inputs, STEM_MULTIPLIER * frame.channels, 3, size, norm=True)
        return full, full
    half = frame.channels // 2
    halved = tally.conv(inputs, half, 3, size, stride=2, norm=True)
    quarter = tally.conv(half, frame.channels, 3, halved, stride=2, norm=True)
    return quarter, tally.conv(frame.channels, frame.channels, 3, quarter, stride=2, norm=True)


def _tally_cell(tally: Tally, frame: Frame, step: _Step, older: tuple[int, ...], newer: tuple[int, ...]) -> None:
    channels = step.channels
    if step.after_reduction:
        tally_reduce(tally, step.older, channels, older)
    else:
        tally.conv(step.older, channels, 1, older, norm=True)
    tally.conv(step.newer, channels, 1, newer, norm=True)
    inner = _halved(newer) if step.reduces else newer
    cell = frame.reduction if step.reduces else frame.normal
    for name, source in itertools.chain(*itertools.chain(*cell.nodes)):
        outer = source < 2
        tally_operation(tally, name, channels, 2 if step.reduces and outer else 1, newer if outer else inner)
