"""Members that disagree before they are trained: chosen by quality and by how unlike their features are.

Two networks that see the same similarities among inputs at initialisation are likely to learn alike and to err on the
same cases. How alike they see is the centred kernel alignment of what goes into their last layers (Cortes et al., 2012;
Kornblith et al., 2019).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.seeds import one_thread, seeded
from trainless.core.task import Task
from trainless.core.types import Floats
from trainless.learn.drift import last_features
from trainless.spaces.protocol import Space

POOL = 5  # candidates for each member, the best of which are looked at
SAMPLES = 128  # training samples that similarities are taken over


def disagreeing(
    space: Space, archs: Sequence[Arch], task: Task, count: int, *, diversity: float = 0.5, seed: int = 0
) -> list[Arch]:
    """Choose so many archs of those that are given, best first: the best one, and then one after the other.

    Next is the one with the highest (1 − d) · quality + d · disagreement among those that are left: both are places in
    an order, from 0 for the last to 1 for the first; who disagrees most is least similar to the nearest that is chosen.

    Args:
        space: Where they are from.
        archs: Candidates, best first.
        task: The data.
        count: How many to choose.
        diversity: The share d of disagreement; 0 chooses the first ones.
        seed: Of weights and samples.
    """
    if not 0 <= diversity <= 1:
        raise InputError(f"diversity={diversity} was given; expected a share from 0 to 1")
    if not diversity or len(archs) <= count:
        return list(archs[:count])
    alike = similarities(features(space, archs, task, seed=seed))
    return [archs[place] for place in chosen_places(alike, count, diversity)]


def chosen_places(alike: Floats, count: int, diversity: float) -> list[int]:
    """The places that :func:`disagreeing` chooses, by the similarity of each pair of candidates, best first.

    Example:
        >>> alike = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.1], [0.1, 0.1, 1.0]])
        >>> chosen_places(alike, 2, 0.0), chosen_places(alike, 2, 0.6)
        ([0, 1], [0, 2])
    """
    chosen, left = [0], list(range(1, len(alike)))
    while left and len(chosen) < count:
        nearest = alike[np.ix_(left, chosen)].max(1)
        quality, unlike = _places(-np.arange(len(left), dtype=np.float64)), _places(-nearest)
        best = int(np.argmax((1 - diversity) * quality + diversity * unlike))
        chosen.append(left.pop(best))
    return chosen


def features(space: Space, archs: Sequence[Arch], task: Task, *, seed: int = 0, samples: int = SAMPLES) -> list[Floats]:
    """What goes into the last linear layer of each network at initialisation, on the same training samples."""
    x, _ = task.batch(samples, seed)
    found = []
    with one_thread(), torch.no_grad():
        for number, arch in enumerate(archs):
            with seeded(seed + number):
                net = space.build(arch, task).train()  # norms go by the batch: they have learnt no statistics yet
                with last_features(net) as seen:
                    net(x)
                    found.append(seen(len(x)))
    if any(not each.shape[1] for each in found):
        raise InputError(
            f"networks of {space.name} have no linear layer whose inputs can be compared: leave diversity out"
        )
    return found


def similarities(found: Sequence[Floats]) -> Floats:
    """The centred kernel alignment of each pair, from 0 for unrelated to 1 for the same up to turns and a scale.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(50, 3))
        >>> similarities([x, 2 * x[:, ::-1] + 1]).round(6).tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """
    grams = []
    for x in found:
        centred = x - x.mean(0)
        gram = centred @ centred.T
        grams.append(gram.ravel() / max(float(np.linalg.norm(gram)), 1e-300))
    stacked = np.stack(grams)
    return np.asarray(stacked @ stacked.T)


def _places(values: Floats) -> Floats:
    """Places in an order, 1 for the highest and 0 for the lowest; equal values share the mean of theirs."""
    below = (values[:, None] > values).sum(1) + 0.5 * ((values[:, None] == values).sum(1) - 1)
    return np.asarray(below / max(1, len(values) - 1))
