"""Networks are recorded as what they compute, or refused by name."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainless.core.errors import InputError, Unscorable
from trainless.core.target import Target
from trainless.core.task import Task
from trainless.probe import Probe
from trainless.probe import guard as checking
from trainless.probe.guard import untouched
from trainless.probe.layers import is_ours
from trainless.probe.patterns import rectifiers
from trainless.probe.probe import remarks
from trainless.probe.record import DRAWS, trace
from trainless.proxies import registry
from trainless.spaces.nb201 import NasBench201


def probe(net: nn.Module, samples: int = 6) -> Probe:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(samples, 3, 6, 6, generator=source)
    return Probe.of(net, (x, torch.arange(samples) % 3), Target("multiclass", 3))


class Base(nn.Module):
    """A convolution, something in the middle, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.act, self.head = nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.Linear(4, 3)

    def middle(self, x: Tensor) -> Tensor:
        return self.act(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.middle(self.conv(x)).mean((2, 3)))


class InPlace(Base):
    """Means that its rectifier works in place."""

    def middle(self, x: Tensor) -> Tensor:
        return self.act(x) + 2 * x


def test_a_network_that_needs_to_work_in_place_does() -> None:
    torch.manual_seed(0)
    net = InPlace()
    p = probe(net)
    torch.testing.assert_close(trace(p).outputs, net.eval()(p.x))
    assert net.act.inplace


class ByHand(Base):
    """Standardises over the batch by its own arithmetic."""

    def middle(self, x: Tensor) -> Tensor:
        return (x - x.mean((0, 2, 3), keepdim=True)) / x.std((0, 2, 3), keepdim=True)


def test_a_batch_norm_by_hand_has_no_measure_of_each_sample_alone() -> None:
    p = probe(ByHand())
    torch.testing.assert_close(trace(p).outputs, p.net(p.x))
    assert registry["snip"](p) > 0
    with pytest.raises(Unscorable, match="ByHand lets samples of a batch touch one another by code of its own"):
        registry["gradsign"](p)


class Dropping(Base):
    """Drops at random by a function, a module of its own and a training flag."""

    def middle(self, x: Tensor) -> Tensor:
        if self.training:
            x = x * torch.bernoulli(torch.full_like(x, 0.5))
        return F.dropout(F.dropout2d(x, 0.3), 0.5, training=True)


def test_dropouts_are_off() -> None:
    torch.manual_seed(0)
    net = Dropping()
    p = probe(net)
    with remarks() as said:
        torch.testing.assert_close(trace(p).outputs, net.head(net.conv(p.x).mean((2, 3))))
    assert list(said) == ["dropout that the network keeps on in evaluation is switched off"]


class Drawing(Base):
    """Draws whatever its mode."""

    def middle(self, x: Tensor) -> Tensor:
        return F.silu(x) * torch.rand_like(x[:1])


def test_what_is_still_drawn_is_fixed_and_said() -> None:
    net = Drawing()
    assert registry["snip"](probe(net)) == registry["snip"](probe(net))
    with remarks() as said:
        rectifiers(probe(net))
    assert set(said) == {"activation patterns are those of SiLU", DRAWS}


def test_what_was_remarked_is_remarked_again_where_the_value_is_remembered() -> None:
    p = probe(Drawing())
    heard = []
    for _ in range(2):
        with remarks() as said:
            registry["naswot"](p)
        heard.append(dict(said))
    assert heard[0] == heard[1] != {}


class Training(Base):
    """Gives more than its outputs in training."""

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        found = super().forward(x)
        return (found, found) if self.training else found


def test_heads_for_training_are_off() -> None:
    assert registry["snip"](probe(Training().train())) > 0


def ours() -> nn.Module:
    torch.manual_seed(0)
    space = NasBench201(4, 1)
    return space.build((3, 3, 3, 3, 3, 3), Task.noise((3, 8, 8), 3))


def hooked(net: nn.Module) -> None:
    norm = next(module for module in net.modules() if isinstance(module, nn.BatchNorm2d))
    norm.register_forward_hook(lambda module, inputs, output: output * 2)


def patched(net: nn.Module) -> None:
    relu = next(module for module in net.modules() if isinstance(module, nn.ReLU))
    relu.forward = F.silu


def a_namesake(net: nn.Module) -> None:
    """A subclass that says to be from a file of ours."""
    kind = type(net)
    other = type(kind.__name__, (kind,), {"forward": lambda self, x: 2 * kind.forward(self, x)})
    other.__module__, other.__qualname__ = kind.__module__, kind.__qualname__
    net.__class__ = other


@pytest.mark.parametrize("change", [hooked, patched, a_namesake])
def test_a_network_of_ours_that_was_changed_is_not_taken_as_ours(change: Callable[[nn.Module], None]) -> None:
    assert is_ours(ours())
    net = ours()
    change(net)
    assert not is_ours(net)
    p = probe(net)
    assert not is_ours(p.net)
    expected = copy.deepcopy(net).train()(p.x)
    torch.testing.assert_close(trace(p).outputs, expected)


def test_a_class_of_ours_whose_forward_was_replaced_is_not_taken_as_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    net = ours()
    kind = type(net)
    own = kind.forward
    monkeypatch.setattr(kind, "forward", lambda self, x: 2 * own(self, x))
    assert not is_ours(net)


def test_the_first_network_of_a_kind_of_ours_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that an edited space, whose code lies where ours does, is found out."""
    monkeypatch.setattr(checking, "_CHECKED", set())
    seen = []
    monkeypatch.setattr(checking, "untouched", lambda p, x: seen.append(p.net) or untouched(p, x))
    first, second = probe(ours()), probe(ours())
    for p in (first, second):
        trace(p)
    assert seen == [first.net]


class Broken(Base):
    """Fails where gradients are asked for and nowhere else."""

    def middle(self, x: Tensor) -> Tensor:
        if x.requires_grad:
            raise LookupError("only without gradients")
        return x


def test_what_cannot_be_checked_is_refused_by_name() -> None:
    p = probe(Broken())
    for _ in range(2):
        with pytest.raises(InputError, match=r"Broken cannot be recorded as what it computes \(LookupError: only with"):
            trace(p)


class Opaque(nn.Module):
    """Rectifies by a function that hides what it calls, and once more in plain sight."""

    def __init__(self, rectify: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.head, self.rectify = nn.Linear(12, 30), nn.Linear(30, 3), rectify

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(self.rectify(self.inner(x.flatten(1))) - 0.1))


def _compiled(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_code_that_cannot_be_followed_is_refused_by_what_has_to_see_it() -> None:
    x, y = torch.randn(6, 12), torch.arange(6) % 3
    compiled, mapped = torch.jit.script(_compiled), torch.vmap(F.silu)
    for rectify in (lambda x: compiled(x), mapped):
        p = Probe.of(Opaque(rectify), (x, y), Target("multiclass", 3))
        for name in ("naswot", "swap", "fisher", "zen", "meco"):
            with pytest.raises(Unscorable, match="Opaque computes by code that cannot be followed"):
                registry[name](p)
        plain = Probe.of(Opaque(F.silu), (x, y), Target("multiclass", 3))
        plain = Probe.of(_with(plain.net, p.weights), (x, y), Target("multiclass", 3))
        assert registry["grad_norm"](p) == pytest.approx(registry["grad_norm"](plain))
        assert math.isfinite(registry["naswot"](plain))


def _with(net: nn.Module, weights: dict[str, Tensor]) -> nn.Module:
    with torch.no_grad():
        for name, tensor in net.named_parameters():
            tensor.copy_(weights[name])
    return net
