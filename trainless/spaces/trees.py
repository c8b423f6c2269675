"""Extremely randomised trees as a network, so that they are told, kept and exported like any other member."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
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

TREES = (50, 100, 200)
LEAVES = (32, 128, 512, 2048)
STEPS = 24  # from a root to a leaf at most
RATE = 2e-6  # seconds of one tree, for each sample and each column that is tried
LEAST = 1e-6  # the least probability whose logarithm is told
MOST_VALUES = 512  # of an input
_DECISIONS = (
    Decision("trees", tuple(map(str, TREES))),
    Decision("leaves", tuple(map(str, LEAVES))),
)


@dataclass(frozen=True)
class Trees(IndependentDecisions):
    """Extremely randomised trees (Geurts et al., 2006) on the values of an input: how many, and of how many leaves.

    A tree asks of one value at a time whether it is at most a threshold, 24 times at most, and answers with what its
    leaf has seen. The mean over the trees goes through its logarithm, for classes, and a linear layer, which begins as
    the identity. Trees are grown by the recipe ``trees``; as it is built a network has trees of one leaf.

    Example:
        >>> space = Trees()
        >>> space.format(space.plain(Task.noise((13,), classes=3)))
        'trees=100,leaves=32'
    """

    name = "trees"
    decisions = _DECISIONS

    def check(self, task: Task) -> None:
        if task.vocabulary or math.prod(task.input_shape) > MOST_VALUES:
            raise InputError(
                f"{self.name} takes inputs of at most {MOST_VALUES} numbers; the task {task.name!r} has inputs of shape"
                f" {task.input_shape}: choose another space"
            )

    def plain(self, task: Task) -> Arch:
        """A hundred trees, with as many leaves as there are samples where that is possible."""
        self.check(task)
        samples = 0 if task.train is None else len(task.train)
        return (1, next((place for place, most in enumerate(LEAVES) if most >= samples), len(LEAVES) - 1))

    def seconds(self, arch: Arch, task: Task) -> float:
        """About how long it takes one core to grow an arch on a task's training part, and to hand it on."""
        samples = 1 if task.train is None else len(task.train)
        return 0.5 + TREES[arch[0]] * samples * math.sqrt(math.prod(task.input_shape)) * RATE

    def build(self, arch: Arch, task: Task) -> nn.Module:
        require_arch(self, arch, task)
        return TreesNetwork(TREES[arch[0]], LEAVES[arch[1]], task)

    def counts(self, arch: Arch, task: Task) -> Counts:
        require_arch(self, arch, task)
        tally = Tally()
        tally.linear(task.target.outputs, task.target.outputs)
        return tally.counts()

    def sketch(self, arch: Arch) -> tuple[Chain]:
        trees, leaves = (decision.options[option] for decision, option in zip(self.decisions, arch, strict=True))
        return (Chain("network", (Block("input"), Block(f"{trees} trees", f"{leaves} leaves each"), Block("mean"))),)


class TreesNetwork(Network):
    """Trees as tables of nodes: which value, which threshold, where to go, and what is told there.

    Node 0 is the root; a leaf leads to itself.
    """

    column: Tensor
    threshold: Tensor
    below: Tensor
    above: Tensor
    told: Tensor

    def __init__(self, trees: int, leaves: int, task: Task) -> None:
        super().__init__()
        nodes, outputs = 2 * leaves - 1, task.target.outputs
        self.trees, self.leaves, self.probable = trees, leaves, task.target.classes > 0
        self.register_buffer("column", torch.zeros(trees, nodes, dtype=torch.int64))
        self.register_buffer("threshold", torch.zeros(trees, nodes))
        for way in ("below", "above"):
            self.register_buffer(way, torch.arange(nodes).repeat(trees, 1))
        self.register_buffer("told", torch.full((trees, nodes, outputs), 1 / outputs if self.probable else 0.0))
        self.classifier = nn.Linear(outputs, outputs)
        with torch.no_grad():
            self.classifier.weight.copy_(torch.eye(outputs))
            self.classifier.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        values = x.flatten(1)
        root = torch.arange(self.trees, device=x.device) * self.threshold.shape[1]
        column, threshold = self.column.flatten(), self.threshold.flatten()
        below, above = self.below.flatten(), self.above.flatten()
        place = root + torch.zeros_like(values[:, :1], dtype=torch.int64)
        for _ in range(STEPS):
            low = torch.gather(values, 1, column[place]) <= threshold[place]
            place = root + torch.where(low, below[place], above[place])
        mean = self.told.flatten(0, 1)[place].mean(1)
        answers: Tensor = self.classifier(mean.clamp_min(LEAST).log() if self.probable else mean)
        return answers
