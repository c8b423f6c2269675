"""A task: the user's data once, with its shape, target and fingerprint."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trainless.core.errors import InputError
from trainless.core.markup import card
from trainless.core.seeds import generator
from trainless.core.target import Target
from trainless.core.text import counted
from trainless.core.types import Array, Floats, Index

PartName = Literal["train", "valid", "test"]
PARTS: tuple[PartName, ...] = ("train", "valid", "test")


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a memory-mapped array, in an order, read only when they are asked for."""

    source: Array
    index: npt.NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.index), *self.source.shape[1:])

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return self.source.dtype

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, key: npt.NDArray[np.integer] | slice) -> Array:
        return self.source[self.index[key]]


@dataclass(frozen=True, eq=False)
class Part:
    """One split as stored, row by row; a case is a row, or all rows that were cut from one recording.

    Args:
        x: The inputs ``(N, C, *spatial)``.
        y: The label of each row.
        groups: Who each row came from, where known.
        records: The number of the recording that each row is a window of; None where every row is a case of its own.
        names: What the case of each row is called, such as its file, where known.

    Example:
        >>> part = Part(np.zeros((3, 1, 4)), np.array([1, 1, 0]), records=np.array([7, 7, 2]))
        >>> len(part), part.cases, part.truth.tolist()
        (3, 2, [1, 0])
    """

    x: Array | Rows
    y: Array
    groups: Array | None = None
    records: Index | None = None
    names: Array | None = None

    def __len__(self) -> int:
        return len(self.y)

    def first_of(self, rows: Index) -> Index:
        """Of some rows the first of each case, in their order."""
        return rows if self.records is None else rows[first_rows(self.records[rows])]

    @property
    def first(self) -> Index:
        """The first row of each case."""
        return self.first_of(np.arange(len(self)))

    @property
    def cases(self) -> int:
        """How many cases there are."""
        return len(self.first)

    @property
    def truth(self) -> Array:
        """The label of each case."""
        return self.y[self.first]

    def rows_of(self, cases: Index) -> Index:
        """The rows of some cases, in the order of the cases."""
        if self.records is None:
            return cases
        order = np.argsort(self.records, kind="stable")
        ends = np.searchsorted(self.records[order], self.records[self.first[cases]], side="right")
        starts = np.searchsorted(self.records[order], self.records[self.first[cases]], side="left")
        pieces = [order[start:end] for start, end in zip(starts, ends, strict=True)]
        return np.concatenate([np.empty(0, np.int64), *pieces])

    def take(self, rows: Index) -> Part:
        """A part of some rows; of a memory-mapped array without reading them."""
        x = Rows(self.x, rows) if isinstance(self.x, np.memmap) else self.x[rows]
        others = (None if each is None else each[rows] for each in (self.groups, self.records, self.names))
        return Part(x, self.y[rows], *others)


def first_rows(records: Index) -> Index:
    """The first row of each recording, in the order in which recordings come first.

    Example:
        >>> first_rows(np.array([5, 5, 3, 5, 9])).tolist()
        [0, 2, 4]
    """
    return np.sort(np.unique(records, return_index=True)[1])


def by_record(values: Floats, records: Index | None, axis: int = 0) -> Floats:
    """The mean over the windows of each recording, in the order in which recordings come first.

    Args:
        values: Probabilities or anything else, one entry per window along an axis.
        records: The recording of each window; None leaves the values as they are.
        axis: The axis of the windows.

    Example:
        >>> by_record(np.array([[1.0, 0.0], [0.0, 1.0], [0.2, 0.8]]), np.array([4, 4, 1])).tolist()
        [[0.5, 0.5], [0.2, 0.8]]
    """
    if records is None:
        return values
    first = first_rows(records)
    known, inverse = np.unique(records, return_inverse=True)
    rank = np.empty(len(known), np.int64)
    rank[np.searchsorted(known, records[first])] = np.arange(len(first))
    place = rank[inverse.reshape(-1)]
    rows = np.moveaxis(values, axis, 0)
    total = np.zeros((len(first), *rows.shape[1:]))
    np.add.at(total, place, rows)
    count = np.bincount(place).reshape(-1, *[1] * (rows.ndim - 1))
    return np.moveaxis(total / count, 0, axis)


EXAMPLES = {
    "npz": "new.npz",
    "npy": "new.npy",
    "table": "new.csv",
    "images": "new-images/",
    "volumes": "new-volumes/",
    "recordings": "new.npz",
    "ts": "new.ts",
    "wfdb": "new-recordings/",
    "edf": "new-recordings/",
    "dicom": "new-images/",
}
MODES = ("L", "RGB", "F")


@dataclass(frozen=True)
class InputFormat:
    """How a task's inputs were read, so that new inputs can be read alike; plain data.

    ``channels`` says where the channel axis was: ``first``, ``last`` or ``none``; empty is not known. The ``mode`` of
    images is ``L`` (grey), ``RGB`` or ``F`` (more than 8 bits). ``columns`` name a table's values, ``words`` those of
    them that are words, each with its different words; ``label_last`` tells
    whether the last column of an array was the label. Recordings that were resampled say by which fraction
    (``resampling``); where they differed in length, one of ``any_length`` is cut into windows. A long
    table has a ``time_column`` and a column of the ``record``, and time goes by in steps of ``step``;
    files of recordings have channels by name (``columns``) at ``hertz`` samples per second.

    Example:
        >>> InputFormat("table", columns=("t0", "t1")).example
        'new.csv'
    """

    kind: str = "npz"
    channels: str = ""
    mode: str = ""
    resized: bool = False
    columns: tuple[str, ...] = ()
    label_last: bool = False
    resampling: tuple[int, ...] = ()
    any_length: bool = False
    time_column: str = ""
    record: str = ""
    step: float = 0.0
    hertz: float = 0.0
    words: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in EXAMPLES or (self.mode in MODES) != (self.kind == "images"):
            raise InputError(f"a source of kind {self.kind!r} and mode {self.mode!r} is not known to this trainless")

    @property
    def example(self) -> str:
        """A file name for new inputs of this kind."""
        return EXAMPLES[self.kind]

    @property
    def value_names(self) -> tuple[str, ...]:
        """What each value of a table's row is called.

        Example:
            >>> words = (("sex", "f", "m"), ("ward", "a", "b", "c"))
            >>> InputFormat("table", columns=("age", "sex", "ward"), words=words).value_names
            ('age', 'sex=m', 'ward=a', 'ward=b', 'ward=c')
        """
        known = {name: valued(texts) for name, *texts in self.words}
        found = ([f"{name}={text}" for text in known[name]] if name in known else [name] for name in self.columns)
        return tuple(name for names in found for name in names)


def valued(texts: Sequence[str]) -> Sequence[str]:
    """The words of a column that have a value of their own, 0 or 1: of two the second.

    Example:
        >>> valued(["f", "m"]), valued(["a", "b", "c"])
        (['m'], ['a', 'b', 'c'])
    """
    return texts[1:] if len(texts) == 2 else texts


@dataclass(frozen=True, eq=False)
class Task:
    """Data, input shape and target; inputs are normalised per channel from the training part.

    Args:
        name: What to call it.
        input_shape: ``(C, *spatial)``; ``(length,)`` for tokens.
        target: What is predicted.
        train: The training part; None for a task of pure noise.
        valid: The validation part.
        test: The test part.
        mean: Channel means that are subtracted.
        std: Channel deviations that are divided by.
        vocabulary: Number of tokens of a text task; 0 for everything else.
        notes: What the loader changed and the user should know.
        source: How the inputs were read.

    Example:
        >>> task = Task.noise((3, 32, 32), classes=10)
        >>> x, y = task.batch(4, seed=0)
        >>> x.shape, y.shape, task.dims
        (torch.Size([4, 3, 32, 32]), torch.Size([4]), 2)
    """

    name: str
    input_shape: tuple[int, ...]
    target: Target
    train: Part | None = None
    valid: Part | None = None
    test: Part | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    vocabulary: int = 0
    notes: tuple[str, ...] = ()
    source: InputFormat = field(default_factory=InputFormat, repr=False)
    fingerprint: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not self.fingerprint:
            object.__setattr__(self, "fingerprint", _fingerprint(self))

    @classmethod
    def noise(cls, input_shape: Sequence[int], classes: int = 10, *, kind: str = "") -> Task:
        """A task without data: inputs are N(0, 1) and labels are drawn at random.

        Args:
            input_shape: ``(C, *spatial)``.
            classes: Number of classes (outputs for regression).
            kind: ``"regression"``, or empty for binary or multi-class by the number of classes.
        """
        shape = tuple(int(size) for size in input_shape)
        if not 1 <= len(shape) <= 4 or min(shape) < 1:
            raise InputError(
                f"an input of shape {'x'.join(map(str, shape))} was given; expected channels and up to three"
                " spatial sizes, all at least 1, such as 3x32x32"
            )
        if classes < 1 or (classes < 2 and kind != "regression"):
            raise InputError(f"{classes} classes were given; expected at least 2")
        if kind == "regression":
            target = Target("regression", classes)
        else:
            target = Target("binary" if classes == 2 else "multiclass", classes)
        return cls(f"noise-{'x'.join(map(str, shape))}-{classes}", shape, target)

    @property
    def dims(self) -> int:
        """Number of spatial dimensions: 1 for signals, 2 for images, 3 for volumes, 0 for vectors and tokens."""
        return len(self.input_shape) - 1

    def __repr__(self) -> str:
        """Its name, its shape and how many cases there are.

        Example:
            >>> Task.noise((3, 32, 32), classes=10)
            Task(noise-3x32x32-10: 3×32×32, 10 classes, pure noise)
        """
        return f"Task({self.name}: {self._shown()})"

    def _repr_html_(self) -> str:
        parts = {name: part for name in PARTS if (part := getattr(self, name)) is not None}
        rows = [["cases", *(f"{part.cases:,}" for part in parts.values())]]
        if self.target.classes and not self.vocabulary:
            classes = self.target.classes
            counts = [np.bincount(np.asarray(part.truth, np.int64), minlength=classes) for part in parts.values()]
            names = self.target.names or tuple(f"class {number}" for number in range(classes))
            rows = [[name, *(f"{count[place]:,}" for count in counts)] for place, name in enumerate(names)]
        return card(f"Task {self.name}", self._shown(), *self.notes, head=["", *parts], rows=rows if parts else ())

    def _shown(self) -> str:
        """Its shape, what is predicted and how many cases there are."""
        many = counted(self.target.classes, "class", "classes") if self.target.classes else ""
        sizes = [f"{part.cases:,} {name}" for name in PARTS if (part := getattr(self, name)) is not None]
        shape = "×".join(map(str, self.input_shape))
        return ", ".join([shape, many or counted(self.target.outputs, "value"), *(sizes or ["pure noise"])])

    def part(self, name: PartName) -> Part:
        """One split, or an error that says that it is missing."""
        part = {"train": self.train, "valid": self.valid, "test": self.test}[name]
        if part is None:
            raise InputError(f"the task {self.name!r} has no {name} part: it was made without one")
        return part

    def tensors(self, name: PartName, index: npt.NDArray[np.integer] | slice = slice(None)) -> tuple[Tensor, Tensor]:
        """Normalised inputs and labels of some samples of a split."""
        part = self.part(name)
        if self.vocabulary:
            return torch.from_numpy(np.array(part.x[index], np.int64)), torch.from_numpy(
                np.array(part.y[index], np.int64)
            )
        shape = (1, -1, *[1] * self.dims)
        x = np.asarray(part.x[index], np.float32)
        if self.mean:
            x = (x - np.asarray(self.mean, np.float32).reshape(shape)) / np.asarray(self.std, np.float32).reshape(shape)
        dtype = np.float32 if self.target.kind == "regression" else np.int64
        return torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(np.array(part.y[index], dtype))

    def batch(self, n: int, seed: int, part: PartName = "train") -> tuple[Tensor, Tensor]:
        """A batch drawn by a seed: every class in turn from a shuffled order, so that each is there.

        No sample comes twice: where a part has fewer than ``n``, the batch is all of it.

        Example:
            >>> part = Part(np.arange(6.0).reshape(3, 1, 2), np.array([0, 1, 0]))
            >>> len(Task("three", (1, 2), Target("binary", 2), part).batch(64, seed=0)[0])
            3
        """
        if self.train is None:
            return self._noise_batch(n, seed)
        y = np.asarray(self.part(part).y)
        order: npt.NDArray[np.integer] = np.random.default_rng([seed, zlib.crc32(b"batch")]).permutation(len(y))
        if self.target.kind in ("binary", "multiclass"):
            order = _alternate(order, y[order])
        return self.tensors(part, order[:n])

    def _noise_batch(self, n: int, seed: int) -> tuple[Tensor, Tensor]:
        source = generator(seed, "noise")
        if self.vocabulary:
            x = torch.randint(self.vocabulary, (n, *self.input_shape), generator=source)
            return x, self.target.random(n, source, self.input_shape[0])
        return torch.randn(n, *self.input_shape, generator=source), self.target.random(n, source)


def _alternate(order: npt.NDArray[np.integer], labels: npt.NDArray[np.generic]) -> npt.NDArray[np.integer]:
    """Reorder so that classes take turns: first one of each, then the second of each, and so on."""
    turn = np.zeros(len(labels), np.int64)
    for label in np.unique(labels):
        mine = np.flatnonzero(labels == label)
        turn[mine] = np.arange(len(mine))
    return order[np.argsort(turn, kind="stable")]


def _fingerprint(task: Task) -> str:
    """A digest of everything that a score can depend on."""
    digest = hashlib.sha256()
    digest.update(repr((task.input_shape, task.target, task.mean, task.std, task.vocabulary)).encode())
    for part in (task.train, task.valid, task.test):
        digest.update(b"|")
        if part is not None:
            held = (part.x, part.y) if part.records is None else (part.x, part.y, part.records)
            for array in held:
                digest.update(repr((array.shape, array.dtype.str)).encode())
                step = max(1, 2**23 // max(1, int(np.prod(array.shape[1:]))))
                for start in range(0, len(array), step):
                    digest.update(np.ascontiguousarray(array[start : start + step]).data)
    return digest.hexdigest()[:16]
