"""Paths are counted as one counts them by hand, or by adjacency matrices, whatever writes the network down."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from trainless import Probe, Target, Task, space
from trainless.core.errors import Unscorable
from trainless.core.seeds import seeded
from trainless.proxies import registry
from trainless.testing import check_proxy

paths = registry["paths"]
TARGET = Target("multiclass", 3)


def value(net: nn.Module, *shape: int) -> float:
    return paths(Probe.of(net, (torch.randn(4, *shape), torch.tensor([0, 1, 2, 0])), TARGET))


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.inner(x)
        return out


def head(channels: int, outputs: int = 3) -> tuple[nn.Module, ...]:
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, outputs)


def ring(inputs: int, outputs: int, size: int, **how: int) -> nn.Conv2d:
    """A convolution in which every place has all its neighbours."""
    return nn.Conv2d(inputs, outputs, size, padding=size // 2, padding_mode="circular", **how)


@pytest.mark.parametrize(
    ("body", "ways"),
    [
        ((nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 5, 5)), 9 * 25),
        ((ring(3, 5, 3), Residual(nn.Sequential(nn.GELU(), ring(5, 5, 3)))), 9 * (1 + 9)),
        ((ring(3, 6, 1), ring(6, 6, 5, groups=6), nn.Sigmoid(), ring(6, 5, 1)), 1),  # a gate alone lets all through
        ((ring(3, 6, 1), ring(6, 6, 5, groups=6), nn.ReLU6(), nn.AvgPool2d(2), ring(6, 5, 1)), 25),
        ((ring(3, 5, 3), Residual(Residual(ring(5, 5, 3)))), 9 * (1 + 1 + 9)),
    ],
)
def test_they_are_counted_as_by_hand(body: tuple[nn.Module, ...], ways: float) -> None:
    assert value(nn.Sequential(*body, *head(5)), 3, 12, 12) == pytest.approx(math.log(ways), abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from((1, 3, 5)), st.sampled_from((1, 2))), min_size=1, max_size=4), st.booleans())
def test_at_borders_they_are_those_of_adjacency_matrices(layers: list[tuple[int, int]], residual: bool) -> None:
    """A signal of nine places, zeros around it: how many ways lead from any place to each, by products of matrices."""
    ways, places = np.ones(9), 9
    parts: list[nn.Module] = [nn.Conv1d(2, 4, 1)]
    for kernel, stride in layers:
        stride = 1 if residual else stride
        taps = np.array(
            [[abs(i * stride - j) <= kernel // 2 for j in range(places)] for i in range(-(-places // stride))]
        )
        conv = nn.Conv1d(4, 4, kernel, stride, kernel // 2)
        parts.append(Residual(conv) if residual else conv)
        ways = taps @ ways + (ways if residual else 0)
        places = len(ways)
    net = nn.Sequential(*parts, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 3))
    assert value(net, 2, 9) == pytest.approx(math.log(ways.mean()), abs=1e-9)


def test_attention_has_a_way_from_every_token() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mixed, self.last = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.last((x + self.mixed(x, x, x, need_weights=False)[0]).mean(1))
            return out

    class Written(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.taken, self.mixed, self.last = nn.Linear(8, 24), nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.taken(x).chunk(3, -1)
            out: Tensor = self.last((x + self.mixed((q @ k.mT).softmax(-1) @ v)).mean(1))
            return out

    for net in (Attention(), Written()):
        assert value(net, 6, 8) == pytest.approx(math.log(1 + 6), abs=1e-6)


def test_a_network_too_deep_for_double_precision_has_its_logarithm() -> None:
    deep = nn.Sequential(ring(3, 2, 1), *(ring(2, 2, 5) for _ in range(300)), *head(2))
    assert value(deep, 3, 6, 6) == pytest.approx(300 * math.log(25), rel=1e-9)


def test_where_nothing_leads_there_is_no_logarithm() -> None:
    class Dead(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 0

    with pytest.raises(Unscorable, match="no way leads from the input to the output"):
        value(nn.Sequential(ring(3, 5, 3), Dead(), *head(5)), 3, 8, 8)


def test_blocks_that_a_network_names_are_counted_one_by_one() -> None:
    """A DARTS cell takes two inputs: seen from within the network, ways past a cell are hardly any."""
    darts = space("darts", channels=4, cells=3)
    skip, pool = [("skip_connect", 0), ("skip_connect", 1)], [("max_pool_3x3", 0), ("max_pool_3x3", 1)]
    nodes = "normal_concat=[2, 3, 4, 5], reduce={}, reduce_concat=[2, 3, 4, 5]"
    normal = [("sep_conv_3x3", 0), ("skip_connect", 1), *3 * skip]
    text = f"Genotype(normal={normal}, {nodes.format(4 * pool)})"
    with seeded(0):
        net = darts.build(darts.parse(text), Task.noise((3, 64, 64), classes=3))
    found = value(net, 3, 64, 64)
    # the stem has 9 ways; the normal cell (81 + 1 + 3 · 2) / 4 of a node; each of two reductions 2 of a node
    expected = math.log(9) + math.log((81 + 1 + 3 * 2) / 4) + 2 * math.log(2)
    assert found == pytest.approx(expected, abs=0.15)


def test_it_keeps_the_contract() -> None:
    net = nn.Sequential(ring(3, 5, 3), nn.ReLU(), *head(5))
    check_proxy(paths, lambda: Probe.of(net, (torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 2, 0])), TARGET), net=net)
