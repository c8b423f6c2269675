"""``trainless design``: from your data to an ensemble that knows when it does not know."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainless.cli.options import AsJson, OwnDefaults, with_settings
from trainless.cli.terminal import say, tell, width_of_terminal
from trainless.core.machine import AUTO, worker_count
from trainless.core.vocabulary import common
from trainless.designs.settings import DesignSettings
from trainless.tasks.settings import Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainless.core.task import Task
    from trainless.designs.pipeline import Designed


ENOUGH = 0.7  # of the time that was allowed: what took less says why


@dataclass(frozen=True)
class DesignPlace:
    """The folder of a design."""

    out: str = common("out", "runs/design")


@with_settings
def design(
    data: Annotated[str, typer.Argument(help="A built-in task, or a file or folder of your data.")],
    place: DesignPlace,
    form: Reading,
    settings: Annotated[DesignSettings, OwnDefaults(device=AUTO, workers=0)],
    as_json: AsJson = False,
) -> None:
    """Search architectures without training, train the best, and join them with honest uncertainty.

    With --time the numbers of everything are planned to fit.
    """
    started = time.monotonic()  # before anything heavy is imported: a time budget counts that too
    import json

    from trainless.execution.fork_server import prepare

    settings.resolved()  # a mistake is said before anything is done
    several = worker_count(settings.workers) > 1
    if several and settings.executor == "local" and settings.device in (AUTO, "cpu"):
        prepare("trainless.designs.training")  # workers import torch while this process does
    settings.placed()
    from trainless.core.progress import Bars
    from trainless.designs.pipeline import design as run_design
    from trainless.execution.limits import keep_warm
    from trainless.tasks import task as open_task

    keep_warm()
    task, out = open_task(data, **form.given), Path(place.out)
    if not as_json:
        _announce(task, settings.preset, out)
    with Bars(patience=0) as bars:
        found = run_design(task, out, settings=settings, started=started, progress=bars.stage)
    if as_json:
        typer.echo(json.dumps(found.summary, indent=2, allow_nan=False))
    else:
        _conclude(found, settings)


def _announce(task: Task, preset: str, out: Path) -> None:
    for note in task.notes:
        tell(f"note: {note}", err=True)
    shape = "×".join(map(str, task.input_shape))
    counts = ", ".join(f"{part.cases} {name}" for name, part in _parts(task).items())
    tell(f"{task.name}: {task.target.kind}, inputs {shape}, {counts}; preset {preset}, into {out}", err=True)


def _parts(task: Task) -> dict[str, Any]:
    named = {"train": task.train, "valid": task.valid, "test": task.test}
    return {name: part for name, part in named.items() if part is not None}


def _conclude(found: Designed, settings: DesignSettings) -> None:
    from trainless.report.words import ensemble_in_words, missing_in_words, sanity_in_words

    summary, folder, new = found.summary, found.folder, found.predictor.task.source.example
    if summary["test"] is not None:
        fine, first = sanity_in_words(summary["test"])
        tell(first, fg="green" if fine else "red", bold=True)
        tell(*lines_of(summary["test"], settings.prevalence, width_of_terminal()))
    healthy = [member for member in summary["members"] if member["folder"] and member["search"] != "single"]
    counted = [member for member in healthy if member["weight"]]
    ensemble = ensemble_in_words(summary["members"])
    spent = summary["spent"]
    tell(
        f"{spent['evaluations']} candidates were looked at in {spent['search_seconds']:.0f} s without training. The"
        f" ensemble is {ensemble}:"
    )
    rows = [[member["folder"], f"{member['weight']:.3f}", member["search"], member["arch"]] for member in counted]
    say(*aligned([["member", "weight", "from", "architecture"], *rows]))
    if len(counted) < len(healthy):
        others = ", ".join(member["folder"] for member in healthy if not member["weight"])
        tell(f"  trained, but given no weight, by the loss on cases that were held out: {others}")
    if (allowed := settings.resolved().seconds) and spent["seconds"] < ENOUGH * allowed:
        more = "; --preset thorough does more" if settings.preset == "fast" else ""
        took = f"{spent['seconds']:.0f} s of {allowed:.0f} s"
        tell(f"  done after {took}: the preset {settings.preset} has no more to do{more}")
    for line in missing_in_words(summary):
        tell(f"  {line}")
    for note in summary["plan"].get("notes", ()):
        tell(f"  {note}")
    tell(
        f"Look at {folder / 'report.html'}. The folder has everything: summary.json (all figures), predictions.npz (the"
        " test part), members/, searches/."
    )
    say(f"Next: trainless predict {shlex.quote(str(folder))} {new} --csv answers.csv")
    say(f"      trainless serve {shlex.quote(str(folder))}")


def lines_of(test: Mapping[str, Any], prevalence: float | None = None, width: int | None = None) -> list[str]:
    """The test part in words: figures, the class to find, every class, yardsticks, then how sure it is.

    Of the yardsticks as many metrics are told as fit into a width.
    """
    from trainless.learn.sanity import metric_in_words
    from trainless.report.words import (
        class_rows,
        estimate_in_words,
        plain,
        positive_in_words,
        rule_in_words,
        yardstick_rows,
    )

    lines = [f"On {test['samples']} test {test.get('unit', 'cases')}:"]
    own_class = ("sensitivity", "specificity") if "positive" in test else ()
    for name, value in test["ensemble"].items():
        if name not in own_class:
            mean = test["members_mean"][name]
            lines.append(
                f"  {metric_in_words(name):<18} {estimate_in_words(value)}  (members on average {plain(mean)})"
            )
    if rule := rule_in_words(test):
        lines.append(f"  {rule}")
    lines += [f"  {line}" for line in positive_in_words(test, prevalence)]
    if rows := class_rows(test):
        lines += aligned([["class", "cases", "precision", "recall", "F1"], *rows])
    names, rows = yardstick_rows(test)
    if rows:
        lines += aligned([["beside", *map(metric_in_words, names)], *rows], width=width)
    if "single" in test:
        main = test["main"]
        lines.append(
            f"  one architecture, {test['single']['size']} times: {main}"
            f" {estimate_in_words(test['single']['ensemble'][main])}"
        )
    if "confidence_curve" in test:
        area = f"  mean accuracy on the surest 5 %, 10 %, … of the cases: {plain(test['confidence_curve']['area'])}"
        if "single" in test:
            area += f" (one architecture {plain(test['single']['confidence_curve']['area'])})"
        lines.append(area)
    if "calibration_error" in test:
        lines.append(f"  calibration error  {plain(test['calibration_error']['value'])}")
    for kind, size in (("sets", "mean_size"), ("intervals", "mean_width")):
        if kind in test:
            own = test[kind]
            lines.append(
                f"  {kind} that promise {own['promised']:.0%} hold the truth in {estimate_in_words(own['coverage'])};"
                f" {size.replace('_', ' ')} {plain(own[size])}"
            )
    if "deferral" in test:
        own = test["deferral"]
        lines.append(f"  deferral: {own['rule']}")
        if own["promised"]:
            lines.append(
                f"    on the test part: {estimate_in_words(own['accuracy'])} right, {own['referred']:.0%} referred;"
                f" {_kept(own)}"
            )
    if "drift" in test:
        lines.append(f"  drift: {test['drift']['text']}")
    return lines


def aligned(rows: Sequence[Sequence[str]], most: int = 24, width: int | None = None) -> list[str]:
    """Rows as indented lines with columns below each other; of very many rows, and columns beyond a width, the first.

    Example:
        >>> aligned([["class", "F1"], ["a", "0.5"]])
        ['  class  F1', '  a      0.5']
        >>> aligned([["class", "F1", "recall"], ["a", "0.5", "0.4"]], width=14)
        ['  class  F1', '  a      0.5', '  … and recall, in summary.json']
    """
    widths = [min(60, max(len(row[at]) for row in rows)) for at in range(len(rows[0]))]
    fitting = [
        at for at in range(len(widths)) if at < 2 or width is None or 2 * at + 2 + sum(widths[: at + 1]) <= width
    ]
    left = ", ".join(rows[0][len(fitting) :])
    widths, rows = widths[: len(fitting)], [row[: len(fitting)] for row in rows]
    lines = ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    more = [f"  … and {len(rows) - most - 1} more, in summary.json"] if len(rows) > most + 1 else []
    more += [f"  … and {left}, in summary.json"] if left else []
    return [line.rstrip() for line in lines[: most + 1]] + more


def _kept(own: Mapping[str, Any]) -> str:
    if not own["holds"]:
        return "THE PROMISE DOES NOT HOLD"
    right = own["accuracy"]["value"]
    less = right is not None and right < own["asked"]
    return "less than promised, but no more so than chance explains" if less else "the promise holds"
