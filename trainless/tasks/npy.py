"""Tasks from ``.npy`` files, memory-mapped: signals, images or volumes with labels, or a row of tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.tasks.assemble import assemble
from trainless.tasks.npz import reading_numpy
from trainless.tasks.reading import Array, Reading, Samples
from trainless.tasks.source import Source
from trainless.tasks.table import complete, read_table


def from_npy(path: Path, reading: Reading, *, labels: str | Path = "", groups: str | Path = "", name: str = "") -> Task:
    """A task from an ``.npy`` file, which is mapped and never read as a whole.

    Args:
        path: Inputs whose first axis counts the samples; without ``labels`` a table whose last column is the label.
        reading: What the user forces.
        labels: An ``.npy`` file of labels, or a CSV with one column.
        groups: The same for groups.
        name: What to call it; the file's name otherwise.
    """
    x = mapped(path)
    who = _column(Path(groups)) if groups else None
    if labels:
        samples = Samples(x, _column(Path(labels)), who)
        return assemble(name or path.stem, {"train": samples}, reading, source=Source("npy"))
    if x.ndim != 2 or x.shape[1] < 2:
        raise InputError(
            f"{path.name} has shape {x.shape} and no labels: give labels=FILE (.npy or one-column .csv), or a table"
            " of signals whose last column is the label"
        )
    notes = ["the last column was read as the label"]
    samples = Samples(x[:, :-1], np.array(x[:, -1]), who)
    source = Source("npy", label_last=True)
    return assemble(name or path.stem, {"train": samples}, reading, notes=notes, source=source)


def mapped(path: Path) -> Array:
    """The array of an ``.npy`` file, memory-mapped."""
    with reading_numpy(path):
        if path.stat().st_size == 0:
            raise InputError(f"{path.name} is empty: get or save it again")
        return np.lib.format.open_memmap(path, mode="r")


def _column(path: Path) -> Array:
    if not path.is_file():
        raise InputError(f"there is no file {path}: expected one label or group per sample, as .npy or .csv")
    if path.suffix == ".npy":
        return np.array(mapped(path))
    table = read_table(path)
    if table.shape[1] != 1:
        raise InputError(f"{path.name} has {table.shape[1]} columns; expected one, with its name in the first line")
    return complete(table.iloc[:, 0], "label or group", path)
