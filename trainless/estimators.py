"""scikit-learn estimators: ``fit`` designs an ensemble, ``predict`` asks it.

X is ``(N, features)`` for signals without channels, or ``(N, C, *spatial)`` with one to three spatial sizes. Rows
shorter than the space's least size are filled with zeros on the right.

A sample of weight 3 is learnt from as if it were there three times (:mod:`trainless.tasks.weights`). Calibration, sets
and deferral are about cases, each of which counts once whatever its weight, unless weights are counts.

Both pass scikit-learn's estimator checks, which are all about tables of features; none knows of images or volumes. What
does not make sense for these estimators is said by their tags or signatures, so that scikit-learn leaves it out:

* sparse input: a convolution would fill it; it is refused;
* ``partial_fit``: a search starts anew with new data;
* that a regression on a table is good (``poor_score``): the networks are convolutions with a global average, which do
  not know *which* column a value stands in.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from trainless.core.errors import TrainlessError
from trainless.core.machine import device_named
from trainless.core.progress import silent
from trainless.core.target import Target
from trainless.core.task import Part, Task
from trainless.core.types import Array, Floats, Mask
from trainless.designs.pipeline import design
from trainless.designs.planning import PLAIN, ROWS
from trainless.designs.settings import DesignSettings
from trainless.designs.settings import registry as presets
from trainless.learn.predictor import Prediction, Predictor, load_predictor
from trainless.tasks.assemble import moments
from trainless.tasks.reading import are_measurements
from trainless.tasks.split import stratified
from trainless.tasks.weights import repeated

VALID = 0.3  # of the samples: half of them may stop the training, half are for calibration
LEAST = 8  # values along the only axis of a row


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """The common part of both estimators.

    Args:
        preset: ``fast``, ``thorough`` or ``teacup``: how much is done. This and the following take the place of the
            settings' where they are given.
        time: Wall time in seconds, or text such as ``"5m"``.
        seed: The seed of everything.
        device: Where to score, train and predict; ``auto`` is a GPU where there is one.
        workers: Processes on a CPU; 0 for one per core.
        out: The run folder; None keeps nothing.
        settings: Everything else: :class:`~trainless.designs.settings.DesignSettings`.
    """

    predictor_: Predictor

    def __init__(
        self,
        preset: str | None = None,
        time: str | float | None = None,
        seed: int = 0,
        device: str = "cpu",
        workers: int = 1,
        out: str | None = None,
        settings: DesignSettings | None = None,
    ) -> None:
        self.preset, self.time, self.seed, self.settings = preset, time, seed, settings
        self.device, self.workers, self.out = device, workers, out

    def _fit(self, x: Array, y: Array, target: Target, weight: Floats) -> None:
        if (x == x[:1]).all():
            raise ValueError("all inputs of the train part are the same: there is nothing to learn from")
        try:
            rows = x.ndim == 2 and self._searches_rows() and are_measurements(np.unique(x[weight > 0], axis=0))
            self.predictor_ = self._designed(_inputs(x, rows=rows), y, target, weight)
        except TrainlessError as error:
            raise ValueError(str(error)) from error

    def _searches_rows(self) -> bool:
        """Whether the space that is asked for, if any, takes rows of measurements; others see them as signals."""
        settings = self.settings or DesignSettings()
        preset = presets[self.preset or settings.preset]
        return (settings.space or preset.space) in (PLAIN, ROWS)

    def _designed(self, inputs: Array, y: Array, target: Target, weight: Floats) -> Predictor:
        found = repeated(inputs, y, weight)
        _require_classes(y[found.rows], target)
        if found.cases:
            rows, times = np.repeat(found.rows, found.times), None
        else:
            rows, times = found.rows, found.times
        inputs, y = inputs[rows], y[rows]
        strata = np.zeros(len(y), np.int64) if target.kind == "regression" else y
        train, valid = stratified(strata, self.seed, (1 - VALID, VALID))
        if times is not None:
            train, valid = np.repeat(train, times[train]), np.repeat(valid, times[valid])
        mean, std = moments(inputs[train])
        flat = std <= 1e-7 * np.abs(mean)
        task = Task(
            "estimator",
            inputs.shape[1:],
            target,
            Part(inputs[train], y[train], records=train if times is not None else None),
            Part(inputs[valid], y[valid], records=valid if times is not None else None),
            mean=tuple(mean.tolist()),
            std=tuple(np.where(flat, 1.0, std).tolist()),
        )
        if self.out is not None:
            return self._design(task, Path(self.out))
        with tempfile.TemporaryDirectory() as folder:
            return self._design(task, Path(folder) / "run")

    def _design(self, task: Task, out: Path) -> Predictor:
        return design(
            task,
            out,
            preset=self.preset,
            time=self.time,
            seed=self.seed,
            device=self.device,
            workers=self.workers,
            settings=replace(self.settings or DesignSettings(), baseline=0),
            report=self.out is not None,
            progress=silent,
        ).predictor

    def _said(self, x: Any) -> Prediction:
        check_is_fitted(self, "predictor_")
        checked = validate_data(self, x, reset=False, dtype=np.float32, allow_nd=True)
        try:
            return self.predictor_.predict(
                _inputs(checked, rows=len(self.predictor_.task.input_shape) == 1), device_named(self.device)
            )
        except TrainlessError as error:
            raise ValueError(str(error)) from error

    def predict_uncertainty(self, X: Any) -> dict[str, Array]:  # noqa: N803
        """The uncertainty of each sample.

        Args:
            X: The inputs.

        Returns:
            ``variance`` across members; for classes ``total``, ``aleatoric`` and ``epistemic`` entropy in nats and
            whether to ``refer`` to a person; ``like_training``, a p-value that is small for inputs unlike the training
            data.
        """
        said = self._said(X)
        names = ("variance", "total", "aleatoric", "epistemic", "refer")
        found = {**{name: getattr(said, name) for name in names}, "like_training": said.drift}
        return {name: value for name, value in found.items() if value is not None}


class TrainlessClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """Classes by an ensemble of architectures that were found without training.

    Example:
        >>> TrainlessClassifier(settings=DesignSettings(members=3)).settings.members
        3
    """

    classes_: Array

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Design an ensemble for samples and their classes; 30 % of them are kept for stopping and calibration."""
        x, labels = validate_data(self, X, y, dtype=np.float32, allow_nd=True, ensure_min_samples=8)
        check_classification_targets(labels)
        weight = _weights(sample_weight, x)
        x, labels, weight = x[weight > 0], labels[weight > 0], weight[weight > 0]
        self.classes_, codes = np.unique(column_or_1d(labels, warn=True), return_inverse=True)
        classes = len(self.classes_)
        if classes < 2:
            raise ValueError(f"one class was given ({self.classes_[0]!r}); expected at least 2 classes to tell apart")
        target = Target("binary" if classes == 2 else "multiclass", classes, tuple(map(str, self.classes_)))
        self._fit(x, codes.reshape(-1).astype(np.int64), target, weight)
        return self

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """Calibrated probabilities ``(N, classes)``."""
        return self._said(X).mean

    def predict(self, X: Any) -> Array:  # noqa: N803
        """The most probable class of each sample."""
        chosen = self.predict_proba(X).argmax(1)  # first: says so where nothing was fitted
        return np.asarray(self.classes_[chosen])

    def predict_set(self, X: Any) -> Mask:  # noqa: N803
        """Which classes, in the order of ``classes_``, are in the conformal set of each sample."""
        said = self._said(X)
        return np.ones_like(said.mean, bool) if said.sets is None else said.sets


class TrainlessRegressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """Values by an ensemble of architectures that were found without training.

    Example:
        >>> TrainlessRegressor(time="5m").get_params()["time"]
        '5m'
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Design an ensemble for samples and their values; 30 % of them are kept for stopping and calibration."""
        x, values = validate_data(
            self, X, y, dtype=np.float32, allow_nd=True, y_numeric=True, ensure_min_samples=8, multi_output=True
        )
        values = np.asarray(values, np.float32)
        self._columns = values.ndim == 2
        weight = _weights(sample_weight, x)
        target = Target("regression", values.shape[1] if self._columns else 1)
        self._fit(x[weight > 0], values[weight > 0], target, weight[weight > 0])
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True
        return tags

    def predict(self, X: Any) -> Array:  # noqa: N803
        """The ensemble's mean values."""
        mean = self._said(X).mean
        return mean if self._columns else mean[:, 0]

    def predict_set(self, X: Any) -> Array:  # noqa: N803
        """Conformal intervals: lower and upper ends ``(N, 2)``, or ``(N, outputs, 2)`` for several values."""
        said = self._said(X)
        if said.low is None or said.high is None:
            low, high = np.full_like(said.mean, -math.inf), np.full_like(said.mean, math.inf)
        else:
            low, high = said.low, said.high
        ends = np.stack([low, high], axis=-1)
        return ends if self._columns else ends[:, 0]


def _weights(given: Any, x: Array) -> Floats:
    """One weight for each sample, 0 or more and not all 0."""
    found = np.asarray(_check_sample_weight(given, x, dtype=np.float64))
    if (found < 0).any() or not found.any():
        raise ValueError("sample_weight has negative values or nothing but zeros; expected weights of 0 or more")
    return found


def _require_classes(y: Array, target: Target) -> None:
    if target.kind != "regression" and len(lost := np.setdiff1d(np.arange(target.classes), y)):
        raise ValueError(
            f"class {target.names[lost[0]]} has too little weight for any of its samples to be there: raise"
            " sample_weight, or leave the class out"
        )


def load(folder: str | Path) -> Predictor:
    """The predictor of an estimator that was fitted with ``out=folder``, without fitting again."""
    return load_predictor(Path(folder))


def _inputs(x: Array, *, rows: bool) -> Array:
    """Samples as ``(N, C, *spatial)``; ``rows`` of measurements stay as they are, others become signals."""
    if x.ndim > 2 or rows:
        return x
    short = max(0, LEAST - x.shape[1])
    return np.pad(x, ((0, 0), (0, short)))[:, np.newaxis]
