"""Residual networks of linear layers for rows of measurements (Gorishniy et al., 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn

from trainless.core.arch import Arch, Decision
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.ops import Tally
from trainless.spaces.protocol import (
    Counts,
    IndependentDecisions,
    Network,
    require_arch,
)
from trainless.spaces.sketch import Block, Chain

WIDTHS = (32, 64, 128, 256, 512)
DEPTHS = (1, 2, 3, 4)
INNER = (1, 2)  # times as wide inside a block
DROPOUTS = (0.0, 0.1, 0.3)
MANY = 4000  # samples, from which on the plain network is wider
_DECISIONS = (
    Decision("width", tuple(map(str, WIDTHS))),
    Decision("depth", tuple(map(str, DEPTHS))),
    Decision("inner", tuple(map(str, INNER))),
    Decision("dropout", tuple(f"{share:g}" for share in DROPOUTS)),
)


@dataclass(frozen=True)
class Mlp(IndependentDecisions):
    """Residual networks of linear layers: width, depth, width inside a block and dropout are open.

    All values of an input side by side, a linear layer to the width, blocks of norm, linear layer, ReLU, dropout and
    linear layer around a shortcut, norm, ReLU and a linear classifier. Every value has weights of its own, so that
    columns that mean different things are told apart. It takes inputs of any shape.

    Example:
        >>> space = Mlp()
        >>> task = Task.noise((13,), classes=3)
        >>> space.format(space.plain(task))
        'width=64,depth=2,inner=2,dropout=0.1'
        >>> space.counts(space.plain(task), task).params
        34627
    """

    name = "mlp"
    decisions = _DECISIONS

    def check(self, task: Task) -> None:
        if task.vocabulary:
            raise InputError(f"{self.name} takes numbers; the task {task.name!r} has tokens: choose another space")

    def plain(self, task: Task) -> Arch:
        """The network that one takes without any search: 64 wide, 256 where there are thousands of samples."""
        self.check(task)
        samples = 0 if task.train is None else len(task.train)
        return (WIDTHS.index(256 if samples >= MANY else 64), 1, 1, 1)

    def build(self, arch: Arch, task: Task) -> nn.Module:
        require_arch(self, arch, task)
        return _Net(arch, task)

    def counts(self, arch: Arch, task: Task) -> Counts:
        require_arch(self, arch, task)
        width, depth, inner = WIDTHS[arch[0]], DEPTHS[arch[1]], INNER[arch[2]]
        tally = Tally()
        tally.linear(math.prod(task.input_shape), width)
        for _ in range(depth):
            tally.norm(width)
            tally.linear(width, inner * width)
            tally.linear(inner * width, width)
        tally.norm(width)
        tally.linear(width, task.target.outputs)
        return tally.counts()

    def sketch(self, arch: Arch) -> tuple[Chain]:
        width, depth, inner = WIDTHS[arch[0]], DEPTHS[arch[1]], INNER[arch[2]]
        blocks = [Block("residual block", f"{width} → {inner * width} → {width}") for _ in range(depth)]
        return (Chain("network", (Block("linear", f"{width} wide"), *blocks, Block("linear classifier"))),)


class _Block(nn.Module):
    def __init__(self, width: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.first, self.second = nn.Linear(width, inner * width), nn.Linear(inner * width, width)
        self.relu, self.dropout = nn.ReLU(), nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.second(self.dropout(self.relu(self.first(self.norm(x)))))
        return result


class _Net(Network):
    def __init__(self, arch: Arch, task: Task) -> None:
        super().__init__()
        width, depth, inner, dropout = WIDTHS[arch[0]], DEPTHS[arch[1]], INNER[arch[2]], DROPOUTS[arch[3]]
        self.stem = nn.Linear(math.prod(task.input_shape), width)
        self.blocks = nn.ModuleList(_Block(width, inner, dropout) for _ in range(depth))
        self.norm, self.relu = nn.BatchNorm1d(width), nn.ReLU()
        self.classifier = nn.Linear(width, task.target.outputs)
        self.block_names = ("stem", *(f"blocks.{index}" for index in range(depth)))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x.flatten(1))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.classifier(self.relu(self.norm(x)))
        return logits
