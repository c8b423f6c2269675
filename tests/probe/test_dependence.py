"""Parameters that are used in other ways than by one layer are found, and their gradients are a loop's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.cases import CASES, Case
from tests.probe import naive
from tests.probe.test_per_sample import streamed
from trainless.core.target import Target
from trainless.probe import Probe
from trainless.probe.dependence import reach
from trainless.probe.entries import _looped, selected_jacobian
from trainless.probe.per_sample import loss_cotangent, stream
from trainless.proxies.vkdnw import placed_entries


class Used(nn.Module):
    """A linear layer and a head, with something between them that is told."""

    def __init__(self, between: Callable[[Used, Tensor], Tensor]) -> None:
        super().__init__()
        self.between = between
        self.layer, self.other, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.token = nn.Parameter(torch.randn(1, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.between(self, self.layer(x)).tanh())


def again(net: Used, x: Tensor) -> Tensor:
    """The layer's weight once more, by a product that is not recorded."""
    return x @ net.layer.weight


def beside(net: Used, x: Tensor) -> Tensor:
    """Another layer on a learnt token, off the way from the outputs to the input; the token is no layer's."""
    return x + net.other(net.token.expand(len(x), -1)).tanh()


def dropped(net: Used, x: Tensor) -> Tensor:
    """Another layer that is called and whose result is not used."""
    net.other(x)
    return x


@pytest.mark.parametrize(
    ("between", "unread", "idle"),
    [
        (again, {"layer.weight"}, {"other.weight", "other.bias", "token"}),
        (beside, {"token", "other.weight", "other.bias"}, set()),
        (dropped, set(), {"other.weight", "other.bias", "token"}),
    ],
)
def test_every_use_counts(between: Callable[[Used, Tensor], Tensor], unread: set[str], idle: set[str]) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, x = Used(between).double(), torch.randn(5, 4, dtype=torch.float64)
    p = Probe.of(net, (x, torch.tensor([0, 1, 2, 1, 0])), Target("multiclass", 3))
    assert reach(p).unread == unread
    assert set(p.weights) - reach(p).names == idle
    names = [name for name in p.weights if p.weights[name].ndim > 1]
    expected = naive.rows(p, names, of="loss", joint=False)
    for by in ("samples", "entries"):
        found = streamed(p, by)
        assert set(found) == set(names) - idle
        for name, gram in found.items():
            torch.testing.assert_close(gram, expected[name] @ expected[name].T)


class Normed(nn.Module):
    """A batch norm in front of a bare matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Parameter(torch.randn(4, 3))
        nn.init.normal_(self.norm.weight)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x)).relu().mean((2, 3)) @ self.last


@pytest.mark.parametrize("norm", ["isolated", "fresh"])
def test_the_loop_keeps_to_the_norm_mode(norm: str) -> None:
    """A batch of one in training, or an untrained network in evaluation."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, x = Normed().double(), torch.randn(5, 2, 6, 6, dtype=torch.float64)
    p = Probe.of(net, (x, torch.tensor([0, 1, 2, 1, 0])), Target("multiclass", 3))
    plain = Probe.of(net, (p.x, p.y), p.target)
    plain.net.train(norm == "isolated")
    expected = naive.rows(plain, ["last"], of="loss", joint=False)["last"]
    torch.testing.assert_close(streamed(p.at(norm=norm), "samples")["last"], expected @ expected.T)


def test_a_table_that_is_the_decoder_too() -> None:
    """An embedding tied to the last layer: both uses count."""

    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.mix = nn.Embedding(7, 5), nn.Linear(5, 5)

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(self.mix(self.table(x)).tanh(), self.table.weight)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, x = Language().double(), torch.randint(7, (4, 6))
    p = Probe.of(net, (x, x.roll(1, 1)), Target("tokens", 7))
    assert not reach(p).unread
    expected = naive.rows(p, ["table.weight"], of="loss", joint=False)["table.weight"]
    found: list[Tensor] = []
    stream(p, loss_cotangent(p), lambda name, block: found.append(block.clone()), "samples", ["table.weight"])
    torch.testing.assert_close(torch.cat(found), expected)


class Spreading(nn.Module):
    """Parameters that act on all samples alike: places, a token of its own, scales, and norms of each sample."""

    def __init__(self, first: str) -> None:
        super().__init__()
        self.first, self.embed, self.head = first, nn.Linear(5, 8), nn.Linear(8, 3)
        self.places, self.token = nn.Parameter(torch.randn(1, 5, 8)), nn.Parameter(torch.randn(1, 1, 8))
        self.scale, self.slope, self.shift = (nn.Parameter(torch.randn(*shape)) for shape in ((8,), (1,), (5, 8)))
        self.norm, self.square, self.groups = nn.LayerNorm(8), nn.RMSNorm(8), nn.GroupNorm(1, 5)
        self.whole = nn.LayerNorm((5, 8))

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        if self.first == "sequence":
            x = self.norm(x.transpose(0, 1) * self.scale).transpose(0, 1)
        else:
            x = self.square(self.norm(x)) * self.scale + self.shift
        x = self.whole(self.slope * self.groups(x).tanh()) + self.shift
        return self.head(x.mean(1))


@pytest.mark.parametrize("first", ["samples", "sequence"])
@pytest.mark.parametrize("samples", [4, 5])  # as many as places, too
def test_parameters_that_act_on_all_samples_alike_need_no_loop(first: str, samples: int) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, x = Spreading(first).double(), torch.randn(samples, 4, 5, dtype=torch.float64)
        for tensor in net.parameters():
            tensor.data += 0.1 * torch.randn_like(tensor)
    q = Probe.of(net, (x, torch.arange(samples) % 3), Target("multiclass", 3)).at(norm="isolated")
    names = [name for name in q.weights if "bias" not in name]
    assert reach(q).unread.isdisjoint(names) or first == "sequence"
    found: dict[str, Tensor] = {}

    def add(name: str, block: Tensor) -> None:
        found[name] = block.clone()
        block.zero_()  # as it may

    stream(q, loss_cotangent(q), add, "entries", names)
    expected = naive.rows(q, names, of="loss", joint=False)
    assert found.keys() >= set(names) - ({"square.weight"} if first == "sequence" else set())
    for name, block in found.items():
        torch.testing.assert_close(block @ block.T, expected[name] @ expected[name].T, msg=name)
    for places in (placed_entries(q, 99), placed_entries(q, 99, weights=4)):
        torch.testing.assert_close(selected_jacobian(q, places, 3), _looped(q, places, 3))


def test_a_weight_that_the_network_differentiates_by_on_its_way() -> None:
    """Its transpose is taken once and used twice: by the layer, and by the layer's own gradient."""

    class Energy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.energy, self.head = nn.Linear(5, 4), nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            with torch.enable_grad():
                x = x if x.requires_grad else x.detach().requires_grad_()
                (slope,) = torch.autograd.grad(self.energy(x).tanh().sum(), x, create_graph=True)
            return self.head(slope)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, x = Energy().double(), torch.randn(4, 5, dtype=torch.float64)
    p = Probe.of(net, (x, torch.tensor([0, 1, 2, 0])), Target("multiclass", 3))
    assert "energy.weight" in reach(p).unread
    expected = naive.rows(p, ["energy.weight"], of="loss", joint=False)["energy.weight"]
    found: list[Tensor] = []
    stream(p, loss_cotangent(p), lambda name, block: found.append(block.clone()), "samples", ["energy.weight"])
    torch.testing.assert_close(torch.cat(found), expected)


PLAIN = ("1d", "2d-batch-norm", "3d-binary", "called-twice", "tied-weights", "best-cell", "skip-cell", "dead-cell")


@pytest.mark.parametrize("case", [case for case in CASES if case.name in PLAIN], ids=lambda case: case.name)
@pytest.mark.parametrize("norm", ["isolated", "fresh"])
def test_plain_networks_need_no_loop(case: Case, norm: str) -> None:
    p = case.probe(4).at(norm=norm)
    assert not reach(p).unread
    assert reach(p).names <= set(p.weights)
