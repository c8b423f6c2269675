"""SynFlow (Tanaka et al., 2020): the flow of ones through the network of absolute weights."""

from __future__ import annotations

import math

import torch

from trainless.core.errors import Unscorable
from trainless.probe.norms import Norm
from trainless.probe.points import Magnitude, Ones
from trainless.probe.probe import Probe
from trainless.probe.quantities import gradient, weight_names
from trainless.probe.record import trace
from trainless.proxies.proxy import Paper, proxy

PAPER = Paper(
    ("Tanaka", "Kunin", "Yamins", "Ganguli"),
    "Pruning neural networks without any data by iteratively conserving synaptic flow",
    "NeurIPS",
    2020,
)


@proxy(higher_is_better=True, data=False, paper=PAPER, aspect="saliency", scale="log")
def synflow(p: Probe, norm: Norm = "off", kept_norms: tuple[str, ...] = ()) -> float:
    """Logarithm of the total strength of all paths through the network.

    log Σ |θ · ∂R/∂θ|, R = Σ outputs of the network with weights |θ|, without norms, for an input of ones.

    Args:
        p: The probe.
        norm: ``off``, or ``batch`` for zero-cost-nas's variant with norms.
        kept_norms: Names of norms that stay; zero-cost-nas forgets those of NAS-Bench-201's reductions.

    Differences:
        In the logarithm and in double precision: the plain sum is 1e10 to 1e60. Published figures follow by exp.

    Fails:
        No path from input to output (the logarithm of zero), token inputs, or a sum beyond double precision.
    """
    q = p.once(weights=Magnitude(), x=Ones(), norm=norm, kept_norms=kept_norms)
    t = trace(q)
    names = weight_names(q)
    gradients = gradient(t.outputs.sum(), [t.weights[name] for name in names])
    total = float(
        torch.stack([(q.weights[name] * found).abs().sum() for name, found in zip(names, gradients, strict=True)]).sum()
    )
    if total == 0:
        raise Unscorable("nothing flows from input to output: the sum is zero")
    if not math.isfinite(total):
        raise Unscorable("the sum over paths is beyond double precision")
    return math.log(total)
