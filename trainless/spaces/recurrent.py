"""NAS-Bench-NLP: recurrent cells from recipes in a language model (Klyuchnikov et al., 2022)."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from torch import nn

from trainless.core.arch import Arch, Decision
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.counts import Tally
from trainless.spaces.protocol import Counts, require_arch
from trainless.spaces.recurrent_net import LanguageModel, count_layer, layer_sizes
from trainless.spaces.recurrent_recipe import (
    HIDDEN,
    MAX_HIDDEN,
    NODES,
    OPERATIONS,
    Cell,
    Step,
    X,
    canonical_cell,
    node_names,
    problems,
    random_cell,
    read_recipe,
    source_name,
    write_recipe,
)
from trainless.spaces.sketch import Edge, Graph, Node

CHOICES = ("linear", "linear of 3", *OPERATIONS[1:])
_ARITY = (2, 3, 3, 2, 2, 1, 1, 1)
_PARTS = 4  # decisions of one node: operation and three inputs


@dataclass(frozen=True)
class Recurrent:
    """NAS-Bench-NLP, for text: recurrent cells of up to 24 nodes and 3 hidden states.

    Layers of the cell are stacked between an embedding and its tied decoder.

    Every node has an operation and three inputs, of which it reads as many as it needs; the new states are nodes;
    nodes that no new state depends on are not there. An arch is valid where, among the nodes that are, inputs
    of a node differ, only linear nodes read x (whose width is another), and every state and x are read.

    The published initialisation (uniform ± 1/√width, embedding ± 0.1) is left to the weights of a probe: layers
    start by PyTorch's rules, the shared embedding by those of the decoder. There is no dropout.

    Args:
        emsize: Width of the embedding and of the last layer.
        nhid: Width of the other layers.
        layers: Number of layers.
        nodes: The most nodes of a cell.

    Example:
        >>> space = Recurrent(emsize=8, nhid=12)
        >>> rnn = space.parse('{"f": {"op": "linear", "input": ["x", "h_prev_0"]},'
        ...                   ' "h_new_0": {"op": "activation_tanh", "input": ["f"]}}')
        >>> space.format(rnn)[:54]
        '{"node_0": {"op": "linear", "input": ["x", "h_prev_0"]'
    """

    emsize: int = 400
    nhid: int = 600
    layers: int = 3
    nodes: int = 24

    def __post_init__(self) -> None:
        for name in ("emsize", "nhid", "layers"):
            if getattr(self, name) < 1:
                raise InputError(f"recurrent: {name}={getattr(self, name)} was given; expected at least 1")
        if self.nodes < MAX_HIDDEN:
            raise InputError(f"recurrent: nodes={self.nodes} was given; expected at least {MAX_HIDDEN}")

    @property
    def name(self) -> str:
        """The registered name."""
        return "recurrent"

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The open choices, in order."""
        return _decisions(self.nodes)

    def check(self, task: Task) -> None:
        """Raise InputError where the task's inputs do not fit."""
        if not task.vocabulary or task.target.kind != "tokens":
            raise InputError(
                f"recurrent takes sequences of tokens; the task {task.name!r} has inputs of shape {task.input_shape}:"
                " choose a text task or another space (trainless list spaces)"
            )
        if task.target.outputs != task.vocabulary:
            raise InputError(
                f"recurrent predicts the next token; the task {task.name!r} has {task.vocabulary} tokens but"
                f" {task.target.outputs} outputs: make them equal"
            )

    def valid(self, arch: Arch) -> bool:
        """Whether the nodes that new states depend on keep the rules of the space."""
        if len(arch) != len(self.decisions):
            return False
        if not all(0 <= option < len(decision) for option, decision in zip(arch, self.decisions, strict=True)):
            return False
        return next(problems(self.cell(arch)), None) is None

    def canonical(self, arch: Arch) -> Arch:
        """The same cell with its nodes, swappable inputs and further states in a fixed order, and none unused."""
        return self.encode(canonical_cell(self.cell(arch)))

    def build(self, arch: Arch, task: Task) -> nn.Module:
        """The network, freshly initialised by PyTorch's own rules."""
        require_arch(self, arch)
        self.check(task)
        return LanguageModel(self.cell(arch), task.vocabulary, layer_sizes(self.emsize, self.nhid, self.layers))

    def counts(self, arch: Arch, task: Task) -> Counts:
        """Multiply–accumulates are those of one sequence of the task's length."""
        require_arch(self, arch)
        self.check(task)
        cell, tally, length = self.cell(arch), Tally(), task.input_shape[0]
        for inputs, width in layer_sizes(self.emsize, self.nhid, self.layers):
            count_layer(tally, cell, inputs, width, length)
        tally.linear(self.emsize, task.vocabulary, length)
        return tally.counts()

    def parse(self, text: str) -> Arch:
        """Read a recipe in JSON."""
        cell = read_recipe(text)
        if len(cell.steps) > self.nodes:
            raise InputError(f"recurrent: the recipe has {len(cell.steps)} nodes; expected at most {self.nodes}")
        if (problem := next(problems(cell), None)) is not None:
            raise InputError(f"recurrent: {problem}")
        return self.encode(cell)

    def format(self, arch: Arch) -> str:
        """Write a recipe in JSON."""
        require_arch(self, arch)
        return write_recipe(self.cell(arch))

    def cell(self, arch: Arch) -> Cell:
        """The nodes that an arch stands for, without those that lead nowhere."""
        steps = []
        for node in range(self.nodes):
            op, *inputs = arch[1 + node * _PARTS : 1 + (node + 1) * _PARTS]
            steps.append(Step("linear" if op <= 1 else CHOICES[op], tuple(inputs[: _ARITY[op]])))
        hidden = arch[1 + self.nodes * _PARTS :][: arch[0] + 1]
        return Cell(tuple(steps), tuple(hidden)).pruned()

    def encode(self, cell: Cell) -> Arch:
        """The arch of a cell, with everything that is not there at its first option."""
        arch = [len(cell.hidden) - 1]
        for step in cell.steps:
            op = len(step.inputs) - 2 if step.op == "linear" else CHOICES.index(step.op)
            arch += [op, *step.inputs, *[X] * (MAX_HIDDEN - len(step.inputs))]
        arch += [0] * _PARTS * (self.nodes - len(cell.steps))
        return (*arch, *cell.hidden, *[0] * (MAX_HIDDEN - len(cell.hidden)))

    def generate(self, rng: np.random.Generator, hidden: int = 2, intermediate: int = 7) -> Arch:
        """A random arch as the benchmark drew them, which is not uniform: linear nodes are three times as likely."""
        if hidden + intermediate >= self.nodes:
            raise InputError(
                f"recurrent: {hidden} + {intermediate} nodes may need one more, but the space has {self.nodes}"
            )
        return self.encode(random_cell(rng, hidden, intermediate))

    def sketch(self, arch: Arch) -> tuple[Graph]:
        """The cell's nodes and what they read, for drawing."""
        cell = self.cell(arch)
        names = node_names(cell)
        states = [source_name(source, names) for source in range(HIDDEN + len(cell.hidden))]
        nodes = [Node(name, name, "input") for name in states]
        edges = []
        for name, step in zip(names, cell.steps, strict=True):
            label = step.op.removeprefix("activation_").removeprefix("elementwise_")
            new = name.startswith("h_new")
            nodes.append(Node(name, f"{name} = {label}" if new else label, "output" if new else "operation"))
            edges += [Edge(source_name(source, names), name) for source in step.inputs]
        return (Graph("recurrent cell", tuple(nodes), tuple(edges)),)


@functools.cache
def _decisions(nodes: int) -> tuple[Decision, ...]:
    decisions = [Decision("hidden", tuple(str(count + 1) for count in range(MAX_HIDDEN)))]
    names = [f"node_{node}" for node in range(nodes)]
    for node, name in enumerate(names):
        sources = tuple(source_name(source, names) for source in range(NODES + node))
        decisions.append(Decision(f"{name}.op", CHOICES))
        decisions += [Decision(f"{name}.input{place}", sources) for place in range(3)]
    decisions += [Decision(f"h_new_{state}", tuple(names)) for state in range(MAX_HIDDEN)]
    return tuple(decisions)
