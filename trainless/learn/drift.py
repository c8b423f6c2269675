"""Drift: whether new inputs look like the training data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch.nn.functional as F
from scipy.stats import binom
from torch import Tensor, nn

from trainless.core.errors import InputError
from trainless.core.types import Floats

LEVEL = 0.05  # the p-value up to which a case is said to be unlike the training data
FEW = 20  # inputs, of which less than one is marked by chance


@dataclass(frozen=True, eq=False)
class Drift:
    """The mean of the training features, a whitening matrix, and the sorted distances of validation data.

    A distance is the norm of (features − mean) · axes.
    """

    mean: Floats
    axes: Floats
    reference: Floats

    def too_few(self, level: float = LEVEL) -> str:
        """Why no case can be said to be unlike the data at this level; empty where it can.

        With n validation samples no p-value is below 1 / (n + 1).
        """
        n, needed = len(self.reference), math.ceil(1 / level - 1 - 1e-9)
        what = "too few calibration samples to tell whether inputs look unlike the training data"
        return "" if n >= needed else f"{what} ({n}, and {needed} are needed)"

    def unlike(self, p_values: Floats, level: float = LEVEL) -> npt.NDArray[np.bool_] | None:
        """Which cases are unlike the data; None where there are too few validation samples to tell."""
        return None if self.too_few(level) else np.asarray(p_values <= level)

    def distances(self, features: Floats) -> Floats:
        """Mahalanobis distance of each sample; infinite where a feature is not finite."""
        gone = np.logical_not(np.isfinite(features).all(axis=1))
        safe = np.where(gone[:, None], 0.0, features)
        return np.where(gone, np.inf, np.linalg.norm((safe - self.mean) @ self.axes, axis=1))

    def p_values(self, features: Floats) -> Floats:
        """Conformal p-values (1 + #{reference ≥ distance}) / (n + 1): small where a sample is unlike the data.

        A new sample like the validation data has a p-value of at most α with probability at most α.
        """
        below = np.searchsorted(self.reference, self.distances(features), side="left")
        return np.asarray((1 + len(self.reference) - below) / (len(self.reference) + 1))


def fit_drift(train: Floats, valid: Floats) -> Drift:
    """Learn where the training features lie and how far held-out ones are (Mahalanobis; Lee et al., 2018).

    The covariance is shrunk towards its diagonal by the share d / (n + d), so that it can be inverted with fewer
    samples than features. Constant features get the smallest scale that floating point allows, so that any change
    of them is seen.

    Example:
        >>> random = np.random.default_rng(0)
        >>> drift = fit_drift(random.normal(size=(200, 2)), random.normal(size=(99, 2)))
        >>> drift.p_values(np.array([[9.0, 9.0]])).tolist()
        [0.01]
    """
    if len(train) < 2 or not len(valid):
        raise InputError(
            f"{len(train)} training and {len(valid)} validation samples were given; expected 2 and 1 at least"
        )
    mean = train.mean(0)
    scale = np.maximum(train.std(0), 1e-6 * np.maximum(1.0, np.abs(mean)))
    z = (train - mean) / scale
    share = z.shape[1] / (len(z) + z.shape[1])
    covariance = (1 - share) * (z.T @ z) / len(z) + share * np.eye(z.shape[1])
    values, vectors = np.linalg.eigh(covariance)
    axes = (vectors / np.sqrt(np.maximum(values, 1e-6))) / scale[:, None]
    drift = Drift(mean, axes, np.empty(0))
    return Drift(mean, axes, np.sort(drift.distances(valid)))


@dataclass(frozen=True)
class DriftWarning:
    """The number of samples that look unlike the data, and the chance of so many if nothing had changed.

    Where that cannot be told, ``reason`` says why, none is counted, and the chance is NaN.
    """

    unlike: int
    samples: int
    p_value: float
    warn: bool
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return self.reason
        if not self.unlike:
            return "no input looks unlike the training data"
        if not self.warn and self.samples < FEW:
            return f"{self.unlike} of {self.samples} inputs look unlike the training data: do not trust these answers"
        if not self.warn:
            return f"{self.unlike} of {self.samples} inputs look unlike the training data, no more than chance explains"
        return (
            f"{self.unlike} of {self.samples} inputs look unlike the training data (chance of so many without drift:"
            f" {self.p_value:.1g}): do not trust these predictions before looking at the inputs"
        )


def drift_warning(drift: Drift, p_values: Floats, *, level: float = LEVEL, alarm: float = 0.01) -> DriftWarning:
    """Warn where more samples than chance explains have a p-value up to ``level``: a chance below ``alarm``.

    A binomial test; the p-values share one reference, so that it is slightly optimistic for batches larger than the
    validation data.

    Example:
        >>> drift = Drift(np.zeros(1), np.eye(1), np.arange(99.0))
        >>> drift_warning(drift, np.full(20, 0.01)).warn, drift_warning(drift, np.linspace(0.01, 1, 20)).warn
        (True, False)
    """
    marked = drift.unlike(p_values, level)
    if marked is None:
        return DriftWarning(0, len(p_values), math.nan, False, drift.too_few(level))
    unlike = int(marked.sum())
    chance = float(binom.sf(unlike - 1, len(p_values), level))
    return DriftWarning(unlike, len(p_values), chance, chance < alarm)


def statistics(x: Tensor) -> Floats:
    """Plain features of inputs ``(N, C, *spatial)``: per channel mean, deviation, range, roughness and tails."""
    values = x.detach().cpu().numpy().astype(np.float64)
    flat = values.reshape(len(values), values.shape[1] if values.ndim > 2 else 1, -1)
    steps = np.abs(np.diff(flat, axis=2)).mean(2) if flat.shape[2] > 1 else np.zeros(flat.shape[:2])
    low, high = np.quantile(flat, [0.05, 0.95], axis=2)
    return np.concatenate([flat.mean(2), flat.std(2), flat.min(2), flat.max(2), steps, low, high], axis=1)


@dataclass(frozen=True, eq=False)
class InputStatistics:
    """The plain statistics of the training inputs, which a check of new ones needs no network for.

    ``mean``, ``axes`` and ``reference`` are those of a :class:`Drift`; ``scale`` is the least and the greatest
    deviation of a training input, and ``span`` its least and greatest value, both in normalised units.
    """

    mean: Floats
    axes: Floats
    reference: Floats
    scale: Floats
    span: Floats

    def p_values(self, found: Floats) -> Floats:
        """Conformal p-values of looking like the data, by the :func:`statistics` of inputs."""
        return Drift(self.mean, self.axes, self.reference).p_values(found)

    def wrong_scale(self, found: Floats) -> npt.NDArray[np.bool_]:
        """Which inputs vary ten times more than any training input, or less than a tenth of the least of them."""
        own = spread(found)
        return np.asarray(~((own >= self.scale[0] / FACTOR) & (own <= self.scale[1] * FACTOR)))


FACTOR = 10.0  # by which the deviation of an input may be beyond those of the training data
KINDS = 7  # statistics of a channel


def spread(found: Floats) -> Floats:
    """The deviation of each input over its channels, from its :func:`statistics`."""
    channels = found.shape[1] // KINDS
    return np.asarray(np.sqrt(np.square(found[:, channels : 2 * channels]).mean(1)))


def fit_inputs(train: Floats, valid: Floats) -> InputStatistics:
    """Learn what inputs look like from the :func:`statistics` of training and held-out ones.

    Example:
        >>> import torch
        >>> some = statistics(torch.randn(40, 1, 64, generator=torch.Generator().manual_seed(0)))
        >>> known = fit_inputs(some[:20], some[20:])
        >>> known.wrong_scale(statistics(torch.randn(2, 1, 64) / 255)).tolist()
        [True, True]
    """
    found, channels = fit_drift(train, valid), train.shape[1] // KINDS
    own = spread(np.concatenate([train, valid]))
    lows, highs = (train[:, kind * channels : (kind + 1) * channels] for kind in (2, 3))
    span = np.array([lows.min(0), highs.max(0)])
    return InputStatistics(found.mean, found.axes, found.reference, np.array([own.min(), own.max()]), span)


MOST_FEATURES = 512  # of a network, that drift and similar cases go by


@contextmanager
def last_features(net: nn.Module) -> Iterator[Callable[[int], Floats]]:
    """Listen to what goes into a network's last linear layer.

    The yielded function gives the features ``(N, d)`` of the last forward pass of N samples; d is 0 where the network
    has no linear layer, and at most ``MOST_FEATURES``: of thousands, as random convolutions have them, the means of as
    many neighbouring ones.
    """
    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    seen: list[Tensor] = []

    def listen(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen[:] = [inputs[0].detach()]

    def features(n: int) -> Floats:
        if not seen:
            return np.empty((n, 0))
        found = seen[0].double().reshape(n, -1)
        if found.shape[1] > MOST_FEATURES:
            found = F.adaptive_avg_pool1d(found[:, None], MOST_FEATURES)[:, 0]
        return np.asarray(found.cpu().numpy())

    handles = [layer.register_forward_pre_hook(listen) for layer in layers[-1:]]
    try:
        yield features
    finally:
        for handle in handles:
            handle.remove()
