"""The last stages of a design: members become an ensemble, which is calibrated, judged and summarised."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from trainless.designs.choice import family_weights
from trainless.designs.holdout import Holdout
from trainless.designs.planning import DesignPlan
from trainless.designs.run import DesignRun
from trainless.designs.training import TrainedMembers
from trainless.learn.calibration import calibration_error
from trainless.learn.deferral import check_deferral
from trainless.learn.drift import drift_warning
from trainless.learn.ensemble import average, confidence_curve
from trainless.learn.members import VERSION, history_of, load_member, member_folder, notation
from trainless.learn.metrics import BALANCED, MetricValue, class_table, clopper_pearson, evaluate
from trainless.learn.predictor import (
    Prediction,
    Predictor,
    class_names,
    doubt,
    promised,
    run_part,
    save_predictor,
    watched,
)
from trainless.learn.sanity import check_classes, check_values, yardstick_figures
from trainless.learn.screening import check_screening, share
from trainless.learn.yardsticks import yardsticks
from trainless.runs.folder import PREDICTIONS, SUMMARY

BASELINE = "single"  # how the names of members of one architecture begin, and where they come from


def join(run: DesignRun, holdout: Holdout, trained: TrainedMembers) -> tuple[Predictor, dict[str, float]]:
    """Make an ensemble of the members that are of use, calibrated on the holdout, and give the weight of each member.

    Writes ``ensemble.json``, ``drift.safetensors`` and ``calibration.safetensors``.
    """
    run.progress("calibrating", 0, 1, "")
    names = names_of(trained)
    if not names:
        reason = next(iter(trained.left_out.values()), "none was trained")
        raise InputError(f"no member of the ensemble is of use ({reason}): look at the data, or give it more time")
    settings = run.settings
    nets = {name: load_member(member_folder(run.folder, trained.folders[name]), run.chosen)[1].net for name in names}
    with one_thread():
        folds = {name: trained.members[name].fold for name in names}
        held = np.stack([holdout.answers(nets[name], folds[name], settings.device) for name in names])
        y = np.asarray(holdout.pool.truth)
        weights = family_weights(held, y, [kind_of(trained, name) for name in names], run.task.target)
        counted = np.flatnonzero(weights)
        chosen = [names[place] for place in counted]
        bare = Predictor(run.task, tuple(nets[name] for name in chosen), weights[counted])
        most = max(WATCHING * (settings.seconds or math.inf), WATCHING_LEFT * run.left)
        bare = watched(bare, holdout.fold(folds[chosen[0]]), settings.seed, settings.device, seconds=most)
        order = np.random.default_rng([settings.seed, len(y)]).permutation(len(y))
        predictor = promised(
            bare,
            held[counted][:, order],
            y[order],
            coverage=settings.coverage,
            by_class=settings.by_class,
            accuracy=settings.accuracy,
            seed=settings.seed,
        ).reading(settings)
    save_predictor(run.folder, predictor, [trained.folders[name] for name in chosen])
    return predictor, dict(zip(names, weights.tolist(), strict=True))


def kind_of(trained: TrainedMembers, name: str) -> str:
    """What a member counts with: all searched networks together, all plain ones, each kind of random convolutions."""
    origin = trained.origins[name]
    return f"{origin} {trained.members[name].arch}" if origin in KINDS else SEARCHED


def family_of(origin: str) -> str:
    """The family of a member by where it comes from: the search method, or the kind of plain or classical network.

    Example:
        >>> family_of("genetic-00"), family_of("plain")
        ('genetic', 'plain')
    """
    return origin.partition("-")[0]


SEARCHED = "searched"
CHEAP, LEAST_CHEAP = 8.0, 0.02  # seconds that trees and the like may take at most, and of a time budget in any case
REPORTING = 0.06  # of a time budget that figures and the report may take after that
WATCHING, WATCHING_LEFT = 0.02, 0.1  # of a budget, and of what is left, to learn what training samples look like
CHEAP_ONES = ("trees", "a linear model")
KINDS = {
    "plain": "a plain residual network",
    "rocket": "random convolutions with a ridge head",
    "pretrained": "a pretrained backbone",
    "trees": "an ensemble of trees by folds",
}


def names_of(trained: TrainedMembers, *, baseline: bool = False) -> list[str]:
    """The members that are of use: those of the ensemble, or those of one architecture to compare with."""
    wanted = [name for name, origin in trained.origins.items() if (origin == BASELINE) == baseline]
    return [name for name in wanted if name in trained.folders]


def judge(run: DesignRun, predictor: Predictor, trained: TrainedMembers, weights: Mapping[str, float]) -> Json | None:
    """The verdict on the test part, None where there is none; writes ``predictions.npz``, what was said of it.

    Weights are those of the members; ``yardsticks`` are the families of networks by themselves, and trees.
    """
    folder, task, settings = run.folder, run.task, run.settings
    if task.test is None or not len(task.test):
        return None
    predictor = replace(predictor, prevalence=None)  # the test part has the prevalence of the training data
    how: dict[str, Any] = {"positive": predictor.positive, "prior": predictor.prior}
    families = {name: family_of(trained.origins[name]) for name in weights}

    def answers(names: Sequence[str]) -> Floats:
        places = [member_folder(folder, trained.folders[name]) for name in names]
        nets = tuple(load_member(place, run.chosen)[1].net for place in places)
        alone = Predictor(task, nets, np.full(len(names), 1 / len(names)))
        return run_part(alone, task, "test", settings.device)[0]

    def measured(name: str, other: Floats, *, peer: bool = False) -> Json:
        y = np.asarray(task.part("test").truth)
        return yardstick_figures(task.target, y, said.mean, other, name=name, peer=peer, draws=draws_for(task), **how)

    with one_thread():
        said = predictor.predict_part("test", task=task, device=settings.device)
        counted = [name for name, weight in weights.items() if weight]
        judged = verdict(predictor, task, said, [families[name] for name in counted])
        judged["yardsticks"] = []
        arrays: dict[str, Any] = {name: value for name, value in vars(said).items() if value is not None}
        if single := names_of(trained, baseline=True):
            arrays["single"] = answers(single)
            judged["single"] = single_verdict(arrays["single"], task, **how)
        for family in dict.fromkeys(families.values()):
            mine = [name for name in weights if families[name] == family]
            places = [counted.index(name) for name in mine if name in counted]
            together = said.members[places] if places else answers(mine)
            if family not in judged["by_searcher"]:
                judged["by_searcher"][family] = dict(strict(_together(together, task, **how)))
            if family in KINDS:
                judged["yardsticks"].append(measured(KINDS[family], average(together), peer=True))
        budget = settings.seconds or math.inf
        seconds = min(CHEAP, max(LEAST_CHEAP * budget, run.left - REPORTING * budget)) if settings.seconds else CHEAP
        for one in yardsticks(task, settings.seed, seconds, valid=False):
            if one.test is not None and one.name in CHEAP_ONES:
                judged["yardsticks"].append(measured(one.name, one.test))
    with replacing(folder / PREDICTIONS) as file:
        np.savez(file, y=np.asarray(task.test.truth), **arrays)
    return judged | {"sanity": sanity_of(judged, task, said)}


def sanity_of(judged: Json, task: Task, said: Prediction) -> Json:
    """Whether the ensemble is worth anything beside chance, one class for everything and the yardsticks."""
    if said.label is None:
        found = check_values(judged)
    else:
        names, unit = class_names(task.target), judged["unit"]
        found = check_classes(judged, np.asarray(task.part("test").truth), said.label, names, unit, said.alike)
    return {**vars(found), "ok": found.ok}


def summarise(
    run: DesignRun,
    plan: DesignPlan,
    holdout: Holdout,
    winners: Sequence[Winner],
    trained: TrainedMembers,
    weights: Mapping[str, float],
    judged: Json | None,
    seconds: float,
) -> None:
    """Sum up everything that a design came to in so many seconds; writes ``summary.json``: it is finished."""
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
            "stopping": 0 if holdout.stopping is None else len(holdout.pool.first_of(holdout.stopping)),
            "calibration": holdout.cases({trained.members[name].fold for name in weights}),
            "folds": len(holdout.held),
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
                "space": member.space,
                "arch": notation(member, run.chosen),
                "weight": weights.get(name, 0.0),
                "fold": member.fold,
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
            "seconds": seconds,  # of wall time in all sessions, until here
            "search_seconds": sum(winner.seconds for winner in winners),
            "training_seconds": sum(training.values()),  # of all members, also of those trained side by side
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
    how: dict[str, Any] = {"positive": predictor.positive, "prior": predictor.prior}
    members = [evaluate(task.target, y, member, draws=0, **how) for member in said.members]
    found: Json = {
        "samples": len(y),
        "unit": "cases" if task.part("test").records is None else "recordings",
        "ensemble": evaluate(task.target, y, said.mean, draws=draws_for(task), **how),
        "members": {name: [member[name].value for member in members] for name in members[0]},
        "by_searcher": {
            group: _together(said.members[[name == group for name in groups]], task, **how)
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


def _together(members: Floats, task: Task, **how: Any) -> Json:
    """An ensemble of some members beside the mean of them (TEACUP, table 1)."""
    y = np.asarray(task.part("test").truth)
    single = [evaluate(task.target, y, member, draws=0, **how) for member in members]
    values = {name: [one[name].value for one in single] for name in single[0]}
    return {
        "size": len(members),
        "members_mean": {name: float(np.mean(each)) for name, each in values.items()},
        "members_deviation": {name: float(np.std(each)) for name, each in values.items()},
        "ensemble": evaluate(task.target, y, average(members), draws=draws_for(task), **how),
    }


def _classes(predictor: Predictor, said: Prediction, y: npt.NDArray[Any]) -> Json:
    raw = average(said.members, predictor.weights)
    answers = said.mean.argmax(1) if said.alike is None else said.alike
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
    if (answers != said.mean.argmax(1)).any():
        found["classes_by"] = BALANCED
    found["classes"] = [vars(one) for one in class_table(y, answers, class_names(predictor.task.target))]
    if predictor.positive is not None:
        found["positive"] = _positive(predictor, said, answers, y, predictor.positive)
    return found


def _positive(
    predictor: Predictor, said: Prediction, answers: npt.NDArray[Any], y: npt.NDArray[Any], positive: int
) -> Json:
    """The class to find: how often it is found and spared, by answers that weigh classes alike and at the threshold."""
    name, called = class_names(predictor.task.target)[positive], answers == positive
    ill = y == positive
    found: Json = {
        "name": name,
        "number": positive,
        "prevalence": predictor.prior[positive] if predictor.prior else None,
        "sensitivity": share(called[ill]),
        "specificity": share(~called[~ill]),
    }
    if said.alike is not None and said.label is not None and predictor.prior:
        alone = said.label == positive
        found["label"] = {"sensitivity": share(alone[ill]), "specificity": share(~alone[~ill])}
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


def single_verdict(members: Floats, task: Task, **how: Any) -> Json:
    """The single-architecture ensemble on the test part (TEACUP, 7.7)."""
    found = _together(members, task, **how)
    if task.target.kind != "regression":
        found["confidence_curve"] = confidence_curve(members, np.asarray(task.part("test").truth))
    return dict(strict(found))
