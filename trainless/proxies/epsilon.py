"""Epsilon (Gracheva, 2022): two networks of constant weights, one tiny and one large, that should disagree."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainless.core.errors import Unscorable
from trainless.probe.collapse import outputs_alike
from trainless.probe.features import blocks
from trainless.probe.layers import block_names
from trainless.probe.points import Constant, Double, Draw, Parameters
from trainless.probe.probe import Probe
from trainless.probe.record import trace
from trainless.probe.running import at_a_point
from trainless.proxies.proxy import Paper, Setting, proxy

PAPER = Paper(
    ("Gracheva",), "Neural Architecture Search: Two Constant Shared Weights Initialisations", "arXiv:2302.04406", 2023
)


@proxy(higher_is_better=True, paper=PAPER, aspect="weight sensitivity", setting=Setting(batch=256))
def epsilon(
    p: Probe, constants: tuple[float, float] | None = None, double: bool = True, drop_zeros: bool = True
) -> float:
    """Change of the outputs' order over the samples between tiny and large constant weights.

    mean |v₁ − v₂| / mean(v), v_k the outputs with all weights equal to w_k, scaled to [0, 1] over the batch.

    Args:
        p: The probe; its own weights do not matter.
        constants: w₁ and w₂; (1e-7, 1) for images, (1e-5, 1e-3) for text unless given.
        double: Double precision. In single precision, as published, 41 % of NAS-Bench-201 is NaN.
        drop_zeros: Leave out values that are exactly zero after scaling, as the published program does.

    Differences:
        See ``double`` and ``drop_zeros``. The published correlations leave out the networks that are NaN.

    Fails:
        All outputs are equal.
    """
    constants = constants or ((1e-7, 1.0) if p.x.is_floating_point() else (1e-5, 1e-3))
    with at_a_point("in double precision" if double else "with constant weights"):
        scaled = torch.stack([_scaled(_outputs(p, constant, double)) for constant in constants])
    if drop_zeros:
        scaled[scaled == 0] = torch.nan
    difference, level = (scaled[0] - scaled[1]).abs().nanmean(), scaled.nanmean()
    if not bool(torch.isfinite(difference / level)):
        raise Unscorable("the outputs are all equal under constant weights")
    return float(difference / level)


def _outputs(p: Probe, constant: float, double: bool) -> Tensor:
    if not p.x.is_floating_point():
        return _hidden(p, constant, double)
    q = p.once(weights=Constant(constant), x=Double() if double else None, norm="batch")
    return outputs_alike(q)[:, 0]


def _hidden(p: Probe, constant: float, double: bool) -> Tensor:
    """The first unit of the last block over all tokens, embeddings drawn from U(0, 1)."""
    tables = {id(module.weight) for module in p.net.modules() if isinstance(module, nn.Embedding)}
    names = [name for name, tensor in p.net.named_parameters() if id(tensor) in tables]
    own = bool(block_names(p.net))
    tags = {name: name if own else f"embedding {place}" for place, name in enumerate(names)}  # whatever it is called
    q = p.once(weights=_ConstantCell(constant, tuple(tags.items()), double))
    if own:
        return list(trace(q).blocks.values())[-1].detach()[..., 0].flatten()
    return blocks(q)[-1].maps()[:, 0].flatten()


@dataclass(frozen=True)
class _ConstantCell:
    """Every number the same, biases too; embeddings are drawn, so that tokens differ, each by a tag of its own."""

    value: float
    embeddings: tuple[tuple[str, str], ...]
    double: bool

    def __call__(self, own: Parameters, draw: Draw) -> dict[str, Tensor]:
        weights = Constant(self.value, biases=True)(own, draw)
        for name, tag in self.embeddings:
            weights[name] = torch.rand(own[name].shape, generator=draw(tag)).to(own[name])
        return {name: tensor.double() if self.double else tensor for name, tensor in weights.items()}


def _scaled(values: Tensor) -> Tensor:
    low, high = values.min(), values.max()
    return (values - low) / (high - low)
