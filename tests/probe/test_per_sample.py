from __future__ import annotations

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.cases import CASES, CONV, Case
from tests.probe import naive
from trainless.core.target import Target
from trainless.probe import Probe
from trainless.probe import per_sample as forming
from trainless.probe.dependence import reach
from trainless.probe.per_sample import By, loss_cotangent, stream
from trainless.probe.quantities import weight_names

RANDOM = ("functional-dropout",)  # a batch of one draws other numbers than the batch
STATEFUL = ("unusual-layers",)  # spectral norm takes a step with every pass
FLAT = ("pool-cell",)  # constant maps: whether a rectifier is open is a matter of rounding
SCORED = [case for case in CASES if case.name not in (*RANDOM, *STATEFUL, *FLAT, "dense-batch-norm")]


def streamed(p: Probe, by: By) -> dict[str, Tensor]:
    """The Gram matrix of every weight's rows: it does not depend on the order of entries."""
    grams: dict[str, Tensor] = {}
    parts: dict[str, list[Tensor]] = {}

    def consume(name: str, block: Tensor) -> None:
        if by == "entries":
            grams[name] = grams.get(name, 0) + block @ block.T
        else:
            parts.setdefault(name, []).append(block.clone())

    stream(p, loss_cotangent(p), consume, by)
    return grams or {name: (whole := torch.cat(blocks)) @ whole.T for name, blocks in parts.items()}


@pytest.mark.parametrize("by", ["samples", "entries"])
@pytest.mark.parametrize("case", SCORED, ids=lambda case: case.name)
def test_equal_to_a_loop_over_samples(case: Case, by: By) -> None:
    p = case.probe(5, double=True).at(norm="isolated")
    expected = naive.rows(p, weight_names(p), of="loss", joint=False)
    found = streamed(p, by)
    assert set(found) == set(expected)
    for name, whole in expected.items():
        torch.testing.assert_close(found[name], whole @ whole.T, rtol=1e-6, atol=1e-9)


convolutions = st.fixed_dictionaries(
    {
        "kernel_size": st.integers(1, 4),
        "stride": st.integers(1, 3),
        "padding": st.one_of(st.integers(0, 2), st.just("same"), st.just("valid")),
        "dilation": st.integers(1, 2),
        "groups": st.sampled_from([1, 2, 4]),
        "bias": st.booleans(),
    }
)


@settings(max_examples=40, deadline=None)
@given(
    dims=st.integers(1, 3),
    options=convolutions,
    by=st.sampled_from(["samples", "entries"]),
    cache=st.sampled_from([1, 300, 1 << 20]),
    double=st.booleans(),
)
def test_any_convolution(dims: int, options: dict, by: By, cache: int, double: bool) -> None:
    """Whatever the stride, padding, dilation and groups, and in blocks of any size.

    In single precision a convolution with a group per sample takes over where there are many positions.
    """
    if options["padding"] == "same":
        options = {**options, "stride": 1}
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore", UserWarning)  # PyTorch's note on even kernels and "same"
        patch.setattr(forming, "CACHE", cache)
        patch.setattr(forming, "WORKSPACE", cache)
        torch.manual_seed(0)
        net = nn.Sequential(CONV[dims](4, 8, **options), nn.Flatten(), nn.LazyLinear(2)).double()
        x = torch.randn(3, 4, *[8, 7, 7][:dims], dtype=torch.float64)
        net(x)
        p = Probe.of(net, (x, torch.tensor([0, 1, 1])), Target("binary", 2))
        expected = naive.rows(p, ["0.weight"], of="loss", joint=False)["0.weight"]
        if not double:
            p = Probe.of(net.float(), (x.float(), p.y), p.target)
        found = streamed(p, by)["0.weight"].double()
        close = {} if double else {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(found, expected @ expected.T, **close)


def test_a_weight_used_at_two_sizes() -> None:
    """Both uses' gradients add up entry by entry, although they are formed in different ways."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.last = nn.Conv2d(2, 2, 3, padding=1), nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.conv(nn.functional.avg_pool2d(self.conv(x).relu(), 4)).flatten(2).sum(2))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, x, y = Twice().double(), torch.randn(3, 2, 8, 8, dtype=torch.float64), torch.tensor([0, 1, 1])
    expected = naive.rows(Probe.of(net, (x, y), Target("binary", 2)), ["conv.weight"], of="loss", joint=False)
    whole = expected["conv.weight"].clone()
    single = Probe.of(net.float(), (x.float(), y), Target("binary", 2))
    found = streamed(single, "samples")["conv.weight"].double()
    torch.testing.assert_close(found, whole @ whole.T, rtol=1e-4, atol=1e-5)


def test_returns_the_input_gradient() -> None:
    p = CASES[2].probe(4, double=True)
    (found,) = stream(p, loss_cotangent(p), lambda name, block: None, "samples")
    x = p.x.clone().requires_grad_()
    loss = p.target.losses(naive.outputs(p, naive.leaves(p), x), p.y).sum()
    torch.testing.assert_close(found, torch.autograd.grad(loss, x)[0])


@pytest.mark.parametrize("name", ["packed-attention", "unusual-layers"])
def test_batches_of_one_at_once(name: str) -> None:
    """As on a GPU: what cannot be read off a layer, for all samples together and one by one."""
    case = next(case for case in CASES if case.name == name)
    p = case.probe(4, double=True).at(norm="isolated")
    names = [each for each in p.weights if each in reach(p).unread]
    assert names
    found = forming.vectorised(p, names, forming.loss_cotangent(p))
    assert found is not None
    expected = naive.rows(p, names, of="loss", joint=False)
    for each in names:
        torch.testing.assert_close(found[each], expected[each].view_as(found[each]), rtol=1e-7, atol=1e-9)
