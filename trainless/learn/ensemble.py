"""Ensembles as arithmetic on members' predictions: averages, votes, how far members agree.

Members' predictions are one array ``(members, samples, outputs)``: probabilities, or values for regression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from scipy.special import entr
from torch import Tensor

from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.target import Target
from trainless.core.types import Floats, Labels, Mask


def predictions(answers: Tensor, target: Target) -> Floats:
    """Probabilities ``(N, classes)``, or the values themselves for regression.

    A single logit of a binary network stands for the second class.
    """
    values = answers.double()
    if target.kind == "regression":
        return cast(Floats, values.numpy())
    if target.kind == "binary" and values.shape[-1] == 1:
        values = torch.cat([torch.zeros_like(values), values], -1)
    return cast(Floats, values.softmax(-1).numpy())


def require_members(members: Floats, weights: Floats | None = None) -> None:
    """Raise InputError where members cannot be put together: none, diverged, or weights that do not fit."""
    if members.ndim != 3 or not members.size:
        raise InputError(f"members' predictions have shape {members.shape}; expected (members, samples, outputs)")
    for number, member in enumerate(members):
        if not np.isfinite(member).all():
            raise InputError(f"member {number} has predictions that are not finite: leave it out or train it again")
    if weights is not None and (weights.shape != (len(members),) or weights.min() < 0 or not weights.sum() > 0):
        raise InputError(
            f"weights {weights.tolist()} were given for {len(members)} members; expected one each, not negative"
        )


def average(members: Floats, weights: Floats | None = None) -> Floats:
    """The weighted mean over members."""
    require_members(members, weights)
    return np.asarray(np.average(members, axis=0, weights=weights))


def vote(members: Floats, weights: Floats | None = None) -> Labels:
    """The class that most members choose; of tied ones that with the higher mean probability.

    Example:
        >>> vote(np.array([[[0.6, 0.4]], [[0.6, 0.4]], [[0.0, 1.0]]])).tolist()
        [0]
    """
    shares = votes(members, weights)
    tied = np.isclose(shares, shares.max(1, keepdims=True), rtol=0, atol=1e-12)
    return np.asarray(np.where(tied, average(members, weights), -1.0).argmax(1))


def votes(members: Floats, weights: Floats | None = None) -> Floats:
    """The share of members that choose each class, ``(samples, classes)``."""
    require_members(members, weights)
    chosen = np.eye(members.shape[2])[members.argmax(2)]
    return np.asarray(np.average(chosen, axis=0, weights=weights))


@dataclass(frozen=True, eq=False)
class Entropies:
    """Predictive entropy in nats and its parts, one value per sample: total = aleatoric + epistemic."""

    total: Floats
    aleatoric: Floats
    epistemic: Floats


def variance(members: Floats, weights: Floats | None = None) -> Floats:
    """Variance across members, summed over outputs: Σ_k Σ_m w_m (p_mk − p̄_k)² (TEACUP, methods 7.7).

    With two classes this is twice the variance of either probability, so the order is the paper's; for more classes
    the paper does not say how classes are joined, and the sum does not depend on their order.

    Example:
        >>> float(variance(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]))[0])
        0.5
    """
    share = _shares(members, weights)
    spread = np.square(members - average(members, weights))
    return np.asarray(np.einsum("m,mnk->n", share, spread))


def entropies(members: Floats, weights: Floats | None = None) -> Entropies:
    """Total H(p̄), aleatoric Σ w_m H(p_m) and epistemic, their difference: the mutual information of label and member.

    Example:
        >>> parts = entropies(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]))
        >>> float(parts.aleatoric[0]), round(float(parts.epistemic[0]), 4)
        (0.0, 0.6931)
    """
    total = entr(average(members, weights)).sum(1)
    aleatoric = np.einsum("m,mnk->n", _shares(members, weights), entr(members))
    return Entropies(total, aleatoric, np.maximum(total - aleatoric, 0.0))


@dataclass(frozen=True, eq=False)
class ConfidenceCurve:
    """Accuracy on the most confident share of the samples, for each share, and the mean of that."""

    shares: Floats
    accuracy: Floats
    area: float


CONFIDENT = np.arange(1, 21) / 20


def confidence_curve(
    members: Floats, y: Labels, *, uncertainty: Floats | None = None, shares: Floats = CONFIDENT
) -> ConfidenceCurve:
    """Accuracy of the majority vote on the most confident 5 %, 10 %, …, 100 % (TEACUP, fig. 6B).

    Confidence is by the variance across members, unless another uncertainty is given. Samples with the same uncertainty
    stand in no order: each counts with the mean accuracy of its group, which is the expectation over random orders.

    Example:
        >>> sure = np.array([[[0.9, 0.1], [0.9, 0.1]], [[0.9, 0.1], [0.3, 0.7]]])
        >>> confidence_curve(sure, np.array([0, 1]), shares=np.array([0.5, 1.0])).accuracy.tolist()
        [1.0, 0.5]
    """
    return curve_of(vote(members) == y, variance(members) if uncertainty is None else uncertainty, shares)


def curve_of(correct: Mask, uncertainty: Floats, shares: Floats = CONFIDENT) -> ConfidenceCurve:
    """The curve of any answers and any measure of uncertainty."""
    if not len(correct) or len(correct) != len(uncertainty):
        raise InputError(f"{len(correct)} answers and {len(uncertainty)} uncertainties were given; expected as many")
    _, group = np.unique(uncertainty, return_inverse=True)
    group = group.reshape(-1)
    mean = np.bincount(group, correct) / np.bincount(group)
    ranked = np.cumsum(mean[np.sort(group)])
    taken = np.maximum(1, np.ceil(shares * len(correct) - 1e-9).astype(int))
    values = ranked[taken - 1] / taken
    return ConfidenceCurve(shares, values, float(values.mean()))


def _shares(members: Floats, weights: Floats | None) -> Floats:
    if weights is None:
        return np.full(len(members), 1 / len(members))
    return np.asarray(weights / weights.sum())


def most_common(archs: Sequence[Arch]) -> Arch:
    """The arch that searches ended with most often, of tied ones the first (the baseline of TEACUP 7.7)."""
    if not archs:
        raise InputError("no archs were given; expected the results of at least one search")
    return Counter(archs).most_common(1)[0][0]
