"""The empirical neural tangent kernel: inner products of per-sample gradients.

With batch norm there are two kernels. *Joint*: the batch is normalised together and a sample's gradient crosses the
others; it takes one backward pass per sample (about 0.6 · N FBE). *Isolated*: every sample is normalised alone; all
gradients come from one batched pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from trainless.core.errors import Unscorable
from trainless.probe.dependence import reach
from trainless.probe.layers import block_names
from trainless.probe.per_sample import ROOM, in_groups, loss_cotangent, stream
from trainless.probe.probe import Probe, quantity
from trainless.probe.quantities import losses, weight_names
from trainless.probe.record import trace

Coupling: TypeAlias = Literal["joint", "isolated"]
Of: TypeAlias = Literal["outputs", "loss"]
Over: TypeAlias = Literal["weights", "body", "features"]
"""All weights; those of the blocks after the first; all but the last layer's."""

STEADY = 1e-3  # a deviation below this share of the mean is rounding in single precision
ALL: tuple[Over, ...] = ("weights", "body", "features")


def kernel_names(p: Probe, over: Over) -> tuple[str, ...]:
    """The parameters that a kernel sums over: those called weights, norms' scales included.

    Where none is called a weight, all matrices take part. What the outputs do not depend on is left out, so that a head
    which is never called is not taken for the classifier, nor a block that is never called for the first.
    """
    used = reach(p).names
    names = [name for name in _weights(p) if name in used]
    if over == "features":
        names = names[:-1]
    elif over == "body":
        later, stream = tuple(f"{block}." for block in _blocks(p)[1:]), trace(p).stream
        inner = [name for name in names if (name.startswith(later) if stream is None else name in stream.body)]
        names = inner if inner else names[1:-1]
    return tuple(names)


def _weights(p: Probe) -> list[str]:
    called = [name for name in p.weights if any("weight" in part for part in name.split(".")[-3:])]
    return called or [name for name, tensor in p.weights.items() if tensor.ndim > 1]


def _blocks(p: Probe) -> list[str]:
    """The blocks but for those that have weights and take no part in the forward pass."""
    ran, used = trace(p).blocks, reach(p).names

    def has(block: str, names: Iterable[str]) -> bool:
        return any(name.startswith(f"{block}.") for name in names)

    return [block for block in block_names(p.net) if block in ran or has(block, used) or not has(block, p.weights)]


@quantity
def kernel(p: Probe, coupling: Coupling, of: Of = "outputs", over: Over = "weights", parts: int = 1) -> Tensor:
    """The Gram matrix of per-sample gradients, in double precision.

    Args:
        p: The probe; its norm mode is set by the coupling.
        coupling: Whether samples are normalised together or each alone.
        of: What is differentiated: the sum of a sample's outputs, or its loss.
        over: Which weights take part.
        parts: Consecutive parts of the batch that are normalised apart from one another.

    Returns:
        An N × N matrix.
    """
    if coupling == "joint":
        return _joint(p.at(norm="batch"), of, over, parts)
    q = p.at(norm="isolated")
    _require_some(q, kernel_names(q, over))
    return sample_statistics(q, of).kernels[over]


def _require_some(p: Probe, names: tuple[str, ...]) -> None:
    if not p.weights:
        raise Unscorable("the network has no weights")
    if not names and not reach(p).names.issuperset(_weights(p)):
        raise Unscorable("no gradient reaches the weights: the kernel is zero")
    if not names:
        raise Unscorable("the network has no weights to take a kernel over: it has too few layers")


@dataclass(frozen=True, eq=False)
class SampleStatistics:
    """Sums over one pass of per-sample gradients, every sample normalised alone.

    Attributes:
        kernels: Gram matrices over each choice of weights.
        traces: For each convolution or linear weight, Σ_i ‖g_i‖².
        steadiness: For each of these, Σ_θ mean_i |g_i| / std_i |g_i|, entries that vary no more than rounding left out.
        agreement: For each of these, Σ_θ |Σ_i sign(g_i)|.
        at_inputs: The gradients at ``ForwardPass.inputs``.
    """

    kernels: dict[Over, Tensor]
    traces: dict[str, float]
    steadiness: dict[str, float]
    agreement: dict[str, float]
    at_inputs: list[Tensor]


@quantity
def sample_statistics(p: Probe, of: Of) -> SampleStatistics:
    """One streamed pass at an isolated probe; steadiness and agreement only of losses."""
    choices = {over: set(kernel_names(p, over)) for over in ALL}
    weights = set(weight_names(p))
    products: dict[str, list[Tensor]] = {}
    steadiness: dict[str, Tensor] = {}
    agreement: dict[str, Tensor] = {}

    def add(name: str, block: Tensor) -> None:
        products.setdefault(name, []).append(block @ block.T)
        if name in weights and of == "loss":
            agreement[name] = agreement.get(name, 0) + block.sign().sum(0).abs_().sum(dtype=torch.float64)
            steadiness[name] = steadiness.get(name, 0) + _steadiness(block)

    cotangent = loss_cotangent(p) if of == "loss" else torch.ones_like(trace(p).outputs)
    inputs = stream(p, cotangent, add, "entries", weights | choices["weights"])
    totals, traces = _summed(products, choices, torch.zeros(len(p.x), len(p.x), dtype=torch.float64, device=p.x.device))
    wanted = [name for name in products if name in weights]
    parts = {name: traces[name] for name in wanted}, steadiness, agreement
    numbers = iter(torch.stack([each for part in parts for each in part.values()]).tolist() if wanted else [])
    by_weight, steady, agreeing = ({name: next(numbers) for name in part} for part in parts)
    return SampleStatistics(totals, by_weight, steady, agreeing, inputs)


def _summed(
    products: dict[str, list[Tensor]], choices: dict[Over, set[str]], zero: Tensor
) -> tuple[dict[Over, Tensor], dict[str, Tensor]]:
    """The Gram matrix of each choice of weights, and each weight's trace, from the products of blocks."""
    if not products:
        return {over: zero.clone() for over in choices}, {}
    owners = [name for name, found in products.items() for _ in found]
    stacked = torch.stack([each for found in products.values() for each in found]).double()
    chosen = [[at for at, name in enumerate(owners) if name in names] for names in choices.values()]
    totals = [stacked[places].sum(0) if len(places) < len(stacked) else stacked.sum(0) for places in chosen]
    traces = stacked.diagonal(dim1=1, dim2=2).sum(1).split([len(found) for found in products.values()])
    kernels = dict(zip(choices, totals, strict=True))
    return kernels, {name: part.sum() for name, part in zip(products, traces, strict=True)}


def _steadiness(block: Tensor) -> Tensor:
    """Σ over entries of the mean of |g| over its deviation; overwrites the block."""
    squares = block.square().mean(0)
    mean = block.abs_().mean(0)
    deviation = (squares - mean.square()).clamp_min_(0).sqrt_()
    return torch.where(deviation > STEADY * mean, mean / deviation, 0).double().sum()


def _joint(p: Probe, of: Of, over: Over, parts: int) -> Tensor:
    probes = tuple(p.split(parts)) if parts > 1 else (p,)
    names = kernel_names(probes[0], over)
    _require_some(probes[0], names)
    total = torch.zeros(len(p.x), len(p.x), dtype=torch.float64, device=p.x.device)
    for group in in_groups(p, names):
        rows = torch.cat([_rows(q, of, group) for q in probes])
        total += (rows @ rows.T).double()
    return total


def _rows(p: Probe, of: Of, names: list[str]) -> Tensor:
    """One gradient per sample; on a GPU, several samples share a vectorised backward pass where that fits."""
    t = trace(p)
    values = losses(p) if of == "loss" else t.outputs.flatten(1).sum(1)
    inputs = [t.weights[name] for name in names]
    if not values.requires_grad:
        return torch.zeros(len(values), 1, dtype=values.dtype, device=values.device)
    size = 2 * sum(layer.output.numel() for layer in t.layers) + sum(tensor.numel() for tensor in inputs)
    together = max(1, min(len(values), ROOM // 4 // max(1, size))) if values.is_cuda else 1
    which = torch.eye(len(values), dtype=values.dtype, device=values.device)
    rows = []
    for chunk in which.split(together):
        found = torch.autograd.grad(
            values,
            inputs,
            chunk if together > 1 else chunk[0],
            retain_graph=True,
            is_grads_batched=together > 1,
            allow_unused=True,
            materialize_grads=True,
        )
        rows.append(torch.cat([gradients.reshape(len(chunk), -1) for gradients in found], 1))
    return torch.cat(rows)


def spectrum(matrix: Tensor) -> Tensor:
    """Ascending eigenvalues of a kernel; a kernel of zeros or without finite numbers has none."""
    if not bool(torch.isfinite(matrix).all()) or not bool(matrix.any()):
        raise Unscorable("no gradient reaches the weights: the kernel is zero")
    values: Tensor = torch.linalg.eigvalsh(matrix)
    return values


def condition(values: Tensor, tolerance: float = 1e-12) -> float:
    """λ_max / λ_min; a kernel that is singular to working precision has none."""
    if float(values[0]) <= tolerance * float(values[-1]):
        raise Unscorable("the kernel is singular: two samples have parallel gradients")
    return float(values[-1] / values[0])
