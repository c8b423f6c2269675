"""Measures of feature maps and blocks."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from trainless.core.seeds import generator
from trainless.probe.features import paired
from trainless.probe.norms import channel_variances
from trainless.probe.points import First, drawn
from trainless.proxies.ours import LEAST
from trainless.stack.network import Normed, NotAligned, Operation
from trainless.stack.stack import Stack, entropy_of, measure, mine, passed, remembered


@measure
def meco(s: Stack) -> Tensor:
    """The maps of one size are decomposed together."""
    one = s.at(x=First(1))
    with torch.no_grad():
        _, notes = s.plan.run(one.weights, one.inputs(), one.norm, maps=True)
    by_size: dict[torch.Size, list[tuple[list[int], Tensor]]] = {}
    for members, places, values in notes.maps or ():
        rows = mine(values[0], len(members)).flatten(2)
        if 1 < rows.shape[1] < rows.shape[2]:  # else some channels are the others'
            rows = rows if len(places) == len(members) else rows[list(places)]
            by_size.setdefault(rows.shape[1:], []).append(([members[place] for place in places], rows))
    owners, least = [], []
    for alike in by_size.values():
        rows = torch.cat([each for _, each in alike]).double()
        rows = rows - rows.mean(-1, keepdim=True)
        norms = rows.norm(dim=-1, keepdim=True)
        rows = torch.where(norms > 0, rows / norms.clamp_min(1e-300), 0)
        least.append(torch.linalg.eigvalsh(rows @ rows.mT)[:, 0].clamp_min(0))
        owners += [member for members, _ in alike for member in members]
    if not owners:
        return torch.full((len(s),), math.nan)
    total = torch.zeros(len(s), dtype=torch.float64, device=s.x.device)
    return total.index_add_(0, torch.tensor(owners, device=s.x.device), torch.cat(least))


@remembered
def _scatters(s: Stack) -> list[tuple[Tensor, bool]]:
    """The covariance of each block's channels, or the smaller matrix of its places, and whether it is the latter."""
    found = []
    for block in passed(s).notes.blocks.values():
        rows = mine(block.detach(), len(s), 1).movedim(0, 2).flatten(2)  # (K, C, N · places)
        channels, places = rows.shape[1:]
        rows = rows - rows.mean(2, keepdim=True)
        singular = places <= channels
        found.append(((rows.mT @ rows if singular else rows @ rows.mT) / places, singular))
    return found


@remembered
def _block_entropies(s: Stack) -> Tensor:
    """``(blocks, K)``; NaN of a block that is constant."""
    entropies = []
    for products, _ in _scatters(s):
        values = torch.linalg.eigvalsh(products.double()).clamp_min(0)
        share = values / values.sum(1, keepdim=True)
        entropies.append(-(share * (share + 1e-8).log()).sum(1))
    return torch.stack(entropies)


@measure
def expressivity(s: Stack) -> Tensor:
    """All networks have a block at the same time."""
    return _block_entropies(s).sum(0)


@measure
def progressivity(s: Stack) -> Tensor:
    """As expressivity."""
    return _block_entropies(s).diff(dim=0).amin(0)


@measure
def block_meco(s: Stack) -> Tensor:
    """The least eigenvalue of the channels' correlation, 0 where there are too few places."""
    total = torch.zeros(len(s), dtype=torch.float64, device=s.x.device)
    for products, singular in _scatters(s):
        if not singular:
            double = products.double()
            deviation = double.diagonal(dim1=1, dim2=2).clamp_min(0).sqrt()
            scale = torch.where(deviation > 0, 1 / deviation, 0)
            total += torch.linalg.eigvalsh(double * scale[:, :, None] * scale[:, None])[:, 0].clamp_min(0)
    return total


@measure
def feature_rank(s: Stack) -> Tensor:
    """Of the samples at the last block."""
    rows = mine(list(passed(s).notes.blocks.values())[-1].detach(), len(s), 1).transpose(0, 1).flatten(2)  # (K, N, …)
    rows = rows - rows.mean(1, keepdim=True)
    rows = rows / rows.norm(dim=2, keepdim=True)
    fine = torch.isfinite(rows).flatten(1).all(1)
    products = torch.where(fine[:, None, None], rows @ rows.mT, 0).double()
    return torch.where(fine, entropy_of(torch.linalg.eigvalsh(products).clamp_min(0).T), math.nan)


@remembered
def _passages(s: Stack) -> list[tuple[Tensor, Tensor, int, Tensor]]:
    """Of a random ±1 gradient on its way back through each block: products, power, places, whether it is unchanged.

    The backward pass through a block is one for all networks.
    """
    found, passages = passed(s), []
    for (_, before), (name, after) in itertools.pairwise(found.notes.blocks.items()):
        own = mine(after.detach(), len(s), 1)
        shape = (own.shape[0], *own.shape[2:])
        signs = drawn("signs", shape, generator(s.seed, f"trainability/{name}"), own)
        going_in = signs[:, None].expand_as(own)
        (coming_out,) = found.gradients(after, [before], going_in.flatten(1, 2))
        entering, leaving = (
            maps.transpose(0, 1).flatten(0, 1) for maps in (mine(coming_out, len(s), 1), going_in)
        )  # (K · N, C, …)
        left, right = (
            mine(maps, len(s), 1).transpose(0, 1) for maps in paired(entering, leaving)
        )  # (K, C, N · places)
        places = right.shape[2]
        products = (left @ right.mT).double() / places
        power = left.flatten(1).double().square().sum(1) / places
        unchanged = torch.zeros(len(s), dtype=torch.bool, device=own.device)
        if entering.shape == leaving.shape:
            unchanged = mine(entering == leaving, len(s)).flatten(1).all(1)
        passages.append((products, power, places, unchanged))
    return passages


@measure
def trainability(s: Stack) -> Tensor:
    """The largest singular value of each block."""
    total, every = torch.zeros(len(s), dtype=torch.float64, device=s.x.device), _passages(s)
    for products, _, _, unchanged in every:
        grams = products @ products.mT if products.shape[1] < products.shape[2] else products.mT @ products
        spread = torch.linalg.eigvalsh(grams)[:, -1].clamp_min(0).sqrt()
        total += torch.where(unchanged, math.nan, 2 - spread - 1 / (spread + 1e-6))
    return total / len(every)


@measure
def isometry(s: Stack) -> Tensor:
    """All singular values of each block."""
    total, every = torch.zeros(len(s), dtype=torch.float64, device=s.x.device), _passages(s)
    for products, power, places, _ in every:
        if places < 2:
            raise NotAligned("a block has a single place")
        channels = products.shape[2]
        square = (products.square().sum((1, 2)) - power * channels / places) / (1 - 1 / places) / channels
        total -= torch.where(power > 0, (square.clamp_min(LEAST).log() / 2).abs(), math.nan)
    return total / len(every)


@measure
def zen(s: Stack, step: float = 0.01, samples: int = 16) -> Tensor:
    """All networks see the same noise."""
    few = s.at(x=First(samples))
    noise = torch.randn(few.x.shape, generator=generator(s.seed, "zen")).to(few.x.device, few.x.dtype)
    with torch.no_grad():
        _, notes = s.plan.run(few.weights, few.inputs(), few.norm)
        _, moved = s.plan.run(few.weights, replace(few, x=few.x + step * noise, _memo={}).inputs(), few.norm)
    last, sources = [-1] * len(s), [set[object]() for _ in range(len(s))]
    for place, each in enumerate(notes.rectified):
        for member in each.members:
            if each.source not in sources[member]:  # rectified again it is the same rectifier
                sources[member].add(each.source)
                last[member] = place
    terms = []
    for place, (before, after) in enumerate(zip(notes.rectified, moved.rectified, strict=True)):
        if own := [at for at, member in enumerate(before.members) if last[member] == place]:
            change = mine((F.relu(before.gate) - F.relu(after.gate)).abs(), len(before.members), 1)[:, own]
            terms.append(([before.members[at] for at in own], change.flatten(2).sum(2).double().sum(0)))
    return (s.added(terms) / len(few.x)).log() + s.added(_logarithms(norm) for norm in notes.norms)


def _logarithms(norm: Normed) -> tuple[Operation, Tensor]:
    """Of a norm's input, the logarithm of the root of its channels' mean variance."""
    count = norm.x.numel() // norm.x.shape[1]
    variance = mine(channel_variances(norm.x).double(), len(norm.part.members)).mean(1) * count / max(1, count - 1)
    return norm.part, torch.where(variance > 0, variance.log() / 2, 0)
