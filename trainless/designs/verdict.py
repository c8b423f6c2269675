"""The verdict on a trained ensemble by the test part: metrics with intervals, and whether its promises held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainless.core.files import strict
from trainless.core.task import Task
from trainless.core.types import Floats, Json
from trainless.learn.calibration import calibration_error
from trainless.learn.deferral import check_deferral
from trainless.learn.drift import drift_warning
from trainless.learn.ensemble import average, confidence_curve
from trainless.learn.metrics import MetricValue, clopper_pearson, evaluate
from trainless.learn.predictor import Prediction, Predictor, doubt


def draws_for(task: Task) -> int:
    """Bootstrap draws: 1000, fewer down to 100 where there are many classes, each with a curve of its own."""
    return max(100, min(1000, 20_000 // task.target.outputs))


def verdict(predictor: Predictor, task: Task, said: Prediction, groups: Sequence[str]) -> Json:
    """Everything about the ensemble on the test part, as plain data; groups are the search method of each member."""
    y = np.asarray(task.part("test").y)
    members = [evaluate(task.target, y, member, draws=0) for member in said.members]
    found: Json = {
        "samples": len(y),
        "ensemble": evaluate(task.target, y, said.mean, draws=draws_for(task)),
        "members": {name: [member[name].value for member in members] for name in members[0]},
        "by_searcher": {
            group: _together(said.members[[name == group for name in groups]], task) for group in dict.fromkeys(groups)
        },
        "main": next(iter(members[0])),
    }
    found["members_mean"] = {name: float(np.mean(values)) for name, values in found["members"].items()}
    if said.drift is not None and predictor.drift is not None:
        warning = drift_warning(predictor.drift, said.drift)
        found["drift"] = {**vars(warning), "text": str(warning)}
    found |= _values(predictor, said, y) if task.target.kind == "regression" else _classes(predictor, said, y)
    return dict(strict(found))


def _together(members: Floats, task: Task) -> Json:
    """An ensemble of some members beside the mean of them (TEACUP, table 1)."""
    y = np.asarray(task.part("test").y)
    single = [evaluate(task.target, y, member, draws=0) for member in members]
    values = {name: [one[name].value for one in single] for name in single[0]}
    return {
        "size": len(members),
        "members_mean": {name: float(np.mean(each)) for name, each in values.items()},
        "members_deviation": {name: float(np.std(each)) for name, each in values.items()},
        "ensemble": evaluate(task.target, y, average(members), draws=draws_for(task)),
    }


def _classes(predictor: Predictor, said: Prediction, y: npt.NDArray[Any]) -> Json:
    raw = average(said.members, predictor.weights)
    found: Json = {
        "temperature": predictor.temperature,
        "calibration_error": calibration_error(said.mean, y),
        "calibration_error_raw": calibration_error(raw, y),
        "confidence_curve": confidence_curve(said.members, y),
    }
    if said.sets is not None and predictor.sets is not None:
        covered = int(said.sets[np.arange(len(y)), y].sum())
        found["sets"] = {
            "promised": predictor.sets.coverage,
            "coverage": MetricValue(covered / len(y), *clopper_pearson(covered, len(y))),
            "mean_size": float(said.sets.sum(1).mean()),
            "by_class": predictor.sets.by_class,
        }
    if predictor.deferral is not None:
        check = check_deferral(predictor.deferral, doubt(said.mean), said.mean.argmax(1) == y)
        rule = predictor.deferral
        found["deferral"] = {"rule": str(rule), "promised": rule.promised, "asked": rule.accuracy, **vars(check)}
    return found


def _values(predictor: Predictor, said: Prediction, y: npt.NDArray[Any]) -> Json:
    if said.low is None or said.high is None or predictor.intervals is None:
        return {}
    truth = y.reshape(said.mean.shape)
    inside = (said.low <= truth) & (truth <= said.high)
    covered = int(inside[:, 0].sum())
    return {
        "intervals": {
            "promised": predictor.intervals.coverage,
            "coverage": MetricValue(covered / len(y), *clopper_pearson(covered, len(y))),
            "mean_width": float((said.high - said.low).mean()),
        }
    }


def single_verdict(members: Floats, task: Task) -> Json:
    """The single-architecture ensemble on the test part (TEACUP, 7.7)."""
    found = _together(members, task)
    if task.target.kind != "regression":
        found["confidence_curve"] = confidence_curve(members, np.asarray(task.part("test").y))
    return dict(strict(found))
