"""Learned predictors: they learn an order that is there, with the same numbers every time."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch

from trainless.bench.papers.predictors import EDGES, GatesPredictor, Kind, predict
from trainless.spaces.nb201 import NasBench201

WORTH = np.array([0.0, 1.0, 3.0, 4.0, 2.0])  # none, skip, 1×1, 3×3, pooling


@pytest.mark.parametrize("kind", get_args(Kind))
def test_an_order_by_operations_is_learnt(kind: Kind) -> None:
    archs = np.random.default_rng(0).integers(0, 5, (150, 6))
    truth = WORTH[archs].sum(1)
    train, test = [[tuple(map(int, arch)) for arch in part] for part in (archs[:100], archs[100:])]
    found = predict(kind, train, truth[:100], test, epochs=100 if kind == "gates-1" else 60)
    assert np.corrcoef(found.argsort().argsort(), truth[100:].argsort().argsort())[0, 1] > 0.7
    before = torch.random.get_rng_state()
    once, again = (predict(kind, train[:4], truth[:4], test, epochs=2) for _ in range(2))
    np.testing.assert_array_equal(once, again)
    assert torch.equal(before, torch.random.get_rng_state())


def test_edges_are_those_of_the_notation() -> None:
    text = NasBench201().format((1, 2, 3, 4, 0, 1))
    ends = [[int(part[-1]) for part in node.split("|") if part] for node in text.split("+")]
    assert [(source, node + 1) for node, sources in enumerate(ends) for source in sources] == list(EDGES)


def test_gates_sees_a_cell_as_a_graph() -> None:
    torch.manual_seed(0)
    model = GatesPredictor(1)
    cells = torch.tensor([[1, 0, 0, 0, 0, 0], [3, 0, 0, 0, 0, 0]])
    one, other = model(cells).tolist()
    assert one != other
    with torch.no_grad():
        model.gate[0].weight.zero_()
        model.gate[0].bias.fill_(-1e4)  # no gate is open: all cells are the same
    found = model(torch.randint(0, 5, (6, 6)))
    torch.testing.assert_close(found, found[:1].expand(6))
