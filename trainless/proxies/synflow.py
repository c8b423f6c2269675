"""SynFlow (Tanaka et al., 2020): the flow of ones through the network of absolute weights."""

from __future__ import annotations

import math

import torch

from trainless.core.errors import Unscorable
from trainless.probe.norms import Norm
from trainless.probe.points import Magnitude, Ones
from trainless.probe.probe import Probe
from trainless.probe.quantities import gradient, weight_names
from trainless.probe.record import ForwardPass, record, trace
from trainless.probe.running import at_a_point
from trainless.probe.scales import RANGE, Scales
from trainless.proxies.proxy import Paper, proxy

PAPER = Paper(
    ("Tanaka", "Kunin", "Yamins", "Ganguli"),
    "Pruning neural networks without any data by iteratively conserving synaptic flow",
    "NeurIPS",
    2020,
)

SMALL = 8  # exponent beyond which, as a last resort, gates count as saturated


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
        A sum beyond double precision, as of deep networks with attention or products of features, has its logarithm
        too: tensors carry powers of two along, which round nothing.

    Fails:
        No path from input to output (the logarithm of zero), or token inputs.
    """
    q = p.once(weights=Magnitude(), x=Ones(), norm=norm, kept_norms=kept_norms)
    with at_a_point("on a single input of ones in double precision"):
        t = trace(q)
    total, exponent = _flow(q, t), 0
    if not 0 < total < math.inf:
        total, exponent = scaled_flow(q)
    if total == 0:
        raise Unscorable("nothing flows from input to output: the sum is zero")
    if not math.isfinite(total):
        raise Unscorable("the sum over paths is beyond double precision")
    return math.log(total) + exponent * math.log(2)


def _flow(q: Probe, t: ForwardPass, exponent: int = 0) -> float:
    """Σ |θ · ∂R/∂θ| times two to the exponent."""
    names = weight_names(q)
    gradients = gradient(t.outputs.sum() * 2.0**exponent, [t.weights[name] for name in names])
    products = (q.weights[name] * found for name, found in zip(names, gradients, strict=True))
    terms = [torch.linalg.vector_norm(product, 1) for product in products]
    return float(torch.stack(terms).sum())


def scaled_flow(q: Probe, limit: int = RANGE) -> tuple[float, int]:
    """The sum over paths as a number and the exponent of two that it is to be multiplied by; see ``Scales``.

    Gradients may grow on their way back as well: they start from the smaller numbers the larger they get.
    """
    scales = Scales(limit)
    t = record(q, scales)
    for exponent in (0, -300, -600, -900):
        total = _flow(q, t, exponent)
        if math.isfinite(total):
            return total, scales.of(t.outputs) - exponent
    return (total, 0) if limit == SMALL else scaled_flow(q, SMALL)
