"""Why an ensemble says so of a case: where it looks, the most similar training cases, and its members' votes.

Where it looks is asked of the ensemble as a whole: how the probability of an answer changes when a part of the input is
covered (occlusion; Zeiler & Fergus, 2014), which works for any network, or how the changes on the way from a baseline
add up (integrated gradients; Sundararajan et al., 2017), which needs gradients.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.core.types import Array, Floats, Index
from trainless.learn.neighbours import device_of, features_of
from trainless.learn.predictor import Predictor

PIECES = {1: 48, 2: 8, 3: 4}  # windows along each axis, by the number of axes
BATCH = 64


def normalised(task: Task, x: Array) -> Tensor:
    """Raw inputs ``(N, C, *spatial)`` as networks get them."""
    values, channels = torch.from_numpy(np.array(x, np.float32)), (1, -1, *[1] * task.dims)
    if not task.mean:
        return values
    return (values - torch.tensor(task.mean).reshape(channels)) / torch.tensor(task.std).reshape(channels)


def answer(predictor: Predictor, x: Tensor, label: int) -> Tensor:
    """The ensemble's probability of a class before calibration, or its value, for normalised inputs ``(N, …)``."""
    target, total = predictor.task.target, x.new_zeros(len(x), dtype=torch.float64)
    for net, weight in zip(predictor.nets, predictor.weights / predictor.weights.sum(), strict=True):
        said = net(x).double()
        if target.kind != "regression":
            if target.kind == "binary" and said.shape[-1] == 1:
                said = torch.cat([torch.zeros_like(said), said], -1)
            said = said.softmax(-1)
        total = total + float(weight) * said[:, label]
    return total


def occlusion(predictor: Predictor, x: Tensor, label: int, *, pieces: int | None = None) -> Floats:
    """How much an answer falls where a normalised input ``(C, *spatial)`` is covered by the training mean.

    Windows that overlap by half cover it one after the other; the heat of a place is the mean fall over the windows
    that cover it. It is in probabilities, or in the value's unit, of the input's spatial shape.

    Args:
        predictor: The ensemble.
        x: The input.
        label: The class whose probability is watched, or the output.
        pieces: Windows along each axis; by default 48 of signals, 8 of images, 4 of volumes.
    """
    sizes = tuple(x.shape[1:]) or (x.shape[0],)
    windows = list(_windows(sizes, pieces or PIECES[len(sizes)]))
    fall, covered = np.zeros(sizes), np.zeros(sizes)
    device = device_of(predictor.nets)
    x = x.to(device)
    with torch.inference_mode():
        whole = float(answer(predictor, x[None], label)[0])
        for start in range(0, len(windows), BATCH):
            some = windows[start : start + BATCH]
            batch = x.repeat(len(some), *[1] * x.ndim)
            for one, window in zip(batch, some, strict=True):
                one[(..., *window)] = 0.0
            for window, value in zip(some, answer(predictor, batch, label).tolist(), strict=True):
                fall[window] += whole - value
                covered[window] += 1
    return fall / covered


def _windows(sizes: tuple[int, ...], pieces: int) -> Iterator[tuple[slice, ...]]:
    """Windows that overlap by half and cover everything."""
    along = []
    for size in sizes:
        count = min(pieces, size)
        wide = min(size, -(-2 * size // (count + 1)))
        starts = np.unique(np.linspace(0, size - wide, count).round().astype(int)).tolist()
        along.append([slice(start, start + wide) for start in starts])
    return itertools.product(*along)


def integrated_gradients(
    predictor: Predictor, x: Tensor, label: int, *, baseline: Tensor | None = None, steps: int = 32
) -> Floats:
    """What each value of a normalised input ``(C, *spatial)`` adds to an answer, on a straight way from a baseline.

    (x − b) · ∫ ∂F(b + α (x − b)) / ∂x dα by the midpoint rule; the sum over all values is F(x) − F(b). The baseline is
    the training mean by default.
    """
    if steps < 1:
        raise InputError(f"steps={steps} was given; expected at least 1")
    device = device_of(predictor.nets)
    x = x.to(device)
    start = torch.zeros_like(x) if baseline is None else baseline.to(device)
    total = torch.zeros_like(x, dtype=torch.float64)
    for some in torch.linspace(0.5 / steps, 1 - 0.5 / steps, steps).split(BATCH):
        share = some.to(device).reshape(-1, *[1] * x.ndim)
        points = (start + share * (x - start)).detach().requires_grad_(True)
        found = answer(predictor, points, label).sum()
        if not found.requires_grad:
            raise InputError("a member has no gradients: look by occlusion instead")
        total += torch.autograd.grad(found, points)[0].double().sum(0)
    return np.asarray((total / steps * (x - start).double()).cpu().numpy())


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why an ensemble says so of one case.

    ``heat`` is positive where the input speaks for the answer ``label`` (or raises the value), of its spatial shape;
    ``similar`` are places in the :class:`Neighbours`, and ``cosines`` how similar they are.
    """

    label: int
    heat: Floats
    similar: Index
    cosines: Floats


def explain(predictor: Predictor, x: Array, label: int, *, by: str = "occlusion") -> Explanation:
    """Explain what an ensemble says of one raw input ``(C, *spatial)``.

    Args:
        predictor: The ensemble.
        x: The input.
        label: The class that is explained, or the output for values.
        by: ``"occlusion"`` or ``"gradients"``.
    """
    methods = {"occlusion": occlusion, "gradients": _by_place}
    if by not in methods:
        raise InputError(f"by={by!r} was given; expected one of: {', '.join(methods)}")
    if tuple(x.shape) != predictor.task.input_shape:
        raise InputError(f"an input of shape {x.shape} was given; expected {predictor.task.input_shape}")
    value = normalised(predictor.task, x[None])[0]
    kept, none = predictor.neighbours, np.zeros(0)
    similar, cosines = none.astype(np.int64), none
    if kept is not None and kept.features.shape[1]:
        places, found = kept.similar(features_of(predictor.nets, value[None]))
        similar, cosines = places[0], found[0]
    return Explanation(label, methods[by](predictor, value, label), similar, cosines)


def _by_place(predictor: Predictor, x: Tensor, label: int) -> Floats:
    found = integrated_gradients(predictor, x, label)
    return np.asarray(found.sum(0)) if found.ndim > 1 else found
