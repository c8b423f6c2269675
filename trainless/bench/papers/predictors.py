"""Predictors that learn from trained networks of NAS-Bench-201: an MLP, an LSTM and GATES (Ning et al., 2020)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from trainless.core.arch import Arch
from trainless.core.types import Floats

Kind = Literal["mlp", "lstm", "gates-1", "gates-2"]
EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))  # as architectures are written
OPERATIONS, NODES, WIDTH = 5, 4, 48
EPOCHS, BATCH, MARGIN, RATE = 200, 512, 0.1, 1e-3
LAYERS = {"gates-1": 1, "gates-2": 5}


class MlpPredictor(nn.Module):
    """The options one-hot, and two hidden layers."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (len(EDGES) * OPERATIONS, 200, 200, 1)
        layers = [each for pair in itertools.pairwise(sizes) for each in (nn.Linear(*pair), nn.ReLU())]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, archs: Tensor) -> Tensor:
        found: Tensor = self.layers(nn.functional.one_hot(archs, OPERATIONS).flatten(1).float())
        return found[:, 0]


class LstmPredictor(nn.Module):
    """The options as a sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(OPERATIONS, WIDTH)
        self.sentence = nn.LSTM(WIDTH, 2 * WIDTH, batch_first=True)
        self.last = nn.Linear(2 * WIDTH, 1)

    def forward(self, archs: Tensor) -> Tensor:
        found: Tensor = self.last(self.sentence(self.words(archs))[0].mean(1))
        return found[:, 0]


class GatesPredictor(nn.Module):
    """Information runs through the cell: each operation is a gate, and a node adds up what its gates let pass."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.operations = nn.Embedding(OPERATIONS, WIDTH)
        self.start = nn.Parameter(torch.randn(NODES, WIDTH) / WIDTH**0.5)
        self.carry = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))
        self.gate = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))
        self.last = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, 1))

    def forward(self, archs: Tensor) -> Tensor:
        operations = self.operations(archs)
        nodes = self.start.expand(len(archs), -1, -1)
        for carry, gate in zip(self.carry, self.gate, strict=True):
            passed = [nodes[:, 0]]
            for node in range(1, NODES):
                sources = [(edge, source) for edge, (source, target) in enumerate(EDGES) if target == node]
                news = [torch.sigmoid(gate(operations[:, edge])) * carry(passed[source]) for edge, source in sources]
                passed.append(nodes[:, node] + torch.stack(news).sum(0))
            nodes = torch.relu(torch.stack(passed, 1))
        found: Tensor = self.last(nodes[:, -1])
        return found[:, 0]


def predict(
    kind: Kind, train: Sequence[Arch], accuracy: Floats, test: Sequence[Arch], seed: int = 0, epochs: int = EPOCHS
) -> Floats:
    """Learn the order of trained networks by a pairwise hinge loss, and put others in order.

    Example:
        >>> archs = [(0,) * 6, (1,) * 6, (2,) * 6, (3,) * 6]
        >>> predict("mlp", archs, np.array([10.0, 60.0, 80.0, 90.0]), archs).argsort().tolist()
        [0, 1, 2, 3]
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = (
            {"mlp": MlpPredictor, "lstm": LstmPredictor}[kind]()
            if kind in ("mlp", "lstm")
            else GatesPredictor(LAYERS[kind])
        )
    archs, truth = torch.tensor(train), torch.from_numpy(np.asarray(accuracy, np.float32))
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for rows in torch.randperm(len(archs), generator=generator).split(BATCH):
            found, known = model(archs[rows]), truth[rows]
            better = known[:, None] > known[None]
            loss = (MARGIN - (found[:, None] - found[None])).relu()[better].mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    with torch.no_grad():
        return np.asarray(model(torch.tensor(test)).double().numpy())
