"""Networks that are written in unusual ways score as the plain networks that they are equal to."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import trainless as tl
from tests.proxies import oracles
from tests.proxies.test_contracts import PROXIES, value_or_reason
from trainless.core.errors import InputError, Unscorable
from trainless.core.target import Target
from trainless.core.task import Task
from trainless.probe import Probe, entries
from trainless.proxies import registry
from trainless.proxies.vkdnw import fim_spectrum, placed_entries

TASK = Task.noise((3, 8, 8), 5)
SIZES = {"params", "layers", "l2_norm"}  # of all parameters, whatever they are for
VECTORS = Task.noise((1, 4), 3)


class Net(nn.Module):
    """A small network with an idle head of its own, registered where it is told."""

    def __init__(self, idle: str = "", *, double: bool = False) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            parts = {"stem": nn.Conv2d(3, 6, 3, padding=1), "body": nn.Conv2d(6, 6, 3), "head": nn.Linear(6, 5)}
            spare = nn.Sequential(nn.Conv2d(6, 4, 1), nn.BatchNorm2d(4))
        for name, part in parts.items():
            if name == idle:
                self.spare = spare
            self.add_module(name, part)
        if idle == "last":
            self.spare = spare
        if double:
            self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.stem(x).relu()).relu().mean((2, 3)))


def probe(net: nn.Module, task: Task = TASK, samples: int = 12) -> Probe:
    return Probe.of(net, task.batch(samples, 0), task.target)


@pytest.mark.parametrize("place", ["stem", "body", "head", "last"])
def test_an_idle_head_changes_no_score(place: str) -> None:
    """Its gradients are zero; it is not taken for the classifier or the stem either."""
    alone, both = probe(Net()), probe(Net(place))
    for proxy in PROXIES:
        if proxy.name in SIZES | {"vkdnw"}:
            continue
        expected, found = value_or_reason(proxy, alone), value_or_reason(proxy, both)
        assert found == (pytest.approx(expected) if isinstance(expected, float) else expected), proxy.name
    for over in ("weights", "body", "features"):
        expected = registry["ntk_condition"](alone, coupling="joint", over=over)
        assert registry["ntk_condition"](both, coupling="joint", over=over) == pytest.approx(expected), over


def test_idle_parameters_are_zeros_in_the_fisher_information() -> None:
    """As in the published program, which differentiates by every tensor: four more eigenvalues, all zero."""
    values, more = fim_spectrum(probe(Net(double=True))), fim_spectrum(probe(Net("body", double=True)))
    torch.testing.assert_close(more, torch.cat([torch.zeros(4, dtype=values.dtype), values]))


class Bare(nn.Module):
    """Two bare matrices, multiplied in two ways."""

    def __init__(self, first: Tensor, last: Tensor) -> None:
        super().__init__()
        self.zeroth, self.another = nn.Parameter(first), nn.Parameter(last)

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("bc,cd->bd", x.flatten(1), self.zeroth).relu() @ self.another


def test_bare_parameters_are_layers() -> None:
    """Per-sample gradients come from a loop, and are those of the linear layers that do the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        plain = nn.Sequential(nn.Flatten(), nn.Linear(4, 6, bias=False), nn.ReLU(), nn.Linear(6, 3, bias=False))
    plain = plain.double()
    bare = Bare(plain[1].weight.detach().T.clone(), plain[3].weight.detach().T.clone())
    for name in ("gradsign", "sample_zico", "layer_entropy", "ntk_condition", "loss_ntk", "isolated_jacov", "vkdnw"):
        expected = registry[name](probe(plain, VECTORS, 4))
        assert registry[name](probe(bare, VECTORS, 4)) == pytest.approx(expected, rel=1e-9), name
    joint = registry["ntk_condition"](probe(bare, VECTORS, 4), coupling="joint")
    assert joint == pytest.approx(registry["ntk_condition"](probe(plain, VECTORS, 4)))


class Casting(Net):
    """Takes any inputs and works in double precision."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.double())


@pytest.mark.parametrize("kind", [Net, Casting])
def test_double_networks_are_scored_in_double_precision(kind: type[Net]) -> None:
    """On inputs that are drawn, which follow the network, as on those that are given in its precision."""
    net = kind(double=True)
    x, y = TASK.batch(12, 0)
    drawn = tl.score(net, 12, task=TASK)
    assert not {name: why for name, why in drawn.failures.items() if "grids" not in why}
    exact = Probe.of(Net(double=True), (x.double(), y), TASK.target)
    for name in ("snip", "gradsign", "vkdnw", "synflow", "epsilon", "zen", "meco", "loss_synflow"):
        assert drawn[name] == pytest.approx(registry[name](exact), rel=1e-9), name
    assert tl.score(net, (x, y), proxies="snip")["snip"] == drawn["snip"]


def test_half_precision_is_refused() -> None:
    with pytest.raises(InputError, match=r"weights of type torch.bfloat16; expected .*: call net.float\(\) first"):
        tl.score(Net().bfloat16(), 4, task=TASK)


class Mean(nn.Module):
    """No weights; every entry of the input counts alike."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("vkdnw", "the network has no weights"),
        ("ntk_condition", "the network has no weights"),
        ("jacov", "the same at every entry of some input"),
        ("epe_nas", "the same at every entry of some input"),
    ],
)
def test_reasons_without_weights(name: str, reason: str) -> None:
    p = Probe.of(Mean(), TASK.batch(8, 0), Target("multiclass", 3))
    with pytest.raises(Unscorable, match=reason):
        registry[name](p)


class Bag(nn.Module):
    """The mean of a text's embeddings, by a table that a head of bare numbers is tied to, and one that pads."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.table, self.padded = nn.Embedding(3, 4), nn.Embedding(3, 4, padding_idx=1)
            self.mix, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        mixed = self.mix(self.table(x) + self.padded(x)).tanh().mean(1)
        return self.head(mixed) + nn.functional.linear(mixed, self.table.weight)


def test_the_fisher_information_of_texts_with_one_label() -> None:
    """Tables are read as layers are, all their uses together."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        x, y = torch.randint(3, (16, 5)), torch.randint(3, (16,))
    p = Probe.of(Bag().double(), (x, y), Target("multiclass", 3))
    assert registry["vkdnw"](p) == pytest.approx(oracles.vkdnw(p), rel=1e-6)


class Looking(Net):
    """Looks at values, and wants more than one sample."""

    def forward(self, x: Tensor) -> Tensor:
        if len(x) == 1:
            raise RuntimeError("one is too few")
        return super().forward(x) if bool(torch.isfinite(x.sum())) else x


def test_grasp_needs_no_count() -> None:
    assert registry["grasp"](probe(Looking())) == registry["grasp"](probe(Net()))
    with pytest.raises(Unscorable, match="cannot be counted on one sample: RuntimeError: one is too few"):
        registry["flops"](probe(Looking()))


class Scaled(nn.Module):
    """Multiplies its outputs by a number: a given one, or one that it draws."""

    def __init__(self, by: float | None = None) -> None:
        super().__init__()
        self.inner, self.by = Net(double=True), by

    def forward(self, x: Tensor) -> Tensor:
        factor = torch.randn(1).double() if self.by is None else torch.full((1,), self.by, dtype=torch.float64)
        return self.inner(x).tanh() * factor


def test_networks_that_draw_are_counted_and_scored() -> None:
    """With the numbers of the probe's seed, and without touching the caller's."""
    before = torch.get_rng_state()
    drawn = float(torch.randn(1, generator=torch.Generator().manual_seed(0)))
    for name in ("flops", "grasp"):
        found = registry[name](probe(Scaled()))
        assert found == pytest.approx(registry[name](probe(Scaled(drawn)))), name
        assert math.isfinite(found)
    assert torch.equal(torch.get_rng_state(), before)


class Broken(Net):
    """Its first feature map is no number."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x * math.nan)


def test_meco_of_no_numbers_is_a_failure() -> None:
    with pytest.raises(Unscorable, match="a feature map is not finite"):
        registry["meco"](probe(Broken()))


@pytest.mark.parametrize("beside", [1024, 12])
def test_vkdnw_with_a_copy_of_the_batch_for_every_output(beside: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One backward pass for several outputs, as on a GPU, reads what a pass for each of them reads."""
    monkeypatch.setattr(entries, "BESIDE", beside)
    wide = nn.Conv2d(6, 6, 3, groups=6), nn.BatchNorm2d(6), nn.ReLU()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 6, 3), *wide, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4)).double()
    x = torch.randn(5, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    p = Probe.of(net, (x, torch.arange(5) % 4), Target("multiclass", 4)).at(norm="fresh")
    places = placed_entries(p, 99, weights=2)
    found = entries._side_by_side(p, places, 4)
    assert found is not None
    torch.testing.assert_close(found, entries._read(p, places, 4))
    assert bool(found.any(0).any(0).all())
    alone = entries._looped_beside(p, places, 4)
    assert alone is not None
    torch.testing.assert_close(alone, entries._looped(p, places, 4))
