"""A network of tokens has the scores of the network that is given what it looks them up as."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.proxies.oracles import ORACLES
from trainless.core.errors import Unscorable
from trainless.core.target import Target
from trainless.probe import Probe, loss_gradients, output_gradient
from trainless.proxies import registry

WORDS, WIDTH, STEPS, SAMPLES = 11, 4, 5, 6
TARGET = Target("multiclass", 3)
Body = Callable[[nn.Module, Tensor], Tensor]


class Rest(nn.Module):
    """What comes after the lookup: mixes positions, rectifies, classifies."""

    def __init__(self, steps: int = STEPS) -> None:
        super().__init__()
        self.mix, self.wide = nn.Linear(steps, steps), nn.Linear(WIDTH, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.gelu(self.wide(self.mix(x.transpose(1, 2)).transpose(1, 2))).mean(1))


class Words(nn.Module):
    """A table and the rest; ``way`` turns tokens into what the rest takes."""

    def __init__(self, way: Body, steps: int = STEPS) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.rest = Rest(steps)
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        return self.rest(self.way(self, x))


def turned(net: nn.Module, x: Tensor) -> Tensor:
    return net.table(x.t().contiguous()).transpose(0, 1)


def in_place(net: nn.Module, x: Tensor) -> Tensor:
    found = net.table(x)
    found *= 1.0
    return found


def with_positions(net: nn.Module, x: Tensor) -> Tensor:
    """Positions that are counted from the tokens, as in RoBERTa, are no tokens."""
    places = (x != -1).long().cumsum(1) - 1
    return net.table(x) + 0 * net.table(places)


WAYS: dict[str, Body] = {
    "a module": lambda net, x: net.table(x),
    "positions first": turned,
    "rows picked": lambda net, x: net.table.weight[x],
    "an index": lambda net, x: net.table.weight.index_select(0, x.flatten()).unflatten(0, x.shape),
    "cast and cut": lambda net, x: torch.cat([net.table(x.int()[:, :2].long()), net.table(x[:, 2:])], 1),
    "in place": in_place,
    "padding": lambda net, x: F.embedding(x, net.table.weight, padding_idx=0),
    "positions beside": with_positions,
    "hashes": lambda net, x: net.table((x * 7 + 3) % WORDS),
}


def probes(name: str) -> tuple[Probe, Probe]:
    """The network of tokens, and its rest on what they are looked up as."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        net = Words(WAYS[name]).double()
        x = torch.randint(WORDS, (SAMPLES, STEPS))
    y = torch.arange(SAMPLES) % 3
    embedded = net.table.weight.detach()[(x * 7 + 3) % WORDS if name == "hashes" else x]
    return Probe.of(net, (x, y), TARGET), Probe.of(net.rest, (embedded, y), TARGET)


@pytest.mark.parametrize("proxy", ["jacov", "isolated_jacov", "epe_nas", "length"])
@pytest.mark.parametrize("name", [name for name in WAYS if name != "cast and cut"])
def test_as_the_network_of_what_is_looked_up(name: str, proxy: str) -> None:
    p, rest = probes(name)
    assert registry[proxy](p) == pytest.approx(ORACLES[proxy](rest), rel=1e-9)


@pytest.mark.parametrize("name", WAYS)
def test_gradients_are_those_at_the_rows(name: str) -> None:
    p, rest = probes(name)
    x = rest.x.clone().requires_grad_()
    outputs = rest.net(x)
    (found,) = torch.autograd.grad(outputs.sum(), x, retain_graph=True)
    if name == "cast and cut":
        expected = torch.cat([found[:, :2].flatten(1), found[:, 2:].flatten(1)], 1)
    else:
        expected = found.flatten(1)
    torch.testing.assert_close(output_gradient(p), expected)
    (found,) = torch.autograd.grad(F.cross_entropy(outputs, p.y), x)
    torch.testing.assert_close(loss_gradients(p).x.flatten(1).sort().values, found.flatten(1).sort().values)


def test_tokens_that_are_shifted_for_a_decoder_are_tokens() -> None:
    """Both lookups of an encoder and a decoder count, side by side."""

    def both(net: nn.Module, x: Tensor) -> Tensor:
        shifted = x.new_zeros(x.shape)
        shifted[:, 1:] = x[:, :-1]
        return torch.cat([net.table(x), net.table(shifted)], 1)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = Words(both, 2 * STEPS).double()
        x = torch.randint(1, WORDS, (SAMPLES, STEPS))
    embedded = net.table.weight.detach()[torch.cat([x, F.pad(x[:, :-1], (1, 0))], 1)].requires_grad_()
    (expected,) = torch.autograd.grad(net.rest(embedded).sum(), embedded)
    found = output_gradient(Probe.of(net, (x, torch.arange(SAMPLES) % 3), TARGET))
    torch.testing.assert_close(found, expected.flatten(1))


def test_bags() -> None:
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag, self.head = nn.EmbeddingBag(WORDS, WIDTH), nn.Sequential(nn.Linear(WIDTH, 8), nn.GELU())
            self.last = nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.head(self.bag(x)))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, x = Bag().double(), torch.randint(WORDS, (SAMPLES, STEPS))
    mean = net.bag.weight.detach()[x].mean(1).requires_grad_()
    (expected,) = torch.autograd.grad(net.last(net.head(mean)).sum(), mean)
    torch.testing.assert_close(output_gradient(Probe.of(net, (x, torch.arange(SAMPLES) % 3), TARGET)), expected)


@pytest.mark.parametrize("name", ["a module", "positions first", "positions beside", "in place", "rows picked"])
def test_zen_moves_what_is_looked_up(name: str) -> None:
    p, rest = probes(name)
    noise = torch.randn(rest.x.shape, generator=p.generator("zen"), dtype=torch.float32).double()

    def features(x: Tensor) -> Tensor:
        return rest.net.wide(rest.net.mix(x.transpose(1, 2)).transpose(1, 2))

    moved = (features(rest.x) - features(rest.x + 0.01 * noise)).abs().sum((1, 2)).mean().detach()
    assert registry["zen"](p) == pytest.approx(math.log(float(moved)), rel=1e-9)


@pytest.mark.parametrize("proxy", ["jacov", "isolated_jacov", "epe_nas", "length", "zen"])
def test_tokens_that_are_not_looked_up(proxy: str) -> None:
    net = Words(lambda net, x: F.one_hot(x, WORDS).to(net.table.weight.dtype)[..., :WIDTH])
    p = Probe.of(net, (torch.randint(WORDS, (SAMPLES, STEPS)), torch.arange(SAMPLES) % 3), TARGET)
    with pytest.raises(Unscorable, match="the tokens are not looked up in a table"):
        registry[proxy](p)
