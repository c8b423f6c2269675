"""Labels as given to class indices or values, and the target that they make."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainless.core.errors import InputError
from trainless.core.target import Kind, Target
from trainless.core.types import Array
from trainless.tasks.reading import Reading

FEW = 20  # float labels with at most this many distinct values, each there twice on average, are classes


def vector(y: Array, reading: Reading, notes: list[str]) -> Array:
    """One label per sample, or ``(N, outputs)`` values for several regression outputs."""
    y = _plain(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim == 1:
        return y
    if y.ndim != 2:
        raise InputError(f"labels have shape {y.shape}; expected one label per sample")
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
    shown = ", ".join(repr(value) for value in values[:5].tolist()) + (", …" if len(values) > 5 else "")
    _note(notes, f"labels {shown} were mapped to 0…{len(values) - 1} in this order")
    if names and values.dtype.kind in "iu" and values[0] >= 0 and values[-1] < len(names):
        return tuple(names[int(value)] for value in values)
    return tuple(str(value) for value in values.tolist())


def _note(notes: list[str], text: str) -> None:
    if text not in notes:
        notes.append(text)
