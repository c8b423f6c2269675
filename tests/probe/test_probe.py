from __future__ import annotations

import copy
import gc
import random
import weakref
from contextlib import suppress

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.cases import CASES
from trainless.core.errors import InputError, Unscorable
from trainless.core.target import Target
from trainless.probe import Probe, quantity
from trainless.probe.points import (
    Constant,
    Crops,
    Double,
    First,
    Gaussian,
    Kaiming,
    Magnitude,
    Noise,
    Ones,
    Own,
    RealData,
    Uniform,
)
from trainless.probe.quantities import loss_gradients, output_gradient, weight_names
from trainless.probe.record import trace
from trainless.proxies import registry

BY_NAME = {case.name: case for case in CASES}


def test_a_probe_is_one_point() -> None:
    p = BY_NAME["2d-batch-norm"].probe()
    assert p.at() is p
    assert p.at(weights=Own(), norm="batch") is p
    assert p.at(norm="isolated") is p.at(norm="isolated")
    assert p.at(weights=Kaiming()) is p.at(weights=Kaiming())
    assert p.at(weights=Constant(1.0)) is not p.at(weights=Constant(2.0))
    assert trace(p) is trace(p)


def test_quantities_are_computed_once_per_point() -> None:
    calls: list[int] = []

    @quantity
    def counted(p: Probe, factor: int) -> int:
        calls.append(factor)
        return factor * len(p.x)

    p = BY_NAME["2d"].probe(4)
    assert [counted(p, 2), counted(p, 2), counted(p, 3)] == [8, 8, 12]
    assert calls == [2, 3]
    assert counted(BY_NAME["2d"].probe(4), 2) == 8
    assert calls == [2, 3, 2]


@pytest.mark.parametrize("name", sorted(registry.names()))
def test_what_a_proxy_recorded_goes_with_the_probe(name: str) -> None:
    p = BY_NAME["2d-batch-norm"].probe()
    with suppress(Unscorable):
        registry[name](p.at(Own(), RealData()))
    gone = weakref.ref(p)
    gc.collect()
    gc.disable()  # a network's features are large: they are not kept until Python looks for what refers to itself
    try:
        del p
        assert gone() is None
    finally:
        gc.enable()


def test_parts_of_a_batch() -> None:
    p = BY_NAME["2d"].probe(8)
    parts = list(p.split(2))
    assert torch.equal(torch.cat([q.x for q in parts]), p.x)
    assert torch.equal(torch.cat([q.y for q in parts]), p.y)
    with pytest.raises(Unscorable, match="give a larger batch"):
        list(p.split(9))


def test_randomness_depends_on_seed_and_tag_alone() -> None:
    first, second = BY_NAME["2d"].probe(seed=0), BY_NAME["2d"].probe(seed=1)

    def draw(p: Probe, tag: str) -> list[float]:
        return torch.rand(3, generator=p.generator(tag)).tolist()

    assert draw(first, "a") == draw(first, "a") == draw(first.at(norm="off"), "a")
    assert draw(first, "a") != draw(first, "b")
    assert draw(first, "a") != draw(second, "a")


def test_the_model_is_left_as_it_was() -> None:
    """Weights, running statistics, modes, in-place flags, gradients and hooks."""
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout(), nn.Flatten())
    net.append(nn.Linear(4 * 36, 3)).eval()
    net[0].weight.requires_grad_(False)
    net[0].weight.grad = torch.ones_like(net[0].weight)
    before = copy.deepcopy(net)
    x, y = BY_NAME["2d"].batch(4)
    inputs = x.clone()
    p = Probe.of(net, (x, y), BY_NAME["2d"].task.target)
    for q in (p, p.at(norm="isolated"), p.at(norm="off", weights=Constant(1.0))):
        loss_gradients(q)
        output_gradient(q)
    assert torch.equal(x, inputs)
    assert not net.training
    assert net[2].inplace
    assert not net[0].weight.requires_grad
    assert torch.equal(net[0].weight.grad, torch.ones_like(net[0].weight))
    for name, tensor in before.state_dict().items():
        assert torch.equal(net.state_dict()[name], tensor), name
    assert all(not module._forward_hooks and not module._backward_hooks for module in net.modules())


def test_trace_notes_what_the_network_did() -> None:
    t = trace(BY_NAME["2d-batch-norm"].probe(4).at(norm="isolated"))
    assert [layer.weight for layer in t.layers] == ["body.0.weight", "body.3.weight", "body.6.weight", "head.weight"]
    assert [norm.weight for norm in t.norms] == ["body.1.weight", "body.4.weight", "body.7.weight"]
    assert len(t.activations) == 3
    assert t.layers[1].conv is not None
    assert (t.layers[1].conv.stride, t.layers[1].conv.groups) == ((2, 2), 2)
    for norm in t.norms:
        flat = norm.x.flatten(2)
        torch.testing.assert_close(flat.mean(2), torch.zeros(4, flat.shape[1]), atol=1e-5, rtol=0)
    assert not t.blocks
    assert t.stream is not None
    assert [tuple(each.tensor.shape[2:]) for each in t.stream.boundaries]
    assert [bool((each.tensor >= 0).all()) for each in t.stream.boundaries] == [True] * 3


def test_functional_rectifiers_are_seen() -> None:
    assert len(trace(BY_NAME["functional-relu"].probe(3)).activations) == 3
    assert len(trace(BY_NAME["no-rectifier"].probe(3)).activations) == 0


def test_weights_of_every_kind_are_named() -> None:
    assert weight_names(BY_NAME["tied-weights"].probe()) == ("first.weight", "head.weight")
    assert weight_names(BY_NAME["lstm"].probe()) == ("rnn.weight_ih_l0", "rnn.weight_hh_l0", "head.weight")
    assert "embed.weight" not in weight_names(BY_NAME["tokens"].probe())
    assert all("norm" not in name for name in weight_names(BY_NAME["own-attention"].probe()))


def test_gradients_are_those_of_pytorch() -> None:
    for name in ("2d-batch-norm", "lstm", "packed-attention", "tied-weights"):
        case = BY_NAME[name]
        p = case.probe(5, double=True)
        net = case.network().double().train()
        x = p.x.clone().requires_grad_()
        p.target.losses(net(x), p.y).mean().backward()
        found = loss_gradients(p)
        for key, tensor in net.named_parameters():
            if key in found.weights:
                torch.testing.assert_close(found.weights[key], tensor.grad)
        torch.testing.assert_close(found.x, x.grad)


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.head(x), x


def test_outputs_that_do_not_fit() -> None:
    batch = torch.ones(3, 4), torch.zeros(3, dtype=torch.long)
    with pytest.raises(InputError, match=r"returned a tuple; .* adapter"):
        trace(Probe.of(Pair(), batch, Target("binary", 2)))
    with pytest.raises(InputError, match=r"shape \(3, 5\).*needs \(N, 2\)"):
        trace(Probe.of(nn.Linear(4, 5), batch, Target("binary", 2)))


# --- points in weight and input space -----------------------------------------------------------------------------


def test_initialisations() -> None:
    net = nn.Sequential(nn.Conv2d(8, 64, 3), nn.BatchNorm2d(64), nn.Flatten(), nn.Linear(64 * 4, 50))
    nn.init.constant_(net[1].weight, 5.0)
    p = Probe.of(net, (torch.ones(2, 8, 4, 4), torch.zeros(2, dtype=torch.long)), Target("multiclass", 50))
    fans = {"0.weight": 72, "3.weight": 256}
    for name, fan in fans.items():
        count = p.weights[name].numel()
        kaiming, gaussian, uniform = (p.at(weights=rule()).weights[name] for rule in (Kaiming, Gaussian, Uniform))
        for drawn, deviation in ((kaiming, (2 / fan) ** 0.5), (gaussian, 1.0), (uniform, (1 / 3 / fan) ** 0.5)):
            assert abs(float(drawn.mean())) < 5 * deviation / count**0.5
            assert float(drawn.std()) == pytest.approx(deviation, rel=0.05)
        assert float(uniform.abs().max()) <= fan**-0.5
    for rule in (Kaiming(), Gaussian(), Uniform()):
        weights = p.at(weights=rule).weights
        assert bool((weights["1.weight"] == 1).all())
        assert not weights["1.bias"].any()
        assert not weights["3.bias"].any()


def test_constants_and_magnitudes() -> None:
    p = BY_NAME["2d-batch-norm"].probe()
    assert all(set(tensor.unique().tolist()) <= {0.0, 2.0} for tensor in p.at(weights=Constant(2.0)).weights.values())
    assert bool((p.at(weights=Constant(2.0)).weights["body.1.weight"] == 2).all())
    for name, tensor in p.at(weights=Magnitude(), x=Ones()).weights.items():
        assert torch.equal(tensor, p.weights[name].abs().double())


def test_inputs() -> None:
    p = BY_NAME["2d"].probe(6)
    ones = p.at(x=Ones())
    assert ones.x.shape == (1, 2, 8, 8)
    assert ones.x.dtype == torch.float64
    assert all(tensor.dtype == torch.float64 for tensor in ones.weights.values())
    noise = Probe.of(p.net, (p.x, p.y), p.target, seed=5).at(x=Noise())
    assert noise.x.shape == p.x.shape
    assert not torch.equal(noise.x, p.x)
    first = p.at(x=First(2))
    assert torch.equal(first.x, p.x[:2])
    assert torch.equal(first.y, p.y[:2])
    assert torch.equal(p.at(x=Double()).x, p.x.double())
    crops = p.at(x=Crops(50, 3)).x
    assert crops.shape == (50, 1, 3, 3)
    windows = p.x.unfold(2, 3, 1).unfold(3, 3, 1).reshape(-1, 9)
    assert all(bool((windows == crop.flatten()).all(1).any()) for crop in crops)
    with pytest.raises(Unscorable, match="crops need"):
        BY_NAME["tokens"].probe().at(x=Crops())


class _InPlace(nn.Module):
    """The same function in place or not."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.first, self.second, self.head = (
            nn.Conv2d(3, 4, 3, padding=1),
            nn.Conv2d(4, 4, 3, padding=1),
            nn.Linear(4, 3),
        )
        self.norm = nn.BatchNorm2d(4)
        self.in_place = in_place

    def forward(self, x: Tensor) -> Tensor:
        if self.in_place:
            x.mul_(2)
            x = F.relu(self.first(x), inplace=True)
            out = self.norm(self.second(x))
            out += x
            out.relu_()
            return self.head(out.mean((2, 3)))
        x = F.relu(self.first(x * 2))
        return self.head(F.relu(self.norm(self.second(x)) + x).mean((2, 3)))


def test_networks_that_work_in_place_score_like_those_that_do_not() -> None:
    x, y = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2, 0, 1, 2])
    plain, in_place = _InPlace(False).double(), _InPlace(True).double()
    in_place.load_state_dict(plain.state_dict())
    before = x.double().clone()
    given = before.clone()
    for name in registry.names():
        values = [_value(name, Probe.of(net, (given, y), Target("multiclass", 3))) for net in (plain, in_place)]
        assert values[1] == pytest.approx(values[0], rel=1e-6, nan_ok=True), name
    assert torch.equal(given, before)


def _value(name: str, p: Probe) -> float:
    try:
        return registry[name](p)
    except Unscorable:
        return float("nan")


def test_checkpointed_networks_are_refused_by_name() -> None:
    class Recomputing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(checkpoint(self.layer, x, use_reentrant=False).relu().mean((2, 3)))

    p = Probe.of(Recomputing(), (torch.randn(4, 3, 6, 6), torch.tensor([0, 1, 0, 1])), Target("binary", 2))
    with pytest.raises(InputError, match="turn that off to score it"):
        trace(p)


def test_what_a_forward_pass_left_behind_does_not_hinder() -> None:
    class Keeping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            self.last = self.layer(x)
            return self.last

    net = Keeping()
    net(torch.randn(3, 4))
    p = Probe.of(net, (torch.randn(4, 4), torch.tensor([0, 1, 0, 1])), Target("binary", 2))
    assert registry["snip"](p) > 0
    assert registry["flops"](p) == 8


def test_randomness_of_python_and_numpy_is_the_probes_own() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x) * (1 + random.random() + float(np.random.rand()))

    net, batch = Noisy(), (torch.randn(4, 4), torch.tensor([0, 1, 0, 1]))
    states = random.getstate(), np.random.get_state()[1].tolist()
    scores = {registry["snip"](Probe.of(net, batch, Target("binary", 2))) for _ in range(2)}
    assert len(scores) == 1
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states


def test_without_a_gradient_there_is_a_reason() -> None:
    class Cut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x).detach()

    p = Probe.of(Cut(), (torch.randn(4, 4), torch.tensor([0, 1, 0, 1])), Target("binary", 2))
    with pytest.raises(Unscorable, match="differentiable"):
        registry["snip"](p)


def test_a_point_is_given_by_what_makes_it() -> None:
    p = Probe.of(nn.Linear(4, 2), (torch.randn(4, 4), torch.tensor([0, 1, 0, 1])), Target("binary", 2))
    for move in (p.at, p.once):
        with pytest.raises(TypeError, match="x of another point was given as a Tensor; expected what makes it"):
            move(x=p.x)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="weights of another point was given as a dict; expected what makes it"):
            move(weights=dict(p.weights))  # type: ignore[arg-type]
