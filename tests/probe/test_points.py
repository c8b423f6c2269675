"""Weights that are drawn anew: matrices and kernels alone."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from trainless.core.seeds import generator
from trainless.core.target import Target
from trainless.probe.points import Gaussian, Kaiming, Uniform, Weights
from trainless.probe.probe import Probe
from trainless.proxies.proxy import registry


@pytest.mark.parametrize("rule", [Kaiming(), Uniform(), Gaussian()])
def test_norms_and_slopes(rule: Weights) -> None:
    net = nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.PReLU(), nn.LayerNorm([64, 2, 2]), nn.RMSNorm([2]))
    with torch.no_grad():
        for name, tensor in net.named_parameters():
            if name[0] in "13":
                tensor.fill_(7)
    fresh = rule(dict(net.named_parameters()), lambda name: generator(0, name))
    for name in ("1.weight", "3.weight"):
        assert bool((fresh[name] == 1).all())
    for name in ("0.bias", "1.bias", "3.bias"):
        assert not bool(fresh[name].any())
    assert fresh["2.weight"].tolist() == [0.25]
    assert fresh["4.weight"].tolist() == [1, 1]
    if isinstance(rule, Kaiming):
        assert float(fresh["0.weight"].std()) == pytest.approx(math.sqrt(2 / 27), rel=0.1)


def test_a_slope_is_not_made_the_identity() -> None:
    """A PReLU is the leaky ReLU of its slope under weights that are drawn anew."""

    def score(activation: nn.Module) -> float:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 4, 3), activation, nn.Flatten(), nn.Linear(16, 3))
        x, y = torch.randn(6, 3, 4, 4), torch.arange(6) % 3
        return registry["grad_norm"](Probe.of(net, (x, y), Target("multiclass", 3)).once(weights=Kaiming()))

    assert score(nn.PReLU()) == pytest.approx(score(nn.LeakyReLU(0.25)), rel=1e-5)
    assert score(nn.PReLU()) != pytest.approx(score(nn.Identity()), rel=1e-2)
