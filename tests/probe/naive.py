"""Per-sample gradients the slow way: one forward and backward pass per sample, in double precision."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from trainless.probe import Probe


def outputs(p: Probe, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    """The network as PyTorch itself runs it in training mode."""
    return torch.func.functional_call(p.net, weights, (x,), tie_weights=True)


def leaves(p: Probe) -> dict[str, Tensor]:
    return {name: tensor.detach().clone().requires_grad_() for name, tensor in p.weights.items()}


def rows(p: Probe, names: Iterable[str], *, of: str, joint: bool) -> dict[str, Tensor]:
    """One gradient per sample and weight, of the sum of its outputs or its loss; alone in its batch or with all."""
    weights, names = leaves(p), list(names)
    found: dict[str, list[Tensor]] = {name: [] for name in names}
    for index in range(len(p.x)):
        part = slice(None) if joint else slice(index, index + 1)
        result = outputs(p, weights, p.x[part])
        values = p.target.losses(result, p.y[part]) if of == "loss" else result.flatten(1).sum(1)
        gradients = torch.autograd.grad(
            values[index if joint else 0], [weights[name] for name in names], allow_unused=True, materialize_grads=True
        )
        for name, gradient in zip(names, gradients, strict=True):
            found[name].append(gradient.flatten())
    return {name: torch.stack(each) for name, each in found.items()}


def gram(rows_by_name: dict[str, Tensor]) -> Tensor:
    whole = torch.cat(list(rows_by_name.values()), 1)
    return whole @ whole.T
