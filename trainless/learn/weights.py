"""Class weights in the loss."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from trainless.core.task import Task


def class_weights(task: Task, how: str, device: torch.device) -> Tensor | None:
    """One weight N / (K · n_k) per class, K counting the classes that have samples; a class without any has 0.

    Args:
        task: Regression and tokens have no class weights.
        how: ``"balanced"``, or ``"none"`` for no weights.
        device: Where to put them.

    Example:
        >>> from trainless.tasks import task
        >>> weights = class_weights(task("digits"), "balanced", torch.device("cpu"))
        >>> weights.shape
        torch.Size([10])
    """
    if how == "none" or task.target.kind not in ("binary", "multiclass"):
        return None
    counts = np.bincount(np.asarray(task.part("train").y, np.int64), minlength=task.target.classes)
    there = counts > 0
    weights = np.where(there, counts.sum() / (there.sum() * np.maximum(counts, 1)), 0.0)
    return torch.as_tensor(weights, dtype=torch.float32, device=device)


def weighted_mean(losses: Tensor, y: Tensor, weights: Tensor | None) -> Tensor:
    """Σ w_y ℓ / Σ w_y over a batch; the plain mean without weights.

    Example:
        >>> float(weighted_mean(torch.tensor([1.0, 4.0]), torch.tensor([0, 1]), torch.tensor([2.0, 1.0])))
        2.0
    """
    if weights is None:
        return losses.mean()
    own = weights[y]
    return (losses * own).sum() / own.sum().clamp_min(torch.finfo(own.dtype).tiny)
