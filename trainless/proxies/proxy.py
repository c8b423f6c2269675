"""What a proxy is: a pure function of a probe that returns a float, with its metadata beside it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from trainless.core.registry import Registry
from trainless.probe.inputs import Data, Inputs
from trainless.probe.probe import Probe
from trainless.probe.weights import Uniform, Weights

Function = Callable[..., float]


@dataclass(frozen=True)
class Setting:
    """The point at which a paper computes its proxy.

    Args:
        weights: The initialisation.
        inputs: Real data or noise.
        batch: Number of samples; with ``split`` parts, of all parts together.
        network: The full network, TE-NAS's thin one (3 channels, one cell per stage) or a single cell of one channel.
        repeats: How many seeds the paper averages over.
        options: Arguments of the proxy that the paper's program chooses.
    """

    weights: Weights = field(default_factory=Uniform)
    inputs: Inputs = field(default_factory=Data)
    batch: int = 64
    network: Literal["full", "thin", "cell"] = "full"
    repeats: int = 1
    options: tuple[tuple[str, Any], ...] = ()

    def describe(self) -> str:
        """The setting in a few words."""
        network = "" if self.network == "full" else f", {self.network} network"
        repeats = "" if self.repeats == 1 else f", mean of {self.repeats}"
        options = "".join(f", {name}={value}" for name, value in self.options)
        return f"{self.weights}, {self.batch} × {self.inputs}{network}{repeats}{options}"


@dataclass(frozen=True)
class Proxy:
    """A named training-free measure.

    Args:
        fn: The pure function.
        name: Its registered name.
        higher_is_better: The direction in which networks are believed to improve.
        labels: Whether labels matter.
        data: Whether real inputs matter (noise does otherwise).
        paper: Citation key of the paper that proposed it.
        setting: The paper's own setting.
        version: Raised when the value changes, so that stored scores are not mixed up.
    """

    fn: Function
    name: str
    higher_is_better: bool
    labels: bool
    data: bool
    paper: str
    setting: Setting
    version: int = 1

    def __call__(self, p: Probe, **options: Any) -> float:
        """The score; raises Unscorable with the reason where there is none."""
        return float(self.fn(p, **options))

    @property
    def summary(self) -> str:
        """What it means, in one line."""
        return (inspect.getdoc(self.fn) or "").partition("\n")[0]

    def section(self, title: str) -> str:
        """A section of the docstring, such as ``Differences`` or ``Fails``; empty where there is none."""
        found = re.search(rf"^{title}:\n((?:[ ]+.*\n?|\n)+)", inspect.getdoc(self.fn) or "", re.MULTILINE)
        return inspect.cleandoc("\n" + found.group(1)) if found else ""


registry: Registry[Proxy] = Registry("proxy", "proxies")


def proxy(
    *,
    higher_is_better: bool,
    paper: str,
    labels: bool = False,
    data: bool = True,
    setting: Setting | None = None,
    version: int = 1,
    name: str = "",
) -> Callable[[Function], Proxy]:
    """Register a function of a probe as a proxy.

    Example:
        >>> @proxy(higher_is_better=True, paper="none", name="doctest_samples")
        ... def samples(p):
        ...     "Number of samples in the batch."
        ...     return len(p.x)
        >>> samples.summary
        'Number of samples in the batch.'
    """

    def register(fn: Function) -> Proxy:
        made = Proxy(fn, name or fn.__name__, higher_is_better, labels, data, paper, setting or Setting(), version)
        registry.add(made.name, made)
        return made

    return register
