"""Measures of the samples' gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from trainless.probe.kernels import STEADY, Of, Over
from trainless.probe.layers import Layer as Recorded
from trainless.probe.layers import conv_of, watched
from trainless.probe.per_sample import Workspace, blocks
from trainless.stack.network import Normed, NotAligned, Operation, StackedLayer
from trainless.stack.stack import Stack, entropy_of, losses_of, measure, mine, passed, remembered

MANY = 100  # classes beyond which EPE-NAS compares pairs
SINGULAR = 1e-12  # share of the largest eigenvalue that the least one is rounding noise below


def _diversity(gradients: Tensor, constant: float = 1e-5) -> Tensor:
    """Jacov's formula of ``(K, N, …)``; the samples' correlations of all networks are decomposed together."""
    rows = gradients.flatten(2).double()
    rows = rows - rows.mean(2, keepdim=True)
    covariance = rows @ rows.mT
    deviation = covariance.diagonal(dim1=1, dim2=2).sqrt()
    correlation = covariance / deviation[:, :, None] / deviation[:, None]
    fine = torch.isfinite(correlation).all(2).all(1)
    values = torch.linalg.eigvalsh(torch.where(fine[:, None, None], correlation, 0)) + constant
    return torch.where(fine, -(values.log() + 1 / values).sum(1), math.nan)


@remembered
def _output_gradient(s: Stack) -> Tensor:
    """∂(Σ outputs)/∂x, ``(K, N, …)``."""
    (found,) = passed(s).gradients(passed(s).outputs.sum(), [passed(s).x])
    return mine(found, len(s), 1).transpose(0, 1)


@measure
def jacov(s: Stack) -> Tensor:
    """The batch normalised together."""
    return _diversity(_output_gradient(s))


@measure
def isolated_jacov(s: Stack) -> Tensor:
    """Every sample normalised alone."""
    return _diversity(_of_samples(s.at(norm="isolated"), "outputs").at_inputs)


@measure
def epe_nas(s: Stack, constant: float = 1e-5) -> Tensor:
    """Class by class."""
    if s.target.kind not in ("binary", "multiclass") or s.target.outputs > MANY:
        raise NotAligned("pairs of classes are compared one by one")
    rows = _output_gradient(s).flatten(2).double()
    rows = rows - rows.mean(2, keepdim=True)
    rows = rows / rows.norm(dim=2, keepdim=True)
    total = torch.zeros(len(s), dtype=torch.float64, device=s.x.device)
    for label in s.y.unique():
        own = rows[:, s.y == label]
        total += ((own @ own.mT).abs() + constant).log().sum((1, 2)).abs()
    return total


@dataclass(frozen=True, eq=False)
class _Samples:
    """Of the samples' gradients, each normalised alone.

    Attributes:
        at_inputs: At the inputs, ``(K, N, …)``.
        traces: Σ_i ‖g_i‖² of each layer, in the order of the backward pass.
        kernels: Of each weight, the samples' inner products, ``(K, N, N)``.
        agreement: Of each layer, Σ_θ |Σ_i sign g_i|.
        steadiness: Of each layer, Σ_θ mean_i |g_i| / std_i |g_i|.
    """

    at_inputs: Tensor
    traces: list[tuple[Operation, Tensor]]
    kernels: list[tuple[Operation, Tensor]]
    agreement: list[tuple[Operation, Tensor]]
    steadiness: list[tuple[Operation, Tensor]]


@remembered
def _of_samples(q: Stack, of: Of) -> _Samples:
    found, space = passed(q), Workspace()
    result = _Samples(found.x, [], [], [], [])

    def on_layer(layer: StackedLayer, g: Tensor) -> None:
        part, count, x = layer.part, len(layer.part.members), layer.x.detach()
        if x.ndim == 2:
            products = mine(g, count, 1)[..., None] * mine(x, count, 1)[:, :, None]  # (N, K, outputs, inputs)
            take(part, products.flatten(2))
        else:
            own: Any = part.like
            how = own.stride, own.padding, own.dilation, own.groups * count
            conv = conv_of(found.weights[part, "weight"], *how)
            for block in blocks(Recorded("", None, x, layer.output, conv), g, space, "entries", alike=True):
                take(part, mine(block, count, 1))

    def take(part: Operation, block: Tensor) -> None:
        """``(N, K, entries)``, all of them."""
        rows = block.transpose(0, 1)
        kernel = (rows @ rows.mT).double()
        result.kernels.append((part, kernel))
        result.traces.append((part, kernel.diagonal(dim1=1, dim2=2).sum(1)))
        if of == "loss":
            agreeing = block.sign().sum(0).abs().sum(1, dtype=torch.float64)
            squares, mean = block.square().mean(0), block.abs().mean(0)
            deviation = (squares - mean.square()).clamp_min(0).sqrt()
            steady = torch.where(deviation > STEADY * mean, mean / deviation, 0).double().sum(1)
            result.agreement.append((part, agreeing))
            result.steadiness.append((part, steady))

    def on_norm(norm: Normed, g: Tensor) -> None:
        if norm.standard is not None and (norm.part, "weight") in found.weights:
            each = mine(torch.linalg.vecdot(g.flatten(2), norm.standard.detach().flatten(2)), len(norm.part.members), 1)
            rows = each.transpose(0, 1)
            result.kernels.append((norm.part, (rows @ rows.mT).double()))

    hooks = [(layer.output, partial(on_layer, layer)) for layer in found.notes.layers]
    hooks += [(norm.output, partial(on_norm, norm)) for norm in found.notes.norms]
    with watched(hooks):
        (at_inputs,) = found.gradients(losses_of(q).sum() if of == "loss" else found.outputs.sum(), [found.x])
    return replace(result, at_inputs=mine(at_inputs, len(q), 1).transpose(0, 1))


@measure
def layer_entropy(s: Stack) -> Tensor:
    """The classifier is the layer that the backward pass meets first."""
    traces = _of_samples(s.at(norm="isolated"), "outputs").traces
    rows = torch.zeros(len(traces), len(s), dtype=torch.float64, device=s.x.device)
    for row, (part, values) in zip(rows, traces, strict=True):
        row[s.plan.index(part.members, rows.device)] = values
    return entropy_of(rows[1:])


@measure
def gradsign(s: Stack) -> Tensor:
    """Weight by weight."""
    return s.added(_of_samples(s.at(norm="isolated"), "loss").agreement)


@measure
def sample_zico(s: Stack) -> Tensor:
    """Layer by layer, in logarithms."""
    found = _of_samples(s.at(norm="isolated"), "loss").steadiness
    some = s.added((part, (values > 0).double()) for part, values in found)
    total = s.added((part, torch.where(values > 0, values.log(), 0)) for part, values in found)
    return torch.where(some > 0, total, math.nan)


def _kernel(s: Stack, of: Of, over: Over = "weights") -> Tensor:
    """``(K, N, N)``, every sample normalised alone."""
    found = _of_samples(s.at(norm="isolated"), of).kernels
    names = list(passed(s).notes.blocks)[1:]
    if over == "features":
        found = found[1:]  # the classifier is met first
    elif over == "body":
        later = tuple(f"{name}." for name in names)
        found = [(part, products) for part, products in found if part.names[0].startswith(later)]
    return s.added(found)


def _condition(kernels: Tensor) -> Tensor:
    fine = torch.isfinite(kernels).all(2).all(1)
    values = torch.linalg.eigvalsh(torch.where(fine[:, None, None], kernels, 0))
    return torch.where(values[:, 0] > SINGULAR * values[:, -1], values[:, -1] / values[:, 0], math.nan)


@measure
def ntk_condition(s: Stack) -> Tensor:
    """Of the outputs' sums."""
    return _condition(_kernel(s, "outputs"))


@measure
def ntk_mse(s: Stack) -> Tensor:
    """From one half of the batch to the other, over the blocks after the first."""
    if s.target.kind not in ("binary", "multiclass") or len(s.x) < 4:
        raise NotAligned("kernel regression is of classes, from two halves of at least two samples")
    kernels = _kernel(s, "outputs", "body")
    train = (len(s.x) + 1) // 2
    y = F.one_hot(s.y, s.target.outputs).double()
    y = torch.cat([half - half.mean(0) for half in (y[:train], y[train:])])
    inner = kernels[:, :train, :train]
    solved, info = torch.linalg.solve_ex(inner, y[:train].expand(len(s), -1, -1))
    error = (kernels[:, train:, :train] @ solved - y[train:]).square().sum(2).mean(1)
    return torch.where((info == 0) & inner.flatten(1).any(1), error, math.nan)


@measure
def loss_ntk(s: Stack) -> Tensor:
    """Of the losses, the classifier left out."""
    return _condition(_kernel(s, "loss", "features"))
