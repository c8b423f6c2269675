"""How far members agree: variance, entropies, accuracy against confidence.

Everything takes members' predictions as one array ``(members, samples, outputs)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import entr
from torch import Tensor, nn

from trainless.core.errors import InputError
from trainless.core.target import Target
from trainless.core.task import PartName, Task
from trainless.core.types import Floats, Labels
from trainless.learn.acceleration import Precision
from trainless.learn.batches import Feed, in_order
from trainless.learn.ensemble import average, vote


def outputs(net: nn.Module, feed: Feed, precision: Precision, batch: int = 512) -> tuple[Tensor, Tensor]:
    """All outputs of a network in evaluation mode, as float32 on the CPU, and the labels."""
    net.eval()
    answers, labels = [], []
    with torch.inference_mode():
        for x, y in feed.batches(in_order(feed.size, batch)):
            with precision.autocast():
                answers.append(net(precision.arrange(x)).float())
            labels.append(y)
    return torch.cat(answers).cpu(), torch.cat(labels).cpu()


def predict_part(net: nn.Module, task: Task, part: PartName, device: torch.device | str = "cpu") -> Floats:
    """Predictions of a network on a part in float32: probabilities of classes, or values."""
    place = torch.device(device)
    answers, _ = outputs(net.to(place), Feed(task, part, place), Precision(place))
    return predictions(answers, task.target)


def predictions(answers: Tensor, target: Target) -> Floats:
    """Probabilities ``(N, classes)``, or the values themselves for regression.

    A single logit of a binary network stands for the second class.

    Example:
        >>> predictions(torch.tensor([[0.0]]), Target("binary", 2)).tolist()
        [[0.5, 0.5]]
    """
    values = answers.double()
    if target.kind == "regression":
        return cast(Floats, values.numpy())
    if target.kind == "binary" and values.shape[-1] == 1:
        values = torch.cat([torch.zeros_like(values), values], -1)
    return cast(Floats, values.softmax(-1).numpy())


@dataclass(frozen=True, eq=False)
class Parts:
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


def entropies(members: Floats, weights: Floats | None = None) -> Parts:
    """Total H(p̄), aleatoric Σ w_m H(p_m) and epistemic, their difference: the mutual information of label and member.

    Example:
        >>> parts = entropies(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]))
        >>> float(parts.aleatoric[0]), round(float(parts.epistemic[0]), 4)
        (0.0, 0.6931)
    """
    total = entr(average(members, weights)).sum(1)
    aleatoric = np.einsum("m,mnk->n", _shares(members, weights), entr(members))
    return Parts(total, aleatoric, np.maximum(total - aleatoric, 0.0))


@dataclass(frozen=True, eq=False)
class ConfidenceCurve:
    """Accuracy on the most confident share of the samples, for each share, and the mean of that."""

    shares: Floats
    accuracy: Floats
    area: float


SHARES = np.arange(1, 21) / 20


def confidence_curve(
    members: Floats, y: Labels, *, uncertainty: Floats | None = None, shares: Floats = SHARES
) -> ConfidenceCurve:
    """Accuracy of the majority vote on the most confident 5 %, 10 %, …, 100 % (TEACUP, fig. 6B).

    Samples with the same uncertainty stand in no order: each counts with the mean accuracy of its group, which is
    the expectation over random orders.

    Args:
        members: Probabilities ``(members, samples, classes)``.
        y: True classes.
        uncertainty: What to rank by, the least first; the variance across members by default.
        shares: The shares of samples.

    Example:
        >>> sure = np.array([[[0.9, 0.1], [0.9, 0.1]], [[0.9, 0.1], [0.3, 0.7]]])
        >>> confidence_curve(sure, np.array([0, 1]), shares=np.array([0.5, 1.0])).accuracy.tolist()
        [1.0, 0.5]
    """
    return curve_of(vote(members) == y, variance(members) if uncertainty is None else uncertainty, shares)


def curve_of(correct: npt.NDArray[np.bool_], uncertainty: Floats, shares: Floats = SHARES) -> ConfidenceCurve:
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
