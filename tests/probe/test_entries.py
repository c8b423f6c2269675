"""Derivatives by single entries, beside plain autograd of every sample alone."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from trainless.core.target import Target
from trainless.probe import Probe
from trainless.probe.entries import Places, _looped, selected_jacobian

NETWORKS = {
    "images": lambda: nn.Sequential(
        nn.Conv2d(3, 6, (3, 2), padding=(2, 1), stride=(2, 1), dilation=(2, 1)),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Conv2d(6, 4, 3, groups=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 3 * 9, 3),
    ),
    "signals": lambda: nn.Sequential(
        nn.Conv1d(3, 6, 5, padding="same", groups=3, bias=False),
        nn.GroupNorm(2, 6),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(2),
        nn.Flatten(),
        nn.LayerNorm(12),
        nn.Linear(12, 3),
    ),
    "volumes": lambda: nn.Sequential(
        nn.Conv3d(3, 4, (1, 3, 2)), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(4, 3)
    ),
}
INPUTS = {"images": (3, 6, 8), "signals": (3, 9), "volumes": (3, 4, 5, 4)}


class Spread(nn.Module):
    """A token for every sample and a scale of all positions, before a layer that reads every position."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.scale = nn.Parameter(torch.randn(1, 1, 4)), nn.Parameter(torch.randn(4))
        self.layer, self.norm, self.head = nn.Linear(4, 4), nn.LayerNorm((3, 4)), nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        return self.head(self.norm(torch.relu(self.layer(x * self.scale))).flatten(1))  # type: ignore[no-any-return]


def everywhere(p: Probe) -> Places:
    """Every entry of every parameter."""
    return tuple((name, tuple(range(tensor.numel()))) for name, tensor in p.weights.items())


@pytest.mark.parametrize("kind", [*NETWORKS, "tokens"])
def test_every_entry_has_its_derivative(kind: str) -> None:
    torch.manual_seed(0)
    net = (Spread() if kind == "tokens" else NETWORKS[kind]()).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn_like(parameter))
    x = torch.randn(4, *(INPUTS[kind] if kind != "tokens" else (2, 4)), dtype=torch.float64)
    p = Probe.of(net, (x, torch.arange(4) % 3), Target("multiclass", 3)).once(norm="fresh")
    found = selected_jacobian(p, everywhere(p), 3)
    alone = copy.deepcopy(net).eval()  # its norms have seen nothing
    parameters = [dict(alone.named_parameters())[name] for name in p.weights]
    for sample in range(4):
        outputs = alone(x[sample : sample + 1])[0]
        for output in range(3):
            slopes = torch.autograd.grad(outputs[output], parameters, retain_graph=True)
            torch.testing.assert_close(found[sample, output], torch.cat([slope.flatten() for slope in slopes]))


def test_a_norms_scale_of_ones_has_its_derivative_sample_by_sample_too() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    batch = torch.randn(3, 3, 6, 6), torch.arange(3)
    p = Probe.of(net, batch, Target("multiclass", 3)).once(norm="fresh")
    read, looped = selected_jacobian(p, everywhere(p), 3), _looped(p, everywhere(p), 3)
    torch.testing.assert_close(read, looped, rtol=1e-4, atol=1e-5)
    assert bool((selected_jacobian(p, (("1.weight", (0, 1, 2, 3)),), 3) != 0).any(0).any(0).all())


def test_columns_are_in_the_order_that_was_asked_for() -> None:
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    p = Probe.of(net, (torch.randn(2, 4), torch.tensor([0, 1])), Target("multiclass", 3)).once(norm="fresh")
    whole, sizes = selected_jacobian(p, everywhere(p), 3), [tensor.numel() for tensor in p.weights.values()]
    begin = dict(zip(p.weights, torch.tensor([0, *sizes]).cumsum(0).tolist(), strict=False))
    places = (("2.weight", (7, 2)), ("0.bias", (4,)), ("0.weight", (19, 0, 6)))
    columns = [begin[name] + index for name, found in places for index in found]
    torch.testing.assert_close(selected_jacobian(p, places, 3), whole[..., columns])
