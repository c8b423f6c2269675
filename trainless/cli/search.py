"""``trainless search``: find good architectures for data of yours, without training any; ``export-study``."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainless.cli.options import AsJson, with_settings
from trainless.cli.terminal import say
from trainless.core.settings import setting
from trainless.core.vocabulary import common
from trainless.runs.settings import EVALUATIONS, SearchSettings
from trainless.tasks.settings import Reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainless.core.arch import Arch
    from trainless.runs.search import Found
    from trainless.spaces.protocol import Space

SHOWN = 10


@dataclass(frozen=True)
class SearchPlace:
    """The folder of a search, and the space."""

    space: str = common("space")
    space_args: str = common("space_args")
    latency_table: str = setting("", "Take the latency (in ms) from a table instead.", metavar="TABLE:DATASET:METRIC")
    out: str = common("out", "runs/search")


@with_settings
def search(
    data: Annotated[str, typer.Argument(help="A built-in task, or a file or folder of your data.")],
    place: SearchPlace,
    form: Reading,
    settings: SearchSettings,
    as_json: AsJson = False,
) -> None:
    """Search a space by a proxy or a ranking, under limits, into a run folder that can be resumed.

    The limits --evaluations and --time are of all sessions of the run together.
    """
    from trainless.execution.fork_server import prepare

    apart = settings.workers != 1 or settings.timeout or settings.memory_limit
    if apart and settings.executor == "local" and settings.device == "cpu":
        prepare("trainless.scoring.measures")  # workers import torch while this process does
    from dataclasses import replace

    from trainless.core.progress import Bars, tell_interrupted
    from trainless.execution.limits import keep_warm
    from trainless.runs.search import on_bars
    from trainless.runs.search import search as run_search
    from trainless.spaces import open_space
    from trainless.tasks import task as open_task

    keep_warm()
    task, out = open_task(data, **form.given), Path(place.out)
    opened = open_space(place.space, place.space_args)
    if place.latency_table:
        settings = replace(settings, costs=_table_costs(place.latency_table, opened))
    for note in () if as_json else task.notes:
        say(f"note: {note}", err=True)
    if not as_json and settings.unlimited:
        say(f"note: no --evaluations and no --time: it ends after {EVALUATIONS:,} evaluations", err=True)
    with Bars() as bars:
        title = f"{settings.searcher} on {task.name}"
        callbacks = on_bars(bars, title, opened, tell_interrupted)
        found = run_search(task, opened, out=out, settings=settings, callbacks=callbacks)
    _say_unscored(found)
    if as_json:
        _print_json(found, opened)
    else:
        _print_table(found, opened, out)


def export_study(
    run: Annotated[Path, typer.Argument(help="A run folder of trainless search.")],
    study: Annotated[str, typer.Argument(help="A SQLite file such as study.db, or an address of Optuna's.")],
    name: Annotated[str, typer.Option(help="The study's name; by default the folder's, or the only one.")] = "",
) -> None:
    """Make an Optuna study of a run, for optuna-dashboard to show."""
    from trainless.runs.export_study import export_study as export

    made = export(run, study, name)
    say(f"{len(made.trials)} trials of {run} are in the study {made.study_name!r} of {study}.")


@dataclass(frozen=True)
class StudyPlace:
    """The space of a study, and the folder that its run is to have."""

    space: str = common("space")
    space_args: str = common("space_args")
    out: str = common("out", "runs/import-study")


@with_settings
def import_study(
    study: Annotated[str, typer.Argument(help="A SQLite file such as study.db, or an address of Optuna's.")],
    place: StudyPlace,
    name: Annotated[str, typer.Option(help="The study's name; by default the folder's, or the only one.")] = "",
) -> None:
    """Make a run folder of an Optuna study whose parameters are a space's decisions."""
    from trainless.core.text import counted
    from trainless.runs.import_study import import_study as read_study
    from trainless.spaces import open_space

    found, left_out = read_study(name, open_space(place.space, place.space_args), place.out, storage=study)
    again = f"; {counted(left_out, 'trial')} of architectures that came before left out" if left_out else ""
    say(f"{counted(len(found.places), 'architecture')} of {study} are the run {place.out}{again}.")


def _say_unscored(found: Found) -> None:
    """Say so where a proxy has no value on any candidate, although others have."""
    for name in found.places[0].scores if found.places else ():
        reasons = [place.failures[name] for place in found.places if name in place.failures]
        if len(reasons) == len(found.places):
            say(f"note: {name} could not be scored on any candidate: {reasons[0]}", err=True)


def _table_costs(text: str, space: Space) -> dict[str, Callable[[Arch], float]]:
    """A table's latency in seconds as a function of an arch."""
    from trainless.bench.tables import table as open_table
    from trainless.core.errors import InputError

    parts = text.split(":")
    if len(parts) != 3:
        raise InputError(
            f"--latency-table {text} was given; expected table:dataset:metric such as nb201:cifar10:edgegpu_latency"
        )
    table = open_table(parts[0])
    if table.space != space.name:
        raise InputError(f"the table {parts[0]} is about {table.space}, not about {space.name}")
    column = table.column(parts[1], parts[2])

    def latency(arch: Arch) -> float:
        return float(column[table.index(space.format(arch))]) / 1000

    return {"latency": latency}


def _print_json(found: Found, space: Space) -> None:
    from trainless.core.files import number

    top = [
        {
            "rank": place.rank,
            "arch": place.text,
            "scores": {name: number(value) for name, value in place.scores.items()},
            "costs": {name: number(value) for name, value in place.costs.items()},
        }
        for place in found.places[:SHOWN]
    ]
    answer = {
        "best": space.format(found.best),
        "end": found.end,
        "evaluations": found.spent.evaluations,
        "seconds": found.spent.seconds,
        "steps": found.steps,
        "leaderboard": top,
    }
    typer.echo(json.dumps(answer, indent=2, allow_nan=False))


def _print_table(found: Found, space: Space, out: Path) -> None:
    from trainless.cli.table import number, print_leaderboard
    from trainless.core.text import counted

    first, rows = found.places[0], []
    for place in found.places[:SHOWN]:
        values = (*place.scores.values(), *place.costs.values())
        rows.append([str(place.rank), place.text, *map(number, values)])
    title = f"The best {len(rows)} of {len(found.places)}"
    print_leaderboard(title, ["rank", "architecture", *first.scores, *first.costs], rows, len(first.costs))
    why = "the searcher has finished" if found.end == "finished" else "the budget is used up"
    done, steps = counted(found.spent.evaluations, "evaluation"), counted(found.steps, "step")
    say(f"{done} in {steps}, {found.spent.seconds:.1f} s: {why}.")
    own = space.format(found.best)
    if own == first.text:
        say(f"The best is {own}.")
    else:
        say(f"The best of the leaderboard is {first.text}.")
        say(f"The searcher itself ended with {own}, by the scores that it knew on its way.")
    say(f"Everything is in {out}; trainless report {shlex.quote(str(out))} makes a page of it.")
    for sentence in _trust(found):
        say(sentence)


def _trust(found: Found) -> list[str]:
    """How far the order may be trusted, where a ranking that is registered made it."""
    from trainless.core.scores import Record, Scores
    from trainless.rankings import registry
    from trainless.rankings.trust import trust

    if found.ranking not in registry:
        return []
    up = found.higher_is_better
    every = ((place.text, name, value) for place in found.places for name, value in place.scores.items() if name in up)
    return trust(registry[found.ranking], Scores([Record(text, name, value, up[name]) for text, name, value in every]))
