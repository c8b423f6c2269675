"""GraSP (Wang et al., 2020): what the weights do for the gradient's flow."""

from __future__ import annotations

import functools
import math
import warnings
from contextlib import nullcontext
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from trainless.core.errors import Unscorable
from trainless.probe.counts import network_counts
from trainless.probe.layout import MemoryLayout, laid_out, run_in
from trainless.probe.points import Double, First, Moved, Precise
from trainless.probe.probe import Probe
from trainless.probe.quantities import weight_gradients, weight_names
from trainless.probe.record import prepared
from trainless.probe.running import run
from trainless.probe.second_order import Curved, WrittenOut
from trainless.proxies.proxy import Paper, proxy

PAPER = Paper(
    ("Wang", "Zhang", "Grosse"), "Picking Winning Tickets Before Training by Preserving Gradient Flow", "ICLR", 2020
)
LARGE = 30_000_000_000  # multiply–accumulates on the batch; beyond them a graph of a graph takes gigabytes


@proxy(higher_is_better=True, labels=True, paper=PAPER, aspect="saliency")
def grasp(p: Probe) -> float:
    """Fall of the gradient flow without the weights: −θᵀHg.

    −Σ θ · ∂(gᵀg)/∂θ with one g held fixed, g = ∂L/∂θ.

    Differences:
        The sign is zero-cost-nas's, the opposite of GraSP's own, because accuracy was found to fall with it. Networks
        whose graph of a graph would take gigabytes are differentiated forwards twice, which keeps no graph.
    """
    large = p.norm == "batch" and _products(p) > LARGE
    return -(_forwards(p) if large and forwards_hold(p) else _backwards(p))


def _products(p: Probe) -> float:
    """Multiply–accumulates on the batch; 0 where they cannot be counted."""
    try:
        return float(network_counts(p).flops * len(p.x))
    except Unscorable:
        return 0.0


def forwards_hold(p: Probe) -> bool:
    """Whether both ways agree on four samples in double precision.

    PyTorch's forward rules, nested, give wrong numbers without a word for some operations (fused layer norm is one).
    """
    q = p.once(x=First(4)).once(x=Double())
    try:
        return math.isclose(_forwards(q), _backwards(q), rel_tol=1e-6)
    except (NotImplementedError, RuntimeError):
        return False


def _backwards(p: Probe) -> float:
    """θᵀHg by differentiating the gradient.

    Our own second derivatives were measured on processors. Where a network cannot be run with them (it transforms
    functions on its way), and on a GPU, PyTorch's are taken.
    """
    ways = ((True, nullcontext()), (False, nullcontext()), (False, WrittenOut()))
    for own, written_out in ways[1:] if p.x.is_cuda else ways:
        try:
            with written_out:
                return run_in(p.layout, functools.partial(_backwards_in, p, own=own))
        except (NotImplementedError, RuntimeError) as error:
            failure = error
    if "not implemented" not in str(failure) and not isinstance(failure, NotImplementedError):
        raise failure
    return _differences(p)


def _differences(p: Probe) -> float:
    """θᵀHg by central differences of the gradient along itself, in double precision, extrapolated once.

    For operations that PyTorch differentiates only once.
    """
    q = p.once(weights=Precise(), x=Double())
    names = weight_names(q)
    along = weight_gradients(q.once(weights=Moved({}, 0.0)))
    size = math.sqrt(math.fsum(float(each.square().sum()) for each in along.values()))
    if size == 0:
        return 0.0
    length = math.sqrt(math.fsum(float(q.weights[name].square().sum()) for name in names))

    def slope(step: float) -> float:
        ahead, behind = (weight_gradients(q.once(weights=Moved(along, sign * step))) for sign in (1, -1))
        pairs = ((ahead[name] - behind[name]) * q.weights[name] for name in names)
        return math.fsum(float(each.sum()) for each in pairs) / (2 * step)

    step = 1e-5 * length / size
    return (4 * slope(step / 2) - slope(step)) / 3


def _backwards_in(p: Probe, layout: MemoryLayout, *, own: bool) -> float:
    names = weight_names(p)
    weights = {
        name: laid_out(tensor.detach(), layout).requires_grad_(name in names) for name, tensor in p.weights.items()
    }
    chosen = [weights[name] for name in names]
    curved, norm = Curved(chosen if own else ()), "twice" if own and p.norm == "batch" else p.norm
    math_only = sdpa_kernel(SDPBackend.MATH)  # the fused attention kernels have no second derivative
    with math_only, prepared(p, norm=norm), torch.enable_grad():
        with curved:
            outputs = run(p.net, weights, laid_out(p.x, layout))
        loss = p.target.losses(outputs, p.y).mean()
        first = torch.autograd.grad(loss, chosen, create_graph=True, allow_unused=True, materialize_grads=True)
        flow = torch.stack([(gradient * gradient.detach()).sum() for gradient in first]).sum()
        if not flow.requires_grad:
            return 0.0
        return curved.along(flow, chosen)


def _forwards(p: Probe) -> float:
    """θᵀHg as the derivative along θ of the derivative along g of the loss."""
    names = weight_names(p)
    once = next(replace(p, layout="given").split(1))  # for one use, laid out like what follows
    gradients = weight_gradients(once)
    del once
    along_g = tuple(gradients[name] for name in names)
    along_weights = tuple(p.weights[name] for name in names)

    def loss(*chosen: Tensor) -> Tensor:
        weights = {**p.weights, **dict(zip(names, chosen, strict=True))}
        return p.target.losses(run(p.net, weights, p.x), p.y).mean()

    def slope(*chosen: Tensor) -> Tensor:
        inner: Tensor = torch.func.jvp(loss, chosen, along_g)[1]
        return inner

    math_only, calm = sdpa_kernel(SDPBackend.MATH), warnings.catch_warnings()
    with calm, math_only, prepared(p, norm="elementary"), torch.no_grad():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own forward rules are scripted
        return float(torch.func.jvp(slope, along_weights, along_weights)[1])
