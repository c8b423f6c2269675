"""Inverted residual blocks as ZenNAS, AZ-NAS and VKDNW stack them: the plan of a network, its cost, its modules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from trainless.core.task import Task
from trainless.spaces.counts import Tally
from trainless.spaces.ops import CONV, NORM, BlockNetwork, conv
from trainless.spaces.protocol import Counts

_EPSILON = 1e-3


@dataclass(frozen=True)
class Group:
    """One ``SuperResIDWE<expansion>K<kernel>(inputs,outputs,stride,bottleneck,layers)``."""

    kernel: int
    expansion: int
    inputs: int
    outputs: int
    stride: int
    bottleneck: int
    layers: int

    def residuals(self) -> Iterator[Residual]:
        """The residual blocks it stands for: two per layer, to the bottleneck and to the outputs."""
        inputs, stride = self.inputs, self.stride
        for layer in range(self.layers):
            into = self.bottleneck * self.expansion
            project = layer == 0 or inputs != self.bottleneck
            yield Residual(inputs, into, self.bottleneck, self.kernel, stride, project)
            out = self.outputs * self.expansion
            yield Residual(self.bottleneck, out, self.outputs, self.kernel, 1, self.bottleneck != self.outputs)
            inputs, stride = self.outputs, 1


@dataclass(frozen=True)
class Residual:
    """Expand by 1×1, convolve every channel by itself, reduce by 1×1, add the input (projected or not), ReLU."""

    inputs: int
    middle: int
    outputs: int
    kernel: int
    stride: int
    project: bool


@dataclass(frozen=True)
class NetworkPlan:
    """A whole network: a 3×3 stem, groups of inverted residuals, a last 1×1 convolution."""

    stem: int
    stem_stride: int
    groups: tuple[Group, ...]
    last: int


def count(plan: NetworkPlan, task: Task) -> Counts:
    """Parameters, multiply–accumulates and parameter tensors of a plan at the task's resolution."""
    tally = Tally()
    size = tally.conv(task.input_shape[0], plan.stem, 3, task.input_shape[1:], stride=plan.stem_stride)
    tally.norm(plan.stem)
    for group in plan.groups:
        for residual in group.residuals():
            size = _count_residual(tally, residual, size)
    tally.conv(plan.groups[-1].outputs, plan.last, 1, size)
    tally.norm(plan.last)
    tally.linear(plan.last, task.target.outputs)
    return tally.counts()


def _count_residual(tally: Tally, residual: Residual, size: tuple[int, ...]) -> tuple[int, ...]:
    tally.conv(residual.inputs, residual.middle, 1, size)
    after = tally.conv(
        residual.middle, residual.middle, residual.kernel, size, stride=residual.stride, groups=residual.middle
    )
    tally.conv(residual.middle, residual.outputs, 1, after)
    tally.norm(residual.middle)
    tally.norm(residual.middle)
    tally.norm(residual.outputs)
    if residual.project:
        tally.conv(residual.inputs, residual.outputs, 1, size, stride=residual.stride, bias=True)
        tally.norm(residual.outputs)
    return after


def _norm(dims: int, channels: int) -> nn.Module:
    return NORM[dims](channels, eps=_EPSILON)


class ConvNormRelu(nn.Sequential):
    """Convolution without bias, batch norm, ReLU."""

    def __init__(self, dims: int, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(conv(dims, inputs, outputs, kernel, stride, groups=groups), _norm(dims, outputs), nn.ReLU())


class InvertedResidual(nn.Module):
    """The module of a :class:`Residual`; its output is after the ReLU, where AZ-NAS looks."""

    def __init__(self, dims: int, residual: Residual) -> None:
        super().__init__()
        middle = residual.middle
        self.body = nn.Sequential(
            ConvNormRelu(dims, residual.inputs, middle, 1),
            ConvNormRelu(dims, middle, middle, residual.kernel, residual.stride, groups=middle),
            conv(dims, middle, residual.outputs, 1),
            _norm(dims, residual.outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if residual.project:
            projection = CONV[dims](residual.inputs, residual.outputs, 1, residual.stride)
            self.shortcut = nn.Sequential(projection, _norm(dims, residual.outputs))
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.relu(self.body(x) + self.shortcut(x))
        return y


class MobileNetwork(BlockNetwork):
    """The network of a plan, with global average and a linear classifier at its end."""

    def __init__(self, plan: NetworkPlan, task: Task) -> None:
        dims = task.dims
        stem = ConvNormRelu(dims, task.input_shape[0], plan.stem, 3, plan.stem_stride)
        residuals = [residual for group in plan.groups for residual in group.residuals()]
        blocks = [InvertedResidual(dims, residual) for residual in residuals]
        last = ConvNormRelu(dims, plan.groups[-1].outputs, plan.last, 1)
        super().__init__(dims, stem, blocks, last, nn.Linear(plan.last, task.target.outputs))
        self.block_names = (*self.block_names, "last")
