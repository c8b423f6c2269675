"""Where batches come from: a task that is drawn from, or one batch that was given."""

from __future__ import annotations

import hashlib
import math
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trainless.core.errors import InputError
from trainless.core.target import Kind, Target, require_answers
from trainless.core.task import Task
from trainless.probe.layout import MemoryLayout

Batch = tuple[Tensor, Tensor]
Shape: TypeAlias = tuple[int, ...]
CPU = torch.device("cpu")
REMEMBERED = 16  # batches that are kept at hand: candidates are scored on the same ones
RESIZING = {1: "linear", 2: "bilinear", 3: "trilinear"}  # by spatial dimensions


@dataclass(frozen=True, eq=False)
class BatchSource:
    """Batches for scoring, on a device.

    Args:
        task: Shape, target and, unless a batch is given, the samples.
        given: The one batch to use whatever the seed.
        size: How many samples to draw; 0 leaves it to the proxy's setting.
        device: Where to put them.
        asked: Whether somebody asked for the device, so that a network elsewhere is a mistake.
        inferred: Whether the target is known from the labels alone, so that a network's outputs may say more.
        inputs: The input shapes of networks that take others, by name; or ``"own"``, each network's own where it has
            one (timm).
    """

    task: Task
    given: Batch | None = None
    size: int = 0
    device: torch.device = CPU
    asked: bool = False
    inferred: bool = False
    inputs: Mapping[str, Shape] | Literal["own"] = field(default_factory=dict)
    _drawn: dict[tuple[object, ...], Batch] = field(default_factory=dict, repr=False)

    def batch(self, n: int, seed: int) -> Batch:
        """The given batch, or one drawn from the task by the seed; the last few are remembered."""
        key = (n, seed, self.device, self.task.input_shape, self.task.vocabulary)
        if key not in self._drawn:
            x, y = self.given or self.task.batch(n, seed)
            if len(self._drawn) >= REMEMBERED:
                del self._drawn[next(iter(self._drawn))]
            self._drawn[key] = resized(x.to(self.device), self.task.input_shape), y.to(self.device)
        return self._drawn[key]

    def on(self, device: torch.device) -> BatchSource:
        """The same batches on the device of a network."""
        if self.asked and device.type != self.device.type:
            raise InputError(
                f"the network is on {device}, not on {self.device}: move it there, net.to('{self.device}')"
            )
        return self if device == self.device else replace(self, device=device)

    def sized(self, shape: Sequence[int], vocabulary: int | None = None) -> BatchSource:
        """The same batches with inputs of another shape: other noise, or given and real inputs brought to that size.

        Args:
            shape: Of one sample.
            vocabulary: The number of tokens to draw noise from; None leaves it as it is, 0 is none.
        """
        wanted, tokens = tuple(map(int, shape)), self.task.vocabulary if vocabulary is None else vocabulary
        if (wanted, tokens) == (self.task.input_shape, self.task.vocabulary):
            return self
        if self.given is None and self.task.train is None:
            name = f"noise-{'x'.join(map(str, wanted))}"
            task = replace(self.task, name=name, input_shape=wanted, vocabulary=tokens, fingerprint="")
            return replace(self, task=task)
        here, before = self.task.input_shape, "x".join(map(str, self.task.input_shape))
        if tokens != self.task.vocabulary or len(wanted) != len(here) or len(here) < 2 or wanted[0] != here[0]:
            raise InputError(
                f"inputs of {'x'.join(map(str, wanted))}{' tokens' if tokens else ''} were asked for, but the samples"
                f" are {before}: only sizes can be changed, not channels or kinds; give a batch of that shape"
            )
        marked = fingerprint(self.task.fingerprint, repr(wanted))
        return replace(self, task=replace(self.task, input_shape=wanted, fingerprint=marked))

    def aimed(self, outputs: Tensor) -> BatchSource:
        """The same batches with the target that labels and a network's outputs make."""
        if not self.inferred or self.given is None:
            return self
        target = infer_target(self.given[1], outputs)
        whole = task_of_batch(self.given, target)
        same = self.task.input_shape == whole.input_shape
        marked = whole.fingerprint if same else fingerprint(whole.fingerprint, repr(self.task.input_shape))
        return replace(self, task=replace(self.task, target=target, fingerprint=marked))

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

    def __getstate__(self) -> dict[str, Any]:
        """For another process: the batch as bytes, because to share its memory would change the caller's tensors."""
        return {**self.__dict__, "given": self.given and pickle.dumps(self.given), "_drawn": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        given = state["given"] and pickle.loads(state["given"])  # noqa: S301 - packed by our own coordinator
        self.__dict__.update({**state, "given": given})


def resized(x: Tensor, shape: Shape) -> Tensor:
    """Signals, images or volumes brought to a size by linear interpolation.

    Example:
        >>> resized(torch.zeros(2, 3, 8, 8), (3, 16, 12)).shape
        torch.Size([2, 3, 16, 12])
    """
    if tuple(x.shape[1:]) == shape:
        return x
    return F.interpolate(x, size=shape[1:], mode=RESIZING[len(shape) - 1], align_corners=False)


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


def as_batch(batch: object) -> Batch:
    """Inputs and labels as tensors, or InputError where they are not of as many samples, finite and at least one.

    Arrays of numpy are taken as well; their double precision becomes single.

    Example:
        >>> import numpy as np
        >>> as_batch((np.zeros((2, 3)), np.array([0, 1])))[0].dtype
        torch.float32
    """
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        what = f"{len(batch)} tensors" if isinstance(batch, (tuple, list)) else f"a {type(batch).__name__}"
        raise InputError(f"batch={what} was given; expected a pair (x, y) of inputs and labels, or a number with task=")
    x, y = map(_tensor, batch)
    if isinstance(y, (list, tuple)) and y and isinstance(y[0], Mapping):
        raise InputError(
            f"labels that are a list of dicts of {', '.join(map(str, y[0]))} were given: detection is not scored; what"
            " can be is the backbone with a head of one answer per sample and class indices y of shape (N,)"
        )
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
    if x.dtype is torch.uint8:
        raise InputError(
            "inputs of type torch.uint8 were given; expected x.float() / 255 of images, x.long() of tokens"
        )
    for name, tensor in (("inputs", x), ("labels", y)):
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise InputError(f"the batch's {name} hold NaN or infinite values: clean them first")
    return x, y


def _tensor(values: Any) -> Any:
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiub":
        return values
    tensor = torch.from_numpy(np.array(values))
    return tensor.float() if tensor.dtype is torch.float64 else tensor


def require_labels(x: Tensor, y: Tensor, target: Target | None = None) -> None:
    """Raise InputError where labels are of a task that is not scored, and say what is possible instead.

    Args:
        x: The inputs.
        y: The labels.
        target: What they are labels of, where it is known.

    Example:
        >>> require_labels(torch.zeros(2, 3), torch.tensor([[0, 1], [1, 0]]))
        Traceback (most recent call last):
        trainless.core.errors.InputError: one-hot labels of shape (2, 2) were given; expected class indices...
    """
    if target is not None and target.kind == "regression":
        return
    shape, tokens = tuple(y.shape), not x.is_floating_point() and x.ndim == 2
    if y.ndim > 2:
        raise InputError(
            f"labels of shape {shape} were given, one for every position: masks (segmentation) and other dense"
            " predictions are not scored; give class indices y of shape (N,), and let"
            " adapter=lambda out: out.flatten(2).mean(2) pool the network's map"
        )
    if y.ndim == 2 and not (tokens and not y.is_floating_point()):
        _require_no_vectors(y, shape)
    if target is None and y.is_floating_point() and set(y.unique().tolist()) == {0.0, 1.0}:
        raise InputError(
            f"labels of type {y.dtype} that are 0 or 1 were given; expected class indices (N,), y.long().flatten(); to"
            " predict them as values give task=tl.Task.noise(shape, 1, kind='regression')"
        )
    if tokens and y.ndim == 2 and not y.is_floating_point() and y.shape != x.shape:
        raise InputError(
            f"labels of shape {shape} were given for tokens of shape {tuple(x.shape)}: sequences to sequences of"
            " another length are not scored; give the next token of every position, or one class index per sample"
        )
    if y.dtype is torch.bool or (target is not None and y.is_floating_point()):
        kind = "classification" if target is None else target.kind
        upto = "K - 1" if target is None else target.outputs - 1
        raise InputError(
            f"labels of type {y.dtype} were given for a {kind} task; expected whole numbers from 0 to {upto}: use"
            " y.long()"
        )


def _require_no_vectors(y: Tensor, shape: Shape) -> None:
    """Raise InputError where a sample has a vector of zeros and ones, or of probabilities, for a label."""
    if shape[1] == 1:
        if not y.is_floating_point():
            raise InputError(f"labels of shape {shape} were given; expected one class index each: use y.squeeze(1)")
        return
    values = y.to(torch.float64)
    whole = bool((values.sum(1) - 1).abs().max() < 1e-5) and bool((values >= 0).all())
    if bool(((values == 0) | (values == 1)).all()) and bool(values.any()):
        if whole:
            raise InputError(f"one-hot labels of shape {shape} were given; expected class indices: use y.argmax(1)")
        raise InputError(
            f"labels of shape {shape} with any number of ones per sample were given: multi-label tasks are not scored;"
            " score one label at a time, y[:, 0].long(), or take them as values to predict by"
            f" task=tl.Task.noise(shape, {shape[1]}, kind='regression')"
        )
    if whole:
        raise InputError(
            f"labels of shape {shape} that are probabilities of classes were given; expected class indices:"
            " use y.argmax(1)"
        )


def infer_target(y: Tensor, outputs: Tensor | None = None) -> Target:
    """Infer the target from the labels and, where there is a network already, from its outputs.

    Example:
        >>> infer_target(torch.tensor([0, 2, 1])).outputs, infer_target(torch.rand(3)).kind
        (3, 'regression')
        >>> infer_target(torch.tensor([0, 1]), torch.zeros(2, 10)).outputs
        10
    """
    kind: Kind = "regression" if y.is_floating_point() else "tokens" if y.ndim == 2 else "multiclass"
    if outputs is not None:
        require_answers(outputs, kind)
    if kind == "regression":
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
    return Target("binary" if kind == "multiclass" and width == 2 else kind, width)
