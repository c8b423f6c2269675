"""One rectification for all branches that ask for it, and again wherever that would not be the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainless.core.errors import InputError
from trainless.core.target import Target
from trainless.probe import Probe
from trainless.probe.quantities import loss_gradients
from trainless.probe.record import trace

Branch = Callable[[Tensor], Tensor]


def both(h: Tensor) -> Tensor:
    return F.relu(h) * torch.relu(h).square() + h.relu()


def one_in_place(h: Tensor) -> Tensor:
    return F.relu(h) + F.relu(h.clone(), True) + F.relu(input=h.clone(), inplace=True)


def input_written(h: Tensor) -> Tensor:
    before = F.relu(h)
    h.sub_(0.5)
    return before + F.relu(h).square()


def without_gradient_first(h: Tensor) -> Tensor:
    with torch.no_grad():
        scale = F.relu(h)
    return scale * F.relu(h)


def without_gradient_last(h: Tensor) -> Tensor:
    open_ = F.relu(h)
    with torch.no_grad():
        scale = F.relu(h)
    return scale * open_


def written_between(h: Tensor) -> Tensor:
    with torch.no_grad():
        first = F.relu(h).add_(1)
        second = F.relu(h)
    return first * second * F.relu(h)


def written_at_last(h: Tensor) -> Tensor:
    with torch.no_grad():
        first, second = F.relu(h), F.relu(h)
        first.add_(1)
    return first * second * F.relu(h)


def hooked(h: Tensor) -> Tensor:
    first, second = F.relu(h), F.relu(h)
    second.register_hook(lambda g: 0.1 * g)
    return first.square() + second


def hooked_at_its_node(h: Tensor) -> Tensor:
    first, second = F.relu(h), F.relu(h)
    if second.grad_fn is not None:
        second.grad_fn.register_hook(lambda into, out: (into[0] * 0.1,))
    return first.square() + second


def cut_off(h: Tensor) -> Tensor:
    first, second = F.relu(h), F.relu(h)
    second.detach_()
    return first.square() + second


def written_past_its_version(h: Tensor) -> Tensor:
    first, second = F.relu(h), F.relu(h)
    second.data.mul_(3)
    return first + second.clone() * 2


def made_a_leaf_later(h: Tensor) -> Tensor:
    leaf = h.detach()
    F.relu(leaf)
    leaf.requires_grad_()
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(F.relu(leaf).square().sum(), leaf, create_graph=True)
    return F.relu(h) + slope


def in_inference_mode(h: Tensor) -> Tensor:
    with torch.inference_mode():
        scale = F.relu(F.linear(F.relu(h.detach()), torch.eye(4, dtype=h.dtype)))
    return F.relu(h) + scale.clone()


class Net(nn.Module):
    def __init__(self, branch: Branch) -> None:
        super().__init__()
        self.first, self.head, self.branch = nn.Linear(5, 4), nn.Linear(4, 3), branch

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.branch(self.first(x).mul(1.0)))
        return logits


@pytest.mark.parametrize(
    "branch",
    [
        both,
        one_in_place,
        input_written,
        without_gradient_first,
        without_gradient_last,
        written_between,
        written_at_last,
        hooked,
        hooked_at_its_node,
        cut_off,
        written_past_its_version,
        made_a_leaf_later,
        in_inference_mode,
    ],
)
def test_rectified_once_and_still_what_pytorch_computes(branch: Branch) -> None:
    torch.manual_seed(0)
    net = Net(branch).double()
    x, y = torch.randn(7, 5, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 2, 0])
    p = Probe.of(net, (x, y), Target("multiclass", 3))
    outputs = net(x)
    torch.testing.assert_close(trace(p).outputs, outputs)
    expected = torch.autograd.grad(F.cross_entropy(outputs, y), [net.first.weight, net.head.weight])
    found = loss_gradients(p).weights
    torch.testing.assert_close([found["first.weight"], found["head.weight"]], list(expected))


def test_what_was_written_to_is_rectified_as_another_tensor() -> None:
    """In place or not, two different tensors were rectified, once each."""

    def outside(h: Tensor) -> Tensor:
        return F.relu(h) + F.relu(h - 0.5).square()

    x, y = torch.randn(6, 5), torch.tensor([0, 1, 2, 0, 1, 2])
    found = []
    for branch in (input_written, outside):
        torch.manual_seed(0)
        p = Probe.of(Net(branch), (x, y), Target("multiclass", 3))
        assert [activation.times for activation in trace(p).activations] == [1, 1]
        found.append([activation.gate > 0 for activation in trace(p).activations])
    assert all(torch.equal(*gates) for gates in zip(*found, strict=True))


class Holds(nn.Module):
    """Uses a weight by a list, which nobody can give it another value through."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(5, 4), nn.Linear(4, 3)
        self.held = [self.first.weight]

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(F.linear(x, self.held[0])))


def test_a_weight_that_is_used_past_its_module_is_refused() -> None:
    p = Probe.of(Holds(), (torch.randn(3, 5), torch.tensor([0, 1, 2])), Target("multiclass", 3))
    with pytest.raises(InputError, match="from somewhere else than its module"):
        trace(p)


class Shares(nn.Module):
    """One buffer in two modules, and one that is a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(5, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        mask = torch.tensor([1.0, 0.0, 2.0, 1.0])
        for module in (self.first, self.second):
            module.register_buffer("mask", mask)
        self.register_buffer("scale", self.first.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x)) * self.first.mask
        logits: Tensor = self.head(self.second(x) * self.second.mask + self.scale)
        return logits


def test_buffers_that_modules_share() -> None:
    torch.manual_seed(0)
    net = Shares()
    x, y = torch.randn(6, 5), torch.tensor([0, 1, 2, 0, 1, 2])
    p = Probe.of(net, (x, y), Target("multiclass", 3))
    outputs = net(x)
    torch.testing.assert_close(trace(p).outputs, outputs)
    expected = torch.autograd.grad(F.cross_entropy(outputs, y), net.first.weight)[0]
    torch.testing.assert_close(loss_gradients(p).weights["first.weight"], expected)


def test_how_often_a_tensor_was_rectified_is_still_counted() -> None:
    net = Net(both)
    p = Probe.of(net, (torch.randn(3, 5), torch.tensor([0, 1, 2])), Target("multiclass", 3))
    (activation,) = trace(p).activations
    assert activation.times == 3
