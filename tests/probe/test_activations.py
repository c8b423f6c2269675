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


class Swish(nn.Module):
    """SiLU whose steepness is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.beta = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.beta * x)


def _zeroed(x: Tensor) -> Tensor:
    x[x < 0] = 0
    return x


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
    "where": (Written(lambda x: torch.where(x > 0, x, 0)), "ReLU"),
    "where, zeros": (Written(lambda x: torch.where(x <= 0, torch.zeros_like(x), x)), "ReLU"),
    "maximum": (Written(lambda x: torch.maximum(x, torch.zeros_like(x))), "ReLU"),
    "maximum of a number": (Written(lambda x: torch.max(x, torch.tensor(0.0))), "ReLU"),
    "clamp by a tensor": (Written(lambda x: torch.clamp(x, torch.tensor(0.0))), "ReLU"),
    "mask": (Written(lambda x: x * (x > 0)), "ReLU"),
    "converted mask": (Written(lambda x: (x > 0).to(x.dtype) * x), "ReLU"),
    "mask without a graph": (Written(lambda x: x * (x.detach() >= 0).float()), "ReLU"),
    "masked_fill": (Written(lambda x: x.masked_fill(x < 0, 0.0)), "ReLU"),
    "absolute value": (Written(lambda x: (x + x.abs()) / 2), "ReLU"),
    "item by mask": (Written(lambda x: _zeroed(x.clone())), "ReLU"),
    "mask in place": (Written(lambda x: x.mul_(x > 0)), "ReLU"),
    "leaky, maximum": (Written(lambda x: torch.maximum(x, 0.1 * x)), "leaky ReLU"),
    "leaky, where": (Written(lambda x: torch.where(x > 0, x, 0.2 * x)), "leaky ReLU"),
    "elu, where": (Written(lambda x: torch.where(x > 0, x, torch.exp(x) - 1)), "ELU"),
    "silu, division": (Written(lambda x: x / (1 + torch.exp(-x))), "SiLU"),
    "hardswish, clamp": (Written(lambda x: x * (x / 6 + 0.5).clamp(0, 1)), "hardsigmoid"),
    "swish with a parameter": (Swish(), "SiLU"),
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


def test_a_number_is_not_an_axis() -> None:
    """What is remembered of ``torch.max(x, 0)``, along an axis, is nothing that the larger of two has to do with."""
    assert not trace(probe(Written(lambda x: x * torch.max(x, 0)[0].detach()))).activations
    (found,) = trace(probe(Written(lambda x: torch.max(x, torch.tensor(0.0))))).activations
    assert found.kind == "ReLU"


@pytest.mark.parametrize(
    "function",
    [
        *(torch.tanh, torch.sigmoid, torch.abs, torch.square, lambda x: x.clamp(min=1e-6), lambda x: 2 * x + 1),
        *(lambda x: torch.where(x > 1, x, 0), lambda x: torch.where(x > -1, x, 0)),
        *(lambda x: x.clamp(-1, 1), lambda x: x * x.amax(1, keepdim=True), lambda x: x * (x[:, :1] > 0), torch.exp),
    ],
)
def test_what_neither_opens_nor_closes_at_zero_has_no_pattern(function: Callable[[Tensor], Tensor]) -> None:
    assert not trace(probe(Written(function))).activations


@pytest.mark.parametrize("halves", [lambda x: x.chunk(2, -1), lambda x: x.split(6, -1), lambda x: (x[:, :6], x[:, 6:])])
def test_a_gated_half_written_out(halves: Callable[[Tensor], tuple[Tensor, Tensor]]) -> None:
    def gated(x: Tensor) -> Tensor:
        content, gate = halves(x)
        return content * torch.sigmoid(gate)

    p = probe(Written(gated), 6)
    (found,) = trace(p).activations
    assert found.kind == "GLU"
    assert torch.equal(found.gate > 0, p.net[0](p.x)[:, 6:] > 0)


def test_a_gated_half() -> None:
    p = probe(nn.GLU(), 6)
    (found,) = trace(p).activations
    assert torch.equal(found.gate > 0, p.net[0](p.x)[:, 6:] > 0)


@pytest.mark.parametrize("activation", [nn.Tanh(), nn.Sigmoid(), Written(lambda x: 2 * x), nn.Identity()])
def test_what_neither_opens_nor_closes(activation: nn.Module) -> None:
    assert not trace(probe(activation)).activations
