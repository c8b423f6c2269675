"""A network's scores against a plain computation of the same, as a check that anyone can run on theirs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn

from trainless.core.text import one_line
from trainless.scoring.evaluate import score
from trainless.scoring.subjects import require_plain
from trainless.testing.plain import BEYOND, Adapter, NoValue, PlainNetwork
from trainless.testing.plain_measures import MEASURES

TOLERANCE = 1e-4


@dataclass(frozen=True)
class Comparison:
    """A proxy's value beside the plain one.

    Args:
        proxy: Its name.
        value: What the library says, NaN with ``reason``.
        plain: What plain autograd says, NaN with ``plain_reason``.
        reason: Why the library has no value.
        plain_reason: Why the plain computation has none.
        noise: How far the plain value may be moved by signs of rounding noise alone.
    """

    proxy: str
    value: float
    plain: float
    reason: str = ""
    plain_reason: str = ""
    noise: float = 0.0

    @property
    def deviation(self) -> float:
        """The relative difference; infinite where only one of the two has a value."""
        if math.isnan(self.value) or math.isnan(self.plain):
            return 0.0 if math.isnan(self.value) and math.isnan(self.plain) else math.inf
        return abs(self.value - self.plain) / max(abs(self.plain), abs(self.value), 1e-12)

    def agrees(self, tolerance: float = TOLERANCE) -> bool:
        """Whether both are the same but for rounding, or for what ``leniency`` says."""
        return self._near(tolerance) or bool(self.leniency(tolerance))

    def leniency(self, tolerance: float = TOLERANCE) -> str:
        """What is put up with where the two are not the same but for rounding; empty where nothing has to be."""
        if self._near(tolerance):
            return ""
        if self.plain_reason == BEYOND:
            return "not compared, because the plain value is beyond double precision"
        if math.isnan(self.plain):
            return ""
        if math.isnan(self.value):  # a value that is nothing but noise is none
            return "all of the plain value is signs of rounding noise" if 0 < self.plain <= self.noise else ""
        aside = abs(self.value - self.plain) - tolerance * max(abs(self.plain), abs(self.value), 1e-12)
        return f"the same but for {aside:.3g} signs of rounding noise" if aside <= self.noise else ""

    def _near(self, tolerance: float) -> bool:
        return self.deviation <= tolerance

    def __str__(self) -> str:
        if math.isnan(self.value) and math.isnan(self.plain):
            return f"{self.proxy}: none of both ({self.reason})"
        said = f"; the library says: {self.reason}" if self.reason else ""
        said += f"; the plain computation says: {self.plain_reason}" if self.plain_reason else ""
        noise = f", signs of rounding noise ±{self.noise:.3g}" if self.noise else ""
        said += f"; {self.leniency()}" if self.leniency() else ""
        return f"{self.proxy}: {self.value:.9g} against {self.plain:.9g} (relative {self.deviation:.1e}{noise}){said}"


@dataclass(frozen=True)
class NetworkCheck:
    """All comparisons of one network.

    Args:
        network: Its name.
        comparisons: One per proxy.
        double: Whether both were computed in double precision; a network may insist on its own.
    """

    network: str
    comparisons: tuple[Comparison, ...]
    double: bool

    def __str__(self) -> str:
        title = f"{self.network} ({'both in double precision' if self.double else 'both in its own precision'})"
        return "\n".join([title, *(f"  {each}" for each in self.comparisons)])

    @property
    def lenient(self) -> dict[str, str]:
        """What was put up with, by proxy; empty where every value is the same but for rounding."""
        return {each.proxy: each.leniency() for each in self.comparisons if each.leniency()}


def check_network(
    net: nn.Module, batch: tuple[Tensor, Tensor], *, adapter: Adapter | None = None, tolerance: float = TOLERANCE
) -> NetworkCheck:
    """Assert that a network is scored as what it computes; an AssertionError names the proxies that deviate.

    Args:
        net: Any network; it is not touched.
        batch: Inputs, and class indices or values.
        adapter: Picks the logits from the network's output, as in :func:`trainless.score`.
        tolerance: The largest relative difference.

    Returns:
        Value and plain value proxy by proxy; print it.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 2))
        >>> x = torch.arange(32.0).sin().view(4, 8)
        >>> print(check_network(net, (x, torch.tensor([0, 1, 0, 1]))).comparisons[-1])
        flops: 60 against 60 (relative 0.0e+00)
    """
    found = compare(net, batch, adapter=adapter)
    wrong = [each for each in found.comparisons if not each.agrees(tolerance)]
    if wrong:
        listed = "; ".join(map(str, wrong))
        raise AssertionError(f"{found.network} is not scored as what it computes: {listed}")
    return found


def compare(net: nn.Module, batch: tuple[Tensor, Tensor], *, adapter: Adapter | None = None) -> NetworkCheck:
    """The comparisons without a verdict."""
    require_plain(net, type(net).__name__)
    plain = PlainNetwork(net, batch, adapter)
    values, reasons = _scored(plain)
    comparisons = []
    for name, measure in MEASURES.items():
        reason, noise = "", 0.0
        try:
            found = measure(plain)
            value, noise = found if isinstance(found, tuple) else (found, 0.0)
        except NoValue as error:
            value, reason = math.nan, str(error)
        except RuntimeError as error:  # such as of a network that recomputes its activations
            value, reason = math.nan, f"plain autograd fails: {one_line(error)}"
        comparisons.append(Comparison(name, values[name], value, reasons.get(name, ""), reason, noise))
    return NetworkCheck(type(net).__name__, tuple(comparisons), plain.double)


def _scored(plain: PlainNetwork) -> tuple[dict[str, float], dict[str, str]]:
    """What the library says of the same network in the same precision, and why some values are missing."""
    net = plain.fresh()
    scores = score(net, (plain.x, plain.y), proxies=list(MEASURES), adapter=plain.adapter)
    values = {record.proxy: record.value for record in scores}
    return values, {record.proxy: record.status for record in scores if record.failed}
