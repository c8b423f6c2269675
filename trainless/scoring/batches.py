"""Where batches come from: a task that is drawn from, or one batch that was given."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from trainless.core.errors import InputError
from trainless.core.target import Target
from trainless.core.task import Task
from trainless.probe.layout import MemoryLayout

Batch = tuple[Tensor, Tensor]
CPU = torch.device("cpu")
REMEMBERED = 16  # batches that are kept at hand: candidates are scored on the same ones


@dataclass(frozen=True, eq=False)
class BatchSource:
    """Batches for scoring, on a device.

    Args:
        task: Shape, target and, unless a batch is given, the samples.
        given: The one batch to use whatever the seed.
        size: How many samples to draw; 0 leaves it to the proxy's setting.
        device: Where to put them.
    """

    task: Task
    given: Batch | None = None
    size: int = 0
    device: torch.device = CPU
    _drawn: dict[tuple[int, int], Batch] = field(default_factory=dict, repr=False)

    def batch(self, n: int, seed: int) -> Batch:
        """The given batch, or one drawn from the task by the seed; the last few are remembered."""
        if (n, seed) not in self._drawn:
            x, y = self.given or self.task.batch(n, seed)
            if len(self._drawn) >= REMEMBERED:
                del self._drawn[next(iter(self._drawn))]
            self._drawn[n, seed] = x.to(self.device), y.to(self.device)
        return self._drawn[n, seed]

    @property
    def layout(self) -> MemoryLayout:
        """The memory layout of images: their own where they are given, else that which a processor is fastest with."""
        drawn = self.given is None and self.device.type == "cpu"
        return "channels_last" if drawn and self.task.dims == 2 else "given"

    def sample(self, n: int = 2) -> Batch:
        """A few samples, to try a network on."""
        x, y = self.batch(n, 0)
        return x[:n], y[:n]

    @property
    def most(self) -> float:
        """The number of different samples to draw from; infinity for noise."""
        return math.inf if self.task.train is None else len(self.task.train)


def task_of_batch(batch: Batch, target: Target) -> Task:
    """A task without data that has the shape of a batch and its fingerprint.

    Example:
        >>> x, y = torch.zeros(4, 3, 8, 8), torch.tensor([0, 1, 1, 0])
        >>> task_of_batch((x, y), Target("binary", 2)).input_shape
        (3, 8, 8)
    """
    x, y = batch
    vocabulary = 0 if x.is_floating_point() else int(x.max()) + 1
    return Task("batch", tuple(x.shape[1:]), target, vocabulary=vocabulary, fingerprint=fingerprint(x, y, repr(target)))


def fingerprint(*parts: Tensor | str) -> str:
    """A digest of tensors and texts.

    Example:
        >>> fingerprint(torch.zeros(2)) == fingerprint(torch.zeros(2)), fingerprint("a") == fingerprint("b")
        (True, False)
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            digest.update(part.encode())
        else:
            digest.update(f"{part.dtype}{tuple(part.shape)}".encode())
            digest.update(part.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        digest.update(b"\0")
    return digest.hexdigest()[:16]


def require_batch(batch: object) -> None:
    """Raise InputError where a batch is not inputs and labels of as many samples, finite and at least one."""
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        what = f"{len(batch)} tensors" if isinstance(batch, (tuple, list)) else f"a {type(batch).__name__}"
        raise InputError(f"batch={what} was given; expected a pair (x, y) of inputs and labels, or a number with task=")
    x, y = batch
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        raise InputError(
            f"a batch of {type(x).__name__} and {type(y).__name__} was given; expected two tensors (x, y):"
            " use torch.as_tensor"
        )
    if x.ndim < 2 or y.ndim < 1 or len(x) != len(y) or not len(x):
        raise InputError(
            f"a batch with inputs {tuple(x.shape)} and labels {tuple(y.shape)} was given; expected (N, …) and (N, …)"
            " with the same N of at least 1"
        )
    for name, tensor in (("inputs", x), ("labels", y)):
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise InputError(f"the batch's {name} hold NaN or infinite values: clean them first")


def require_labels(y: Tensor, target: Target) -> None:
    """Raise InputError where labels are not of the kind that a target needs."""
    if target.kind != "regression" and (y.is_floating_point() or y.dtype is torch.bool):
        raise InputError(
            f"labels of type {y.dtype} were given for a {target.kind} task; expected whole numbers from 0 to"
            f" {target.outputs - 1}: use y.long()"
        )


def infer_target(y: Tensor, outputs: Tensor | None = None) -> Target:
    """Infer the target from the labels and, where there is a network already, from its outputs.

    Example:
        >>> infer_target(torch.tensor([0, 2, 1])).outputs, infer_target(torch.rand(3)).kind
        (3, 'regression')
        >>> infer_target(torch.tensor([0, 1]), torch.zeros(2, 10)).outputs
        10
    """
    if y.is_floating_point():
        width = y[0].numel()
        if outputs is not None and outputs.shape[-1] != width:
            raise InputError(
                f"labels of type {y.dtype} with {width} value per sample were given, but the network has"
                f" {outputs.shape[-1]} outputs: classes are whole numbers, y.long(); for regression give as many values"
            )
        return Target("regression", width)
    if int(y.min()) < 0:
        raise InputError(f"the label {int(y.min())} was given; expected classes 0 to K-1: renumber them")
    seen = int(y.max()) + 1
    width = max(2, seen if outputs is None else outputs.shape[-1])
    if seen > width:
        raise InputError(
            f"the label {seen - 1} was given, but the network's output has {width} classes: labels are 0 to"
            f" {width - 1}; renumber them or widen the last layer"
        )
    if y.ndim == 2:
        return Target("tokens", width)
    return Target("binary" if width == 2 else "multiclass", width)
