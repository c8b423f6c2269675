"""Sizes: the baselines that every proxy has to beat."""

from __future__ import annotations

import torch

from trainless.core.errors import InputError, Unscorable
from trainless.core.text import one_line
from trainless.probe.counts import counting
from trainless.probe.probe import Probe, quantity, quiet_randomness
from trainless.probe.quantities import weight_names
from trainless.probe.record import run
from trainless.proxies.proxy import proxy
from trainless.spaces.protocol import Counts


@quantity
def counts(p: Probe) -> Counts:
    """Parameters, multiply–accumulates and parameter tensors of the probe's network, from one sample."""
    try:
        with torch.no_grad(), quiet_randomness(p), counting(p.net) as counter:
            run(p.net, p.weights, p.x[:1])
    except (InputError, Unscorable):
        raise
    except Exception as error:  # whatever a network of somebody's raises on a sample alone
        raise Unscorable(f"the network cannot be counted on one sample: {one_line(error)}") from error
    return Counts(sum(tensor.numel() for tensor in p.weights.values()), counter.macs, len(p.weights))


@proxy(higher_is_better=True, data=False, paper="baseline")
def params(p: Probe) -> float:
    """Number of parameters, frozen ones included.

    Σ_l |θ_l|.
    """
    return float(sum(tensor.numel() for tensor in p.weights.values()))


@proxy(higher_is_better=True, data=False, paper="baseline")
def flops(p: Probe) -> float:
    """Multiply–accumulates for one sample: convolutions, linear layers, attention and recurrent cells.

    Σ_l (outputs of l) · (fan-in of l).

    Differences:
        Norms, activations and pooling count nothing, as in NAS-Bench-201's own figures; NASLib's table counts them
        too and ranks worse (docs/log.md).
    """
    return float(counts(p).flops)


@proxy(higher_is_better=True, data=False, paper="tybl2025vkdnw")
def layers(p: Probe) -> float:
    """Number of parameter tensors: VKDNW's size ℵ.

    |{θ_l}|.

    Differences:
        The paper speaks of layers without norms; its program counts every parameter tensor, norms and biases
        included, and its tables come from that. So does this.
    """
    return float(len(p.weights))


@proxy(higher_is_better=True, data=False, paper="abdelfattah2021zerocost")
def l2_norm(p: Probe) -> float:
    """Sum over layers of the weights' Euclidean norms.

    Σ_l ‖θ_l‖₂ over convolution and linear weights.
    """
    return float(torch.stack([p.weights[name].norm() for name in weight_names(p)]).sum())
