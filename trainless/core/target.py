"""What a network is to predict, and the loss that goes with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from trainless.core.errors import InputError

Kind = Literal["binary", "multiclass", "regression", "tokens"]


@dataclass(frozen=True)
class Target:
    """The kind of prediction, the number of network outputs and the classes' own names.

    Binary targets have two logits and cross-entropy like any other classes; a network with a single logit
    is accepted too. Regression predicts ``outputs`` values with the squared error; tokens predict the next
    one at every position.

    Example:
        >>> Target("multiclass", 3).outputs
        3
    """

    kind: Kind
    outputs: int
    names: tuple[str, ...] = ()

    @property
    def classes(self) -> int:
        """Number of classes; 0 for regression."""
        return 0 if self.kind == "regression" else self.outputs

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """One loss per sample.

        ``outputs`` are ``(N, outputs)``, for tokens ``(N, T, outputs)``; ``y`` are class indices ``(N,)`` or shares of
        classes ``(N, classes)``, values ``(N,)`` or ``(N, outputs)``, or next tokens ``(N, T)``.
        """
        self.require(outputs)
        if self.kind == "regression":
            return (outputs - y.reshape(outputs.shape).to(outputs.dtype)).square().mean(1)
        if self.kind == "tokens":
            return F.cross_entropy(outputs.flatten(0, 1), y.flatten(), reduction="none").view(y.shape).mean(1)
        if outputs.shape[1] == 1:
            y = y[:, 1] if y.ndim == 2 else y
            return F.binary_cross_entropy_with_logits(outputs[:, 0], y.to(outputs.dtype), reduction="none")
        return F.cross_entropy(outputs, y, reduction="none")

    def require(self, outputs: Tensor) -> None:
        """Raise an error that says so when a network's output does not fit this target."""
        require_answers(outputs, self.kind)
        wanted = (self.outputs, 1) if self.kind == "binary" else (self.outputs,)
        if outputs.shape[-1] not in wanted:
            shape = "(N, T, " if self.kind == "tokens" else "(N, "
            raise InputError(
                f"the network's output has shape {tuple(outputs.shape)}, but this {self.kind} task needs"
                f" {shape}{self.outputs}): change the network's last layer or the task's classes"
            )

    def random(self, n: int, generator: torch.Generator, length: int = 0) -> Tensor:
        """Labels without meaning, for inputs that are noise."""
        if self.kind == "regression":
            return torch.randn(n, self.outputs, generator=generator)
        shape = (n, length) if self.kind == "tokens" else (n,)
        return torch.randint(self.outputs, shape, generator=generator)


def require_answers(outputs: Tensor, kind: Kind) -> None:
    """Raise InputError where a network does not give one answer per sample, or per position where tokens are wanted.

    Example:
        >>> require_answers(torch.zeros(2, 4, 16, 16), "multiclass")
        Traceback (most recent call last):
        trainless.core.errors.InputError: the network's output has shape (2, 4, 16, 16), an answer for every position...
    """
    shape, tokens = tuple(outputs.shape), kind == "tokens"
    if outputs.ndim == (3 if tokens else 2):
        return
    if tokens:
        raise InputError(
            f"the network's output has shape {shape}, but the labels are one per position and need (N, T, K): give one"
            " class index per sample, y of shape (N,), or a network that answers at every position"
        )
    if outputs.ndim == 3:
        raise InputError(
            f"the network's output has shape {shape}, an answer for every position, but the labels are one per sample:"
            " choose or pool, such as adapter=lambda out: out.mean(1), or give the next token of every position as"
            " labels (N, T); other sequences to sequences are not scored"
        )
    raise InputError(
        f"the network's output has shape {shape}, an answer for every position: masks (segmentation) and other dense"
        " predictions are not scored; what can be is one answer per sample, by"
        " adapter=lambda out: out.flatten(2).mean(2) and class indices y of shape (N,)"
    )
