"""What a proxy costs, in milliseconds and in forward-backward equivalents."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from trainless.core.errors import Unscorable
from trainless.core.target import Target
from trainless.probe.norms import normalised
from trainless.probe.probe import Probe, quantity, quiet_randomness
from trainless.probe.record import run
from trainless.proxies import registry

T = TypeVar("T")
BRIEF_MS = 100.0  # below this one measurement is mostly noise


def timed(compute: Callable[[], T], device: torch.device) -> tuple[T, float]:
    """A result and the milliseconds that it took, a GPU's queue included.

    Example:
        >>> timed(lambda: 3, torch.device("cpu"))[0]
        3
    """
    _settle(device)
    start = time.perf_counter()
    result = compute()
    _settle(device)
    return result, 1000 * (time.perf_counter() - start)


@quantity
def forward_backward_ms(p: Probe) -> float:
    """The time of one plain forward and backward pass: the least of one, or of three where it is brief; the FBE's unit.

    NaN where the network cannot be run on this batch; the proxies then say why.
    """
    warm_up(p.x.device)
    try:
        first = timed(lambda: _plain(p), p.x.device)[1]
        if first > BRIEF_MS:
            return first
        return min(timed(lambda: _plain(p), p.x.device)[1] for _ in range(2))
    except Exception:
        return math.nan


@functools.cache
def warm_up(device: torch.device) -> None:
    """Do once what PyTorch does at first use (loading kernels and shape rules), so that no proxy is charged for it."""
    net = nn.Sequential(nn.Conv2d(2, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 2)).to(device)
    x, y = torch.zeros(4, 2, 8, 8, device=device), torch.zeros(4, dtype=torch.int64, device=device)
    p = Probe.of(net, (x, y), Target("binary", 2), private=True)
    for name in ("flops", "gradsign", "jacov", "grasp", "synflow", "swap", "zen", "vkdnw", "epsilon"):
        with contextlib.suppress(Unscorable):
            registry[name](p)


def _plain(p: Probe) -> None:
    weights = {name: tensor.detach().requires_grad_(tensor.is_floating_point()) for name, tensor in p.weights.items()}
    with quiet_randomness(p), normalised(p.net, "batch"), torch.enable_grad():
        value = run(p.net, weights, p.x).square().mean()
    torch.autograd.grad(value, list(weights.values()), allow_unused=True)


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
