"""Networks side by side have the numbers that each has alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import nn

from trainless.core.arch import Arch
from trainless.core.errors import Unscorable
from trainless.core.target import Target
from trainless.core.task import Task
from trainless.probe.probe import Probe
from trainless.proxies import registry
from trainless.scoring.batches import BatchSource
from trainless.scoring.subjects import ArchSubject
from trainless.spaces.moves import sample
from trainless.spaces.nb201 import NasBench201
from trainless.spaces.protocol import Space
from trainless.spaces.transnas import TransNasMicro
from trainless.stack import MEASURES, NotAligned, SideBySide, Stack

NB201, MICRO = NasBench201(4, 1), TransNasMicro(4, 1)
EMPTY = (0, 0, 0, 0, 0, 0)  # no path from input to output
CASES = {
    "images": (NB201, (3, 16, 16)),
    "signals": (NB201, (2, 64)),
    "volumes": (NB201, (1, 8, 8, 8)),
    "fewer places than channels": (NB201, (3, 8, 8)),
    "two cells": (NasBench201(3, 2), (3, 8, 8)),
    "cells that halve": (MICRO, (3, 128, 128)),
}


def archs_of(space: Space, count: int) -> list[Arch]:
    rng = np.random.default_rng(0)
    return list(dict.fromkeys([EMPTY, *(sample(space, rng) for _ in range(count))]))


def probes_of(space: Space, archs: Sequence[Arch], shape: tuple[int, ...], samples: int = 4) -> list[Probe]:
    """In double precision, where the order in which numbers are added up makes no difference that matters."""
    data = BatchSource(Task.noise(shape), size=samples)
    x, y = data.batch(samples, 0)
    networks = [ArchSubject(space, arch).network("full", data, 0) for arch in archs]
    return [Probe.of(net.double(), (x.double(), y), target, 0) for net, target in networks]


def alone(p: Probe, name: str) -> float:
    try:
        return registry[name](p)
    except Unscorable:
        return math.nan


@pytest.mark.parametrize("case", CASES)
def test_every_network_has_the_numbers_that_it_has_alone(case: str) -> None:
    space, shape = CASES[case]
    probes = probes_of(space, archs_of(space, 8), shape)
    stack = Stack.of(probes)
    for name, measure in MEASURES.items():
        expected = torch.tensor([alone(p, name) for p in probes], dtype=torch.float64)
        found = measure(stack)
        there = torch.isfinite(expected)
        assert there.any(), name
        torch.testing.assert_close(found[there], expected[there], rtol=1e-9, atol=1e-9, msg=f"{case}, {name}")
        assert not torch.isfinite(found[~there]).any(), name


def test_outputs_and_gradients_are_those_of_each() -> None:
    probes = probes_of(NB201, archs_of(NB201, 5), (3, 8, 8))
    plan = SideBySide([p.net for p in probes])
    weights = {key: each.requires_grad_() for key, each in plan.stacked([p.weights for p in probes]).items()}
    outputs, _ = plan.run(weights, probes[0].x.repeat(1, len(probes), 1, 1), "batch")
    gradients = torch.autograd.grad(outputs.square().sum(), list(weights.values()))
    for place, p in enumerate(probes):
        net = p.net.train()
        expected = net(p.x)
        torch.testing.assert_close(outputs[:, place], expected, rtol=1e-9, atol=1e-9)
        own = dict(zip(p.weights, torch.autograd.grad(expected.square().sum(), list(net.parameters())), strict=True))
        for (part, name), gradient in zip(weights, gradients, strict=True):
            if place in part.members:
                at = part.members.index(place)
                mine = gradient.unflatten(0, (len(part.members), -1))[at]
                torch.testing.assert_close(mine, own[f"{part.names[at]}.{name}"], rtol=1e-7, atol=1e-9)


def test_other_company_changes_nothing() -> None:
    archs = archs_of(NB201, 6)
    probes = probes_of(NB201, archs, (3, 8, 8))
    for name in ("synflow", "meco", "isolated_jacov"):
        every, few = MEASURES[name](Stack.of(probes)), MEASURES[name](Stack.of(probes[3:5]))
        torch.testing.assert_close(every[3:5], few, rtol=1e-9, atol=1e-9, equal_nan=True)


class _Mixing(nn.Module):
    """Not known to treat channels alone."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Conv2d(3, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.inner(x).flip(1)
        return found


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_Mixing, "_Mixing is not known"),
        (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.GroupNorm(2, 4)), "GroupNorm is not known"),
    ],
)
def test_networks_that_could_touch_one_another_are_refused(make: type[nn.Module], words: str) -> None:
    with pytest.raises(NotAligned, match=words):
        SideBySide([make(), make()])


def test_maps_of_one_place_are_left_to_each_alone() -> None:
    probes = probes_of(NB201, archs_of(NB201, 3), (3, 4, 4))
    with pytest.raises(NotAligned, match="a single value per channel"):
        MEASURES["meco"](Stack.of(probes))


def test_probes_at_different_points_are_refused() -> None:
    first, second = probes_of(NB201, archs_of(NB201, 3), (3, 8, 8))[:2]
    with pytest.raises(NotAligned, match="different points"):
        Stack.of([first, second.once(norm="isolated")])
    with pytest.raises(NotAligned, match="different points"):
        Stack.of([first, Probe.of(second.net, (first.x + 1, first.y), Target("multiclass", 10))])
