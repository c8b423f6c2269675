"""NAS-Bench-NLP: recurrent cells from recipes in a language model (Klyuchnikov et al., 2022)."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from trainless.core.arch import Arch, Decision
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.moves import has_options
from trainless.spaces.ops import Tally
from trainless.spaces.protocol import Counts, Network, ShownSpace, require_arch, require_least, require_most
from trainless.spaces.recurrent_recipe import (
    ACTIVATIONS,
    HIDDEN,
    MAX_HIDDEN,
    NODES,
    OPERATIONS,
    RecipeNode,
    RecurrentCell,
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
MOST_NODES = 1000  # each has all others for options
_PARTS = 4  # decisions of one node: operation and three inputs


@dataclass(frozen=True)
class Recurrent(ShownSpace):
    """NAS-Bench-NLP, for text: recurrent cells of up to 24 nodes and 3 hidden states, stacked after an embedding.

    The decoder is tied to the embedding. Every node has an operation and three inputs, of which it reads as many as
    it needs; the new states are nodes; nodes that no new state depends on are not there. An arch is valid where, among
    the nodes that are, inputs of a node differ, only linear nodes read x (whose width is another), and every state and
    x are read.

    The published initialisation (uniform ± 1/√width, embedding ± 0.1) is left to the weights of a probe: layers
    start by PyTorch's rules, the shared embedding by those of the decoder. There is no dropout.

    ``emsize`` is the width of the embedding and of the last layer, ``nhid`` that of the others.

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
    name = "recurrent"

    def __post_init__(self) -> None:
        require_most(self, nodes=MOST_NODES)
        require_least(self, emsize=1, nhid=1, layers=1, nodes=MAX_HIDDEN)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return _decisions(self.nodes)

    def check(self, task: Task) -> None:
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
        return has_options(self, arch) and next(problems(self.cell(arch)), None) is None

    def canonical(self, arch: Arch) -> Arch:
        """The same cell with its nodes, swappable inputs and further states in a fixed order, and none unused."""
        return self.encode(canonical_cell(self.cell(arch)))

    def build(self, arch: Arch, task: Task) -> nn.Module:
        require_arch(self, arch, task)
        return LanguageModel(self.cell(arch), task.vocabulary, layer_sizes(self.emsize, self.nhid, self.layers))

    def counts(self, arch: Arch, task: Task) -> Counts:
        """Multiply–accumulates are those of one sequence of the task's length."""
        require_arch(self, arch, task)
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
        require_arch(self, arch)
        return write_recipe(self.cell(arch))

    def cell(self, arch: Arch) -> RecurrentCell:
        """The nodes that an arch stands for, without those that lead nowhere."""
        steps = []
        for node in range(self.nodes):
            op, *inputs = arch[1 + node * _PARTS : 1 + (node + 1) * _PARTS]
            steps.append(RecipeNode("linear" if op <= 1 else CHOICES[op], tuple(inputs[: _ARITY[op]])))
        hidden = arch[1 + self.nodes * _PARTS :][: arch[0] + 1]
        return RecurrentCell(tuple(steps), tuple(hidden)).pruned()

    def encode(self, cell: RecurrentCell) -> Arch:
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


_ACTIVATION: dict[str, type[nn.Module]] = dict(zip(ACTIVATIONS, (nn.Tanh, nn.Sigmoid, nn.LeakyReLU), strict=True))


def layer_sizes(emsize: int, nhid: int, layers: int) -> list[tuple[int, int]]:
    """Inputs and hidden width of each layer: emsize → nhid → … → emsize."""
    widths = [emsize, *[nhid] * (layers - 1), emsize]
    return list(itertools.pairwise(widths))


def count_layer(tally: Tally, cell: RecurrentCell, inputs: int, width: int, length: int) -> None:
    """Add a layer's linear nodes: one matrix per input, one bias per node."""
    for step in cell.steps:
        if step.op == "linear":
            for place, source in enumerate(step.inputs):
                tally.linear(inputs if source == X else width, width, length, bias=place == 0)


class Mix(nn.Module):
    """The sum of one matrix per input and one bias."""

    def __init__(self, inputs: list[int], outputs: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(size, outputs, bias=place == 0) for place, size in enumerate(inputs))

    def forward(self, *inputs: Tensor) -> Tensor:
        total: Tensor = self.parts[0](inputs[0])
        for part, x in zip(list(self.parts)[1:], inputs[1:], strict=True):
            total = total + part(x)
        return total


class Blend(nn.Module):
    """``g·a + (1 − g)·b``."""

    def forward(self, gate: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return gate * a + (1 - gate) * b


class Product(nn.Module):
    """``a·b``."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a * b


class Sum(nn.Module):
    """``a + b``."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b


def _module(step: RecipeNode, inputs: int, width: int) -> nn.Module:
    if step.op == "linear":
        return Mix([inputs if source == X else width for source in step.inputs], width)
    if step.op in _ACTIVATION:
        return _ACTIVATION[step.op]()
    return {"blend": Blend, "elementwise_prod": Product, "elementwise_sum": Sum}[step.op]()


class RecurrentLayer(nn.Module):
    """A cell unrolled over time from states of zeros; its output is the first new state of every step."""

    def __init__(self, cell: RecurrentCell, inputs: int, width: int) -> None:
        super().__init__()
        self.cell, self.width = cell, width
        self.nodes = nn.ModuleList(_module(step, inputs, width) for step in cell.steps)

    def forward(self, x: Tensor) -> Tensor:
        states = [x.new_zeros(x.shape[0], self.width) for _ in self.cell.hidden]
        outputs = []
        for moment in x.unbind(1):
            values = {X: moment, **{HIDDEN + index: state for index, state in enumerate(states)}}
            for index, (step, node) in enumerate(zip(self.cell.steps, self.nodes, strict=True)):
                values[NODES + index] = node(*(values[source] for source in step.inputs))
            states = [values[NODES + node] for node in self.cell.hidden]
            outputs.append(states[0])
        return torch.stack(outputs, 1)


class LanguageModel(Network):
    """Tokens ``(N, T)`` to the next token's logits ``(N, T, vocabulary)``; embedding and decoder share weights."""

    def __init__(self, cell: RecurrentCell, vocabulary: int, sizes: list[tuple[int, int]]) -> None:
        super().__init__()
        emsize = sizes[0][0]
        self.decoder = nn.Linear(emsize, vocabulary)
        self.embedding = nn.Embedding(vocabulary, emsize, _weight=self.decoder.weight)
        self.embedding.weight = self.decoder.weight
        self.layers = nn.ModuleList(RecurrentLayer(cell, inputs, width) for inputs, width in sizes)
        self.block_names = ("embedding", *(f"layers.{index}" for index in range(len(sizes))))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.decoder(x)
        return logits
