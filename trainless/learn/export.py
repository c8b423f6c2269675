"""The whole ensemble with its uncertainty as one ONNX graph (extra ``export``: onnx, onnxscript, onnxruntime)."""

from __future__ import annotations

import importlib
import io
import json
import logging
import math
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from trainless.core.errors import InputError
from trainless.core.files import strict, to_json, write_atomic
from trainless.core.opening import without_links
from trainless.core.task import Task
from trainless.core.types import Floats, Json
from trainless.learn.drift import InputStatistics, spread, statistics
from trainless.learn.graph import EnsembleGraph, answers_recordings
from trainless.learn.metrics import BALANCED, alike
from trainless.learn.predictor import Prediction, Predictor, class_names

FORMAT = 1  # of the metadata
OPSET = 18
TOLERANCE = 1e-4  # between float32 sums of different programs
_FIELDS = {"probabilities": "mean", "values": "mean", BALANCED: "alike"}  # of a prediction, by the output's name
_NEEDED = ("onnx", "onnxscript", "onnxruntime")


def export_onnx(predictor: Predictor, path: Path, *, seed: int = 0) -> list[str]:
    """Write an ensemble as one ONNX file with a dynamic batch, check it with onnxruntime; its outputs' names.

    The graph takes raw inputs ``inputs`` in float32 and normalises them as training did; where answers are by recording
    they are called ``windows`` and are all windows of one recording. Its outputs are those of
    :class:`EnsembleGraph`; the metadata (:func:`about`) say what a program has to know that uses it. That a package of
    the extra is missing, or that the graph does not give what PyTorch gives, is an InputError.
    """
    _require()
    graph = EnsembleGraph(predictor).eval()
    random = np.random.default_rng(seed)
    example = _inputs(predictor, 3, random)
    with tempfile.TemporaryDirectory(prefix="trainless-onnx-") as made:
        beside = Path(made) / path.name
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
                input_names=["windows" if graph.together else "inputs"],
                output_names=graph.names,
                dynamic_shapes={"inputs": {0: torch.export.Dim("batch", min=1)}},
            )
        onnx = importlib.import_module("onnx")
        model = onnx.load(str(beside))
        onnx.helper.set_model_props(model, {key: _text(value) for key, value in about(predictor).items()})
        onnx.save(model, str(beside))
        for size in (1, 5):
            check(predictor, beside, _inputs(predictor, size, random))
        write_atomic(without_links(path), beside.read_bytes())
    return graph.names


def about(predictor: Predictor) -> Json:
    """What the metadata of an exported ensemble say, by key; each value is written as JSON.

    ``format`` is raised when a key changes its meaning. ``input_layout`` names the axes, ``input_range`` the least and
    greatest value of each channel in the training data, ``input_mean`` and ``input_std`` what the graph normalises by
    itself. ``drift`` has what :func:`check_input` compares inputs with; ``input_names`` are what
    the values of a table's row, or the leads of a recording, are called.
    """
    task, known, together = predictor.task, predictor.inputs, answers_recordings(predictor)
    mean, std = np.asarray(task.mean or (0.0,)), np.asarray(task.std or (1.0,))
    axes = {1: ["length"], 2: ["height", "width"], 3: ["depth", "height", "width"]}.get(task.dims, [])
    promises = {name: to_json(getattr(predictor, name)) for name in ("sets", "intervals", "deferral", "screening")}
    return {
        "format": FORMAT,
        "producer": f"trainless {_version()}",
        "task": task.name,
        "kind": task.target.kind,
        "class_names": list(class_names(task.target)),
        "class_shares": list(predictor.prior),
        "answers": "one recording, all of whose windows are given together" if together else "each input",
        "windows": _windows(task) if together else None,
        "positive_class": None if predictor.positive is None else class_names(task.target)[predictor.positive],
        "prevalence": predictor.prevalence,
        "input_shape": list(task.input_shape),
        "input_names": list(task.source.value_names),
        "input_layout": ["batch", "channels", *axes],
        "input_mean": mean.tolist(),
        "input_std": std.tolist(),
        "input_range": None if known is None else (known.span * std + mean).tolist(),
        "temperature": predictor.temperature,
        "thresholds": {name: value for name, value in promises.items() if value is not None},
        "drift": None if known is None else {name: array.tolist() for name, array in vars(known).items()},
    }


def _windows(task: Task) -> Json:
    """How a recording has to be cut."""
    up, down = task.source.resampling or (1, 1)
    how = "as few as cover it, at even distances, so that they overlap; a shorter recording is repeated to fill one"
    return {"length": task.input_shape[-1], "resample_up": up, "resample_down": down, "cut": how}


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("trainless")
    except PackageNotFoundError:
        return "unknown"


def _text(value: Any) -> str:
    return json.dumps(strict(value), ensure_ascii=False, allow_nan=False)


def read_about(path: Path) -> Json:
    """The metadata of an exported ensemble."""
    found = {key: json.loads(value) for key, value in _session(path).get_modelmeta().custom_metadata_map.items()}
    if found.get("format") != FORMAT:
        raise InputError(
            f"{path} is of format {found.get('format')}; expected {FORMAT}: export it again with this trainless"
        )
    return found


def check_input(about: Mapping[str, Any], x: npt.NDArray[Any]) -> Floats:
    """Check raw inputs against what an exported ensemble says of its training data; p-values of looking like them.

    Args:
        about: The metadata, as :func:`read_about` gives them.
        x: Inputs ``(N, C, *spatial)``.

    Raises:
        InputError: The inputs have another shape, are not finite, or most of them are on another scale, such as from 0
            to 1 where the training data were from 0 to 255.
    """
    shape = tuple(about["input_shape"])
    if x.ndim != 1 + len(shape) or x.shape[1:] != shape or not len(x):
        wanted = ", ".join(f"{axis} {size}" for axis, size in zip(about["input_layout"][1:], shape, strict=False))
        raise InputError(f"inputs of shape {x.shape} were given; expected (N, {', '.join(map(str, shape))}): {wanted}")
    if not np.isfinite(x).all():
        raise InputError("inputs are NaN or infinite: fill or leave out such values")
    if about["drift"] is None:
        return np.full(len(x), math.nan)
    known = InputStatistics(**{name: np.asarray(value, np.float64) for name, value in about["drift"].items()})
    channels = [1, -1, *[1] * (len(shape) - 1)]
    mean, std = (np.reshape(np.asarray(about[f"input_{what}"], np.float32), channels) for what in ("mean", "std"))
    found = statistics(torch.from_numpy((np.asarray(x, np.float32) - mean) / std))
    wrong = known.wrong_scale(found)
    if wrong.mean() > 0.5:
        low, high = (_few(end) for end in about["input_range"])
        times = float(np.median(spread(found)) / np.sqrt(known.scale.prod()))
        raise InputError(
            f"{int(wrong.sum())} of {len(x)} inputs vary {times:.2g} times as much as the training data, which were"
            f" between {low} and {high}; these are between {float(x.min()):.4g} and {float(x.max()):.4g}: give values"
            " as the training data had them, not divided or normalised"
        )
    return known.p_values(found)


def _few(values: Sequence[float]) -> str:
    shown = ", ".join(f"{value:.4g}" for value in values[:4])
    return shown + (", …" if len(values) > 4 else "")


def _session(path: Path) -> Any:
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run_onnx(path: Path, x: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[Any]]:
    """Run an exported ensemble; its outputs by their names."""
    session = _session(path)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {session.get_inputs()[0].name: x}), strict=True))


def check(predictor: Predictor, path: Path, x: npt.NDArray[np.float32]) -> None:
    """Raise InputError where a file does not say what the ensemble says of some inputs.

    A label, set or referral may differ only where it hangs on a difference below the tolerance.
    """
    together = np.zeros(len(x), np.int64) if answers_recordings(predictor) else None
    found, said = run_onnx(path, x), predictor.predict(x, records=together)
    if predictor.inputs is not None:
        known, seen = predictor.inputs, statistics(torch.from_numpy(_normalised(predictor.task, x)))
        like, wrong = found.pop("like_inputs"), found.pop("wrong_scale")
        rank = 1 / (len(known.reference) + 1) + TOLERANCE  # a distance may be that of a calibration case
        if np.abs(like - known.p_values(seen)).max() > rank or (wrong != known.wrong_scale(seen)).any():
            raise InputError("the exported check of inputs differs from PyTorch: report this")
    for name, value in found.items():
        wanted = np.asarray(getattr(said, _FIELDS.get(name, name)))
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
    if predictor.prior:
        raised = np.sort(alike(said.mean, predictor.prior), axis=1)
        margins.append(raised[:, -1] - raised[:, -2])
    if predictor.sets is not None:
        margins.append(np.abs(1 - said.mean - np.asarray(predictor.sets.thresholds)).min(1))
    if predictor.deferral is not None:
        margins.append(np.abs(1 - p[:, -1] - predictor.deferral.threshold))
    return bool(min(float(margin.min()) for margin in margins) < TOLERANCE)


def _inputs(predictor: Predictor, n: int, random: np.random.Generator) -> npt.NDArray[np.float32]:
    """Noise with the training data's mean and the deviation that a training input has."""
    task, known = predictor.task, predictor.inputs
    scale = 1.0 if known is None else max(1e-6, float(known.scale.mean()))
    mean, std = _moments(task)
    return np.asarray(random.normal(size=(n, *task.input_shape)) * scale * std + mean, np.float32)


def _moments(task: Task) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Mean and deviation of the channels, in the shape of inputs."""
    mean, std = (np.asarray(each, np.float32) for each in (task.mean or (0.0,), task.std or (1.0,)))
    channels = [1, -1, *[1] * task.dims]
    return mean.reshape(channels), std.reshape(channels)


def _normalised(task: Task, x: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    mean, std = _moments(task)
    return np.asarray((np.asarray(x, np.float32) - mean) / std, np.float32)


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
