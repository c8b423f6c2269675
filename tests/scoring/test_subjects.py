from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn

import trainless as tl
from tests.scoring.toys import small_batch, small_net
from trainless.core.errors import InputError


class Cut(nn.Module):
    """Answers for three samples, however many there are."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)[:3, :5]


def lazy() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(5))


def weightless() -> nn.Module:
    return nn.Linear(108, 5, device="meta")


def traced() -> nn.Module:
    with warnings.catch_warnings(action="ignore"):  # torch.jit is deprecated, but networks made by it are about
        net: nn.Module = torch.jit.trace(small_net(), torch.zeros(2, 3, 6, 6))
    return net


def compiled() -> nn.Module:
    net: nn.Module = torch.compile(small_net(), backend="eager")
    return net


def compiled_in_place() -> nn.Module:
    net = small_net()
    net.compile(backend="eager")
    return net


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lazy, "lazy layers whose sizes are not known yet: run it once"),
        (weightless, "is on the meta device and has no weights"),
        (traced, "is scripted or traced"),
        (compiled, "give it before torch.compile"),
        (compiled_in_place, "give it before torch.compile"),
        (Cut, r"shape \(3, 5\) for 5 samples"),
    ],
)
def test_networks_that_cannot_be_looked_into_are_refused(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tl.score(make(), small_batch(), proxies="snip")
