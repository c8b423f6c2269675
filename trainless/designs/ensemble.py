"""The last stage of a design: members become an ensemble, which is calibrated, judged and written down."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainless.core.errors import InputError
from trainless.core.files import strict, write_json
from trainless.core.seeds import one_thread
from trainless.core.task import PartName, Task
from trainless.designs.candidates import Winner
from trainless.designs.holdout import Held
from trainless.designs.planning import Plan
from trainless.designs.stages import BASELINE, Work
from trainless.designs.training import Entry, Roster
from trainless.designs.verdict import single_verdict, verdict
from trainless.learn.loop import Trained
from trainless.learn.members import VERSION, load_member, member_folder
from trainless.learn.predictor import Prediction, Predictor, calibrate, run_part, save_predictor

SUMMARY, PREDICTIONS = "summary.json", "predictions.npz"
PARTS: tuple[PartName, ...] = ("train", "valid", "test")
Loaded = Mapping[str, Trained]


def join(
    work: Work,
    plan: Plan,
    held: Held,
    winners: Sequence[Winner],
    entries: Sequence[Entry],
    origins: Mapping[str, str],
    roster: Roster,
) -> None:
    """Calibrate on held-out samples, judge on the test part, write everything down; ``summary.json`` comes last."""
    names = [entry.name for entry in entries if entry.name in origins and entry.name in roster.folders]
    if not names:
        reason = next(iter(roster.left_out.values()), "none was trained")
        raise InputError(f"no member of the ensemble is of use ({reason}): look at the data, or give it more time")
    loaded = {
        name: load_member(member_folder(work.folder, place), work.chosen)[1] for name, place in roster.folders.items()
    }
    with one_thread():
        predictor = calibrate(
            tuple(loaded[name].net for name in names),
            np.full(len(names), 1 / len(names)),
            work.task,
            held.calibration,
            seed=work.wish.seed,
            device=work.wish.device,
            **work.promises,
        )
        save_predictor(work.folder, predictor, [roster.folders[name] for name in names])
        judged = _judged(work, predictor, [origins[name].partition("-")[0] for name in names], loaded)
    summary = {
        "version": VERSION,
        "task": about_task(work.task, held),
        "plan": plan.to_json(),
        "searches": [_about_search(winner, plan) for winner in winners],
        "members": [_about_member(entry, plan, roster, origins, loaded) for entry in entries],
        "replaced": dict(roster.replaced),
        "left_out": dict(roster.left_out),
        "test": judged,
        "spent": _spent(winners, loaded),
    }
    write_json(work.folder / SUMMARY, strict(summary))


def _judged(work: Work, predictor: Predictor, groups: Sequence[str], loaded: Loaded) -> dict[str, Any] | None:
    """The verdict on the test part, whose predictions are kept; None where there is no test part."""
    if work.task.test is None or not len(work.task.test):
        return None
    device = work.wish.device
    said = predictor.predict_part("test", task=work.task, device=device)
    judged = verdict(predictor, work.task, said, groups)
    single = [one.net for name, one in loaded.items() if name.startswith(BASELINE)]
    extra = {}
    if single:
        alone = Predictor(work.task, tuple(single), np.full(len(single), 1 / len(single)))
        extra["single"] = run_part(alone, work.task, "test", device)[0]
        judged["single"] = single_verdict(extra["single"], work.task)
    write_arrays(work.folder / PREDICTIONS, {"y": work.task.test.y, **arrays_of(said), **extra})
    return judged


def arrays_of(said: Prediction) -> dict[str, Any]:
    """The fields of a prediction that there are."""
    return {name: value for name, value in vars(said).items() if value is not None}


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write an ``.npz`` in one step."""
    buffer = io.BytesIO()
    plain_arrays: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items()}
    np.savez(buffer, **plain_arrays)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(buffer.getvalue())
    os.replace(part, path)


def about_task(task: Task, held: Held) -> dict[str, Any]:
    """What a summary says about the data."""
    parts = {name: {"train": task.train, "valid": task.valid, "test": task.test}[name] for name in PARTS}
    return {
        "name": task.name,
        "input_shape": list(task.input_shape),
        "kind": task.target.kind,
        "outputs": task.target.outputs,
        "classes": list(task.target.names),
        "samples": {name: 0 if part is None else len(part) for name, part in parts.items()},
        "stopping": 0 if held.task is task else len(held.task.part("valid")),
        "calibration": len(held.calibration),
        "notes": list(task.notes),
    }


def _about_search(winner: Winner, plan: Plan) -> dict[str, Any]:
    return {
        "name": winner.trial,
        "winner": plan.space.format(winner.archs[0]),
        "scores": dict(winner.values[0]),
        "own": plan.space.format(winner.own),
        "evaluations": winner.evaluations,
        "seconds": winner.seconds,
    }


def _about_member(
    entry: Entry, plan: Plan, roster: Roster, origins: Mapping[str, str], loaded: Loaded
) -> dict[str, Any]:
    trained = loaded.get(entry.name)
    history = () if trained is None else trained.history
    return {
        "name": entry.name,
        "folder": roster.folders.get(entry.name),
        "search": origins.get(entry.name, BASELINE),
        "arch": plan.space.format(entry.member.arch),
        "seed": entry.member.seed,
        "epochs": len(history),
        "valid_loss": min((epoch.valid_loss for epoch in history), default=float("nan")),
        "seconds": sum(epoch.seconds for epoch in history),
    }


def _spent(winners: Sequence[Winner], loaded: Loaded) -> dict[str, Any]:
    """Seconds of the stages, and what training every evaluated candidate as the members would have taken."""
    training = [sum(epoch.seconds for epoch in one.history) for one in loaded.values()]
    evaluations = sum(winner.evaluations for winner in winners)
    return {
        "evaluations": evaluations,
        "search_seconds": sum(winner.seconds for winner in winners),
        "training_seconds": sum(training),
        "training_instead_seconds": evaluations * float(np.mean(training)),
    }
