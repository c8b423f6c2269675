"""Batches of a task on a device: held there where they fit, otherwise read by index one batch ahead."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trainless.core.errors import InputError
from trainless.core.task import PartName, Rows, Task, generator

HELD_BYTES = 2**31  # inputs up to this size are kept whole on the device
EPOCH = 2**20  # samples of an epoch at most: larger sets are drawn from, anew in every epoch
Index = npt.NDArray[np.int64]


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


def shuffled(n: int, batch: int, seed: int, epoch: int) -> list[Index]:
    """The batches of one epoch: a permutation that depends on seed and epoch alone; no batch of one sample.

    Batch norm cannot normalise a single sample, so a last one is joined to the batch before. Of more than ``EPOCH``
    samples an epoch sees that many, so that it takes minutes whatever the size of the data.

    Example:
        >>> [len(chunk) for chunk in shuffled(9, 4, seed=0, epoch=0)]
        [4, 5]
    """
    if n < 2:
        raise InputError(f"{n} training samples were given; expected at least 2: add samples")
    order = torch.randperm(n, generator=generator(seed, f"order/{epoch}")).numpy()[:EPOCH]
    return _joined(np.split(order, range(batch, len(order), batch)))


def in_order(n: int, batch: int) -> list[Index]:
    """All indices in order, in batches.

    Example:
        >>> [len(chunk) for chunk in in_order(9, 4)]
        [4, 4, 1]
    """
    return np.split(np.arange(n), range(batch, n, batch))


def _joined(chunks: list[Index]) -> list[Index]:
    if len(chunks) > 1 and len(chunks[-1]) < 2:
        return [*chunks[:-2], np.concatenate(chunks[-2:])]
    return chunks
