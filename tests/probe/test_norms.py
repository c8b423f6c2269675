from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from tests.cases import CASES
from trainless.core.errors import Unscorable
from trainless.core.target import Target
from trainless.probe import Probe
from trainless.probe.norms import normalised
from trainless.probe.record import trace

BY_NAME = {case.name: case for case in CASES}
NORMED = ["1d-batch-norm", "2d-batch-norm", "3d-binary", "called-twice", "best-cell"]


def scaled(name: str) -> tuple[nn.Module, Probe]:
    """A double-precision network whose norms have scales and biases of their own."""
    case = BY_NAME[name]
    net, (x, y) = case.network().double(), case.batch(6)
    source = torch.Generator().manual_seed(0)
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            nn.init.normal_(module.weight, generator=source)
            nn.init.normal_(module.bias, generator=source)
    return net, Probe.of(net, (x.double(), y), case.task.target)


@pytest.mark.parametrize("name", NORMED)
def test_batch_is_training_mode(name: str) -> None:
    net, p = scaled(name)
    torch.testing.assert_close(trace(p).outputs.detach(), copy.deepcopy(net).train()(p.x).detach())


@pytest.mark.parametrize("name", NORMED)
def test_isolated_is_one_sample_at_a_time(name: str) -> None:
    net, p = scaled(name)
    alone = torch.cat([copy.deepcopy(net).train()(x[None]) for x in p.x])
    torch.testing.assert_close(trace(p.at(norm="isolated")).outputs, alone)


@pytest.mark.parametrize("name", NORMED)
def test_fresh_is_an_untrained_network_in_evaluation_mode(name: str) -> None:
    net, p = scaled(name)
    torch.testing.assert_close(trace(p.at(norm="fresh")).outputs, copy.deepcopy(net).eval()(p.x))


@pytest.mark.parametrize("name", [*NORMED, "2d-group-norm", "own-attention"])
def test_off_leaves_norms_out(name: str) -> None:
    net, p = scaled(name)
    bare = copy.deepcopy(net)
    for parent in list(bare.modules()):
        for key, child in parent.named_children():
            if isinstance(child, nn.modules.batchnorm._BatchNorm | nn.GroupNorm | nn.LayerNorm):
                setattr(parent, key, nn.Identity())
    torch.testing.assert_close(trace(p.at(norm="off")).outputs, bare(p.x))


def test_some_norms_can_be_kept() -> None:
    _, p = scaled("2d-batch-norm")
    kept = trace(p.at(norm="off", kept_norms=("body.*",))).outputs
    torch.testing.assert_close(kept, trace(p).outputs)
    assert not torch.allclose(trace(p.at(norm="off", kept_norms=("body.1",))).outputs, kept)


def test_norms_are_given_back() -> None:
    net = nn.Sequential(nn.BatchNorm1d(2))
    with pytest.raises(RuntimeError, match="inside"), normalised(net, "off"):
        raise RuntimeError("inside")
    assert "forward" not in vars(net[0])


def test_too_little_to_normalise() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    batch = torch.ones(1, 4), torch.zeros(1, dtype=torch.long)
    p = Probe.of(net, batch, Target("binary", 2))
    with pytest.raises(Unscorable, match="too small to be normalised"):
        trace(p)
    with pytest.raises(Unscorable, match="one value per channel and sample"):
        trace(p.at(norm="isolated"))
