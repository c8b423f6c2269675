"""From samples as read to a task: layout, labels, split, checks, normalisation.

What needs all values is computed in pieces that fit in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from trainless.core.errors import InputError
from trainless.core.target import Kind, Target
from trainless.core.task import PARTS, InputFormat, Part, PartName, Rows, Task
from trainless.core.types import Array, Floats
from trainless.tasks.reading import MEASUREMENTS, Samples, are_measurements, channels_first, detect
from trainless.tasks.resize import resized
from trainless.tasks.settings import Reading, reads
from trainless.tasks.split import FRACTIONS, divided

Given = Mapping[PartName, Samples]
ARRAYS = InputFormat()
PIECE = 2**23  # values held at once


def assemble(
    name: str,
    given: Given,
    reading: Reading,
    names: Sequence[str] = (),
    notes: Sequence[str] = (),
    source: InputFormat = ARRAYS,
) -> Task:
    """Make a task of the parts that are given; those that are missing are cut off the training part.

    ``names`` are the classes' and ``notes`` what the loader has to say, where it knows; where the channels are is added
    to ``source``.
    """
    said = list(notes)
    for part, samples in given.items():
        _check(part, samples)
    inputs, channels = _inputs(given, reading, said)
    for part in given:
        require_finite(inputs[part], part if len(given) > 1 else "")
    codes, target = encode([vector(given[part].y, reading, said) for part in given], reading, names, said)
    read = {part: _part(inputs[part], y, given[part]) for part, y in zip(given, codes, strict=True)}
    parts = _split(read, target, reading.seed)
    _check_parts(parts, target, said)
    mean, std = _normalisation(parts["train"].x, said)
    train, valid, test = (parts[part] for part in PARTS)
    shape, read_as = inputs["train"].shape[1:], replace(source, channels=channels)
    made = Task(name, shape, target, train, valid, test, mean, std, notes=tuple(said), source=read_as)
    return resized(made, reading.size) if reading.size else made


def _part(x: Array, y: Array, samples: Samples) -> Part:
    return Part(x, y, samples.groups, samples.records, samples.names)


def _check(part: PartName, samples: Samples) -> None:
    x, y = samples.x, samples.y
    if x.dtype.kind not in "biuf":
        raise InputError(f"inputs of the {part} part are of type {x.dtype}; expected integers or floats")
    if 0 in x.shape or not x.shape:
        raise InputError(f"inputs of the {part} part are empty (shape {x.shape}); expected at least one sample")
    for what, array in (("labels", y), ("groups", samples.groups), ("names", samples.names)):
        if array is not None and (array.ndim == 0 or len(array) != len(x)):
            raise InputError(f"{len(x)} inputs and {array.size} {what} were given in the {part} part; expected as many")


def _inputs(given: Given, reading: Reading, notes: list[str]) -> tuple[dict[PartName, Array], str]:
    layout = detect(given["train"].x.shape[1:], reading)
    if layout.dims == 1 and layout.channels == "none" and not (reading.dims or reading.size or reading.channels):
        layout = MEASUREMENTS if are_measurements(given["train"].x) else layout
    if layout.note:
        notes.append(layout.note)
    shape = given["train"].x.shape[1:]
    for part, samples in given.items():
        if samples.x.shape[1:] != shape:
            raise InputError(
                f"samples are {shape} in the train part and {samples.x.shape[1:]} in {part}; expected one shape"
            )
    return {part: channels_first(samples.x, layout) for part, samples in given.items()}, layout.channels


def _split(read: dict[PartName, Part], target: Target, seed: int) -> dict[PartName, Part]:
    """Cut the parts that are missing off the training part."""
    wanted: list[PartName] = ["train", *[part for part in PARTS[1:] if part not in read]]
    _check_groups(read)
    if len(wanted) == 1:
        return {part: read[part] for part in PARTS}
    fractions = [1 - 0.15 * (len(wanted) - 1), *FRACTIONS[1 : len(wanted)]]
    whole = read["train"]
    for part, index in zip(wanted, divided(whole, seed, fractions, values=target.kind == "regression"), strict=True):
        if not len(index):
            raise InputError(f"{whole.cases} samples are too few to split in {len(wanted)} parts: add samples")
        read = {**read, part: whole.take(index)}
    return {part: read[part] for part in PARTS}


def _check_groups(read: Mapping[PartName, Part]) -> None:
    seen: dict[object, PartName] = {}
    for part, split in read.items():
        for group in set() if split.groups is None else set(split.groups.tolist()):
            if seen.setdefault(group, part) != part:
                raise InputError(
                    f"group {group!r} is in the {seen[group]} and the {part} part, so it would leak: move all of it"
                    " to one part, or give the data without a split"
                )


def _check_parts(parts: Mapping[PartName, Part], target: Target, notes: list[str]) -> None:
    for name, part in parts.items():
        absent = np.setdiff1d(np.arange(target.classes), part.y)
        if len(absent) and name == "train":
            raise InputError(
                f"class {_label(target, absent[0])} has no sample in the training part: expected every class there;"
                " add samples of it, remove the class, or give the data without a split"
            )
        if len(absent):
            notes.append(f"the {name} part has no sample of class {', '.join(_label(target, k) for k in absent[:5])}")
        if name != "train" and isinstance(part.x, np.ndarray) and isinstance(parts["train"].x, np.ndarray):
            again = copies(parts["train"].x, part.x)
            if again:
                notes.append(f"the {name} part has exact copies of training samples: {again}")


def _label(target: Target, index: int) -> str:
    return repr(target.names[index]) if target.names else str(index)


def _normalisation(x: Array | Rows, notes: list[str]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    mean, std = moments(x)
    flat = std <= 1e-7 * np.abs(mean)
    if flat.any():
        notes.append(f"channel {', '.join(map(str, np.flatnonzero(flat)[:5]))} is constant in the training part")
    return tuple(mean.tolist()), tuple(np.where(flat, 1.0, std).tolist())


@reads("kind dims channels label seed size")
def from_arrays(arrays: Any, reading: Reading) -> Task:
    """Make a task from ``(x, y)`` or ``(x, y, groups)``: arrays, CPU tensors or nested lists."""
    if not isinstance(arrays, (tuple, list)) or len(arrays) not in (2, 3):
        raise InputError(
            f"a task from {_describe(arrays)} was asked for; expected a registered name, a path,"
            " (x, y) or (x, y, groups)"
        )
    x, y, *rest = (_array(what, value) for what, value in zip(("x", "y", "groups"), arrays, strict=False))
    return assemble("arrays", {"train": Samples(x, y, rest[0] if rest else None)}, reading)


def _describe(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return f"{len(value)} arrays"
    return f"a value of type {type(value).__name__}"


def _array(what: str, value: Any) -> Array:
    if isinstance(value, np.ndarray):
        return value
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{what} cannot be read as one array ({str(error).splitlines()[0]}): expected samples of one size,"
            " in the computer's memory"
        ) from error


def pieces(x: Array | Rows, values: int = PIECE) -> Iterator[Array]:
    """The array in consecutive slices of about so many values."""
    step = max(1, values // max(1, int(np.prod(x.shape[1:]))))
    for start in range(0, len(x), step):
        yield x[start : start + step]


def require_finite(x: Array | Rows, part: str = "") -> None:
    """Raise an error that counts the values that float32 cannot hold, and numbers the first sample as it was given."""
    if x.dtype.kind != "f":
        return
    bad = first = 0
    seen = 0
    for piece in pieces(x):
        wrong = ~(np.abs(piece) <= np.finfo(np.float32).max)
        if wrong.any():
            first = first if bad else seen + int(np.flatnonzero(wrong.reshape(len(piece), -1).any(1))[0])
            bad += int(wrong.sum())
        seen += len(piece)
    if bad:
        of = f" of the {part} part" if part else ""
        raise InputError(
            f"{bad} values{of} are NaN or infinite, first in sample {first} (counted from 0): remove or fill them"
        )


def moments(x: Array | Rows, values: int = PIECE) -> tuple[Floats, Floats]:
    """Mean and standard deviation per channel of ``(N, C, *spatial)``, merged piece by piece (Chan et al. 1979)."""
    count = 0
    mean, square = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    axes = (0, *range(2, len(x.shape)))
    for piece in pieces(x, values):
        block = np.asarray(piece, np.float64)
        n = block.size // block.shape[1]
        centre = block.mean(axes)
        shift = centre - mean
        inside = np.square(block - centre.reshape(-1, *[1] * (block.ndim - 2))).sum(axes)
        mean = mean + shift * (n / (count + n))
        square = square + inside + shift**2 * (count * n / (count + n))
        count += n
    return mean, np.sqrt(square / count)


def copies(train: Array, other: Array) -> int:
    """How many samples of another part are exact copies of training samples."""
    known = {_digest(row) for row in train}
    return sum(_digest(row) in known for row in other)


def _digest(row: Array) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(row).data, digest_size=16).digest()


FEW = 20  # float labels with at most this many distinct values, each there twice on average, are classes


def vector(y: Array, reading: Reading, notes: list[str]) -> Array:
    """One label per sample, or ``(N, outputs)`` values for several regression outputs."""
    y = _plain(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim == 1:
        return y
    if y.ndim != 2:
        raise InputError(
            f"labels have shape {y.shape}; expected one class or value per sample: masks (segmentation) are not"
            " supported"
        )
    if reading.label != "":
        return _column(y, reading.label)
    if reading.kind == "regression":
        return y
    if np.isin(y, (0, 1)).all():
        if (y.sum(1) == 1).all():
            _note(notes, "labels were one-hot rows and were read as classes")
            return np.asarray(y.argmax(1))
        raise InputError(
            f"labels have {y.shape[1]} columns of 0 and 1 (multi-label); choose one column with label=0, …"
        )
    if y.dtype.kind == "f":
        return y
    raise InputError(
        f"labels have {y.shape[1]} columns; choose one with label=0, …, or give kind=regression to predict all"
    )


def encode(
    parts: Sequence[Array], reading: Reading, names: Sequence[str], notes: list[str]
) -> tuple[list[Array], Target]:
    """Class indices 0…K−1 (or values) of all parts together, and the target."""
    y = np.concatenate(parts)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise InputError(f"{int((~np.isfinite(y)).sum())} labels are NaN or infinite: remove or correct those samples")
    if _is_regression(y, reading.kind):
        return _values(parts, y)
    values = np.unique(y)
    _check_classes(values, y, reading.kind)
    target = Target(_kind(reading.kind, len(values)), len(values), _names(values, names, notes))
    return [np.searchsorted(values, part).astype(np.int64) for part in parts], target


def _plain(y: Array) -> Array:
    if y.dtype.kind == "O":
        y = np.asarray([str(value) for value in y.ravel()]).reshape(y.shape)
    if y.dtype.kind not in "biufUS":
        raise InputError(f"labels are of type {y.dtype}; expected integers, floats or strings")
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8", "replace")
    return y.astype(np.int64) if y.dtype.kind == "b" else y


def _column(y: Array, label: str | int) -> Array:
    try:
        column = int(label)
    except ValueError:
        column = -1
    if not 0 <= column < y.shape[1]:
        raise InputError(f"label={label!r} was given; labels have columns 0 to {y.shape[1] - 1}")
    return y[:, column]


def _is_regression(y: Array, kind: str) -> bool:
    if kind:
        if kind == "regression" and y.dtype.kind not in "iuf":
            raise InputError(f"kind=regression was given, but labels are strings such as {str(y.flat[0])!r}")
        return kind == "regression"
    if y.ndim == 2:
        return True
    distinct = len(np.unique(y))
    return y.dtype.kind == "f" and (distinct > FEW or 2 * distinct > len(y))


def _values(parts: Sequence[Array], y: Array) -> tuple[list[Array], Target]:
    if len(np.unique(y)) < 2:
        raise InputError(f"all {len(y)} values to predict are {y.flat[0]}; expected values that differ")
    return [part.astype(np.float32) for part in parts], Target("regression", 1 if y.ndim == 1 else y.shape[1])


def _check_classes(values: Array, y: Array, kind: str) -> None:
    if len(values) < 2:
        raise InputError(f"all {len(y)} labels are {str(values[0])!r}, one class only; expected at least two classes")
    if 2 * len(values) > len(y):
        raise InputError(
            f"{len(values)} classes for {len(y)} samples were given; expected at least two samples per class on"
            " average: add samples, merge classes, or give kind=regression if labels are values"
        )
    if kind == "binary" and len(values) != 2:
        raise InputError(f"kind=binary was given, but labels have {len(values)} classes; leave kind out")


def _kind(kind: str, classes: int) -> Kind:
    return "multiclass" if kind == "multiclass" or classes > 2 else "binary"


def _names(values: Array, names: Sequence[str], notes: list[str]) -> tuple[str, ...]:
    if np.array_equal(values, np.arange(len(values))) and len(names) in (0, len(values)):
        return tuple(names)
    if values.dtype.kind != "U":  # text is the classes' names, in whatever order these are wanted
        shown = ", ".join(repr(value) for value in values[:5].tolist()) + (", …" if len(values) > 5 else "")
        _note(notes, f"labels {shown} were mapped to 0…{len(values) - 1} in this order")
    if names and values.dtype.kind in "iu" and values[0] >= 0 and values[-1] < len(names):
        return tuple(names[int(value)] for value in values)
    return tuple(str(value) for value in values.tolist())


def _note(notes: list[str], text: str) -> None:
    if text not in notes:
        notes.append(text)
