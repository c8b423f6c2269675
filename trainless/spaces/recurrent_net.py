"""The language model around a recurrent cell: embedding, layers unrolled over time, tied decoder."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from trainless.spaces.counts import Tally
from trainless.spaces.protocol import Network
from trainless.spaces.recurrent_recipe import ACTIVATIONS, HIDDEN, NODES, Cell, Step, X

_ACTIVATION: dict[str, type[nn.Module]] = dict(zip(ACTIVATIONS, (nn.Tanh, nn.Sigmoid, nn.LeakyReLU), strict=True))


def layer_sizes(emsize: int, nhid: int, layers: int) -> list[tuple[int, int]]:
    """Inputs and hidden width of each layer: emsize → nhid → … → emsize.

    Example:
        >>> layer_sizes(400, 600, 3)
        [(400, 600), (600, 600), (600, 400)]
    """
    widths = [emsize, *[nhid] * (layers - 1), emsize]
    return list(itertools.pairwise(widths))


def count_layer(tally: Tally, cell: Cell, inputs: int, width: int, length: int) -> None:
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
        """Add up the parts."""
        total: Tensor = self.parts[0](inputs[0])
        for part, x in zip(list(self.parts)[1:], inputs[1:], strict=True):
            total = total + part(x)
        return total


class Blend(nn.Module):
    """``g·a + (1 − g)·b``."""

    def forward(self, gate: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Weigh two values by a gate."""
        return gate * a + (1 - gate) * b


class Product(nn.Module):
    """``a·b``."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply."""
        return a * b


class Sum(nn.Module):
    """``a + b``."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Add."""
        return a + b


def _module(step: Step, inputs: int, width: int) -> nn.Module:
    if step.op == "linear":
        return Mix([inputs if source == X else width for source in step.inputs], width)
    if step.op in _ACTIVATION:
        return _ACTIVATION[step.op]()
    return {"blend": Blend, "elementwise_prod": Product, "elementwise_sum": Sum}[step.op]()


class RecurrentLayer(nn.Module):
    """A cell unrolled over time from states of zeros; its output is the first new state of every step."""

    def __init__(self, cell: Cell, inputs: int, width: int) -> None:
        super().__init__()
        self.cell, self.width = cell, width
        self.nodes = nn.ModuleList(_module(step, inputs, width) for step in cell.steps)

    def forward(self, x: Tensor) -> Tensor:
        """The outputs ``(N, T, width)`` of a sequence ``(N, T, inputs)``."""
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

    def __init__(self, cell: Cell, vocabulary: int, sizes: list[tuple[int, int]]) -> None:
        super().__init__()
        emsize = sizes[0][0]
        self.decoder = nn.Linear(emsize, vocabulary)
        self.embedding = nn.Embedding(vocabulary, emsize, _weight=self.decoder.weight)
        self.embedding.weight = self.decoder.weight
        self.layers = nn.ModuleList(RecurrentLayer(cell, inputs, width) for inputs, width in sizes)
        self.block_names = ("embedding", *(f"layers.{index}" for index in range(len(sizes))))

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits ``(N, T, vocabulary)`` of tokens ``(N, T)``."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.decoder(x)
        return logits
