from __future__ import annotations

import copy
import math
from collections.abc import Callable
from types import MethodType

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.cases import CASES
from tests.proxies import oracles
from trainless.core.errors import Unscorable
from trainless.core.target import Target
from trainless.probe import Probe
from trainless.probe.norms import Norm, normalised
from trainless.probe.per_sample import each_alone
from trainless.probe.record import prepared, trace
from trainless.probe.running import run
from trainless.proxies import registry

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
    with pytest.raises(Unscorable, match="a single value per channel of the only sample"):
        trace(p.at(norm="isolated"))


class NormAct(nn.BatchNorm2d):
    """Norm, dropout and activation in one class, as timm has them."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.drop, self.act = nn.Dropout(), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        args = self.running_mean, self.running_var, self.weight, self.bias, self.training, 0.1, self.eps
        return self.act(self.drop(F.batch_norm(x, *args)))


class Gated(nn.Module):
    """As many ways to forget what a norm does besides: subclass, patched module, a function, standardised kernels."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.conv, self.last, self.head = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3), nn.Linear(4, 3)
        self.norm = NormAct(4) if kind == "subclass" else nn.BatchNorm2d(4)
        if kind == "patched":
            self.norm.forward = MethodType(lambda norm, x: nn.BatchNorm2d.forward(norm, x).relu(), self.norm)

    def forward(self, x: Tensor) -> Tensor:
        norm = self.norm
        if self.kind == "function":
            args = norm.running_mean, norm.running_var, norm.weight, norm.bias
            x = F.batch_norm(self.conv(x), *args, training=self.training, eps=norm.eps).relu()
        else:
            x = norm(self.conv(x))
        x = x.relu() if self.kind == "plain" else x
        x = F.dropout(self.last(x), 0.5)
        return self.head(x.mean((2, 3)))


@pytest.mark.parametrize("kind", ["subclass", "patched", "function"])
def test_whatever_else_a_norm_does_is_done(kind: str) -> None:
    """Every score is that of the network that has the activation outside, in every mode."""
    torch.manual_seed(0)
    plain, other = Gated("plain").double(), Gated(kind).double()
    nn.init.normal_(plain.norm.weight)
    other.load_state_dict(plain.state_dict(), strict=False)
    x, y = torch.randn(8, 3, 9, 9, dtype=torch.float64), torch.arange(8) % 3
    p, q = (Probe.of(net, (x, y), Target("multiclass", 3)) for net in (plain, other))
    for norm in ("batch", "isolated", "fresh", "off"):
        torch.testing.assert_close(trace(p.at(norm=norm)).outputs, trace(q.at(norm=norm)).outputs)
    for name in ("snip", "grasp", "fisher", "jacov", "synflow", "gradsign", "zico", "naswot", "vkdnw", "ntk_condition"):
        assert value(name, q) == pytest.approx(value(name, p), rel=1e-5), name


def value(name: str, p: Probe) -> float:
    try:
        return registry[name](p)
    except Unscorable:
        return math.nan


class Standardising(nn.Conv2d):
    """A convolution whose kernel is standardised by a norm's function, as timm's."""

    def forward(self, x: Tensor) -> Tensor:
        kernel = F.batch_norm(self.weight.reshape(1, len(self.weight), -1), None, None, training=True, momentum=0.0)
        return F.conv2d(x, kernel.reshape_as(self.weight), self.bias)


@pytest.mark.parametrize("norm", ["batch", "isolated", "fresh", "off"])
def test_a_standardised_kernel_is_no_norm(norm: Norm) -> None:
    net = nn.Sequential(Standardising(3, 4, 3), nn.Flatten(), nn.Linear(16, 2)).double()
    x = torch.randn(4, 3, 4, 4, dtype=torch.float64)
    p = Probe.of(net, (x, torch.tensor([0, 1, 0, 1])), Target("binary", 2))
    torch.testing.assert_close(trace(p.at(norm=norm)).outputs, net(x))
    with torch.no_grad(), prepared(p.at(norm=norm)):
        torch.testing.assert_close(run(p.net, p.weights, x), net(x))


class Rows(nn.Module):
    """Normalises the tokens of all samples as rows."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm, self.head = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inner(x)
        return self.head(self.norm(x.flatten(0, 1)).view_as(x).relu().mean(1))


def test_rows_of_a_sample_are_normalised_together() -> None:
    torch.manual_seed(0)
    net, x = Rows().double(), torch.randn(6, 5, 3, dtype=torch.float64)
    p = Probe.of(net, (x, torch.arange(6) % 2), Target("binary", 2))
    alone = torch.cat([net.train()(each[None]) for each in x])
    torch.testing.assert_close(trace(p.at(norm="isolated")).outputs, alone)
    assert math.isfinite(value("vkdnw", p))
    assert value("gradsign", p) == oracles.gradsign(p)


@pytest.mark.parametrize("norm", [nn.InstanceNorm2d, nn.BatchNorm2d, lambda c: nn.GroupNorm(c, c)])
def test_a_sample_alone_whose_gradient_lies_channels_last(norm: Callable[[int], nn.Module]) -> None:
    """PyTorch 2.13 misreads such a gradient in instance norm on a CPU; against differences in double precision."""

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.head = nn.Conv2d(3, 4, 3), norm(4), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(F.silu(self.norm(self.first(x)).permute(0, 2, 3, 1))).tanh().mean((1, 2))

    torch.manual_seed(0)
    net, x = Last().double(), torch.randn(1, 3, 5, 6, dtype=torch.float64)
    p = Probe.of(net, (x, torch.tensor([1])), Target("multiclass", 3))
    t = trace(p)
    (found,) = torch.autograd.grad(t.outputs[0, 1], t.weights["first.weight"])
    step, weight = 1e-6, net.first.weight.data
    for place in [(0, 0, 0, 0), (1, 2, 1, 0), (3, 1, 2, 2)]:
        ends = []
        for sign in (1, -1):
            weight[place] += sign * step
            ends.append(float(net.train()(x)[0, 1].detach()))
            weight[place] -= sign * step
        assert float(found[place]) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)


def test_a_scale_of_ones_has_its_gradient_when_samples_are_run_one_by_one() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(18, 2))
    x = torch.randn(3, 1, 5, 5, generator=torch.Generator().manual_seed(0))
    p = Probe.of(net, (x, torch.tensor([0, 1, 0])), Target("binary", 2)).at(norm="isolated")
    for (outputs, weights), sample in zip(each_alone(p), x.split(1), strict=True):
        (found,) = torch.autograd.grad(outputs.sum(), [weights["1.weight"]])
        net.train().zero_grad()
        net(sample).sum().backward()  # a batch of one is normalised alone
        torch.testing.assert_close(found, net[1].weight.grad)
