from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.spaces.oracle import hooked_counts
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.inception import Inception
from trainless.spaces.moves import enumerate_archs


def test_counts_equal_the_built_network() -> None:
    space, task = Inception(), Task.noise((2, 37), classes=3)
    for arch in list(enumerate_archs(space))[::4]:
        assert space.counts(arch, task) == hooked_counts(space, arch, task)
        assert space.parse(space.format(arch)) == arch


def test_parameters_by_hand() -> None:
    """Of the smallest on one channel: 8 filters, three modules of kernels 5, 9 and 19."""
    first, other = 8 + 8 * 8 * 33 + 8 + 64, 32 * 8 + 8 * 8 * 33 + 32 * 8 + 64
    shortcut, classifier = 32 + 64, 32 * 2 + 2
    assert Inception().counts((0, 0, 0, 0), Task.noise((1, 50), classes=2)).params == (
        first + 2 * other + shortcut + classifier
    )


def naive(net: nn.Module, x: Tensor) -> Tensor:
    """Three modules with a stem of stride 4, from the weights alone."""
    w = dict(net.named_parameters())

    def norm(x: Tensor, name: str) -> Tensor:
        mean, var = x.mean((0, 2), keepdim=True), x.var((0, 2), keepdim=True, correction=0)
        return (x - mean) / (var + 1e-5).sqrt() * w[f"{name}.weight"][:, None] + w[f"{name}.bias"][:, None]

    x = norm(F.conv1d(x, w["stem.0.weight"], stride=2, padding=4), "stem.1").clamp_min(0)
    x = F.max_pool1d(x, 3, 2, 1)
    inner = x
    for place in range(3):
        name = f"blocks.0.inner.{place}"
        squeezed = F.conv1d(inner, w[f"{name}.bottleneck.weight"])
        parts = [F.conv1d(squeezed, w[f"{name}.convs.{i}.weight"], padding=k // 2) for i, k in enumerate((9, 19, 39))]
        beside = F.conv1d(F.max_pool1d(inner, 3, 1, 1), w[f"{name}.beside.1.weight"])
        inner = norm(torch.cat([*parts, beside], 1), f"{name}.norm")
        inner = inner if place == 2 else inner.clamp_min(0)
    around = norm(F.conv1d(x, w["blocks.0.shortcut.0.weight"]), "blocks.0.shortcut.1")
    pooled = (inner + around).clamp_min(0).mean(2)
    return pooled @ w["classifier.weight"].T + w["classifier.bias"]


def test_the_network_computes_what_is_said() -> None:
    space, task = Inception(), Task.noise((3, 60), classes=4)
    net = space.build(space.parse("filters=8,modules=3,kernels=9/19/39,stride=4"), task).double()
    x = task.batch(5, seed=0)[0].double()
    with torch.no_grad():
        assert torch.allclose(net(x), naive(net, x), rtol=1e-9)


@pytest.mark.parametrize(("length", "filters", "stride"), [(96, 32, 1), (1000, 16, 4), (9000, 16, 16)])
def test_the_plain_network_of_a_length(length: int, filters: int, stride: int) -> None:
    space = Inception()
    plain = space.format(space.plain(Task.noise((1, length), classes=2)))
    assert plain == f"filters={filters},modules=6,kernels=9/19/39,stride={stride}"


def test_what_is_wrong_is_said() -> None:
    space = Inception()
    with pytest.raises(InputError, match=r"inception takes signals; .* choose another space, such as residual"):
        space.check(Task.noise((1, 28, 28), classes=2))
    with pytest.raises(InputError, match="inception: filters=9 was given; expected one of 8, 16, 32"):
        space.parse("filters=9,modules=3,kernels=9/19/39,stride=4")
