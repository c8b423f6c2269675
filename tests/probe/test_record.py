"""One rectification for all branches that ask for it, and again wherever that would not be the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

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


def test_how_often_a_tensor_was_rectified_is_still_counted() -> None:
    net = Net(both)
    p = Probe.of(net, (torch.randn(3, 5), torch.tensor([0, 1, 2])), Target("multiclass", 3))
    (activation,) = trace(p).activations
    assert activation.times == 3
