"""Sums over paths beyond double precision, against plain ones and closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from tests.cases import CASES
from trainless.core.target import Target
from trainless.probe import Probe
from trainless.probe.points import Magnitude, Ones
from trainless.proxies import registry
from trainless.proxies.synflow import scaled_flow

BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize(
    "name", ["2d", "2d-batch-norm", "called-twice", "functional-relu", "best-cell", "no-rectifier"]
)
def test_the_same_where_nothing_overflows(name: str) -> None:
    p = BY_NAME[name].probe()
    total, exponent = scaled_flow(p.once(weights=Magnitude(), x=Ones(), norm="off"), limit=2)
    assert exponent or name == "no-rectifier"
    assert math.log(total) + exponent * math.log(2) == pytest.approx(registry["synflow"](p), rel=1e-9)


@pytest.mark.parametrize("size", [1e4, 1e-4])
def test_deep_linear_networks(size: float) -> None:
    """Every path has the same strength: the sum is known, far beyond what a double holds."""
    layers = [nn.Linear(4, 4, bias=False) for _ in range(120)]
    for layer in layers:
        nn.init.constant_(layer.weight, size)
    p = Probe.of(nn.Sequential(nn.Flatten(), *layers), (torch.ones(2, 4), torch.zeros(2)), Target("multiclass", 4))
    expected = math.log(120) + math.log(4) + 120 * math.log(4 * size)
    assert registry["synflow"](p) == pytest.approx(expected)


class Products(nn.Module):
    """Multiplies its features by themselves: their size is squared again and again."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(depth))
        for layer in self.layers:
            nn.init.constant_(layer.weight, 100.0)
            nn.init.ones_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            y = layer(x)
            x = y * nn.functional.silu(y) + x
        return x


def test_products_of_features() -> None:
    values = []
    for depth in (4, 5, 9, 10):
        p = Probe.of(Products(depth), (torch.ones(2, 3), torch.zeros(2, dtype=torch.int64)), Target("multiclass", 3))
        values.append(registry["synflow"](p))
    assert all(map(math.isfinite, values))
    assert values[1] / values[0] == pytest.approx(2, rel=0.1)
    assert values[3] / values[2] == pytest.approx(2, rel=0.02)


def test_attention() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    net = nn.Sequential(*(nn.Linear(4, 8), *(layer for _ in range(1)), nn.Flatten(), nn.Linear(24, 2)))
    deep = nn.Sequential(nn.Linear(4, 8), nn.TransformerEncoder(layer, 40), nn.Flatten(), nn.Linear(24, 2))
    for tensor in deep.parameters():
        tensor.data *= 10
    batch = torch.randn(2, 3, 4), torch.tensor([0, 1])
    shallow, far = (registry["synflow"](Probe.of(each, batch, Target("binary", 2))) for each in (net, deep))
    assert math.isfinite(shallow)
    assert far > 300
