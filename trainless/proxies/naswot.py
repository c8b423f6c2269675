"""NASWOT (Mellor et al., 2021): how many different activation patterns a batch has."""

from __future__ import annotations

import numpy as np
import torch

from trainless.core.errors import Unscorable
from trainless.probe.patterns import Counts, Pattern, disagreements, patterns
from trainless.probe.probe import Probe
from trainless.proxies.proxy import Setting, proxy


@proxy(higher_is_better=True, paper="mellor2021naswot", setting=Setting(batch=128))
def naswot(p: Probe, containers: bool = False) -> float:
    """Log-determinant of the samples' activation-pattern similarity: distinct patterns, separable inputs.

    log det K, K_ij = number of rectifiers that samples i and j open or close alike.

    Args:
        p: The probe.
        containers: Count a rectifier that feeds a convolution once more, as the published program does: it looks
            for "ReLU" in class names and so finds ReLU-convolution-norm containers as well.

    Differences:
        Each rectifier counts once (see ``containers``); other rectifying activations (GELU, SiLU, …) count where
        their input is positive.

    Fails:
        Two samples have the same pattern (the determinant is zero), or there is no rectifier.
    """
    by_times: dict[int, list[Pattern]] = {}
    for pattern in patterns(p):
        times = pattern.times + (pattern.feeds_convolution if containers else 0)
        by_times.setdefault(times, []).append(pattern)
    alike = sum(times * agreements(found) for times, found in by_times.items())
    kernel = torch.as_tensor(alike, dtype=torch.float64)
    sign, logarithm = torch.linalg.slogdet(kernel)
    if float(sign) <= 0 or not bool(torch.isfinite(logarithm)):
        raise Unscorable("two samples have the same activation pattern: the kernel is singular")
    return float(logarithm)


def agreements(found: list[Pattern]) -> Counts:
    """For each pair of samples, how many units are open in both or closed in both."""
    return sum(pattern.units for pattern in found) - disagreements(np.hstack([pattern.rows for pattern in found]))
