"""Light augmentation of a batch: flips, shifts, amplitudes and noise, by an explicit generator."""

from __future__ import annotations

import torch
from torch import Tensor

from trainless.learn.recipe import Augmentation


def augment(x: Tensor, how: Augmentation, source: torch.Generator) -> Tensor:
    """A changed copy of a batch ``(N, C, *spatial)``; every sample is changed on its own.

    Along each axis sample n reads position ``±i + s_n``; what lies outside is zero, the mean of normalised data.

    Args:
        x: The batch; vectors ``(N, C)`` and tokens come back as they are.
        how: What to change.
        source: A generator on the batch's device.

    Example:
        >>> x = torch.arange(4.0).reshape(1, 1, 4)
        >>> augment(x, Augmentation(), torch.Generator()).tolist()
        [[[0.0, 1.0, 2.0, 3.0]]]
    """
    if x.ndim < 3 or not x.is_floating_point():
        return x
    for axis in range(2, x.ndim):
        flips = how.flip == "all" or (how.flip == "last" and axis == x.ndim - 1)
        reach = round(how.shift * x.shape[axis])
        if flips or reach:
            x = _moved(x, axis, flips, reach, source)
    if how.scale:
        factor = torch.rand(len(x), *[1] * (x.ndim - 1), generator=source, device=x.device)
        x = x * (1 + how.scale * (2 * factor - 1))
    if how.noise:
        x = x + how.noise * torch.randn(x.shape, generator=source, device=x.device)
    return x


def _moved(x: Tensor, axis: int, flips: bool, reach: int, source: torch.Generator) -> Tensor:
    n, length = len(x), x.shape[axis]
    place = torch.arange(length, device=x.device).expand(n, length)
    if flips:
        mirrored = torch.rand(n, 1, generator=source, device=x.device) < 0.5
        place = torch.where(mirrored, length - 1 - place, place)
    if reach:
        place = place + torch.randint(-reach, reach + 1, (n, 1), generator=source, device=x.device)
    shape = [n if dim == 0 else length if dim == axis else 1 for dim in range(x.ndim)]
    index = place.clamp(0, length - 1).view(shape).expand(x.shape)
    moved = x.gather(axis, index)
    if not reach:
        return moved
    return moved * ((place >= 0) & (place < length)).view(shape)
