"""The last stages of a design: members become an ensemble, which is calibrated, judged and summarised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from trainless.core.errors import InputError
from trainless.core.files import replacing, strict, write_json
from trainless.core.seeds import one_thread
from trainless.core.task import Task
from trainless.core.types import Floats, Json, Mask
from trainless.designs.candidates import Winner
from trainless.designs.holdout import Holdout
from trainless.designs.planning import DesignPlan
from trainless.designs.run import DesignRun
from trainless.designs.training import TrainedMembers
from trainless.learn.calibration import calibration_error
from trainless.learn.deferral import check_deferral
from trainless.learn.drift import drift_warning
from trainless.learn.ensemble import average, confidence_curve
from trainless.learn.members import VERSION, history_of, load_member, member_folder
from trainless.learn.metrics import MetricValue, class_table, clopper_pearson, evaluate
from trainless.learn.predictor import Prediction, Predictor, calibrate, class_names, doubt, run_part, save_predictor
from trainless.learn.sanity import check_classes, check_values
from trainless.learn.screening import check_screening, share
from trainless.runs.folder import PREDICTIONS, SUMMARY

BASELINE = "single"  # how the names of members of one architecture begin, and where they come from


def join(run: DesignRun, holdout: Holdout, trained: TrainedMembers) -> Predictor:
    """Make an ensemble of the members that are of use and calibrate it on the holdout.

    Writes ``ensemble.json``, ``drift.safetensors`` and ``calibration.safetensors``.
    """
    run.progress("calibrating", 0, 1, "")
    names = names_of(trained)
    if not names:
        reason = next(iter(trained.left_out.values()), "none was trained")
        raise InputError(f"no member of the ensemble is of use ({reason}): look at the data, or give it more time")
    settings, places = run.settings, [trained.folders[name] for name in names]
    with one_thread():
        predictor = calibrate(
            tuple(load_member(member_folder(run.folder, place), run.chosen)[1].net for place in places),
            np.full(len(names), 1 / len(names)),
            run.task,
            holdout.calibration,
            coverage=settings.coverage,
            by_class=settings.by_class,
            accuracy=settings.accuracy,
            seed=settings.seed,
            device=settings.device,
        ).reading(settings)
    save_predictor(run.folder, predictor, places)
    return predictor


def names_of(trained: TrainedMembers, *, baseline: bool = False) -> list[str]:
    """The members that are of use: those of the ensemble, or those of one architecture to compare with."""
    wanted = [name for name, origin in trained.origins.items() if (origin == BASELINE) == baseline]
    return [name for name in wanted if name in trained.folders]


def judge(run: DesignRun, predictor: Predictor, trained: TrainedMembers) -> Json | None:
    """The verdict on the test part, None where there is none; writes ``predictions.npz``, what was said of it."""
    folder, task, settings = run.folder, run.task, run.settings
    if task.test is None or not len(task.test):
        return None
    predictor = replace(predictor, prevalence=None)  # the test part has the prevalence of the training data
    with one_thread():
        said = predictor.predict_part("test", task=task, device=settings.device)
        judged = verdict(predictor, task, said, [trained.origins[name].partition("-")[0] for name in names_of(trained)])
        arrays: dict[str, Any] = {name: value for name, value in vars(said).items() if value is not None}
        if single := names_of(trained, baseline=True):
            places = [member_folder(folder, trained.folders[name]) for name in single]
            nets = tuple(load_member(place, run.chosen)[1].net for place in places)
            alone = Predictor(task, nets, np.full(len(single), 1 / len(single)))
            arrays["single"] = run_part(alone, task, "test", settings.device)[0]
            judged["single"] = single_verdict(arrays["single"], task, predictor.positive)
    with replacing(folder / PREDICTIONS) as beside:
        np.savez(beside, y=np.asarray(task.test.truth), **arrays)
    return judged | {"sanity": sanity_of(judged, task, said)}


def sanity_of(judged: Json, task: Task, said: Prediction) -> Json:
    """Whether the ensemble is worth anything beside chance, one class for everything and the yardsticks."""
    if said.label is None:
        found = check_values(judged)
    else:
        names, unit = class_names(task.target), judged["unit"]
        found = check_classes(judged, np.asarray(task.part("test").truth), said.label, names, unit)
    return {**vars(found), "ok": found.ok}


def summarise(
    run: DesignRun,
    plan: DesignPlan,
    holdout: Holdout,
    winners: Sequence[Winner],
    trained: TrainedMembers,
    judged: Json | None,
) -> None:
    """Sum up everything that a design came to; writes ``summary.json``, which says that it is finished."""
    folder, task = run.folder, run.task
    histories = {name: history_of(member_folder(folder, place)) for name, place in trained.folders.items()}
    training = {name: sum(epoch.seconds for epoch in history) for name, history in histories.items()}
    evaluations = sum(winner.evaluations for winner in winners)
    parts = {"train": task.train, "valid": task.valid, "test": task.test}
    summary = {
        "version": VERSION,
        "task": {
            "name": task.name,
            "input_shape": task.input_shape,
            "kind": task.target.kind,
            "outputs": task.target.outputs,
            "classes": task.target.names,
            "samples": {name: 0 if part is None else part.cases for name, part in parts.items()},
            "stopping": 0 if holdout.task is task else holdout.task.part("valid").cases,
            "calibration": len(task.part("valid").first_of(holdout.calibration)),
            "notes": task.notes,
        },
        "plan": plan.to_json(),
        "searches": [
            {
                "name": winner.trial,
                "winner": plan.space.format(winner.archs[0]),
                "scores": winner.values[0],
                "own": plan.space.format(winner.own),
                "evaluations": winner.evaluations,
                "seconds": winner.seconds,
            }
            for winner in winners
        ],
        "members": [
            {
                "name": name,
                "folder": trained.folders.get(name),
                "search": trained.origins[name],
                "arch": plan.space.format(member.arch),
                "seed": member.seed,
                "epochs": len(histories.get(name, ())),
                "valid_loss": min((epoch.valid_loss for epoch in histories.get(name, ())), default=float("nan")),
                "seconds": training.get(name, 0),
            }
            for name, member in trained.members.items()
        ],
        "replaced": trained.replaced,
        "left_out": trained.left_out,
        "test": judged,
        "spent": {
            "evaluations": evaluations,
            "search_seconds": sum(winner.seconds for winner in winners),
            "training_seconds": sum(training.values()),
            # what training every evaluated candidate as the members would have taken
            "training_instead_seconds": evaluations * float(np.mean(list(training.values()))),
        },
    }
    write_json(folder / SUMMARY, strict(summary))
    run.progress("calibrating", 1, 1, "")


def draws_for(task: Task) -> int:
    """Bootstrap draws: 1000, fewer down to 100 where there are many classes, each with a curve of its own."""
    return max(100, min(1000, 20_000 // task.target.outputs))


def verdict(predictor: Predictor, task: Task, said: Prediction, groups: Sequence[str]) -> Json:
    """Everything about the ensemble on the test part, as plain data; groups are the search method of each member."""
    y = np.asarray(task.part("test").truth)
    members = [evaluate(task.target, y, member, draws=0, positive=predictor.positive) for member in said.members]
    found: Json = {
        "samples": len(y),
        "unit": "cases" if task.part("test").records is None else "recordings",
        "ensemble": evaluate(task.target, y, said.mean, draws=draws_for(task), positive=predictor.positive),
        "members": {name: [member[name].value for member in members] for name in members[0]},
        "by_searcher": {
            group: _together(said.members[[name == group for name in groups]], task, predictor.positive)
            for group in dict.fromkeys(groups)
        },
        "main": next(iter(members[0])),
    }
    found["members_mean"] = {name: float(np.mean(values)) for name, values in found["members"].items()}
    if said.drift is not None and predictor.drift is not None:
        warning = drift_warning(predictor.drift, said.drift)
        found["drift"] = {**vars(warning), "text": str(warning)}
    found |= _values(predictor, said, y) if task.target.kind == "regression" else _classes(predictor, said, y)
    return dict(strict(found))


def _together(members: Floats, task: Task, positive: int | None) -> Json:
    """An ensemble of some members beside the mean of them (TEACUP, table 1)."""
    y = np.asarray(task.part("test").truth)
    single = [evaluate(task.target, y, member, draws=0, positive=positive) for member in members]
    values = {name: [one[name].value for one in single] for name in single[0]}
    return {
        "size": len(members),
        "members_mean": {name: float(np.mean(each)) for name, each in values.items()},
        "members_deviation": {name: float(np.std(each)) for name, each in values.items()},
        "ensemble": evaluate(task.target, y, average(members), draws=draws_for(task), positive=positive),
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
        found["sets"] = {
            **_coverage(predictor.sets.coverage, said.sets[np.arange(len(y)), y]),
            "mean_size": float(said.sets.sum(1).mean()),
            "by_class": predictor.sets.by_class,
        }
    if predictor.deferral is not None:
        check = check_deferral(predictor.deferral, doubt(said.mean), said.mean.argmax(1) == y)
        rule = predictor.deferral
        found["deferral"] = {"rule": str(rule), "promised": rule.promised, "asked": rule.accuracy, **vars(check)}
    found["classes"] = [vars(one) for one in class_table(y, said.mean.argmax(1), class_names(predictor.task.target))]
    if predictor.positive is not None:
        found["positive"] = _positive(predictor, said, y, predictor.positive)
    return found


def _positive(predictor: Predictor, said: Prediction, y: npt.NDArray[Any], positive: int) -> Json:
    """The class to find: how often it is found and spared, by the most probable class and at the threshold."""
    name, called = class_names(predictor.task.target)[positive], said.mean.argmax(1) == positive
    ill = y == positive
    found: Json = {
        "name": name,
        "number": positive,
        "prevalence": predictor.prior[positive] if predictor.prior else None,
        "sensitivity": share(called[ill]),
        "specificity": share(~called[~ill]),
    }
    if (rule := predictor.screening) is not None:
        told = {"rule": rule.statement(name), "asked": rule.sensitivity, "promised": rule.promised, "least": rule.least}
        checked = vars(check_screening(rule, said.mean, y))
        found["screening"] = {**told, "threshold": rule.threshold, **checked}
    return found


def _values(predictor: Predictor, said: Prediction, y: npt.NDArray[Any]) -> Json:
    if said.low is None or said.high is None or predictor.intervals is None:
        return {}
    truth = y.reshape(said.mean.shape)
    inside = (said.low <= truth) & (truth <= said.high)
    width = float((said.high - said.low).mean())
    return {"intervals": {**_coverage(predictor.intervals.coverage, inside[:, 0]), "mean_width": width}}


def _coverage(promised: float, held: Mask) -> Json:
    covered, n = int(held.sum()), len(held)
    return {"promised": promised, "coverage": MetricValue(covered / n, *clopper_pearson(covered, n))}


def single_verdict(members: Floats, task: Task, positive: int | None = None) -> Json:
    """The single-architecture ensemble on the test part (TEACUP, 7.7)."""
    found = _together(members, task, positive)
    if task.target.kind != "regression":
        found["confidence_curve"] = confidence_curve(members, np.asarray(task.part("test").truth))
    return dict(strict(found))
