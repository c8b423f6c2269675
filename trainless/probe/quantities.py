"""Quantities that several proxies share: pure functions of a probe, each computed once on it."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from trainless.core.errors import Unscorable
from trainless.probe.axes import Axes
from trainless.probe.layers import Layer, modules, watched
from trainless.probe.norms import SAMPLE_NORMS
from trainless.probe.probe import Probe, quantity
from trainless.probe.record import ForwardPass, trace

_NOT_WEIGHTS = (_BatchNorm, *SAMPLE_NORMS, nn.Embedding, nn.EmbeddingBag)


@quantity
def weight_names(p: Probe) -> tuple[str, ...]:
    """The matrices and kernels that a network multiplies by, in its own order: no biases, norms or embeddings."""
    excluded = {
        f"{name}.{own}" if name else own
        for name, module in modules(p.net)
        if isinstance(module, _NOT_WEIGHTS)
        for own, _ in module.named_parameters(recurse=False)
    }
    names = tuple(name for name, tensor in p.weights.items() if tensor.ndim > 1 and name not in excluded)
    if not names:
        raise Unscorable("the network has no weights to look at: no convolution, linear or recurrent layer")
    return names


@quantity
def losses(p: Probe) -> Tensor:
    """One loss per sample, graph attached."""
    return p.target.losses(trace(p).outputs, p.y)


@dataclass(frozen=True, eq=False)
class LossGradients:
    """The gradients of the mean loss: by weight, by input, and per layer Σ_positions output · gradient, ``(N, C)``.

    ``at_inputs`` are those at ``ForwardPass.inputs``.
    """

    weights: dict[str, Tensor]
    channels: list[tuple[Layer, Tensor]]
    passed: ForwardPass
    at_inputs: list[Tensor]

    @property
    def x(self) -> Tensor:
        """By input, shaped like it; of tokens by what they are looked up as, one row per sample."""
        return self.passed.at_input(self.at_inputs)


@quantity
def loss_gradients(p: Probe) -> LossGradients:
    """One backward pass of the mean loss."""
    t = trace(p)
    channels: list[tuple[Layer, Tensor]] = []

    def note(layer: Layer, g: Tensor) -> None:
        channels.append((layer, channel_sums(layer, g, len(p.x))))

    names = weight_names(p)
    with watched((layer.output, functools.partial(note, layer)) for layer in t.layers):
        gradients = gradient(losses(p).mean(), [*(t.weights[name] for name in names), *t.inputs()])
    return LossGradients(dict(zip(names, gradients, strict=False)), channels, t, gradients[len(names) :])


def weight_gradients(p: Probe) -> dict[str, Tensor]:
    """The gradients of the mean loss by weight and nothing else: for probes of one use."""
    names = weight_names(p)
    leaves = trace(p).weights
    return dict(zip(names, gradient(losses(p).mean(), [leaves[name] for name in names]), strict=True))


def channel_sums(layer: Layer, gradient: Tensor, samples: int) -> Tensor:
    """Σ over positions of output times gradient: one number per sample and output channel.

    Of a layer that does not depend on the input, one number per channel, unless it is called for every sample.
    """
    output = layer.output.detach()
    if output.ndim == 1:  # of a vector that the network keeps
        return (output * gradient)[None]
    if layer.conv is not None:
        sums: Tensor = torch.linalg.vecdot(output.flatten(2), gradient.flatten(2))
        axes = layer.axes if layer.axes is None or layer.axes.samples in (None, 0) else Axes()
    else:
        sums, axes = output * gradient, layer.axes
    if axes is None and len(sums) != samples:
        return sums.flatten(0, -2).sum(0, keepdim=True)
    if axes is not None and not axes.plain:
        apart = axes.by_sample(sums, samples)
        sums = sums if apart is None else apart
    return sums.flatten(1, -2).sum(1) if sums.ndim > 2 else sums


@quantity
def output_gradient(p: Probe) -> Tensor:
    """∂(Σ of all outputs)/∂x, shaped like x; of tokens by what they are looked up as, one row per sample."""
    t = trace(p)
    return t.at_input(gradient(t.outputs.sum(), t.inputs()))


def gradient(value: Tensor, inputs: list[Tensor], cotangent: Tensor | None = None) -> list[Tensor]:
    """Gradients with zeros where nothing depends on an input; the graph is kept for others."""
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    if not wanted:
        return [torch.zeros_like(tensor) for tensor in inputs]
    if not value.requires_grad:
        raise Unscorable("the outputs do not depend on weights or inputs by differentiable operations")
    found = iter(
        torch.autograd.grad(value, wanted, cotangent, retain_graph=True, allow_unused=True, materialize_grads=True)
    )
    return [next(found).detach() if tensor.requires_grad else torch.zeros_like(tensor) for tensor in inputs]
