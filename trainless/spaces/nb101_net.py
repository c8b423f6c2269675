"""The network around a NAS-Bench-101 cell, and its counts."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from trainless.core.task import Task
from trainless.spaces.nb101_cell import CONV1, CONV3, POOL, Cell, vertex_channels
from trainless.spaces.ops import GLOBAL, MAXIMUM, NORM, conv
from trainless.spaces.protocol import Counts, Network


class _ConvNormRelu(nn.Sequential):
    def __init__(self, dims: int, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__(conv(dims, inputs, outputs, kernel), NORM[dims](outputs), nn.ReLU())


class _Cell(nn.Module):
    """One cell; the attribute ``projections`` holds the 1×1 convolutions from the input by vertex."""

    def __init__(self, dims: int, inputs: int, outputs: int, cell: Cell) -> None:
        super().__init__()
        self.parents = cell.parents
        self.channels = (inputs, *vertex_channels(cell, outputs), outputs)
        self.projections = nn.ModuleDict(
            {
                str(vertex): _ConvNormRelu(dims, inputs, self.channels[vertex], 1)
                for vertex, sources in enumerate(cell.parents)
                if 0 in sources
            }
        )
        self.vertices = nn.ModuleList(
            _operation(option, dims, channels)
            for option, channels in zip(cell.operations, self.channels[1:-1], strict=True)
        )

    def _gather(self, vertex: int, x: Tensor, values: list[Tensor]) -> list[Tensor]:
        """What a vertex reads: cut to its width from other vertices, projected from the input."""
        width = self.channels[vertex]
        terms = [values[source - 1][:, :width] for source in self.parents[vertex] if source]
        if 0 in self.parents[vertex]:
            terms.append(self.projections[str(vertex)](x))
        return terms

    def forward(self, x: Tensor) -> Tensor:
        values: list[Tensor] = []
        for index, operation in enumerate(self.vertices, start=1):
            values.append(operation(_added(self._gather(index, x, values))))
        last = len(self.parents) - 1
        joined = [values[source - 1] for source in self.parents[last] if source]
        terms = [torch.cat(joined, 1)] if joined else []
        if 0 in self.parents[last]:
            terms.append(self.projections[str(last)](x))
        return _added(terms)


def _added(terms: list[Tensor]) -> Tensor:
    first, *rest = terms
    for term in rest:
        first = first + term
    return first


def _operation(option: int, dims: int, channels: int) -> nn.Module:
    if option == POOL:
        return MAXIMUM[dims](3, 1, 1)
    return _ConvNormRelu(dims, channels, channels, 3 if option == CONV3 else 1)


class CellNetwork(Network):
    """Stem, stacks of one cell, global average and a linear classifier.

    Args:
        cell: The pruned cell.
        task: What it takes and predicts.
        channels: Width of the stem and of the first stack.
        cells: Cells per stack.
        stacks: Number of stacks.
    """

    def __init__(self, cell: Cell, task: Task, channels: int, cells: int, stacks: int) -> None:
        super().__init__()
        dims = task.dims
        self.stem = _ConvNormRelu(dims, task.input_shape[0], channels, 3)
        blocks: list[nn.Module] = []
        inputs = outputs = channels
        for stack in range(stacks):
            if stack:
                blocks.append(MAXIMUM[dims](2, 2, ceil_mode=True))
                outputs *= 2
            for _ in range(cells):
                blocks.append(_Cell(dims, inputs, outputs, cell))
                inputs = outputs
        self.blocks = nn.ModuleList(blocks)
        self.pool = GLOBAL[dims](1)
        self.classifier = nn.Linear(outputs, task.target.outputs)
        names = (f"blocks.{index}" for index, block in enumerate(blocks) if isinstance(block, _Cell))
        self.block_names = ("stem", *names)

    def forward(self, x: Tensor) -> Tensor:
        """Logits or values, ``(N, outputs)``."""
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.classifier(self.pool(x).flatten(1))
        return logits


def _cell_convolutions(cell: Cell, inputs: int, outputs: int) -> Iterator[tuple[int, int, int]]:
    """Inputs, outputs and kernel of every convolution of a cell; a norm follows each."""
    channels = (inputs, *vertex_channels(cell, outputs), outputs)
    for vertex, sources in enumerate(cell.parents):
        if 0 in sources:
            yield inputs, channels[vertex], 1
    for option, width in zip(cell.operations, channels[1:-1], strict=True):
        if option != POOL:
            yield width, width, 1 if option == CONV1 else 3


def count(cell: Cell, task: Task, channels: int, cells: int, stacks: int) -> Counts:
    """Parameters, multiply–accumulates and parameter tensors of that network, from shapes alone.

    Example:
        >>> count(Cell(((), (0,)), ()), Task.noise((3, 32, 32)), channels=128, cells=3, stacks=3).params
        882570
    """
    dims, size = task.dims, list(task.input_shape[1:])
    inputs = outputs = channels
    rows = [(1, math.prod(size), (task.input_shape[0], outputs, 3))]
    for stack in range(stacks):
        if stack:
            size = [(length + 1) // 2 for length in size]
            outputs *= 2
        area = math.prod(size)
        rows += [(1, area, layer) for layer in _cell_convolutions(cell, inputs, outputs)]
        rows += [(cells - 1, area, layer) for layer in _cell_convolutions(cell, outputs, outputs)]
        inputs = outputs
    classes = task.target.outputs
    params, flops, layers = outputs * classes + classes, outputs * classes, 2
    for times, area, (wide, narrow, kernel) in rows:
        weights = times * kernel**dims * wide * narrow
        params += weights + times * 2 * narrow
        flops += weights * area
        layers += 3 * times
    return Counts(params, flops, layers)
