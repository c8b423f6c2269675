"""Measures of the weights: how many there are, and the gradients of losses by them."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from trainless.probe.layers import watched
from trainless.probe.points import First, Magnitude, Ones
from trainless.stack.network import NotAligned, Operation, StackedLayer
from trainless.stack.stack import Stack, losses_of, measure, mine, passed, remembered


@measure
def params(s: Stack) -> Tensor:
    """Every number of every parameter."""
    sizes = ((part.members, tensor.numel() // len(part.members)) for (part, _), tensor in s.weights.items())
    return s.added((members, torch.full((len(members),), float(size), device=s.x.device)) for members, size in sizes)


@measure
def flops(s: Stack) -> Tensor:
    """A layer's weights times its places."""
    one = s.at(x=First(1))
    with torch.no_grad():
        _, notes = s.plan.run(one.weights, one.inputs(), "off")

    def macs(layer: StackedLayer) -> Tensor:
        weight, count = s.weights[layer.part, "weight"], len(layer.part.members)
        places = layer.output[0].numel() // len(weight)
        return torch.full((count,), float(places * weight.numel() // count), device=s.x.device)

    return s.added((layer.part.members, macs(layer)) for layer in notes.layers)


@measure
def layers(s: Stack) -> Tensor:
    """Every tensor of every network."""
    return s.added((part.members, torch.ones(len(part.members), device=s.x.device)) for part, _ in s.weights)


@measure
def l2_norm(s: Stack) -> Tensor:
    """Weight by weight."""
    return s.added((part, _rows(part, tensor.detach()).norm(dim=1)) for part, tensor in _matrices(s))


@measure
def synflow(s: Stack) -> Tensor:
    """All networks' outputs are added: none depends on another's weights."""
    found = passed(s.at(Magnitude(), Ones(), "off"))
    chosen = [(part, tensor) for (part, name), tensor in found.weights.items() if name == "weight" and tensor.ndim > 1]
    gradients = found.gradients(found.outputs.sum(), [tensor for _, tensor in chosen])
    terms = (
        (part.members, mine((tensor.detach() * each).abs(), len(part.members)).flatten(1).sum(1))
        for (part, tensor), each in zip(chosen, gradients, strict=True)
    )
    return s.added(terms).log()


@remembered
def _matrices(s: Stack) -> list[tuple[Operation, Tensor]]:
    """The weights of convolutions and linear layers."""
    found = passed(s).weights.items()
    return [(part, tensor) for (part, name), tensor in found if name == "weight" and tensor.ndim > 1]


@remembered
def _loss_gradients(
    s: Stack,
) -> tuple[list[tuple[Operation, Tensor, Tensor]], list[tuple[StackedLayer, Tensor]], Tensor]:
    """Of each mean loss: weights with their gradients, Σ_positions output · gradient, the gradient at the inputs."""
    found, channels = passed(s), list[tuple[StackedLayer, Tensor]]()

    def note(layer: StackedLayer, g: Tensor) -> None:
        output = layer.output.detach()
        channels.append((layer, torch.linalg.vecdot(output.flatten(2), g.flatten(2)) if g.ndim > 2 else output * g))

    weights = _matrices(s)
    with watched((layer.output, partial(note, layer)) for layer in found.notes.layers):
        total = losses_of(s).mean(1).sum()
        *gradients, at_inputs = found.gradients(total, [*(tensor for _, tensor in weights), found.x])
    each = [(part, tensor.detach(), g) for (part, tensor), g in zip(weights, gradients, strict=True)]
    return each, channels, at_inputs


def _weight_gradients(s: Stack) -> list[tuple[Operation, Tensor, Tensor]]:
    """Weights and their gradients of the mean loss, of a stack that nobody else looks at."""
    weights = _matrices(s)
    gradients = passed(s).gradients(losses_of(s).mean(1).sum(), [tensor for _, tensor in weights])
    return [(part, tensor.detach(), g) for (part, tensor), g in zip(weights, gradients, strict=True)]


def _rows(part: Operation, tensor: Tensor) -> Tensor:
    """A part's numbers, a row for each of its networks."""
    return mine(tensor, len(part.members)).flatten(1)


@measure
def grad_norm(s: Stack) -> Tensor:
    """Weight by weight."""
    return s.added((part, _rows(part, g).norm(dim=1)) for part, _, g in _loss_gradients(s)[0])


@measure
def snip(s: Stack) -> Tensor:
    """Weight by weight."""
    return s.added((part, _rows(part, tensor * g).abs().sum(1)) for part, tensor, g in _loss_gradients(s)[0])


@measure
def plain(s: Stack) -> Tensor:
    """Weight by weight."""
    return s.added((part, _rows(part, tensor * g).sum(1)) for part, tensor, g in _loss_gradients(s)[0])


@measure
def fisher(s: Stack) -> Tensor:
    """Channel by channel, times the fan-in."""
    terms = []
    for layer, sums in _loss_gradients(s)[1]:
        weight, count = s.weights[layer.part, "weight"], len(layer.part.members)
        squares = mine(sums.square().mean(0), count).double().sum(1)
        terms.append((layer.part, squares * (weight[0].numel() / 2)))
    return s.added(terms)


@measure
def length(s: Stack) -> Tensor:
    """Of the whole batch."""
    at_inputs = mine(_loss_gradients(s)[2] * len(s.x), len(s), 1).transpose(0, 1).flatten(2)  # (K, N, …)
    norms: Tensor = at_inputs.norm(dim=1)
    return norms.double().sum(1) / 2


@measure
def loss_synflow(s: Stack) -> Tensor:
    """In single precision; where the loss vanishes in it, the network is scored alone."""
    found = _weight_gradients(s.at(Magnitude(double=False), norm="batch"))
    return s.added((part, _rows(part, tensor * g).abs().sum(1)) for part, tensor, g in found).log()


@measure
def zico(s: Stack) -> Tensor:
    """Two halves of the batch."""
    if len(s.x) < 2:
        raise NotAligned("a batch of one cannot be cut into two")
    first, second = (_weight_gradients(half) for half in s.split(2))
    total = torch.zeros(len(s), dtype=torch.float64, device=s.x.device)
    for (part, _, one), (_, _, other) in zip(first, second, strict=True):
        deviation = (one - other).abs() / 2
        ratio = torch.where(deviation != 0, (one.abs() + other.abs()) / 2 / deviation, 0)
        sums = _rows(part, ratio).double().sum(1)
        total += s.added([(part, torch.where(sums > 0, sums.log(), 0))])
    return total
