"""``trainless predict`` and ``trainless export``: what a finished design is used for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainless.cli.options import with_settings
from trainless.cli.terminal import say
from trainless.core.errors import InputError
from trainless.core.machine import AUTO, device_named
from trainless.core.settings import setting
from trainless.core.vocabulary import common
from trainless.learn.reading import ReadingSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainless.learn.predictor import Prediction, Predictor

SUSPICIOUS = 20  # cases, from which one answer for all of them is told
NEW = "New inputs of the kind that the run was made from (images, NIfTI volumes: a file or a folder; a CSV), or arrays."


@dataclass(frozen=True)
class ExportSettings:
    """The networks of a run; the code of a space of one's own is run only where the user names it."""

    space: str = common("space", "", shown="the run's, where it is a built-in one")


@dataclass(frozen=True)
class PredictSettings(ExportSettings):
    """Where cases are predicted, and where the answers go."""

    csv: str = common("csv", "-")
    explain: str = setting(
        "", "Explain the least sure cases, at most 20, as a page, JSON and pictures in this folder.", metavar="FOLDER"
    )
    device: str = common("device", AUTO)


@with_settings
def predict(
    run: Annotated[Path, typer.Argument(help="The run folder of trainless design.")],
    inputs: Annotated[Path, typer.Argument(help=NEW)],
    settings: PredictSettings,
    reading: ReadingSettings,
) -> None:
    """Probabilities, label, uncertainty, prediction set, referral and drift of every case, a row each."""
    from trainless.core.seeds import one_thread
    from trainless.core.text import undamaged
    from trainless.learn.drift import drift_warning
    from trainless.tasks.new import read_new

    predictor = open_predictor(run, settings.space).reading(reading)
    new = read_new(inputs, predictor.task)
    with one_thread(), undamaged(run, "design it again"):
        said = predictor.predict(new.x, device_named(settings.device), new.records)
        rows = list(rows_of(predictor, said, new.names))
    printed = settings.csv == "-"
    write_csv(settings.csv, rows)
    if not printed:
        say(f"{len(new.names)} {'case is' if len(new.names) == 1 else 'cases are'} in {settings.csv}.")
    say(*_read(predictor, said), err=printed)
    if said.refer is not None:
        rule = predictor.deferral
        why = f" ({rule})" if rule is not None and not rule.promised else ""
        say(f"To be referred to a person: {int(said.refer.sum()):,} of {len(said.refer):,}{why}.", err=printed)
    if settings.explain:
        from trainless.report.explanations import PAGE, write_explanations

        place = Path(settings.explain)
        count = write_explanations(place, predictor, said, new.x, new.names, new.records)
        say(f"Why it says so, of the {count} least sure: {place / PAGE}.", err=printed)
    if said.drift is not None and predictor.drift is not None:
        warning = drift_warning(predictor.drift, said.drift)
        say(f"{'warning: ' if warning.warn else ''}{warning}", err=warning.warn or printed)


def _read(predictor: Predictor, said: Prediction) -> Iterator[str]:
    """How many cases got each answer, and how the answers are to be read."""
    from trainless.learn.predictor import class_names

    names, positive = class_names(predictor.task.target), predictor.positive
    if said.label is not None:
        counts = Counter(said.label.tolist())
        shown = ", ".join(f"{names[number]} {count:,}" for number, count in counts.most_common(12))
        yield f"Answers: {shown}."
        if len(counts) == 1 and len(said.label) >= SUSPICIOUS:
            yield f"warning: it answers “{names[int(said.label[0])]}” for every one of {len(said.label):,} cases"
    if positive is not None and predictor.prior:
        share, asked = predictor.prior[positive], predictor.prevalence
        if asked is None:
            yield f"Probabilities are for a share of {share:.1%} of “{names[positive]}”, as in the training data."
        else:
            dropped = "" if predictor.sets is not None and predictor.sets.by_class else "sets and "
            yield (
                f"Probabilities are for a share of {asked:.1%} of “{names[positive]}” (training data: {share:.1%});"
                f" {dropped}referrals promise nothing there and are left out."
            )
    if said.screen is not None and predictor.screening is not None and positive is not None:
        yield f"Called “{names[positive]}” at the threshold: {int(said.screen.sum()):,}; {_rule(predictor)}."


def _rule(predictor: Predictor) -> str:
    from trainless.learn.predictor import class_names

    rule = predictor.screening
    return "" if rule is None else rule.statement(class_names(predictor.task.target)[rule.positive])


@with_settings
def export(
    run: Annotated[Path, typer.Argument(help="The run folder of trainless design.")],
    onnx: Annotated[Path, typer.Option(help="The file to write.")],
    settings: ExportSettings,
    reading: ReadingSettings,
) -> None:
    """Write the whole ensemble with its uncertainty as one ONNX graph, checked against PyTorch."""
    from trainless.learn.export import export_onnx
    from trainless.learn.graph import answers_recordings
    from trainless.learn.predictor import class_names

    predictor = open_predictor(run, settings.space).reading(reading)
    names = export_onnx(predictor, onnx)
    given = "windows, all of one recording at once" if answers_recordings(predictor) else "inputs"
    say(f"{onnx} is written and gives the same as PyTorch. Input: {given}; outputs: {', '.join(names)}.")
    shape = "×".join(map(str, predictor.task.input_shape))
    classes = ", ".join(class_names(predictor.task.target)[:12])
    say(
        f"Its metadata hold the format, {f'the classes ({classes}), ' if classes else ''}the layout ({shape}) and"
        " range of inputs, thresholds and what inputs look like; an input on another scale is answered with NaN."
    )


def open_predictor(run: Path, space: str = "") -> Predictor:
    """The ensemble of a run folder; the code of a space of one's own is run only where the user names it."""
    from trainless.core.opening import is_there, without_links
    from trainless.core.text import undamaged
    from trainless.learn.predictor import ENSEMBLE, load_predictor
    from trainless.runs.folder import CONFIGURATION, read_configuration
    from trainless.spaces import space as find_space

    run = without_links(run)
    configuration = read_configuration(run)
    if configuration.get("verb") != "design":
        raise InputError(f"{run} is no folder of trainless design, and nothing was trained in it: give one that is")
    if not is_there(run / ENSEMBLE):
        raise InputError(f"{run} has no ensemble yet: run trainless design again to finish it")
    name = str(configuration.get("space", ""))
    if bool(space) != (":" in name):
        wanted = f"is {name}, whose code runs only where you name it: give" if ":" in name else f"is {name}: leave out"
        raise InputError(f"the space of {run} {wanted} --space {name if ':' in name else space}")
    with undamaged(run / CONFIGURATION, "give another run"):
        chosen = find_space(space, **configuration["space_args"]) if space else None
    return load_predictor(run, chosen)


def write_csv(path: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """One line per case, into a file or printed."""
    from trainless.cli.table import write_csv as write

    write(list(rows[0]), (row.values() for row in rows), path)


def rows_of(predictor: Predictor, said: Prediction, cases: Sequence[str | int]) -> Iterator[dict[str, Any]]:
    """The answers about each case, by column; a case is called as its file or its row, or counted from 0."""
    from trainless.learn.metrics import BALANCED
    from trainless.learn.predictor import class_names

    target = predictor.task.target
    unlike = None if said.drift is None or predictor.drift is None else predictor.drift.unlike(said.drift)
    names = list(class_names(target))
    for case in range(len(said.mean)):
        row: dict[str, Any] = {"case": cases[case]}
        if target.kind == "regression":
            many = target.outputs > 1
            for number in range(target.outputs):
                end = f"_{number}" if many else ""
                row[f"value{end}"] = repr(float(said.mean[case, number]))
                if said.low is not None and said.high is not None:
                    row[f"low{end}"] = repr(float(said.low[case, number]))
                    row[f"high{end}"] = repr(float(said.high[case, number]))
        elif said.label is not None:
            row["label"] = names[int(said.label[case])]
            if said.alike is not None and predictor.prior:
                row[BALANCED] = names[int(said.alike[case])]
            row |= {f"p_{name}": repr(float(p)) for name, p in zip(names, said.mean[case], strict=True)}
        row["variance"] = repr(float(said.variance[case]))
        for what, values in (("entropy", said.total), ("aleatoric", said.aleatoric), ("epistemic", said.epistemic)):
            if values is not None:
                row[what] = repr(float(values[case]))
        if said.sets is not None:
            row["set"] = " | ".join(name for name, inside in zip(names, said.sets[case], strict=True) if inside)
        if said.screen is not None and predictor.positive is not None:
            row[f"screen_{names[predictor.positive]}"] = "yes" if said.screen[case] else "no"
        if said.refer is not None:
            row["refer"] = "yes" if said.refer[case] else "no"
        if said.drift is not None:
            row["like_training_p"] = repr(float(said.drift[case]))
            row["unlike_training"] = "unknown" if unlike is None else "yes" if unlike[case] else "no"
        yield row
