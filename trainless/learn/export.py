"""The whole ensemble with its uncertainty as one ONNX graph (extra ``export``: onnx, onnxscript, onnxruntime)."""

from __future__ import annotations

import importlib
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from trainless.core.errors import InputError
from trainless.core.files import replacing
from trainless.learn.predictor import Prediction, Predictor

OPSET = 18
TOLERANCE = 1e-4  # between float32 sums of different programs
_NEEDED = ("onnx", "onnxscript", "onnxruntime")


class EnsembleGraph(nn.Module):
    """An ensemble as one module: raw inputs in, what a :class:`Prediction` holds out, as tensors.

    Members run in float32, everything after their outputs in float64, as in :class:`Predictor`.
    """

    mean: Tensor
    std: Tensor
    weights: Tensor
    thresholds: Tensor
    widths: Tensor

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        task = predictor.task
        self.nets = nn.ModuleList(net.cpu().eval() for net in predictor.nets)
        self.regression, self.binary = task.target.kind == "regression", task.target.kind == "binary"
        self.temperature = float(predictor.temperature)
        channels = [1, -1, *[1] * task.dims]
        self._hold("mean", np.reshape(np.asarray(task.mean or (0.0,), np.float32), channels))
        self._hold("std", np.reshape(np.asarray(task.std or (1.0,), np.float32), channels))
        self._hold("weights", predictor.weights / predictor.weights.sum())
        sets, intervals, rule = predictor.sets, predictor.intervals, predictor.deferral
        self.has_sets, self.has_intervals, self.has_rule = sets is not None, intervals is not None, rule is not None
        self._hold("thresholds", np.asarray(() if sets is None else sets.thresholds, np.float64))
        self._hold("widths", np.asarray(() if intervals is None else intervals.widths, np.float64))
        self.floor = 0.0 if intervals is None else intervals.floor
        self.threshold = 0.0 if rule is None else max(rule.threshold, -1.0)

    def _hold(self, name: str, value: npt.NDArray[Any]) -> None:
        self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(value)))

    @property
    def names(self) -> list[str]:
        if self.regression:
            return ["values", "variance", *(["low", "high"] if self.has_intervals else [])]
        extra = [*(["sets"] if self.has_sets else []), *(["refer"] if self.has_rule else [])]
        return ["probabilities", "label", "variance", "total", "aleatoric", "epistemic", *extra]

    def forward(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """Predict raw inputs ``(N, C, *spatial)`` in float32."""
        x = (inputs - self.mean) / self.std
        members = torch.stack([self._answers(net(x).double()) for net in self.nets])
        share = self.weights.reshape(-1, 1, 1)
        mean = (members * share).sum(0)
        squares = ((members - mean).square() * share).sum(0)
        if self.regression:
            half = self.widths * (squares.sqrt() + self.floor) if self.has_intervals else mean
            return (mean, squares.sum(1), *((mean - half, mean + half) if self.has_intervals else ()))
        total = _entropy(mean)
        aleatoric = (_entropy(members) * self.weights.reshape(-1, 1)).sum(0)
        p = mean if self.temperature == 1 else (_logs(mean) / self.temperature).softmax(-1)
        highest, label = p.max(-1)
        said = [p, label, squares.sum(1), total, aleatoric, (total - aleatoric).clamp_min(0.0)]
        if self.has_sets:
            chosen = torch.arange(p.shape[1]).unsqueeze(0) == label.unsqueeze(1)
            said.append((1 - p <= self.thresholds) | chosen)
        if self.has_rule:
            said.append(~(1 - highest <= self.threshold))
        return tuple(said)

    def _answers(self, values: Tensor) -> Tensor:
        if self.regression:
            return values
        if self.binary and values.shape[-1] == 1:
            values = torch.cat([torch.zeros_like(values), values], -1)
        return values.softmax(-1)


def _logs(p: Tensor) -> Tensor:
    return p.clamp_min(torch.finfo(torch.float64).tiny).log()


def _entropy(p: Tensor) -> Tensor:
    return -(p * _logs(p)).sum(-1)


def export_onnx(predictor: Predictor, path: Path, *, seed: int = 0) -> list[str]:
    """Write an ensemble as one ONNX file with a dynamic batch, check it with onnxruntime; its outputs' names.

    The graph takes raw inputs ``inputs`` in float32 and normalises them as training did. Its outputs are those of
    :class:`EnsembleGraph`; the drift warning, which compares with the training data, is not among them. That a package
    of the extra is missing, or that the graph does not give what PyTorch gives, is an InputError.
    """
    _require()
    graph = EnsembleGraph(predictor).eval()
    random = np.random.default_rng(seed)
    example = _inputs(predictor, 3, random)
    with replacing(path) as beside:
        with _quiet(), torch.no_grad():
            torch.onnx.export(
                graph,
                (torch.from_numpy(example),),
                str(beside),
                dynamo=True,
                external_data=False,
                verbose=False,
                optimize=True,
                opset_version=OPSET,
                input_names=["inputs"],
                output_names=graph.names,
                dynamic_shapes={"inputs": {0: torch.export.Dim("batch", min=1)}},
            )
        for size in (1, 5):
            check(predictor, beside, _inputs(predictor, size, random))
    return graph.names


def run_onnx(path: Path, x: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[Any]]:
    """Run an exported ensemble; its outputs by their names."""
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"inputs": x}), strict=True))


def check(predictor: Predictor, path: Path, x: npt.NDArray[np.float32]) -> None:
    """Raise InputError where a file does not say what the ensemble says of some inputs.

    A label, set or referral may differ only where it hangs on a difference below the tolerance.
    """
    found, said = run_onnx(path, x), predictor.predict(x)
    for name, value in found.items():
        wanted = np.asarray(getattr(said, "mean" if name in ("probabilities", "values") else name))
        if value.shape != wanted.shape:
            raise InputError(f"the exported {name} has shape {value.shape}, PyTorch gives {wanted.shape}: report this")
        if value.dtype.kind in "fc" and not np.allclose(value, wanted, rtol=TOLERANCE, atol=TOLERANCE):
            worst = float(np.abs(value - wanted).max())
            raise InputError(f"the exported {name} differs from PyTorch by {worst:.2g}: report this")
        if value.dtype.kind not in "fc" and (value != wanted).any() and not _close_call(predictor, said):
            raise InputError(f"the exported {name} differs from PyTorch: report this")


def _close_call(predictor: Predictor, said: Prediction) -> bool:
    """Whether a probability lies within the tolerance of another or of a threshold."""
    p = np.sort(said.mean, axis=1)
    margins = [p[:, -1] - p[:, -2]]
    if predictor.sets is not None:
        margins.append(np.abs(1 - said.mean - np.asarray(predictor.sets.thresholds)).min(1))
    if predictor.deferral is not None:
        margins.append(np.abs(1 - p[:, -1] - predictor.deferral.threshold))
    return bool(min(float(margin.min()) for margin in margins) < TOLERANCE)


def _inputs(predictor: Predictor, n: int, random: np.random.Generator) -> npt.NDArray[np.float32]:
    """Noise with the training data's mean and deviation."""
    task = predictor.task
    channels = [1, -1, *[1] * task.dims]
    mean, std = np.reshape(task.mean or (0.0,), channels), np.reshape(task.std or (1.0,), channels)
    return np.asarray(random.normal(size=(n, *task.input_shape)) * std + mean, np.float32)


def _require() -> None:
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise InputError(f"{name} is not installed: pip install 'trainless[export]'") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's own messages to itself."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
