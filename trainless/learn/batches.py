"""Batches of a part, their augmentation and class weights, and how networks run on them, fast on a GPU too."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainless.core.errors import InputError
from trainless.core.seeds import generator
from trainless.core.target import Target
from trainless.core.task import PartName, Rows, Task
from trainless.core.types import Index
from trainless.learn.recipe import Augmentation

HELD_BYTES = 2**31  # inputs up to this size are kept whole on the device
WARM = 3  # steps before recording, so that optimiser state and workspaces are there
Step = Callable[[Tensor, Tensor], Tensor]


def class_weights(task: Task, how: str, device: torch.device) -> Tensor | None:
    """One weight N / (K · n_k) per class, K counting the classes that have samples; a class without any has 0.

    None where ``how`` is ``"none"`` and not ``"balanced"``, and for regression and tokens.

    Example:
        >>> from trainless.tasks import task
        >>> class_weights(task("digits"), "balanced", torch.device("cpu")).shape
        torch.Size([10])
    """
    if how == "none" or task.target.kind not in ("binary", "multiclass"):
        return None
    counts = np.bincount(np.asarray(task.part("train").y, np.int64), minlength=task.target.classes)
    there = counts > 0
    weights = np.where(there, counts.sum() / (there.sum() * np.maximum(counts, 1)), 0.0)
    return torch.as_tensor(weights, dtype=torch.float32, device=device)


def shares_of(y: Tensor, classes: int, weights: Tensor | None) -> Tensor:
    """Class indices as rows ``(N, classes)`` with the class's weight, or 1, at its place.

    Example:
        >>> shares_of(torch.tensor([0, 1]), 2, torch.tensor([0.5, 2.0])).tolist()
        [[0.5, 0.0], [0.0, 2.0]]
    """
    rows = F.one_hot(y, classes).float()
    return rows if weights is None else rows * weights


def mixed(x: Tensor, y: Tensor, alpha: float, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Every sample with another one of the batch mixed in, and their targets alike (mixup; Zhang et al. 2018).

    The share of the first is drawn from Beta(α, α) for each pair and is at least one half.
    """
    gamma = torch._standard_gamma(torch.full((2, len(x)), alpha, device=x.device), generator=source)
    share = gamma[0] / gamma.sum(0).clamp_min(torch.finfo(gamma.dtype).tiny)
    share = torch.maximum(share, 1 - share)
    order = torch.randperm(len(x), generator=source, device=x.device)
    own, theirs = share.view(-1, *[1] * (x.ndim - 1)), share.view(-1, *[1] * (y.ndim - 1))
    return own * x + (1 - own) * x[order], theirs * y + (1 - theirs) * y[order]


def smoothed_loss(target: Target, answers: Tensor, shares: Tensor, smoothing: float) -> Tensor:
    """Σ w ℓ / Σ w over a batch, where a row of shares has the weight w as its sum; labels are smoothed after that."""
    own = shares.sum(1)
    tiny = torch.finfo(own.dtype).tiny
    label = (1 - smoothing) * shares / own.clamp_min(tiny)[:, None] + smoothing / shares.shape[1]
    return (target.losses(answers, label) * own).sum() / own.sum().clamp_min(tiny)


def augment(x: Tensor, how: Augmentation, source: torch.Generator) -> Tensor:
    """A changed copy of a batch ``(N, C, *spatial)``; every sample is changed on its own.

    Along each axis sample n reads position ``±i + s_n``; what lies outside is zero, the mean of normalised data.
    Lengths and angles change by linear interpolation about the centre. Vectors ``(N, C)`` and tokens come back as they
    are. The generator is on the batch's device.
    """
    if x.ndim < 3 or not x.is_floating_point():
        return x
    for axis in range(2, x.ndim):
        flips = axis - 2 in how.flip
        reach = round(how.shift * x.shape[axis])
        if flips or reach:
            x = _moved(x, axis, flips, reach, source)
    if how.zoom or (how.rotate and x.ndim > 3):
        x = _turned(x, how, source)
    if how.mask:
        x = _masked(x, how.mask, source)
    if how.cutout:
        x = _cut_out(x, how.cutout, source)
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


def _turned(x: Tensor, how: Augmentation, source: torch.Generator) -> Tensor:
    """Zoom along every axis and turn in the plane of the last two."""
    n, dims = len(x), x.ndim - 2
    signal = x[:, :, None] if dims == 1 else x  # a signal is an image of one row
    axes = signal.ndim - 2
    matrix = torch.eye(axes, axes + 1, device=x.device).repeat(n, 1, 1)  # acts on (x, y, z): the last axis first
    for axis in range(dims):
        factor = 1 + how.zoom * (2 * torch.rand(n, generator=source, device=x.device) - 1)
        matrix[:, axis, axis] = 1 / factor
    if dims > 1 and how.rotate:
        angle = math.radians(how.rotate) * (2 * torch.rand(n, generator=source, device=x.device) - 1)
        cos, sin = angle.cos(), angle.sin()
        across = x.shape[-2] / x.shape[-1]  # coordinates run from −1 to 1 along either axis
        turn = torch.stack([torch.stack([cos, -sin * across], -1), torch.stack([sin / across, cos], -1)], 1)
        matrix[:, :2, :2] = turn @ matrix[:, :2, :2]
    grid = F.affine_grid(matrix, list(signal.shape), align_corners=False)
    return F.grid_sample(signal, grid, align_corners=False).view(x.shape)


def _masked(x: Tensor, share: float, source: torch.Generator) -> Tensor:
    """Zero a block of each sample, along each axis as long as a random number up to the share of it."""
    inside = torch.ones((len(x), *[1] * (x.ndim - 1)), dtype=torch.bool, device=x.device)
    for axis in range(2, x.ndim):
        length = x.shape[axis]
        size = share * length * torch.rand(len(x), 1, generator=source, device=x.device)
        start = (length - size) * torch.rand(len(x), 1, generator=source, device=x.device)
        place = torch.arange(length, device=x.device).expand(len(x), length)
        within = (place >= start) & (place < start + size)
        inside = inside & within.view([len(x), *(length if dim == axis else 1 for dim in range(1, x.ndim))])
    return x.masked_fill(inside, 0.0)


def _cut_out(x: Tensor, side: int, source: torch.Generator) -> Tensor:
    """Zero a block of this side around a random place of each sample (DeVries and Taylor, 2017)."""
    inside = torch.ones((len(x), *[1] * (x.ndim - 1)), dtype=torch.bool, device=x.device)
    for axis in range(2, x.ndim):
        length = x.shape[axis]
        start = torch.randint(length, (len(x), 1), generator=source, device=x.device) - side // 2
        place = torch.arange(length, device=x.device).expand(len(x), length)
        within = (place >= start) & (place < start + side)
        inside = inside & within.view([len(x), *(length if dim == axis else 1 for dim in range(1, x.ndim))])
    return x.masked_fill(inside, 0.0)


class Feed:
    """Gives batches of one part by their indices.

    Memory-mapped parts are never loaded whole: each batch is read through ``Task.tensors`` while the one before is
    in use.
    """

    def __init__(self, task: Task, part: PartName, device: torch.device, held_bytes: int = HELD_BYTES) -> None:
        self.task, self.name, self.device = task, part, device
        x = task.part(part).x
        self.size = len(x)
        self.held: tuple[Tensor, Tensor] | None = None
        mapped = isinstance(x, Rows | np.memmap)
        if not mapped and 4 * int(np.prod(x.shape)) <= held_bytes:
            inputs, labels = task.tensors(part)
            self.held = inputs.to(device), labels.to(device)

    def batches(self, chunks: list[Index]) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of these indices, in order."""
        if self.held is None:
            yield from self._read(chunks)
            return
        x, y = self.held
        order = torch.from_numpy(np.concatenate([np.empty(0, np.int64), *chunks])).to(self.device)
        for index in order.split([len(chunk) for chunk in chunks]):
            yield x[index], y[index]

    def _read(self, chunks: list[Index]) -> Iterator[tuple[Tensor, Tensor]]:
        with ThreadPoolExecutor(1) as ahead:
            coming = ahead.submit(self._fetch, chunks[0]) if chunks else None
            for following in [*chunks[1:], None]:
                if coming is None:
                    return
                x, y = coming.result()
                coming = None if following is None else ahead.submit(self._fetch, following)
                yield x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)

    def _fetch(self, chunk: Index) -> tuple[Tensor, Tensor]:
        x, y = self.task.tensors(self.name, chunk)
        return (x.pin_memory(), y.pin_memory()) if self.device.type == "cuda" else (x, y)


def shuffled(n: int, batch: int, seed: int, epoch: int, most: int = 2**20) -> list[Index]:
    """The batches of one epoch: a permutation that depends on seed and epoch alone; no batch of one sample.

    Batch norm cannot normalise a single sample, so a last one is joined to the batch before. Of more than ``most``
    samples an epoch sees that many, so that it takes minutes whatever the size of the data.

    Example:
        >>> [len(chunk) for chunk in shuffled(9, 4, seed=0, epoch=0)]
        [4, 5]
    """
    if n < 2:
        raise InputError(f"{n} training samples were given; expected at least 2: add samples")
    order = torch.randperm(n, generator=generator(seed, f"order/{epoch}")).numpy()[:most]
    chunks = np.split(order, range(batch, len(order), batch))
    if len(chunks) > 1 and len(chunks[-1]) < 2:
        return [*chunks[:-2], np.concatenate(chunks[-2:])]
    return chunks


def in_order(n: int, batch: int) -> list[Index]:
    """All indices in order, in batches."""
    return np.split(np.arange(n), range(batch, n, batch))


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


@dataclass(frozen=True)
class Precision:
    """The device, number type and memory layout that a network runs in."""

    device: torch.device
    dtype: torch.dtype = torch.float32
    layout: torch.memory_format = torch.contiguous_format

    def autocast(self) -> AbstractContextManager[None]:
        if self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, self.dtype, cache_enabled=False)

    def place(self, net: nn.Module) -> nn.Module:
        return in_layout(net.to(self.device), self.layout)

    def arrange(self, x: Tensor) -> Tensor:
        return x if self.layout == torch.contiguous_format else x.contiguous(memory_format=self.layout)


def in_layout(net: nn.Module, layout: torch.memory_format) -> nn.Module:
    """The same network with its kernels in a memory layout."""
    net.to(memory_format=layout)  # type: ignore[call-overload]
    return net


def precision_for(device: torch.device, task: Task) -> Precision:
    """Images on CUDA are channels-last in bfloat16; everything else is plain float32."""
    if device.type != "cuda" or not torch.cuda.is_bf16_supported():
        return Precision(device)
    layouts = {2: torch.channels_last, 3: torch.channels_last_3d}
    return Precision(device, torch.bfloat16, layouts.get(task.dims, torch.contiguous_format))


class GraphedStep:
    """Calls a step as it is a few times, records it, and from then on replays it for batches of the same shape.

    A step is forward, backward and optimiser step on a batch; it returns the loss without its graph and must not wait
    for the device.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.shape = torch.Size()
        self.calls = 0
        self.stream = torch.cuda.Stream()
        self.graph: torch.cuda.CUDAGraph | None = None
        self.x = self.y = self.loss = torch.empty(0)

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss of a step on this batch; valid until the next call."""
        self.shape = self.shape or x.shape
        self.calls += x.shape == self.shape
        if x.shape != self.shape or self.calls <= WARM:
            return self._aside(x, y)
        if self.graph is None:
            self._record(x, y)
        self.x.copy_(x)
        self.y.copy_(y)
        if self.graph is not None:
            self.graph.replay()
        return self.loss

    def _aside(self, x: Tensor, y: Tensor) -> Tensor:
        """The step as it is, on the stream that records, where autograd's nodes then live."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = self.step(x, y)
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss

    def _record(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x.clone(memory_format=torch.preserve_format), y.clone()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            self.loss = self.step(self.x, self.y)
        self.graph = graph
