"""A look at data before anything is trained: parts, classes, copies, leaks, constant inputs, doubtful labels."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trainless.core.task import PARTS, Part, PartName, Task, by_record
from trainless.core.types import Array, Floats, Index, Labels
from trainless.tasks.resize import resize

FLAT = 1e-6  # of the data's deviation, below which an input counts as constant
MOST = 2000  # cases that trees are grown on
FEATURES = 256  # values of a case that trees see, beside as many of a signal's spectrum
FOLDS = 5
PIECE = 2**24  # values that are looked at together
SHOWN = 10  # cases that are named


@dataclass(frozen=True)
class Doubtful:
    """A case whose label trees that never saw it disagree with."""

    part: str
    case: str
    label: str
    looks_like: str
    probability: float


@dataclass(frozen=True)
class Copies:
    """Cases with exactly the same inputs."""

    cases: tuple[str, ...]
    parts: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Findings:
    """What was understood of data, and what a person should look at.

    Args:
        name: The task's.
        kind: What is predicted.
        input_shape: ``(C, *spatial)``.
        range: The least, mean and greatest value of the inputs of the training part.
        cases: How many cases each part has.
        windows: How many rows they were cut into; empty where every case is a row.
        classes: How many cases of each class each part has.
        groups: How many groups each part has; empty where none are known.
        shared_groups: Groups that are in two parts.
        copies: Cases that are exactly alike.
        constant: Cases whose inputs do not vary.
        doubtful: Labels that trees disagree with most.
        trees: Balanced accuracy of those trees in cross-validation; NaN where they were not grown.
        notes: What the loader changed.
    """

    name: str
    kind: str
    input_shape: tuple[int, ...]
    range: tuple[float, float, float]
    cases: Mapping[str, int]
    windows: Mapping[str, int] = field(default_factory=dict)
    classes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    shared_groups: tuple[str, ...] = ()
    copies: tuple[Copies, ...] = ()
    constant: tuple[str, ...] = ()
    doubtful: tuple[Doubtful, ...] = ()
    trees: float = float("nan")
    notes: tuple[str, ...] = ()

    @property
    def leaks(self) -> list[Copies]:
        """Copies that are in several parts."""
        return [each for each in self.copies if len(set(each.parts)) > 1]

    @property
    def contradictions(self) -> list[Copies]:
        """Copies with different labels."""
        return [each for each in self.copies if len(set(each.labels)) > 1]


def look_at(task: Task, *, labels: bool = True) -> Findings:
    """Look at a task; ``labels`` says whether to grow trees that doubt labels, which takes seconds."""
    parts = {name: part for name in PARTS if (part := _part(task, name)) is not None}
    train = task.part("train")
    found = Findings(
        task.name,
        task.target.kind,
        task.input_shape,
        _range(train),
        {name: part.cases for name, part in parts.items()},
        {name: len(part) for name, part in parts.items() if part.records is not None},
        _classes(task, parts),
        {name: len(np.unique(part.groups)) for name, part in parts.items() if part.groups is not None},
        _shared(parts),
        _copies(task, parts),
        _constant(task, parts),
        notes=task.notes,
    )
    if not labels or task.vocabulary or task.target.kind not in ("binary", "multiclass"):
        return found
    doubtful, trees = doubtful_labels(task)
    return Findings(**{**vars(found), "doubtful": doubtful, "trees": trees})


def _part(task: Task, name: PartName) -> Part | None:
    return {"train": task.train, "valid": task.valid, "test": task.test}[name]


def _range(part: Part) -> tuple[float, float, float]:
    values = np.asarray(part.x[: max(1, 2**23 // max(1, int(np.prod(part.x.shape[1:]))))], np.float64)
    return float(values.min()), float(values.mean()), float(values.max())


def _classes(task: Task, parts: Mapping[PartName, Part]) -> dict[str, dict[str, int]]:
    if task.target.kind not in ("binary", "multiclass"):
        return {}
    names = names_of(task)
    counts = {name: np.bincount(part.truth, minlength=len(names)).tolist() for name, part in parts.items()}
    return {name: dict(zip(names, each, strict=True)) for name, each in counts.items()}


def names_of(task: Task) -> tuple[str, ...]:
    """What the classes are called; their numbers where they have no names."""
    return task.target.names or tuple(map(str, range(task.target.classes)))


def case_name(part: Part, case: int) -> str:
    """What a case is called: its name, or its number within its part."""
    return str(case) if part.names is None else str(part.names[part.first[case]])


def _shared(parts: Mapping[PartName, Part]) -> tuple[str, ...]:
    seen: dict[str, set[str]] = defaultdict(set)
    for name, part in parts.items():
        for group in [] if part.groups is None else np.unique(part.groups).tolist():
            seen[str(group)].add(name)
    return tuple(sorted(group for group, where in seen.items() if len(where) > 1))


def _copies(task: Task, parts: Mapping[PartName, Part]) -> tuple[Copies, ...]:
    """Cases whose first rows are the same, byte by byte."""
    seen: dict[bytes, list[tuple[PartName, int]]] = defaultdict(list)
    for name, part in parts.items():
        for case, row in enumerate(part.first):
            values = np.ascontiguousarray(part.x[np.array([row])])
            seen[hashlib.blake2b(values.data, digest_size=16).digest()].append((name, case))
    again = [where for where in seen.values() if len(where) > 1]
    return tuple(
        Copies(
            tuple(case_name(parts[name], case) for name, case in where),
            tuple(name for name, _ in where),
            tuple(_label(task, parts[name], case) for name, case in where),
        )
        for where in again
    )


def _label(task: Task, part: Part, case: int) -> str:
    label = part.y[part.first[case]]
    return names_of(task)[int(label)] if task.target.kind in ("binary", "multiclass") else str(label)


def _constant(task: Task, parts: Mapping[PartName, Part]) -> tuple[str, ...]:
    spread = max(task.std, default=0.0)
    if task.vocabulary or not task.dims:
        return ()
    found = []
    for name, part in parts.items():
        for case, row in enumerate(part.first):
            sample = np.asarray(part.x[np.array([row])], np.float64)[0]
            if float(sample.reshape(len(sample), -1).std(1).max()) <= FLAT * spread:
                found.append(f"{name} {case_name(part, case)}")
    return tuple(found)


def features_of(task: Task, name: PartName, cases: Index) -> Floats:
    """Numbers that trees tell cases by: inputs in a small size, of signals their spectrum too; means over windows."""
    part = task.part(name)
    rows = part.rows_of(cases)
    side = max(1, int((FEATURES / task.input_shape[0]) ** (1 / max(1, task.dims))))
    size = tuple(min(side, own) for own in task.input_shape[1:])
    step = max(1, PIECE // int(np.prod(task.input_shape)))
    pieces = [_features(np.asarray(part.x[rows[at : at + step]], np.float32), size) for at in range(0, len(rows), step)]
    return by_record(np.concatenate(pieces), None if part.records is None else part.records[rows])


def _features(x: Array, size: tuple[int, ...]) -> Floats:
    found = [(resize(x, size) if size else x).reshape(len(x), -1)]
    if len(size) == 1 and x.shape[2] > 1:
        spectrum = np.log1p(np.abs(np.fft.rfft(x - x.mean(2, keepdims=True), axis=2)))[:, :, 1:]
        bins = min(max(1, FEATURES // x.shape[1]), spectrum.shape[2])
        ends = np.linspace(0, spectrum.shape[2], bins + 1).astype(int)[:-1]
        found.append(np.add.reduceat(spectrum, ends, axis=2).reshape(len(x), -1))
    return np.concatenate([np.asarray(each, np.float64) for each in found], axis=1)


def doubtful_labels(task: Task, seed: int = 0) -> tuple[tuple[Doubtful, ...], float]:
    """Training labels that trees disagree with, most doubtful first, and the trees' balanced accuracy.

    Confident learning (Northcutt et al. 2021): probabilities come from trees that did not see the case (nor anybody of
    its group); a label is doubted where another class is the most probable one and at least as probable as it is on
    average for cases of that class. Nothing is doubted where the trees are hardly better than chance.
    """
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.metrics import balanced_accuracy_score
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, cross_val_predict

    part, names = task.part("train"), names_of(task)
    cases = np.sort(np.random.default_rng(seed).permutation(part.cases)[:MOST])
    y: Labels = np.asarray(part.truth)[cases]
    counts = np.bincount(y, minlength=len(names))
    if len(cases) < 2 * FOLDS or counts.min() < 2:
        return (), float("nan")
    groups = None if part.groups is None else np.asarray(part.groups)[part.first[cases]].astype(str)
    folds = int(min(FOLDS, counts.min()))
    split = StratifiedKFold if groups is None else StratifiedGroupKFold
    trees = ExtraTreesClassifier(200, min_samples_leaf=2, class_weight="balanced", random_state=seed, n_jobs=1)
    x = features_of(task, "train", cases)
    try:
        folded = list(split(folds, shuffle=True, random_state=seed).split(x, y, groups))
        if any(len(np.unique(y[train])) < len(names) for train, _ in folded):
            return (), float("nan")
        p = cross_val_predict(trees, x, y, cv=folded, method="predict_proba")
    except ValueError:  # fewer groups than folds
        return (), float("nan")
    right = float(balanced_accuracy_score(y, p.argmax(1)))
    if not tells(right, len(names)):
        return (), right
    return _doubted(task, part, cases, y, p), right


def tells(accuracy: float, classes: int) -> bool:
    """Whether trees of a balanced accuracy know enough to doubt a label: better than a third of the way from chance.

    Example:
        >>> tells(0.69, 2), tells(0.29, 4)
        (True, False)
    """
    return accuracy >= 1 / classes + (1 - 1 / classes) / 3


def _doubted(task: Task, part: Part, cases: Index, y: Labels, p: Floats) -> tuple[Doubtful, ...]:
    names = names_of(task)
    usual = np.array([p[y == k, k].mean() for k in range(len(names))])
    most = p.argmax(1)
    doubted = np.flatnonzero((most != y) & (p.max(1) >= usual[most]))
    order = doubted[np.argsort(p[doubted, y[doubted]] - p[doubted, most[doubted]], kind="stable")]
    return tuple(
        Doubtful(
            "train",
            case_name(part, int(cases[row])),
            names[int(y[row])],
            names[int(most[row])],
            float(p[row, most[row]]),
        )
        for row in order
    )


def examples(task: Task, each: int = 6) -> dict[str, list[Array]]:
    """A few training inputs of every class, evenly over the part; of a regression from the least value to the most."""
    part = task.part("train")
    truth = np.asarray(part.truth)
    if task.target.kind not in ("binary", "multiclass"):
        order = np.argsort(truth.reshape(len(truth), -1)[:, 0], kind="stable")
        chosen = order[np.linspace(0, len(order) - 1, min(each, len(order))).round().astype(int)]
        return {f"{float(truth.reshape(len(truth), -1)[case, 0]):g}": _inputs(part, [case]) for case in chosen}
    found: dict[str, list[Array]] = {}
    for label, name in enumerate(names_of(task)):
        mine = np.flatnonzero(truth == label)
        chosen = mine[np.unique(np.linspace(0, len(mine) - 1, min(each, len(mine))).round().astype(int))]
        found[name] = _inputs(part, chosen.tolist())
    return found


def _inputs(part: Part, cases: Sequence[int]) -> list[Array]:
    return [np.asarray(part.x[np.array([part.first[case]])], np.float64)[0] for case in cases]
