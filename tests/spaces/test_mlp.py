from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.spaces.oracle import hooked_counts
from trainless.core.errors import InputError
from trainless.core.target import Target
from trainless.core.task import Task
from trainless.spaces.mlp import Mlp
from trainless.spaces.moves import enumerate_archs


def test_counts_equal_the_built_network() -> None:
    space = Mlp()
    for task in (Task.noise((7,), classes=3), Task.noise((2, 5), classes=2)):
        for arch in list(enumerate_archs(space))[::7]:
            assert space.counts(arch, task) == hooked_counts(space, arch, task)
            assert space.parse(space.format(arch)) == arch


def naive(net: nn.Module, x: Tensor) -> Tensor:
    """One block without dropout, from the weights alone, in evaluation mode at the initial statistics."""
    w = dict(net.named_parameters())
    x = F.linear(x.flatten(1), w["stem.weight"], w["stem.bias"])
    inner = x / (1 + 1e-5) ** 0.5
    inner = F.linear(inner, w["blocks.0.first.weight"], w["blocks.0.first.bias"]).clamp_min(0)
    x = x + F.linear(inner, w["blocks.0.second.weight"], w["blocks.0.second.bias"])
    return F.linear((x / (1 + 1e-5) ** 0.5).clamp_min(0), w["classifier.weight"], w["classifier.bias"])


def test_the_network_computes_what_is_said() -> None:
    space, task = Mlp(), Task.noise((3, 4), classes=4)
    net = space.build(space.parse("width=32,depth=1,inner=2,dropout=0.3"), task).double().eval()
    x = task.batch(5, seed=0)[0].double()
    with torch.no_grad():
        assert torch.allclose(net(x), naive(net, x), rtol=1e-9)


def test_columns_have_weights_of_their_own() -> None:
    """A change of one column is not that of another, which an average over places could not tell."""
    space, task = Mlp(), Task.noise((6,), classes=2)
    net = space.build(space.plain(task), task).eval()
    with torch.no_grad():
        answers = net(torch.eye(6))
    assert len({tuple(row) for row in answers.tolist()}) == 6


def test_tokens_are_refused() -> None:
    with pytest.raises(InputError, match="mlp takes numbers; the task 't' has tokens"):
        Mlp().check(Task("t", (5,), Target("tokens", 11), vocabulary=11))
