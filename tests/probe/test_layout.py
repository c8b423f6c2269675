"""How images lie in memory changes rounding and nothing else."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from trainless.core.errors import Unscorable
from trainless.core.task import Task
from trainless.probe import Probe
from trainless.probe.layout import channels_lie_last
from trainless.probe.points import drawn
from trainless.probe.record import trace
from trainless.proxies import registry
from trainless.scoring.batches import BatchSource
from trainless.spaces.nb201 import NasBench201

TASK = Task.noise((1, 12, 12), 4)  # one channel: its tensors lie both ways at once
ROUNDED = {"plain": 0.05, "grasp": 0.05, "zico": 0.05, "loss_synflow": 0.05}  # sums of terms that nearly cancel


def value(p: Probe, name: str) -> float:
    try:
        return registry[name](p)
    except Unscorable:
        return math.nan


@pytest.mark.parametrize("arch", [(3, 4, 2, 1, 3, 0), (2, 3, 3, 1, 4, 3)])
def test_every_proxy_is_the_same_in_either_layout(arch: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    net = NasBench201(channels=4, cells=1).build(arch, TASK)
    batch = TASK.batch(8, 0)
    plain = Probe.of(net, batch, TASK.target)
    last = Probe.of(net, batch, TASK.target, layout="channels_last")
    for name in registry.names():
        tolerance = ROUNDED.get(name, 2e-3)
        assert value(last, name) == pytest.approx(value(plain, name), rel=tolerance, abs=1e-6, nan_ok=True), name


def test_it_reaches_every_layer_but_for_samples_alone() -> None:
    net = NasBench201(channels=4, cells=1).build((3, 4, 2, 1, 3, 0), TASK)
    p = Probe.of(net, TASK.batch(8, 0), TASK.target, layout="channels_last")
    assert all(channels_lie_last(block) for block in trace(p).blocks.values())
    alone = trace(p.at(norm="isolated"))
    assert not any(channels_lie_last(block) for block in alone.blocks.values())


def test_only_drawn_images_on_a_processor_are_laid_out() -> None:
    assert BatchSource(TASK).layout == "channels_last"
    assert BatchSource(TASK, given=TASK.batch(4, 0)).layout == "given"
    assert BatchSource(TASK, device=torch.device("cuda")).layout == "given"
    assert BatchSource(Task.noise((1, 8))).layout == "given"
    assert BatchSource(Task.noise((1, 4, 4, 4))).layout == "given"


def test_drawn_numbers_are_the_same_in_either_layout() -> None:
    def draw(like: torch.Tensor) -> torch.Tensor:
        return drawn("signs", (2, 3, 4, 5), torch.Generator().manual_seed(0), like)

    plain, last = draw(torch.zeros(2, 3, 4, 5)), draw(torch.zeros(2, 4, 5, 3).movedim(-1, 1))
    assert torch.equal(plain, last)
    assert (channels_lie_last(plain), channels_lie_last(last)) == (False, True)


class Viewing(nn.Module):
    """Flattens by ``view``, which cannot take channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3), nn.ReLU())
        self.last = nn.Linear(6 * 8 * 8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x)
        return self.last(x.view(x.size(0), -1))


class Remembering(nn.Module):
    """Keeps what its first pass computed."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.kept = nn.Linear(144, 4), None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kept is None:
            self.kept = torch.linspace(0, 1, 144, device=x.device)
        return self.line(x.flatten(1) * self.kept)


def test_a_network_that_needs_the_plain_layout_gets_it() -> None:
    torch.manual_seed(0)
    net, batch = Viewing(), TASK.batch(8, 0)
    plain, last = (Probe.of(net, batch, TASK.target, layout=layout) for layout in ("given", "channels_last"))
    for name in ("synflow", "jacov", "snip", "naswot", "zico", "gradsign"):
        assert value(last, name) == value(plain, name)
        assert math.isfinite(value(last, name))


def test_counting_leaves_nothing_behind_in_a_network() -> None:
    p = Probe.of(Remembering(), TASK.batch(8, 0), TASK.target, layout="channels_last")
    assert value(p, "flops") == 144 * 4
    assert math.isfinite(value(p, "synflow"))
