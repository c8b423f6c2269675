"""NASWOT (Mellor et al., 2021): how many different activation patterns a batch has."""

from __future__ import annotations

import torch
from torch import Tensor

from trainless.core.errors import Unscorable
from trainless.probe.probe import Probe
from trainless.probe.record import Activation, rectifiers
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
    activations = rectifiers(p)
    samples = len(p.x)
    kernel = torch.zeros(samples, samples, dtype=torch.float64, device=p.x.device)
    for activation in activations:
        times = activation.times + (activation.feeds_convolution if containers else 0)
        kernel += times * agreements(activation)
    sign, logarithm = torch.linalg.slogdet(kernel)
    if float(sign) <= 0 or not bool(torch.isfinite(logarithm)):
        raise Unscorable("two samples have the same activation pattern: the kernel is singular")
    return float(logarithm)


def agreements(activation: Activation) -> Tensor:
    """For each pair of samples, how many units are open in both or closed in both: D − n_i − n_j + 2 n_ij."""
    open_units = activation.gate.gt(0).flatten(1).to(torch.float32)
    both = (open_units @ open_units.T).double()
    each = both.diagonal()
    return open_units.shape[1] - each[:, None] - each[None] + 2 * both
