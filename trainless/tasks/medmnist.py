"""MedMNIST's sets from the data directory."""

from __future__ import annotations

import re

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.tasks.assemble import assemble
from trainless.tasks.npz import arrays_of, parts_of
from trainless.tasks.paths import data_directory, missing
from trainless.tasks.reading import Reading

CLASSES = {
    "breastmnist": ("malignant", "normal or benign"),
    "pneumoniamnist": ("normal", "pneumonia"),
    "adrenalmnist3d": ("normal", "hyperplasia"),
}


def medmnist(name: str, *, label: str | int = "") -> Task:
    """A MedMNIST set (Yang et al. 2023, CC BY 4.0) with its own split.

    Args:
        name: The file's name without ``.npz``, such as ``breastmnist`` or ``bloodmnist_64``.
        label: The column, for sets with several labels (``chestmnist``).
    """
    if not re.fullmatch(r"\w+", name):
        raise InputError(f"medmnist:{name} was given; expected a set's name such as medmnist:bloodmnist")
    folder = data_directory() / "medmnist"
    paths = [folder / f"{name}.npz", folder / f"{name}_rebuilt.npz"]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise missing(f"MedMNIST's {name}", "medmnist.com (files on Zenodo)", f"{name}.npz", folder)
    given = parts_of(arrays_of(path))
    if set(given) != {"train", "valid", "test"}:
        raise InputError(f"{path.name} lacks train_images, val_images or test_images with labels: get it again")
    solid = name.split("_")[0].endswith("3d")
    channels = "last" if given["train"].x.ndim == (5 if solid else 4) else "none"
    reading = Reading(dims=3 if solid else 2, channels=channels, label=label)
    notes = [f"read from {path.name}, a rebuilt copy of the set"] if path.stem != name else []
    return assemble(name, given, reading, CLASSES.get(name.removesuffix("_rebuilt"), ()), notes)
