from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.cases import CASES, Case
from trainless.core.target import Target
from trainless.probe import Probe
from trainless.probe.collapse import outputs_alike
from trainless.probe.points import Constant
from trainless.probe.record import trace
from trainless.spaces.nb201 import NasBench201

FLOATS = [case for case in CASES if case.name not in ("tokens", "functional-dropout", "unusual-layers")]


def check(p: Probe) -> Tensor:
    """One channel gives what the whole network gives in its first output; all outputs are alike."""
    whole, one = trace(p).outputs.detach(), outputs_alike(p)
    torch.testing.assert_close(whole, whole[:, :1].expand_as(whole))
    torch.testing.assert_close(one[:, 0], whole[:, 0], rtol=1e-6, atol=1e-9)
    return one


@pytest.mark.parametrize("value", [1e-3, 1.0])
@pytest.mark.parametrize("case", FLOATS, ids=lambda case: case.name)
def test_equal_to_the_whole_network(case: Case, value: float) -> None:
    check(case.probe(5, double=True).at(weights=Constant(value)))


@pytest.mark.parametrize("arch", [(3, 3, 3, 1, 3, 3), (2, 4, 1, 3, 4, 3), (0, 1, 1, 4, 2, 0)], ids=str)
def test_cells_take_one_channel(arch: tuple[int, ...]) -> None:
    from trainless.core.task import Task

    task = Task.noise((3, 8, 8), 4)
    x, y = task.batch(4, 0)
    net = NasBench201(channels=4, cells=1).build(arch, task).double()
    assert check(Probe.of(net, (x.double(), y), task.target).at(weights=Constant(1.0))).shape == (4, 1)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_padding_wider_than_half_a_window_and_maps_smaller_than_it(dims: int) -> None:
    conv = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[dims]
    net = nn.Sequential(conv(2, 3, 3, padding=2), nn.ReLU(), conv(3, 3, 1, padding=1), nn.Flatten(), nn.LazyLinear(2))
    x = torch.randn(4, 2, *[2] * dims, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    net.double()(x)
    p = Probe.of(net, (x, torch.zeros(4, dtype=torch.long)), Target("binary", 2))
    assert check(p.at(weights=Constant(0.5))).shape == (4, 1)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(
    ("sizes", "one"),
    [
        ({"kernel_size": 3, "stride": 2, "padding": 1}, True),
        ({"kernel_size": (2, 3), "stride": (3, 1), "padding": (0, 2)}, True),
        ({"kernel_size": 3, "dilation": (2, 1), "padding": 2}, True),
        ({"kernel_size": 5, "stride": 3, "dilation": 2, "padding": 4}, True),
        ({"kernel_size": 4, "padding": "same"}, False),
    ],
    ids=str,
)
def test_convolutions_of_every_kind(sizes: dict[str, Any], one: bool) -> None:
    net = nn.Sequential(nn.Conv2d(2, 3, **sizes), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2)).double()
    x = torch.randn(4, 2, 9, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p = Probe.of(net, (x, torch.zeros(4, dtype=torch.long)), Target("binary", 2))
    assert check(p.at(weights=Constant(0.5))).shape == (4, 1 if one else 2)


class Mixes(nn.Module):
    """Treats channels differently: one channel must not stand for all."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(2, 4, 3), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x).mean((2, 3))
        return self.head(y * torch.arange(4, dtype=y.dtype) + y.flip(1))


def test_anything_unknown_is_run_as_it_is() -> None:
    x = torch.randn(4, 2, 6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p = Probe.of(Mixes().double(), (x, torch.zeros(4, dtype=torch.long)), Target("multiclass", 3))
    check(p.at(weights=Constant(0.5)))


@pytest.mark.parametrize("activation", [nn.ReLU6(), nn.Hardtanh(), nn.Mish(), nn.Softplus(), nn.SELU(), nn.CELU()])
def test_activations_that_work_entry_by_entry_take_one_channel(activation: nn.Module) -> None:
    wide = nn.Conv2d(3, 6, 3, groups=3), nn.BatchNorm2d(6), activation
    net = nn.Sequential(nn.Conv2d(2, 3, 3), activation, *wide, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 2))
    x = torch.randn(4, 2, 7, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p = Probe.of(net.double(), (x, torch.zeros(4, dtype=torch.long)), Target("binary", 2))
    assert check(p.at(weights=Constant(0.1))).shape == (4, 1)
