"""New inputs for a finished design, read as its data were."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trainless.core.errors import InputError
from trainless.core.progress import watched
from trainless.core.task import InputFormat, Task
from trainless.core.types import Array, Index
from trainless.tasks.assemble import require_finite
from trainless.tasks.reading import ChannelLayout, channels_first
from trainless.tasks.recordings import Windowing, cut_all, pieces_of
from trainless.tasks.weigh import readable, require_inside, require_plain

NAMES = ("x", "test_images", "x_test", "images", "inputs")
WORDS = {
    "npz": "arrays (.npz or .npy)",
    "npy": "arrays (.npz or .npy)",
    "table": "a table (.csv or .tsv)",
    "images": "images",
    "volumes": "NIfTI volumes",
    "recordings": "recordings in an .npz (signal and offsets)",
    "ts": "signals in a .ts file",
    "wfdb": "WFDB recordings",
    "edf": "EDF recordings",
    "dicom": "DICOM images",
}
ARRAYS = ("npz", "npy")


@dataclass(frozen=True, eq=False)
class NewInputs:
    """Inputs ``(N, C, *spatial)`` and what each case is called.

    That is its file, its row in a table, or its number counted from 0.
    Where ``records`` are given, a case is all inputs of one number there.
    """

    x: Array
    names: Sequence[str | int]
    records: Index | None = None


def read_new(path: Path, task: Task) -> NewInputs:
    """Read new inputs: arrays, or a file or folder of the kind that the task itself was read from.

    A table may have its label or not; folders of images or NIfTI volumes are read at any depth. The task's own data
    need not be there.
    """
    source = task.source
    if not path.exists():
        raise InputError(f"there is no file or folder {path}: expected new inputs, such as {source.example}")
    kind = _kind(path)
    if not path.is_dir():
        require_plain(path)
    if kind not in (*ARRAYS, source.kind):
        raise InputError(
            f"{path.name} holds {WORDS[kind]}, but the run was made from {WORDS[source.kind]}: give those, such as"
            f" {source.example}, or the inputs as an array in an .npz"
        )
    with readable(path, "new cases"):
        found = READERS[kind](path, source, task.input_shape)
    require_finite(found.x, "new")
    return found


def as_inputs(x: Array, shape: tuple[int, ...], channels: str = "") -> Array:
    """Inputs as ``(N, C, *spatial)``: channels where they were, or else first, last or, of a single one, left out."""
    if x.dtype.kind not in "biuf":
        raise InputError(f"inputs are of type {x.dtype}; expected integers or floats")
    for place in (channels, "first", "none", "last"):
        if place and (place != "none" or shape[0] == 1) and x.shape[1:] == _stored(shape, place):
            return channels_first(x, ChannelLayout(len(shape) - 1, place))
    wanted = ", ".join(map(str, shape))
    raise InputError(f"inputs of shape {x.shape} were given; expected (N, {wanted}), or with the channels last")


def _kind(path: Path) -> str:
    from trainless.tasks.folders import KINDS, kind_of

    if path.is_dir():
        if found := kind_of(path):
            return found.name
        raise InputError(
            f"the folder {path.name} holds none of {', '.join(kind.words for kind in KINDS)}: give a folder with new"
            " inputs"
        )
    suffix = path.with_suffix("").suffix.lower() if path.suffix == ".gz" else path.suffix.lower()
    if suffix in (".npz", ".npy"):
        return suffix[1:]
    if suffix in (".csv", ".tsv", ".parquet"):
        return "table"
    if suffix == ".ts":
        return "ts"
    if one := next((kind for kind in KINDS if kind.is_case(path)), None):
        return one.name
    raise InputError(
        f"{path.name} is of a kind that cannot be read; expected .npz, .npy, .csv, .tsv, .ts, an image, .nii,"
        " .dcm, .hea, .edf or a folder"
    )


def _npz(path: Path, source: InputFormat, shape: tuple[int, ...]) -> NewInputs:
    from trainless.tasks.numpy_files import arrays_of

    arrays = arrays_of(path)
    if source.kind == "recordings" and {"signal", "offsets"} <= set(arrays):
        signals = pieces_of(arrays, path.name)
        return _recordings(signals, arrays.get("records", range(len(signals))), source, shape)
    name = next((name for name in NAMES if name in arrays), next(iter(arrays)) if len(arrays) == 1 else "")
    if not name:
        raise InputError(f"{path.name} has the arrays {', '.join(sorted(arrays)) or 'none'}; expected one called x")
    return _numbered(arrays[name], source, shape)


def _npy(path: Path, source: InputFormat, shape: tuple[int, ...]) -> NewInputs:
    """An array, memory-mapped; a label in the last column, where the data had one there, is left out."""
    from trainless.tasks.numpy_files import mapped

    x = mapped(path)
    if source.label_last and x.ndim == 2 and x.shape[1] == shape[-1] + 1:
        x = x[:, :-1]
    return _numbered(x, source, shape)


def _ts(path: Path, source: InputFormat, shape: tuple[int, ...]) -> NewInputs:
    from trainless.tasks.ts_files import read_ts

    signals = read_ts(path).signals
    return _recordings(signals, range(len(signals)), source, shape)


def _recordings(signals: Sequence[Array], names: Any, source: InputFormat, shape: tuple[int, ...]) -> NewInputs:
    """Recordings resampled and cut as the training's were; of another length only where those differed, too."""
    called = [name if isinstance(name, int) else str(name) for name in names]
    up, down = source.resampling or (1, 1)
    for name, signal in zip(called, signals, strict=True):
        length = math.ceil(signal.shape[1] * up / down)
        if len(signal) != shape[0] or (length != shape[1] and not source.any_length):
            raise InputError(
                f"recording {name} has {len(signal)} channels of {signal.shape[1]} samples; the training data had"
                f" {shape[0]} of {round(shape[1] * down / up)}"
            )
    x, records = cut_all(signals, Windowing(shape[1], up, down))
    return NewInputs(x, called, records)


def _numbered(x: Array, source: InputFormat, shape: tuple[int, ...]) -> NewInputs:
    inputs = _resized(x, source, shape) if source.resized else as_inputs(x, shape, source.channels)
    return NewInputs(inputs, range(len(inputs)))


def _resized(x: Array, source: InputFormat, shape: tuple[int, ...]) -> Array:
    """Inputs of any size, brought to the training's; their channels are where those were."""
    if x.dtype.kind not in "biuf" or x.ndim != len(_stored(shape, source.channels)) + 1:
        return as_inputs(x, shape, source.channels)
    first = channels_first(x, ChannelLayout(len(shape) - 1, source.channels or "none"))
    if first.shape[1] != shape[0]:
        return as_inputs(x, shape, source.channels)
    return _fitted(first, source, shape)


def _table(path: Path, source: InputFormat, shape: tuple[int, ...]) -> NewInputs:
    """The training table's columns by their names; all others, such as the label, are left out."""
    from trainless.tasks.columns import values_of
    from trainless.tasks.table import numbers, read_table, require_full, row_names

    table = read_table(path)
    table.columns = table.columns.astype(str)
    needed = [*source.columns, *(name for name in (source.time_column, source.record) if name)]
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise InputError(
            f"{path.name} has no column {missing[0]!r}; expected a header with all {len(needed)} columns of"
            f" values that the training table had ({len(missing)} are missing)"
        )
    given = table[list(source.columns)]
    if source.time_column:
        numbers(given, path)
        return _long(table, path, source, shape)
    values = values_of(given, source.words, path)
    require_full(given, path)
    if len(shape) > 1:
        values = _fitted(values[:, None], source, shape)[:, 0]
    x = _placed(values, source, shape, path)
    return NewInputs(x, row_names(len(x)).tolist())


def _long(table: Any, path: Path, source: InputFormat, shape: tuple[int, ...]) -> NewInputs:
    """The recordings of a long table, at the steps of time that the training's had."""
    from trainless.tasks.long_tables import moments_of, recordings_in, signal_of

    pieces, names = recordings_in(table, source.record, source.time_column, path)
    signals = []
    for piece, name in zip(pieces, names, strict=True):
        where = f"recording {name} of {path.name}"
        when = moments_of(piece[source.time_column], path)
        signals.append(signal_of(piece[list(source.columns)], when, source.step, where)[0])
    return _recordings(signals, names, source, shape)


def _fitted(x: Array, source: InputFormat, shape: tuple[int, ...]) -> Array:
    """Inputs ``(N, C, *spatial)`` in the size that the training's were brought to, where they were."""
    from trainless.tasks.resize import resize

    return resize(x, shape[1:]) if source.resized and x.ndim == len(shape) + 1 else x


def _images(path: Path, source: InputFormat, shape: tuple[int, ...]) -> NewInputs:
    from trainless.tasks.images import SUFFIXES, pixels, require_like

    files, names = _files(path, [file for file in _below(path) if file.suffix.lower() in SUFFIXES])
    size = _stored(shape, source.channels)[:2]
    for file in files:
        require_like(file, source.mode, () if source.resized else size)
    x = np.stack([pixels(file, source.mode, size) for file in watched(files, "reading images")])
    return NewInputs(_placed(x, source, shape, path), names)


def _volumes(path: Path, source: InputFormat, shape: tuple[int, ...]) -> NewInputs:
    from trainless.tasks.volumes import brought, is_volume, volume

    files, names = _files(path, [file for file in _below(path) if is_volume(file)])
    size = _stored(shape, source.channels)[:3]
    found = [brought(volume(file), size if source.resized else (), 3) for file in watched(files, "reading volumes")]
    for file, one in zip(files, found, strict=True):
        if one.shape[:3] != size:
            raise InputError(f"volume {file.name} is {_by(one.shape)}; the training volumes were {_by(size)}")
        if one.shape != found[0].shape:
            raise InputError(f"volumes {files[0].name} and {file.name} do not have the same number of channels")
    return NewInputs(_placed(np.stack(found), source, shape, path), names)


def _dicom(path: Path, source: InputFormat, shape: tuple[int, ...]) -> NewInputs:
    """Images, or volumes: then a folder of slices is one case, and so is a file with frames."""
    from trainless.tasks.dicom_files import is_dicom, is_dicom_file, read_dicom
    from trainless.tasks.volumes import brought

    dims = len(shape) - 1
    if dims == 2 or path.is_file():
        files, names = _files(path, [file for file in _below(path) if is_dicom_file(file)])
    elif is_dicom(path):
        require_inside(path, path)
        files, names = [path], [path.name]
    else:
        folders = [each for each in sorted(path.rglob("*")) if each.is_dir() and is_dicom(each)]
        files, names = _files(path, folders)
    size = _stored(shape, source.channels)[:dims]
    found = [
        brought(read_dicom(file), size if source.resized else (), dims) for file in watched(files, "reading images")
    ]
    for name, one in zip(names, found, strict=True):
        if one.shape != found[0].shape or one.shape[:dims] != size:
            wanted = _by(_stored(shape, source.channels))
            raise InputError(f"{name} is {_by(one.shape)}; the training data were {wanted}")
    return NewInputs(_placed(np.stack(found), source, shape, path), names)


def _signal_files(path: Path, source: InputFormat, shape: tuple[int, ...]) -> NewInputs:
    """Recordings in files: the training's channels by their names, at its rate."""
    from trainless.tasks.edf_files import is_edf, read_edf
    from trainless.tasks.signal_files import Read, aligned
    from trainless.tasks.wfdb_files import is_wfdb, read_wfdb

    root = path if path.is_dir() else path.parent
    kinds: dict[str, tuple[Callable[[Path], bool], Read]] = {
        "wfdb": (is_wfdb, partial(read_wfdb, root=root)),
        "edf": (is_edf, read_edf),
    }
    is_case, read = kinds[source.kind]
    files, names = _files(path, [file for file in _below(path) if is_case(file)])
    signals = [
        aligned(read(file), source.columns, source.hertz, file.name)[0] for file in watched(files, "reading recordings")
    ]
    return _recordings(signals, names, source, shape)


def _placed(x: Array, source: InputFormat, shape: tuple[int, ...], path: Path) -> Array:
    """The samples as they were stacked for training, with their channels first."""
    stored = _stored(shape, source.channels)
    if x.shape[1:] != stored:
        raise InputError(f"{path.name} has samples of {_by(x.shape[1:])}; the training data had {_by(stored)}")
    return channels_first(x, ChannelLayout(len(shape) - 1, source.channels or "none"))


def _stored(shape: tuple[int, ...], channels: str) -> tuple[int, ...]:
    """The shape of a sample before its channels were brought to the front."""
    if channels == "first":
        return shape
    return (*shape[1:], shape[0]) if channels == "last" else shape[1:]


def _below(path: Path) -> list[Path]:
    """A file itself, or all files in a folder at any depth, without hidden ones."""
    if path.is_file():
        return [path]
    return [file for file in sorted(path.rglob("*")) if file.is_file() and not file.name.startswith(".")]


def _files(path: Path, files: list[Path]) -> tuple[list[Path], list[str]]:
    """The files, and their names as seen from the folder that was given."""
    if path.is_file():
        return files, [path.name]
    for file in files:
        require_inside(file, path)
    return files, [file.relative_to(path).as_posix() for file in files]


def _by(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


READERS: dict[str, Callable[[Path, InputFormat, tuple[int, ...]], NewInputs]] = {
    "npz": _npz,
    "npy": _npy,
    "table": _table,
    "images": _images,
    "volumes": _volumes,
    "ts": _ts,
    "dicom": _dicom,
    "wfdb": _signal_files,
    "edf": _signal_files,
}
