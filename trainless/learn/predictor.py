"""The finished ensemble: predictions with their uncertainty, sets, referrals and drift."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from trainless.core.errors import InputError
from trainless.core.files import from_json, to_json, write_json
from trainless.core.opening import without_links
from trainless.core.target import Target
from trainless.core.task import Part, PartName, Task, by_record
from trainless.core.text import undamaged
from trainless.core.types import Floats, Index, Labels, Mask
from trainless.learn.batches import Feed, Precision, in_order, outputs
from trainless.learn.calibration import (
    ConformalIntervals,
    ConformalSets,
    fit_intervals,
    fit_sets,
    fit_temperature,
    sharpen,
)
from trainless.learn.checkpoint import read_tensors, write_tensors
from trainless.learn.deferral import Deferral, fit_deferral
from trainless.learn.drift import Drift, InputStatistics, fit_drift, fit_inputs, last_features, statistics
from trainless.learn.ensemble import average, entropies, predictions, require_members, variance, vote
from trainless.learn.members import VERSION, load_member, member_folder, read_document, task_from_json, task_to_json
from trainless.learn.metrics import alike
from trainless.learn.neighbours import Neighbours, neighbours_of
from trainless.learn.reading import ReadingSettings, class_index
from trainless.learn.screening import Screening, at_prevalence, fit_screening
from trainless.spaces.protocol import Space

ENSEMBLE = "ensemble.json"
READING = ("positive", "prior", "prevalence")
PROMISES: Mapping[str, type[Any]] = MappingProxyType(
    {"sets": ConformalSets, "intervals": ConformalIntervals, "deferral": Deferral, "screening": Screening}
)
DRIFT_SAMPLES = 4000  # training samples that drift is learnt from, at most
LEAST_SAMPLES = 300  # that it is learnt from however little time there is
FLOOR = 0.1  # of the training values' deviation, added to the members' deviation in intervals


@dataclass(frozen=True, eq=False)
class Prediction:
    """The ensemble's answers about each sample; a field is None where it does not apply or was not calibrated.

    Attributes:
        members: Each member's probabilities or values ``(members, N, outputs)``.
        mean: The ensemble's probabilities, calibrated, or mean values ``(N, outputs)``.
        variance: Across members.
        label: The most probable class.
        alike: The class that stands out most against its share of the training data (:func:`~.metrics.alike`).
        vote: The class that most members choose.
        total: Entropy of the mean in nats.
        aleatoric: Mean entropy of the members.
        epistemic: Their difference.
        sets: Which classes are in each conformal set.
        low: Lower ends of the intervals.
        high: Upper ends.
        screen: Whether the class to find is called at the threshold for the wanted sensitivity.
        refer: Whether to refer to a person.
        drift: Conformal p-value of looking like the data; small is unlike.
    """

    members: Floats
    mean: Floats
    variance: Floats
    label: Labels | None = None
    alike: Labels | None = None
    vote: Labels | None = None
    total: Floats | None = None
    aleatoric: Floats | None = None
    epistemic: Floats | None = None
    sets: Mask | None = None
    low: Floats | None = None
    high: Floats | None = None
    screen: Mask | None = None
    refer: Mask | None = None
    drift: Floats | None = None


@dataclass(frozen=True, eq=False)
class Held:
    """The calibration cases that promises are made on: calibrated probabilities and true classes."""

    p: Floats
    y: Labels


ARRAYS: Mapping[str, tuple[str, type[Any]]] = MappingProxyType(
    {
        "drift": ("drift.safetensors", Drift),
        "held": ("calibration.safetensors", Held),
        "inputs": ("inputs.safetensors", InputStatistics),
        "neighbours": ("neighbours.safetensors", Neighbours),
    }
)
"""Arrays of a predictor, the file of each and what it is read as."""


@dataclass(frozen=True, eq=False)
class Predictor:
    """Trained networks and what was learnt on held-out data about their predictions.

    Deferral goes by one minus the calibrated probability of the chosen class. ``positive`` is the class to find,
    ``prior`` are the shares of the classes in the training data, at which probabilities are unless a ``prevalence`` of
    the class to find is given. ``held`` are the calibration cases that thresholds are chosen on, ``inputs`` says what
    inputs look like, ``neighbours`` are training cases to compare with.
    """

    task: Task
    nets: tuple[nn.Module, ...]
    weights: Floats
    temperature: float = 1.0
    sets: ConformalSets | None = None
    intervals: ConformalIntervals | None = None
    deferral: Deferral | None = None
    screening: Screening | None = None
    drift: Drift | None = None
    positive: int | None = None
    prior: tuple[float, ...] = ()
    prevalence: float | None = None
    held: Held | None = None
    inputs: InputStatistics | None = None
    neighbours: Neighbours | None = None

    def __post_init__(self) -> None:
        if self.task.target.kind == "tokens":
            raise InputError("ensembles of language models are not supported: expected classes or values to predict")
        if not self.nets or len(self.weights) != len(self.nets):
            raise InputError(f"{len(self.weights)} weights and {len(self.nets)} networks were given; expected as many")

    def predict_part(self, part: PartName, *, task: Task | None = None, device: str = "cpu") -> Prediction:
        """Predict a part of a task, by default of the one that it was made with, as long as that has its data."""
        if task is None and getattr(self.task, part) is None:
            raise InputError(f"an ensemble keeps no data: give the task, as in predict_part({part!r}, task=task)")
        members, features = run_part(self, task or self.task, part, device)
        return self.read(members, features)

    def predict(self, x: npt.NDArray[np.generic], device: str = "cpu", records: Index | None = None) -> Prediction:
        """Predict raw inputs ``(N, C, *spatial)``, normalised here as the training data were and read in batches.

        Where ``records`` say which recording each is a window of, there is one answer per recording.
        """
        if x.ndim != 1 + len(self.task.input_shape) or x.shape[1:] != self.task.input_shape:
            shape = ", ".join(map(str, self.task.input_shape))
            raise InputError(f"inputs of shape {x.shape} were given; expected (N, {shape})")
        if not len(x):
            raise InputError("no inputs were given; expected at least one sample")
        labels = np.zeros((len(x), 1), np.float32)
        return self.predict_part("test", task=replace(self.task, test=Part(x, labels, records=records)), device=device)

    def read(self, members: Floats, features: Floats | None = None) -> Prediction:
        """Turn members' predictions into the ensemble's."""
        require_members(members, self.weights)
        unlike = None if self.drift is None or features is None else self.drift.p_values(features)
        mean, spread = average(members, self.weights), variance(members, self.weights)
        if self.task.target.kind == "regression":
            bounds: tuple[Floats | None, Floats | None] = (None, None)
            if self.intervals is not None:
                bounds = self.intervals.bounds(mean, deviation(members, self.weights))
            return Prediction(members, mean, spread, low=bounds[0], high=bounds[1], drift=unlike)
        parts = entropies(members, self.weights)
        p = sharpen(mean, self.temperature) if self.temperature != 1 else mean
        said = Prediction(
            members,
            p,
            spread,
            label=p.argmax(1),
            alike=(alike(p, self.prior) if self.prior else p).argmax(1),
            vote=vote(members, self.weights),
            **vars(parts),
            sets=None if self.sets is None else self.sets.sets(p),
            screen=None if self.screening is None else self.screening.flag(p),
            refer=None if self.deferral is None else self.deferral.refer(doubt(p)),
            drift=unlike,
        )
        if self.prevalence is None or self.positive is None:
            return said
        return self._elsewhere(said, self.positive, self.prevalence)

    def _elsewhere(self, said: Prediction, positive: int, prevalence: float) -> Prediction:
        """The answers at another prevalence of a class.

        What is promised about all cases together, by sets and by deferral, is not promised there; what is promised
        about each class by itself is: by sets by class, and by the threshold for a sensitivity.
        """
        p = at_prevalence(said.mean, np.asarray(self.prior), positive, prevalence)
        kept = said.sets if self.sets is not None and self.sets.by_class else None
        return replace(said, mean=p, label=p.argmax(1), sets=kept, refer=None)

    def reading(self, settings: ReadingSettings) -> Predictor:
        """The same ensemble, its answers read as asked; what is not asked for stays."""
        settings.check_reading()
        names = class_names(self.task.target)
        asked = class_index(names, settings.positive) if settings.positive else self.positive
        if asked is None and (settings.sensitivity or settings.prevalence):
            wanted = ", ".join(names[:12]) or "none: it predicts values"
            raise InputError(f"which class is to be found is not known: name it with --positive, one of: {wanted}")
        made = replace(self, positive=asked)
        if asked != self.positive:
            made = replace(made, screening=None, prevalence=None)
        if settings.sensitivity is not None and asked is not None:
            if self.held is None:
                raise InputError("this ensemble has no calibration cases to choose a threshold on: design it again")
            rule = fit_screening(self.held.p, self.held.y, asked, settings.sensitivity)
            made = replace(made, screening=rule)
        return made if settings.prevalence is None else replace(made, prevalence=settings.prevalence)


def class_names(target: Target) -> tuple[str, ...]:
    """The classes' own names, or their numbers; none for values.

    Example:
        >>> class_names(Target("binary", 2)), class_names(Target("regression", 1))
        (('0', '1'), ())
    """
    return target.names or tuple(str(number) for number in range(target.classes))


def doubt(p: Floats) -> Floats:
    """One minus the probability of the chosen class: what deferral goes by."""
    return np.asarray(1 - p.max(1))


def deviation(members: Floats, weights: Floats) -> Floats:
    """Weighted standard deviation across members, for each output."""
    spread = np.average(np.square(members - average(members, weights)), axis=0, weights=weights)
    return np.asarray(np.sqrt(spread))


def calibrate(
    nets: tuple[nn.Module, ...],
    weights: Floats,
    task: Task,
    index: Index,
    *,
    coverage: float = 0.9,
    by_class: bool = False,
    accuracy: float = 0.95,
    confidence: float = 0.9,
    seed: int = 0,
    device: str = "cpu",
) -> Predictor:
    """Learn temperature, conformal thresholds, deferral and drift on held-out samples of the validation part.

    The promises of sets, intervals and deferral hold for samples that neither chose checkpoints nor members, which are
    those of the index, shuffled. The temperature counts as a choice too: the first third of the samples fits it, the
    rest is for the promises. Where samples are windows of recordings, all of this is by recording.
    """
    bare = Predictor(task, nets, np.asarray(weights, np.float64))
    members, features = run_part(bare, task, "valid", device, index)
    valid = task.part("valid")
    known = watched(bare, task, seed, device, index, features)
    y: npt.NDArray[Any] = np.asarray(valid.y)[valid.first_of(index)]
    return promised(
        known,
        members,
        y,
        coverage=coverage,
        by_class=by_class,
        accuracy=accuracy,
        confidence=confidence,
        seed=seed,
    )


def watched(
    bare: Predictor,
    seen: Task,
    seed: int,
    device: str,
    index: Index | None = None,
    features: Floats | None = None,
    seconds: float = math.inf,
) -> Predictor:
    """The predictor with what tells drift and finds similar cases: samples that its members learnt from, and others.

    Held-out samples are rows of the task's validation part, all by default, with their features where they are known.
    As many training samples are looked at as are thought to take these ``seconds``, by the pace of the held-out ones,
    and a few hundred in any case.
    """
    train, valid = seen.part("train"), seen.part("valid")
    held = np.arange(len(valid)) if index is None else index
    began = time.monotonic()
    there = run_part(bare, seen, "valid", device, held)[1] if features is None else features
    pace = (time.monotonic() - began) / max(1, len(held)) * len(train) / train.cases
    affordable = max(LEAST_SAMPLES, int(min(DRIFT_SAMPLES, seconds / 2 / pace)))
    some = train.rows_of(np.sort(np.random.default_rng(seed).permutation(train.cases)[:affordable]))
    drift = fit_drift(run_part(bare, seen, "train", device, some)[1], there)
    inputs = fit_inputs(part_statistics(seen, "train", some), part_statistics(seen, "valid", held))
    return replace(
        bare, drift=drift, inputs=inputs, neighbours=neighbours_of(bare.nets, bare.task, seed=seed, most=affordable)
    )


def promised(
    bare: Predictor,
    members: Floats,
    y: npt.NDArray[Any],
    *,
    coverage: float = 0.9,
    by_class: bool = False,
    accuracy: float = 0.95,
    confidence: float = 0.9,
    seed: int = 0,
) -> Predictor:
    """The predictor with what it promises, by what its members say of cases that they were not trained on.

    Members are ``(members, cases, outputs)`` in a random order of the cases; NaN where a member was trained on a case,
    of which the others speak for the ensemble. Each case is then answered by fewer networks than a new one will be, so
    that promises are rather too cautious than too bold.
    """
    task, there = bare.task, np.isfinite(members[:, :, 0])
    share = bare.weights[:, None] * there
    spoken = share.sum(0) > 0
    members, y, share = members[:, spoken], y[spoken], share[:, spoken] / share[:, spoken].sum(0)
    filled = np.where(np.isfinite(members), members, 0.0)
    mean = np.einsum("mn,mnk->nk", share, filled)
    if task.target.kind == "regression":
        floor = max(FLOOR * float(np.std(np.asarray(task.part("train").y, np.float64))), 1e-12)
        spread = np.sqrt(np.einsum("mn,mnk->nk", share, np.square(filled - mean)))
        return replace(bare, intervals=fit_intervals(mean, spread, y, coverage, floor=floor))
    third = len(y) // 3
    temperature = fit_temperature(mean[:third], y[:third]) if third else 1.0
    p, rest = sharpen(mean[third:], temperature), y[third:]
    sets = fit_sets(p, rest, coverage, by_class=by_class)
    rule = fit_deferral(doubt(p), p.argmax(1) == rest, accuracy, confidence=confidence, seed=seed)
    counts = np.bincount(np.asarray(task.part("train").truth, np.int64), minlength=task.target.outputs)
    return replace(
        bare,
        temperature=temperature,
        sets=sets,
        deferral=rule,
        positive=class_index(class_names(task.target), ""),
        prior=tuple((counts / counts.sum()).tolist()),
        held=Held(p, rest),
    )


def run_part(
    predictor: Predictor, task: Task, part: PartName, device: str = "cpu", index: Index | None = None, batch: int = 256
) -> tuple[Floats, Floats]:
    """Members' predictions ``(members, N, outputs)`` and drift features of samples of a part, batch by batch.

    Both are means over the windows of a recording, where the samples are such. The features are plain statistics of the
    inputs and what goes into the first member's last linear layer.
    """
    place = torch.device(device)
    feed = Feed(task, part, place, held_bytes=0)
    wanted = np.arange(feed.size) if index is None else index
    nets = [net.to(place).eval() for net in predictor.nets]
    found, features = [], []
    with torch.inference_mode(), last_features(nets[0]) as seen:
        for x, _ in feed.batches([wanted[chunk] for chunk in in_order(len(wanted), batch)]):
            answers = [net(x).float().cpu() for net in nets]
            found.append(np.stack([predictions(answer, task.target) for answer in answers]))
            features.append(np.concatenate([statistics(x), seen(len(x))], axis=1))
    records = task.part(part).records
    ours = None if records is None else records[wanted]
    return by_record(np.concatenate(found, axis=1), ours, axis=1), by_record(np.concatenate(features), ours)


def part_statistics(task: Task, part: PartName, index: Index, batch: int = 256) -> Floats:
    """The plain statistics of samples of a part, each by itself."""
    feed = Feed(task, part, torch.device("cpu"), held_bytes=0)
    chunks = [index[chunk] for chunk in in_order(len(index), batch)]
    return np.concatenate([statistics(x) for x, _ in feed.batches(chunks)])


def predict_part(net: nn.Module, task: Task, part: PartName, device: torch.device | str = "cpu") -> Floats:
    """Predictions of a network on the cases of a part in float32: probabilities of classes, or values."""
    place = torch.device(device)
    answers, _ = outputs(net.to(place), Feed(task, part, place), Precision(place))
    return by_record(predictions(answers, task.target), task.part(part).records)


def save_predictor(folder: Path, predictor: Predictor, members: list[str]) -> None:
    """Write what joins the members: weights, temperature, conformal thresholds, deferral rule and drift.

    Members are the names of their folders under ``members/``, in the ensemble's order.
    """
    for name in members:
        member_folder(folder, name)
    for name, (file, _) in ARRAYS.items():
        if (arrays := getattr(predictor, name)) is not None:
            tensors = {each: torch.from_numpy(np.ascontiguousarray(array)) for each, array in vars(arrays).items()}
            write_tensors(folder / file, tensors, {})
    about = {
        "version": VERSION,
        "task": task_to_json(predictor.task),
        "members": members,
        "weights": predictor.weights.tolist(),
        **{name: getattr(predictor, name) is not None for name in ARRAYS},
        **{name: to_json(getattr(predictor, name)) for name in ("temperature", *READING, *PROMISES)},
    }
    write_json(folder / ENSEMBLE, about)


def load_predictor(folder: Path, chosen: Space | None = None) -> Predictor:
    """Read an ensemble with everything that it promises; nothing is executed but the spaces' own builders."""
    folder = without_links(folder)
    data = read_document(folder / ENSEMBLE)
    with undamaged(folder / ENSEMBLE, "run trainless design again in a new folder"):
        task, prevalence = task_from_json(data["task"]), data["prevalence"]
        nets = []
        for name in data["members"]:
            _, trained, own = load_member(member_folder(folder, str(name)), chosen)
            if (own.input_shape, own.target.outputs) != (task.input_shape, task.target.outputs):
                raise ValueError(f"member {name} is of other data")
            nets.append(trained.net)
        return Predictor(
            task,
            tuple(nets),
            np.asarray(data["weights"], np.float64),
            float(data["temperature"]),
            **{name: _arrays(folder / file, kind) for name, (file, kind) in ARRAYS.items() if data[name]},
            positive=None if data["positive"] is None else range(task.target.classes)[data["positive"]],
            prior=tuple(float(share) for share in data["prior"]),
            prevalence=None if prevalence is None else float(prevalence),
            **{name: None if data[name] is None else from_json(kind, data[name]) for name, kind in PROMISES.items()},
        )


def _arrays(path: Path, kind: type[Any]) -> Any:
    tensors, _ = read_tensors(path)
    return kind(*(tensors[each.name].numpy() for each in fields(kind)))
