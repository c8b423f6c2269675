"""Quantities that several proxies share: pure functions of a probe, each computed once on it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from trainless.core.errors import Unscorable
from trainless.probe.layers import Layer, modules, watched
from trainless.probe.norms import SAMPLE_NORMS
from trainless.probe.probe import Probe, quantity
from trainless.probe.record import trace

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
    """The gradients of the mean loss: by weight, by input, and per layer Σ_positions output · gradient, ``(N, C)``."""

    weights: dict[str, Tensor]
    x: Tensor
    channels: list[tuple[Layer, Tensor]]


@quantity
def loss_gradients(p: Probe) -> LossGradients:
    """One backward pass of the mean loss."""
    t = trace(p)
    channels: list[tuple[Layer, Tensor]] = []

    def note(layer: Layer, g: Tensor) -> None:
        channels.append((layer, channel_sums(layer, g)))

    names = weight_names(p)
    with watched((layer.output, functools.partial(note, layer)) for layer in t.layers):
        gradients = gradient(losses(p).mean(), [*(t.weights[name] for name in names), t.x])
    return LossGradients(dict(zip(names, gradients[:-1], strict=True)), gradients[-1], channels)


def weight_gradients(p: Probe) -> dict[str, Tensor]:
    """The gradients of the mean loss by weight and nothing else: for probes of one use."""
    names = weight_names(p)
    leaves = trace(p).weights
    return dict(zip(names, gradient(losses(p).mean(), [leaves[name] for name in names]), strict=True))


def channel_sums(layer: Layer, gradient: Tensor) -> Tensor:
    """Σ over positions of output times gradient: one number per sample and output channel."""
    output = layer.output.detach()
    if layer.conv is None:
        return (output * gradient).flatten(1, -2).sum(1) if output.ndim > 2 else output * gradient
    sums: Tensor = torch.linalg.vecdot(output.flatten(2), gradient.flatten(2))
    return sums


@quantity
def output_gradient(p: Probe) -> Tensor:
    """∂(Σ of all outputs)/∂x, shaped like x."""
    t = trace(p)
    if not t.x.requires_grad:
        raise Unscorable("the inputs are tokens: there is no gradient with respect to them")
    return gradient(t.outputs.sum(), [t.x])[0]


def gradient(value: Tensor, inputs: list[Tensor], cotangent: Tensor | None = None) -> list[Tensor]:
    """Gradients with zeros where nothing depends on an input; the graph is kept for others."""
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    if not value.requires_grad:
        raise Unscorable("the outputs do not depend on weights or inputs by differentiable operations")
    found = iter(
        torch.autograd.grad(value, wanted, cotangent, retain_graph=True, allow_unused=True, materialize_grads=True)
    )
    return [next(found).detach() if tensor.requires_grad else torch.zeros_like(tensor) for tensor in inputs]


@dataclass(frozen=True, eq=False)
class BlockOutput:
    """One block's output and where its channels are: axis 1, or the last for tokens."""

    name: str
    output: Tensor
    tokens: bool

    def like(self, tensor: Tensor) -> BlockOutput:
        """Another tensor in the same layout."""
        return replace(self, output=tensor)

    def maps(self) -> Tensor:
        """``(N, C, *positions)``."""
        return self.output.detach().movedim(-1, 1) if self.tokens else self.output.detach()

    def channels(self) -> Tensor:
        """``(C, N · positions)``."""
        return self.maps().transpose(0, 1).flatten(1)

    def folded(self, smaller: BlockOutput) -> Tensor:
        """Channels × positions on the grid of a block that comes after: what it merged becomes channels."""
        maps, grid = self.maps(), smaller.maps().shape[2:]
        if maps.shape[2:] == grid:
            return maps.transpose(0, 1).flatten(1)
        if len(maps.shape) - 2 != len(grid) or any(
            size % wanted for size, wanted in zip(maps.shape[2:], grid, strict=True)
        ):
            raise Unscorable(
                f"the grids {tuple(maps.shape[2:])} and {tuple(grid)} of two blocks do not divide one another"
            )
        for axis, wanted in enumerate(grid, start=2):
            factor = maps.shape[axis] // wanted
            maps = maps.unflatten(axis, (wanted, factor)).movedim(axis + 1, 2).flatten(1, 2)
        return maps.transpose(0, 1).flatten(1)


@quantity
def blocks(p: Probe) -> tuple[BlockOutput, ...]:
    """The blocks whose output has channels, in forward order."""
    found = tuple(
        BlockOutput(name, output, _tokens(p.net, output))
        for name, output in trace(p).blocks.items()
        if output.ndim >= 2
    )
    spatial = tuple(block for block in found if block.output.ndim >= 3)
    if not found:
        raise Unscorable("the network has no blocks whose outputs could be looked at")
    return spatial if len(spatial) >= 2 else found


@dataclass(frozen=True, eq=False)
class Scatter:
    """The covariance of a block's channels over all samples and positions, in double precision on the CPU.

    Attributes:
        products: The channels' covariance; where there are no more places than channels, the places' smaller matrix
            of inner products, which has the same eigenvalues but for zeros.
        singular: Whether it is the latter: the covariance then has no inverse, since centred places add up to zero.
    """

    products: Tensor
    singular: bool

    def eigenvalues(self) -> Tensor:
        """Those of the covariance, ascending, zeros left out where they are known."""
        values: Tensor = torch.linalg.eigvalsh(self.products).clamp_min(0)
        return values

    def least_correlation(self) -> float:
        """The smallest eigenvalue of the channels' correlation; a constant channel correlates with nothing."""
        if self.singular:
            return 0.0
        deviation = self.products.diagonal().clamp_min(0).sqrt()
        scale = torch.where(deviation > 0, 1 / deviation, 0)
        return float(torch.linalg.eigvalsh(self.products * scale[:, None] * scale[None])[0].clamp_min(0))


@quantity
def block_scatters(p: Probe) -> tuple[Scatter, ...]:
    """The scatter of each block's channels."""
    return tuple(scatter(block.channels()) for block in blocks(p))


def scatter(rows: Tensor) -> Scatter:
    """The scatter of rows, one per channel, over their columns.

    Example:
        >>> scatter(torch.tensor([[1.0, 3.0], [2.0, 2.0], [0.0, 4.0]])).eigenvalues().tolist()
        [0.0, 5.0]
    """
    channels, places = rows.shape
    centred = rows - rows.mean(1, keepdim=True)
    singular = places <= channels
    products = centred.T @ centred if singular else centred @ centred.T
    return Scatter(products.double().cpu() / places, singular)


def _tokens(net: nn.Module, output: Tensor) -> bool:
    """Whether channels are last: a layer norm or recurrent layer works on the last axis of such outputs."""
    if output.ndim != 3:
        return False
    width = output.shape[-1]
    return any(
        (isinstance(module, nn.LayerNorm) and module.normalized_shape == (width,))
        or (isinstance(module, nn.Linear) and module.in_features == width and not _convolutional(net))
        for module in net.modules()
    )


def _convolutional(net: nn.Module) -> bool:
    return any(isinstance(module, nn.Conv1d) for module in net.modules())
