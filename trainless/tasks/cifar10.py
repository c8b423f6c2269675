"""CIFAR-10 from the data directory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainless.core.errors import InputError
from trainless.core.task import PartName, Task
from trainless.tasks.assemble import assemble
from trainless.tasks.npz import arrays_of, parts_of
from trainless.tasks.paths import data_directory, missing
from trainless.tasks.reading import Reading, Samples

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BINARY = "cifar-10-batches-bin"
RECORD = 1 + 3 * 32 * 32  # a label and the three colour planes


def cifar10(*, seed: int = 0) -> Task:
    """CIFAR-10 (Krizhevsky 2009): photographs of 32×32 in 10 classes.

    Reads ``cifar10.npz`` or the official binary version; else the 4,000 lossless images of
    ``cifar10_subset.npz``, whose test images were JPEG and are left out: a test part is cut off instead.

    Args:
        seed: Of the split, for the parts that the file lacks.
    """
    folder = data_directory() / "cifar10"
    if (folder / BINARY).is_dir():
        return _task(_binary(folder / BINARY), seed)
    if (folder / "cifar10.npz").is_file():
        return _task(parts_of(arrays_of(folder / "cifar10.npz")), seed)
    if (folder / "cifar10_subset.npz").is_file():
        notes = ("a subset of 4,000 training images, split here; its lossy test images are left out",)
        return _task(parts_of(arrays_of(folder / "cifar10_subset.npz")), seed, notes)
    raise missing("CIFAR-10", "www.cs.toronto.edu/~kriz/cifar.html (binary version)", f"its folder {BINARY}", folder)


def _task(given: dict[PartName, Samples], seed: int, notes: tuple[str, ...] = ()) -> Task:
    if "train" not in given:
        raise InputError("the CIFAR-10 file lacks train_images and train_labels: get it again")
    return assemble("cifar10", given, Reading(dims=2, seed=seed), CLASSES, notes)


def _binary(folder: Path) -> dict[PartName, Samples]:
    train = [_records(folder / f"data_batch_{batch}.bin") for batch in range(1, 6)]
    test = _records(folder / "test_batch.bin")
    x, y = (np.concatenate([batch[part] for batch in train]) for part in range(2))
    return {"train": Samples(x, y), "test": Samples(*test)}


def _records(path: Path) -> tuple[np.ndarray, np.ndarray]:
    raw = np.fromfile(path, np.uint8) if path.is_file() else np.empty(0, np.uint8)
    if not len(raw) or len(raw) % RECORD:
        raise InputError(f"{path.name} of CIFAR-10 is missing or incomplete: unpack the binary version again")
    rows = raw.reshape(-1, RECORD)
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]
