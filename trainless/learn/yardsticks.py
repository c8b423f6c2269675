"""Yardsticks: what costs seconds and any ensemble has to beat, on the same cases."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trainless.core.seeds import generator
from trainless.core.task import Part, PartName, Task, by_record
from trainless.core.types import Array, Floats, Index
from trainless.learn.ridge import fit_linear

ROWS = 20_000  # of the training part that are looked at, at most
VALUES = 1024  # of an input; larger ones are made coarser by averages
BANDS = 16  # of a signal's spectrum
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
TREES, STEP = 300, 10
SHARE, TRIED = 0.5, 64  # of the time that features may take, and training rows to time them by
RATE = 1e9  # multiply–accumulates a second, at the least
_POOL: dict[int, Callable[..., Tensor]] = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}


@dataclass(frozen=True, eq=False)
class Yardstick:
    """What a cheap method says of the cases of both parts, probabilities or values; the test part may be missing."""

    name: str
    valid: Floats
    test: Floats | None
    seconds: float


def yardsticks(task: Task, seed: int = 0, seconds: float = 20.0, *, valid: bool = True) -> list[Yardstick]:
    """The prior (or the mean), a linear model and trees, on values and simple features; fewer where time is short.

    All are fitted on the training part alone, of which at most 20,000 rows are drawn. Probabilities are at the prior of
    the training part, and where rows are windows there is one answer for each recording. Tokens have none.

    Args:
        task: The data.
        seed: Of what is drawn; the same gives the same answers where time is not short.
        seconds: About how long it may take: fewer training rows are looked at where they would take more than half of
            it, and trees are grown until then, 300 at most.
        valid: Whether the validation part is answered too; its answers are empty if not.

    Example:
        >>> from trainless.tasks import task
        >>> [yardstick.name for yardstick in yardsticks(task("digits"), seconds=0)]
        ['the prior']
    """
    if task.target.kind == "tokens":
        return []
    started = time.monotonic()
    data = _Data(task, seed, valid)
    if seconds > 0 and not data.shorten(SHARE * seconds):
        seconds = 0.0
    found = [data.judged("the prior" if task.target.classes else "the mean", data.prior, started)]
    for name, fit in (("a linear model", _linear), ("trees", _trees)):
        begun = time.monotonic()
        fitted = fit(data, seed, started + seconds)
        if fitted is not None:
            found.append(data.judged(name, fitted, begun))
    return found


class _Data:
    """Features of a task's parts, made once and only when they are asked for."""

    def __init__(self, task: Task, seed: int, valid: bool) -> None:
        self.task, self.valid, part = task, valid, task.part("train")
        order = torch.randperm(len(part), generator=generator(seed, "yardsticks")).numpy()
        self.drawn: Index = order[:ROWS]
        y = np.asarray(part.y)
        owners = part.records if part.groups is None else part.groups
        self.owners = None if owners is None else np.asarray(owners)
        if task.target.classes:
            counts = np.bincount(np.asarray(y, np.int64), minlength=task.target.classes).astype(np.float64)
            self.answer = (counts + 1 / len(counts)) / (counts.sum() + 1)
        else:
            self.answer = np.asarray(y, np.float64).reshape(len(y), -1).mean(0)
        self._features: dict[str, Floats] = {}

    @property
    def rows(self) -> Index:
        return np.sort(self.drawn)

    @property
    def y(self) -> Tensor:
        kind = np.int64 if self.task.target.classes else np.float64
        return torch.from_numpy(np.array(np.asarray(self.task.part("train").y)[self.rows], kind))

    @property
    def together(self) -> Array | None:
        return None if self.owners is None else self.owners[self.rows]

    def shorten(self, seconds: float) -> bool:
        """Look at as many training rows as the features of all parts may take seconds; whether enough are left."""
        tried = self.drawn[:TRIED]
        began = time.monotonic()
        simple_features(self.task.tensors("train", tried)[0])
        pace = (time.monotonic() - began) / len(tried)
        others = (self.task.valid if self.valid else None, self.task.test)
        most = seconds / max(pace, 1e-9) - sum(len(part) for part in others if part is not None)
        self.drawn = self.drawn[: int(max(0.0, min(most, len(self.drawn))))]
        return len(self.drawn) >= min(TRIED, len(tried))

    def prior(self, name: PartName) -> Floats:
        return np.tile(self.answer, (len(self.task.part(name)), 1))

    def features(self, name: PartName) -> Floats:
        if name not in self._features:
            rows = self.rows if name == "train" else np.arange(len(self.task.part(name)))
            chunks = np.array_split(rows, max(1, len(rows) // 512))
            self._features[name] = np.concatenate(
                [simple_features(self.task.tensors(name, chunk)[0]) for chunk in chunks]
            )
        return self._features[name]

    def judged(self, name: str, answers: Callable[[PartName], Floats], begun: float) -> Yardstick:
        empty = np.empty((0, len(self.answer)))
        valid = _by_case(answers("valid"), self.task.part("valid")) if self.valid else empty
        there = self.task.test is not None and len(self.task.test) > 0
        test = _by_case(answers("test"), self.task.part("test")) if there else None
        return Yardstick(name, valid, test, time.monotonic() - begun)


def _by_case(answers: Floats, part: Part) -> Floats:
    return by_record(answers, part.records)


def simple_features(x: Tensor) -> Floats:
    """Values, made coarser where there are many, and per channel quantiles of values and of steps; spectra of signals.

    Example:
        >>> simple_features(torch.zeros(2, 1, 4)).shape  # 4 values, 7 statistics twice, 3 frequencies
        (2, 21)
    """
    n, dims = len(x), x.ndim - 2
    if dims == 0:
        return np.asarray(x.numpy(), np.float64)
    channels, *size = x.shape[1:]
    shrink = min(1.0, (VALUES / (channels * int(np.prod(size)))) ** (1 / dims))
    coarse = _POOL[dims](x, [max(1, int(length * shrink)) for length in size]) if shrink < 1 else x
    found = [coarse.flatten(1), _statistics(x)]
    if x.shape[-1] > 1:
        found.append(_statistics(x.diff(dim=-1)))
    if dims == 1:
        power = torch.fft.rfft(x).abs().square()
        found.append((F.adaptive_avg_pool1d(power, min(BANDS, power.shape[-1])) + 1e-6).log().flatten(1))
    return np.asarray(torch.cat([part.reshape(n, -1) for part in found], 1).numpy(), np.float64)


def _statistics(x: Tensor) -> Tensor:
    flat = x.flatten(2).sort(2).values
    places = [round(share * (flat.shape[2] - 1)) for share in QUANTILES]
    return torch.cat([flat.mean(2), flat.std(2, correction=0), *(flat[:, :, place] for place in places)], 1)


def _linear(data: _Data, seed: int, until: float) -> Callable[[PartName], Floats] | None:
    """Ridge regression, where there is time for it."""
    n, p = len(data.rows), int(np.prod(data.task.input_shape))
    if time.monotonic() + n * min(p, VALUES) * min(n, p, VALUES) / RATE >= until:
        return None
    target = data.task.target
    fit = fit_linear(torch.from_numpy(data.features("train")), data.y, target, together=data.together)

    def answers(name: PartName) -> Floats:
        values = torch.from_numpy(data.features(name)) @ fit.slope + fit.intercept
        return np.asarray((values.softmax(1) if target.classes else values).numpy())

    return answers


def _trees(data: _Data, seed: int, until: float) -> Callable[[PartName], Floats] | None:
    """Extremely randomised trees (Geurts et al., 2006), ten at a time until the time is up.

    Leaves are pure, so that shares of trees are at the training prior whatever classes weigh. One more tree of which
    nothing is known keeps answers away from certainty.
    """
    if time.monotonic() >= until:
        return None
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    classes = data.task.target.classes
    kind = ExtraTreesClassifier if classes else ExtraTreesRegressor
    forest = kind(STEP, warm_start=True, random_state=seed, n_jobs=1, max_features="sqrt")
    x, y = data.features("train"), data.y.numpy()
    y = y[:, 0] if y.ndim > 1 and y.shape[1] == 1 else y
    while True:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%")
            forest.fit(x, y)
        if forest.n_estimators >= TREES or time.monotonic() >= until:
            break
        forest.n_estimators += STEP

    def answers(name: PartName) -> Floats:
        if not classes:
            values = np.asarray(forest.predict(data.features(name)))
            return values.reshape(len(values), -1)
        shares = np.zeros((len(data.features(name)), classes))
        shares[:, forest.classes_] = forest.predict_proba(data.features(name))
        return np.asarray((forest.n_estimators * shares + data.answer) / (forest.n_estimators + 1))

    return answers
