"""Small networks and proxies whose scores are known."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from trainless.probe.probe import Probe
from trainless.proxies.proxy import Proxy, Setting


def toy(name: str, fn: Callable[..., float], setting: Setting | None = None, version: int = 1) -> Proxy:
    return Proxy(fn, name, True, False, True, "none", setting or Setting(), version)


def counting(name: str = "counting", setting: Setting | None = None) -> tuple[Proxy, list[Probe]]:
    """A proxy that notes every probe it is asked about and answers how often it was."""
    seen: list[Probe] = []

    def fn(p: Probe) -> float:
        seen.append(p)
        return float(len(seen))

    return toy(name, fn, setting), seen


def small_net() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, 5),
        )


def small_batch() -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(4)
    return torch.randn(8, 3, 6, 6, generator=source), torch.arange(8) % 5


class Twofold(nn.Module):
    """Returns a dict, as some networks do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = small_net()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"logits": self.inner(x)}


def wide_net(width: int) -> nn.Module:
    """A small network of some width, with weights as the seed has them."""
    return nn.Sequential(nn.Flatten(), nn.Linear(108, width), nn.ReLU(), nn.Linear(width, 5))


class Mask(nn.Module):
    """Answers at every position, as networks for segmentation do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return out
