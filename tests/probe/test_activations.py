"""Activations are known by what they do, however they are written."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainless.core.target import Target
from trainless.probe import Probe
from trainless.probe.record import trace
from trainless.proxies import registry


class Written(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


GATES: dict[str, tuple[nn.Module, str]] = {
    "relu6": (nn.ReLU6(), "ReLU6"),
    "hardtanh": (nn.Hardtanh(), "hardtanh"),
    "hardswish": (nn.Hardswish(), "hardswish"),
    "hardsigmoid": (nn.Hardsigmoid(), "hardsigmoid"),
    "hardswish, written out": (Written(lambda x: x * F.relu6(x + 3) / 6), "hardsigmoid"),
    "gelu": (nn.GELU(), "GELU"),
    "gelu, tanh": (nn.GELU("tanh"), "GELU"),
    "gelu_new": (
        Written(lambda x: 0.5 * x * (1.0 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))),
        "GELU",
    ),
    "gelu, erf": (Written(lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2)))), "GELU"),
    "quick gelu": (Written(lambda x: x * torch.sigmoid(1.702 * x)), "SiLU"),
    "silu": (nn.SiLU(), "SiLU"),
    "swish": (Written(lambda x: x * x.sigmoid()), "SiLU"),
    "mish": (nn.Mish(), "Mish"),
    "selu": (nn.SELU(), "SELU"),
    "celu": (nn.CELU(), "CELU"),
    "elu": (nn.ELU(), "ELU"),
    "softplus": (nn.Softplus(), "softplus"),
    "clamp": (Written(lambda x: x.clamp(min=0)), "ReLU"),
    "clamp_min": (Written(lambda x: torch.clamp_min(x, 0)), "ReLU"),
    "threshold": (nn.Threshold(0, 0), "ReLU"),
    "in place": (nn.SiLU(inplace=True), "SiLU"),
}


def probe(activation: nn.Module, width: int = 12) -> Probe:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 12), activation, nn.Linear(width, 3))
    return Probe.of(net, (torch.randn(8, 6), torch.arange(8) % 3), Target("multiclass", 3))


@pytest.mark.parametrize("name", GATES)
def test_its_pattern_is_the_sign_of_what_enters(name: str) -> None:
    activation, kind = GATES[name]
    p = probe(activation)
    (found,) = trace(p).activations
    entering = p.net[0](p.x)
    assert found.kind == kind
    assert torch.equal(found.gate > 0, entering > 0)
    assert registry["naswot"](p) == registry["naswot"](probe(nn.ReLU()))
    assert math.isfinite(registry["grasp"](p))


def test_a_gated_half() -> None:
    p = probe(nn.GLU(), 6)
    (found,) = trace(p).activations
    assert torch.equal(found.gate > 0, p.net[0](p.x)[:, 6:] > 0)


@pytest.mark.parametrize("activation", [nn.Tanh(), nn.Sigmoid(), Written(lambda x: 2 * x), nn.Identity()])
def test_what_neither_opens_nor_closes(activation: nn.Module) -> None:
    assert not trace(probe(activation)).activations
