"""Tasks from ``.npz`` files: MedMNIST's layout, ``x``/``y``, or ``x_train``/``y_train``."""

from __future__ import annotations

import zipfile
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from trainless.core.errors import InputError
from trainless.core.files import require_unpacked
from trainless.core.task import InputFormat, PartName, Task
from trainless.core.text import in_a_sentence, reason
from trainless.core.types import Array
from trainless.tasks.assemble import assemble
from trainless.tasks.medmnist import class_names
from trainless.tasks.reading import Samples
from trainless.tasks.settings import Reading, reads

SPELLINGS: dict[PartName, tuple[str, ...]] = {
    "train": ("train", "training"),
    "valid": ("valid", "val", "validation"),
    "test": ("test", "testing"),
}
LAYOUTS = ("{part}_images {part}_labels {part}_groups", "x_{part} y_{part} groups_{part}")
BEGINNINGS = (b"PK", b"\x93N", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")  # zip, one array, pickles


def reading_numpy(path: Path) -> AbstractContextManager[None]:
    """Turn numpy's errors about a file into one line; files with pickled objects are refused, never loaded."""

    def words(error: Exception) -> str:
        said = reason(error)
        if "pickle" in said.lower() or "Python objects" in said:
            return (
                f"{path.name} holds pickled Python objects, which could run code and are never loaded: save plain"
                " arrays of numbers or strings with numpy.savez"
            )
        return f"{path.name} cannot be read ({said}): it may be incomplete; get or save it again"

    return in_a_sentence(words)


def arrays_of(path: Path) -> dict[str, Array]:
    """All arrays of an ``.npz`` file by their names."""
    with reading_numpy(path):
        if path.stat().st_size == 0:
            raise InputError(f"{path.name} is empty: get or save it again")
        with path.open("rb") as file:
            start = file.read(2)
            file.seek(0)
            if not start.startswith(BEGINNINGS):
                raise InputError(f"{path.name} is not a readable .npz: save arrays with numpy.savez, or get it again")
            if zipfile.is_zipfile(file):
                require_unpacked(file, path.name, "save the inputs as .npy, which is never read as a whole")
            file.seek(0)
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise InputError(f"{path.name} is a single array, not an archive: call it .npy")
            found = {name: archive[name] for name in archive.files}
    for name, array in found.items():
        if not isinstance(array, np.ndarray):
            raise InputError(f"{path.name} holds {name!r}, which is no array: save arrays with numpy.savez")
    return found


@reads("kind dims channels label seed size window")
def from_npz(path: Path, reading: Reading) -> Task:
    """A task from an ``.npz`` file.

    It has ``{train,val,test}_{images,labels}`` as in MedMNIST, or ``x``, ``y`` and optionally ``groups``, or the same
    with ``_train``, ``_val`` and ``_test`` behind; ``class_names`` may name the classes. Recordings of different
    lengths are one array ``signal`` with ``offsets`` and ``labels`` (:func:`trainless.tasks.recordings.stored`).
    """
    from trainless.tasks.recordings import from_recordings, stored

    arrays = arrays_of(path)
    names = [str(value) for value in arrays.get("class_names", np.array([])).ravel()]
    if recordings := stored(arrays, path.name):
        return from_recordings(path.stem, {"train": recordings}, reading, names=names)
    if reading.window:
        raise InputError(
            f"window={reading.window} was given, but {path.name} does not hold recordings (signal, offsets)"
        )
    given = parts_of(arrays)
    if "train" not in given:
        raise InputError(
            f"{path.name} has the arrays {', '.join(sorted(arrays)) or 'none'}; expected train_images and"
            " train_labels (with val_… and test_…), x and y, or x_train and y_train"
        )
    return assemble(path.stem, given, reading, names or class_names(path.stem, given))


def parts_of(arrays: dict[str, Array]) -> dict[PartName, Samples]:
    """The parts that the arrays' names tell."""
    lower = {name.lower(): array for name, array in arrays.items()}
    if "x" in lower and "y" in lower:
        return {"train": Samples(lower["x"], lower["y"], lower.get("groups"))}
    found: dict[PartName, Samples] = {}
    for part, spellings in SPELLINGS.items():
        for spelling in spellings:
            for layout in LAYOUTS:
                x, y, groups = layout.format(part=spelling).split()
                if x in lower and y in lower:
                    found[part] = Samples(lower[x], lower[y], lower.get(groups))
    return found


@reads("kind dims channels label labels seed size")
def from_npy(path: Path, reading: Reading, *, groups: str | Path = "") -> Task:
    """A task from an ``.npy`` file, which is mapped and never read as a whole.

    ``reading.labels`` and ``groups`` are ``.npy`` files or one-column CSVs; without labels it is a table whose last
    column is the label.
    """
    x = mapped(path)
    who = _column(Path(groups)) if groups else None
    if reading.labels:
        samples = Samples(x, _column(Path(reading.labels)), who)
        return assemble(path.stem, {"train": samples}, reading, source=InputFormat("npy"))
    if x.ndim != 2 or x.shape[1] < 2:
        raise InputError(
            f"{path.name} has shape {x.shape} and no labels: give --labels FILE (.npy or one-column .csv), or a table"
            " of signals whose last column is the label"
        )
    notes = ["the last column was read as the label"]
    samples = Samples(x[:, :-1], np.array(x[:, -1]), who)
    source = InputFormat("npy", label_last=True)
    return assemble(path.stem, {"train": samples}, reading, notes=notes, source=source)


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
    from trainless.tasks.table import complete, read_table

    table = read_table(path)
    if table.shape[1] != 1:
        raise InputError(f"{path.name} has {table.shape[1]} columns; expected one, with its name in the first line")
    return complete(table.iloc[:, 0], "label or group", path)
