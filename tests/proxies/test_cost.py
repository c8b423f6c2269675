"""What scoring costs: memory on a large network, time on the best of NAS-Bench-201."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter

import pytest
import torch
from torch import Tensor, nn

from tests.proxies import recipes
from trainless.core.target import Target
from trainless.probe import Probe
from trainless.proxies import registry

GIGABYTE = 1 << 30


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        sizes = ((inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1))
        self.convs = nn.ModuleList(nn.Conv2d(i, o, k, s, k // 2, bias=False) for i, o, k, s in sizes)
        self.norms = nn.ModuleList(nn.BatchNorm2d(o) for _, o, _, _ in sizes)
        self.shortcut = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for conv, norm in zip(self.convs, self.norms, strict=True):
            y = norm(conv(y.relu() if y is not x else y))
        return (y + self.shortcut(x)).relu()


def resnet50() -> nn.Module:
    """The 16 bottlenecks of ResNet-50 on images of 32 × 32: 23.5 million weights."""
    blocks: list[nn.Module] = [nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    inputs = 64
    for stage, repeats in enumerate((3, 4, 6, 3)):
        for index in range(repeats):
            blocks.append(Bottleneck(inputs, 64 << stage, 2 if stage and not index else 1))
            inputs = 256 << stage
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


def peak_of(name: str) -> int:
    """Score a ResNet-50 at batch 64 in this process and return the peak of its memory, in bytes."""
    torch.set_num_threads(1)
    p = Probe.of(resnet50(), recipes.named_batch(64), Target("multiclass", 10), private=True)
    registry[name](p)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.slow
def test_large_networks_fit_in_memory() -> None:
    """Per-sample gradients would take 64 × 94 MB = 6 GB at once; streamed, the whole process stays under 4 GB."""
    weights = sum(tensor.numel() for tensor in resnet50().parameters())
    assert weights > 23_000_000
    code = "from tests.proxies.test_cost import peak_of; print(peak_of('gradsign'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 4 * GIGABYTE


def seconds(compute: Callable[[], object]) -> float:
    start = perf_counter()
    compute()
    return perf_counter() - start


@pytest.mark.slow
def test_gradsign_costs_a_few_passes() -> None:
    """At most 4 forward-backward equivalents at batch 64, in the median of turns taken with the plain pass."""
    arch = (3, 3, 3, 1, 3, 3)
    net = recipes.by_name(recipes.SPACE.build(arch, recipes.TASK))
    x, y = recipes.named_batch(64)

    def plain() -> None:
        torch.autograd.grad(recipes.TASK.target.losses(net(x), y).mean(), list(net.parameters()))

    def ours() -> None:
        registry["gradsign"](Probe.of(net, (x, y), recipes.TASK.target))

    plain()
    ratios = [seconds(ours) / seconds(plain) for _ in range(3)]
    assert statistics.median(ratios) < 4
