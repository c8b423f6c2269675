"""An ensemble as one module, from raw inputs to everything that it says of them: what is exported."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from trainless.core.types import Floats
from trainless.learn.drift import FACTOR, InputStatistics
from trainless.learn.metrics import BALANCED
from trainless.learn.predictor import Predictor
from trainless.learn.screening import at_prevalence


class EnsembleGraph(nn.Module):
    """An ensemble as one module: raw inputs in, what a :class:`Prediction` holds out, as tensors.

    Members run in float32, everything after their outputs in float64, as in :class:`Predictor`. Where an input is on
    another scale than the training data, its probabilities or values are NaN, its label is −1, and it is referred.

    Where the ensemble answers recordings that are cut into windows, the inputs are all windows of one recording, and
    there is one answer: of the mean of each member's answers, on another scale where most windows are. Whether windows
    look like the training data is said of each.
    """

    mean: Tensor
    std: Tensor
    weights: Tensor
    thresholds: Tensor
    widths: Tensor
    factors: Tensor
    shares: Tensor

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        task = predictor.task
        self.together = answers_recordings(predictor)
        self.nets = nn.ModuleList(net.cpu().eval() for net in predictor.nets)
        self.regression, self.binary = task.target.kind == "regression", task.target.kind == "binary"
        self.temperature = float(predictor.temperature)
        channels = [1, -1, *[1] * task.dims]
        self._hold("mean", np.reshape(np.asarray(task.mean or (0.0,), np.float32), channels))
        self._hold("std", np.reshape(np.asarray(task.std or (1.0,), np.float32), channels))
        self._hold("weights", predictor.weights / predictor.weights.sum())
        self._hold("factors", _factors(predictor))
        self._hold("shares", np.asarray(predictor.prior, np.float64))
        elsewhere = predictor.prevalence is not None
        intervals = predictor.intervals
        sets = None if elsewhere and predictor.sets is not None and not predictor.sets.by_class else predictor.sets
        rule = None if elsewhere else predictor.deferral
        self.has_sets, self.has_intervals, self.has_rule = sets is not None, intervals is not None, rule is not None
        self.screening = predictor.screening
        self._hold("thresholds", np.asarray(() if sets is None else sets.thresholds, np.float64))
        self._hold("widths", np.asarray(() if intervals is None else intervals.widths, np.float64))
        self.floor = 0.0 if intervals is None else intervals.floor
        self.threshold = 0.0 if rule is None else max(rule.threshold, -1.0)
        self.look = None if predictor.inputs is None else InputGraph(predictor.inputs)

    def _hold(self, name: str, value: npt.NDArray[Any]) -> None:
        self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(value)))

    @property
    def names(self) -> list[str]:
        seen = [] if self.look is None else ["like_inputs", "wrong_scale"]
        if self.regression:
            return ["values", "variance", *(["low", "high"] if self.has_intervals else []), *seen]
        there = {
            BALANCED: len(self.shares) > 0,
            "sets": self.has_sets,
            "screen": self.screening is not None,
            "refer": self.has_rule,
        }
        extra = [name for name, so in there.items() if so]
        return ["probabilities", "label", "variance", "total", "aleatoric", "epistemic", *extra, *seen]

    def forward(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """Predict raw inputs ``(N, C, *spatial)`` in float32."""
        x = (inputs - self.mean) / self.std
        seen = () if self.look is None else self.look(x)
        gone = seen[1] if seen else torch.zeros_like(x.flatten(1)[:, 0], dtype=torch.bool)
        members = torch.stack([self._answers(net(x).double()) for net in self.nets])
        if self.together:
            gone, members = gone.double().mean(0, keepdim=True) > 0.5, members.mean(1, keepdim=True)
        share = self.weights.reshape(-1, 1, 1)
        mean = (members * share).sum(0)
        squares = ((members - mean).square() * share).sum(0)
        if self.regression:
            values = mean.masked_fill(gone.unsqueeze(1), math.nan)
            half = self.widths * (squares.sqrt() + self.floor) if self.has_intervals else mean
            return (values, squares.sum(1), *((values - half, values + half) if self.has_intervals else ()), *seen)
        total = _entropy(mean)
        aleatoric = (_entropy(members) * self.weights.reshape(-1, 1)).sum(0)
        own = mean if self.temperature == 1 else (_logs(mean) / self.temperature).softmax(-1)
        p = own * self.factors
        p = p / p.sum(-1, keepdim=True)
        highest, label = p.max(-1)
        answer = (p.masked_fill(gone.unsqueeze(1), math.nan), label.masked_fill(gone, -1))
        said = [*answer, squares.sum(1), total, aleatoric, (total - aleatoric).clamp_min(0.0)]
        if len(self.shares):
            said.append(self._standing_out(own).masked_fill(gone, -1))
        if self.has_sets:
            chosen = torch.arange(p.shape[1]).unsqueeze(0) == own.max(-1)[1].unsqueeze(1)
            said.append((1 - own <= self.thresholds) | chosen | gone.unsqueeze(1))
        if self.screening is not None:
            said.append((own[:, self.screening.positive] >= self.screening.threshold) | gone)
        if self.has_rule:
            said.append(~(1 - highest <= self.threshold) | gone)
        return (*said, *seen)

    def _standing_out(self, p: Tensor) -> Tensor:
        """The class whose probability is highest for its share (:func:`trainless.learn.metrics.alike`)."""
        return torch.where(self.shares > 0, p / self.shares, 0.0).max(-1)[1]

    def _answers(self, values: Tensor) -> Tensor:
        if self.regression:
            return values
        if self.binary and values.shape[-1] == 1:
            values = torch.cat([torch.zeros_like(values), values], -1)
        return values.softmax(-1)


def answers_recordings(predictor: Predictor) -> bool:
    """Whether an ensemble answers recordings of any length that are cut into windows, not each input by itself."""
    return predictor.task.source.any_length


class InputGraph(nn.Module):
    """Whether normalised inputs look like the training data: a p-value each, and whether one is on another scale."""

    mean: Tensor
    axes: Tensor
    reference: Tensor

    def __init__(self, known: InputStatistics) -> None:
        super().__init__()
        for name in ("mean", "axes", "reference"):
            self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(getattr(known, name), np.float64)))
        self.least, self.most = float(known.scale[0]) / FACTOR, float(known.scale[1]) * FACTOR

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """As :func:`trainless.learn.drift.statistics` and what is made of it."""
        flat = x.double().flatten(2) if x.ndim > 2 else x.double().unsqueeze(1)
        size = flat.shape[2]
        level = flat.mean(2, keepdim=True)
        deviation = (flat - level).square().mean(2).sqrt()
        steps = (flat[..., 1:] - flat[..., :-1]).abs().mean(2) if size > 1 else torch.zeros_like(deviation)
        ranked = flat.sort(2)[0]
        low, high = (_between(ranked, share * (size - 1)) for share in (0.05, 0.95))
        found = torch.cat([level[..., 0], deviation, ranked[..., 0], ranked[..., -1], steps, low, high], 1)
        distance = ((found - self.mean) @ self.axes).square().sum(1).sqrt()
        n = self.reference.shape[0]
        above = (self.reference.unsqueeze(0) >= distance.unsqueeze(1)).double().sum(1)
        spread = deviation.square().mean(1).sqrt()
        return (1 + above) / (n + 1), ~((spread >= self.least) & (spread <= self.most))


def _between(ranked: Tensor, place: float) -> Tensor:
    """The value at a place between two ranks, as numpy's linear quantiles have it."""
    first = int(place)
    rest, last = place - first, min(first + 1, ranked.shape[2] - 1)
    return ranked[..., first] * (1 - rest) + ranked[..., last] * rest


def _factors(predictor: Predictor) -> Floats:
    """What each class's probability is multiplied by at another prevalence, before they are normalised."""
    ones = np.ones((1, predictor.task.target.outputs))
    if predictor.prevalence is None or predictor.positive is None:
        return np.asarray(ones[0])
    return np.asarray(at_prevalence(ones, np.asarray(predictor.prior), predictor.positive, predictor.prevalence)[0])


def _logs(p: Tensor) -> Tensor:
    return p.clamp_min(torch.finfo(torch.float64).tiny).log()


def _entropy(p: Tensor) -> Tensor:
    return -(p * _logs(p)).sum(-1)
