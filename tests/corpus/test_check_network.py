"""The check of a network, on networks whose scores are known."""

from __future__ import annotations

import copy
import dataclasses
import math

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from tests.corpus import odd
from trainless.proxies.proxy import registry
from trainless.testing import check_network
from trainless.testing.networks import MEASURES, Comparison
from trainless.testing.plain import BEYOND

SMALL = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
BATCH = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3


def test_a_network_that_is_scored_as_what_it_computes() -> None:
    found = check_network(SMALL, BATCH)
    assert [each.proxy for each in found.comparisons] == list(MEASURES)
    assert max(each.deviation for each in found.comparisons) < 1e-9
    assert found.double
    assert str(found).count("against") == len(MEASURES)


def test_the_network_is_not_touched() -> None:
    net = copy.deepcopy(SMALL).train()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    check_network(net, BATCH)
    assert net.training
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert all(tensor.grad is None and tensor.dtype == torch.float32 for tensor in net.parameters())


def test_a_wrong_value_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    right = registry["snip"]
    wrong = dataclasses.replace(right, fn=lambda p: 1.001 * right(p))
    monkeypatch.setitem(registry._entries, "snip", wrong)
    with pytest.raises(AssertionError, match=r"Sequential is not scored as what it computes: snip: .* against "):
        check_network(SMALL, BATCH)
    check_network(SMALL, BATCH, tolerance=1e-2)


def test_no_value_against_a_value_is_a_deviation() -> None:
    assert not Comparison("naswot", math.nan, 3.0, "no rectifier").agrees()
    assert not Comparison("naswot", 3.0, math.nan).agrees()
    assert Comparison("naswot", math.nan, math.nan, "no rectifier", "none").agrees()
    assert Comparison("gradsign", 100, 104, noise=4).agrees()
    assert Comparison("gradsign", math.nan, 104, "all is noise", noise=104).agrees()
    assert not Comparison("gradsign", 100, 110, noise=4).agrees()
    assert not Comparison("synflow", 800.0, math.nan, "", "nothing flows").agrees()


def test_what_is_put_up_with_is_said() -> None:
    """Signs of rounding noise, a value of nothing else, and what double precision cannot hold."""
    near = Comparison("gradsign", 100, 104, noise=4)
    assert near.leniency() == "the same but for 3.99 signs of rounding noise"
    assert near.leniency() in str(near)
    assert Comparison("gradsign", 100, 100, noise=4).leniency() == ""
    assert Comparison("gradsign", math.nan, 104, "all is noise", noise=104).leniency().startswith("all of the plain")
    assert not Comparison("gradsign", math.nan, 104, "all is noise", noise=103).agrees()
    assert "beyond double precision" in Comparison("synflow", 800.0, math.nan, "", BEYOND).leniency()
    assert check_network(SMALL, BATCH).lenient == {}
    assert str(check_network(SMALL, BATCH)).startswith("Sequential (both in double precision)")


def test_reasons_of_both_are_shown() -> None:
    found = check_network(nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), BATCH)
    assert "naswot: none of both (the network has no rectifying activation)" in str(found)


def test_patterns_of_which_one_follows_from_the_others() -> None:
    """Four units and six samples: the kernel has no full rank, though no two patterns need be alike."""
    for seed in range(5):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.ReLU(), nn.Linear(4, 3))
        found = check_network(net, BATCH).comparisons[5]
        assert "none of both (two samples have the same activation pattern: the kernel is singular)" in str(found)


def test_values_and_single_logits() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 32), nn.ReLU(), nn.Linear(32, 1))
    check_network(net, (BATCH[0], torch.linspace(0, 1, 6)))
    check_network(net, (BATCH[0], torch.arange(6) % 2))


@pytest.mark.parametrize("make", [odd.UNet, odd.Graph, odd.Mixer])
def test_products_are_those_of_another_counter(make: type[nn.Module]) -> None:
    net = make().eval()
    x = torch.randn(6, *next(shape for kind, shape in odd.NETWORKS.values() if kind is make))
    with FlopCounterMode(display=False) as counter:
        net(x[:1])
    found = {each.proxy: each for each in check_network(net, (x, BATCH[1])).comparisons}
    assert found["flops"].plain == counter.get_total_flops() / 2


def test_products_of_attention_by_hand() -> None:
    """Of 7 positions of 8 channels, twice: projections, scores and sums, output, two layers of 16."""
    found = check_network(odd.Encoder(), (torch.randn(6, 7, 5), BATCH[1]))
    assert found.comparisons[-1].plain == 7 * 5 * 8 + 2 * 7 * (8 * 24 + 2 * 7 * 8 + 8 * 8 + 2 * 8 * 16) + 8 * 3


class LearnedQueries(nn.Module):
    """Normalises what it has learned before it looks at the input, as DETR's decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(1, 2, 8))
        self.embed, self.norm, self.head = nn.Linear(5, 8), nn.LayerNorm(8), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, queries = self.embed(x), self.norm(3 * self.queries)
        return self.head(((queries @ rows.mT).softmax(-1) @ rows + queries).relu().flatten(1))


def test_a_norm_of_learned_queries_is_left_out_too() -> None:
    torch.manual_seed(0)
    found = check_network(LearnedQueries(), (torch.randn(6, 7, 5), torch.arange(6) % 3))
    (synflow,) = (each for each in found.comparisons if each.proxy == "synflow")
    assert math.isfinite(synflow.value)
    assert not found.lenient


def test_gradients_that_are_not_finite_have_no_correlations() -> None:
    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head((x - x.detach()).sqrt())  # whose slope at zero is infinite

    found = check_network(Root(), (torch.randn(6, 4), torch.arange(6) % 3))
    (jacov,) = (each for each in found.comparisons if each.proxy == "jacov")
    assert math.isnan(jacov.value)
    assert jacov.plain_reason == "a gradient is not finite"


def test_a_gelu_by_the_normal_distribution_is_one() -> None:
    class ByPhi(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.special.ndtr(x)

    torch.manual_seed(0)
    conv, head = nn.Conv2d(3, 4, 3), nn.Linear(144, 3)
    found = [check_network(nn.Sequential(conv, act, nn.Flatten(), head), BATCH) for act in (nn.GELU(), ByPhi())]
    values = [{each.proxy: each.value for each in one.comparisons} for one in found]
    assert values[0]["naswot"] == pytest.approx(values[1]["naswot"])
