"""``trainless bench``: proxies, rankings, search methods and published tables against tabular benchmarks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainless.bench.settings import CorrelateSettings
from trainless.cli.options import with_settings
from trainless.runs.settings import SweepSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainless.bench.score_library import ScoreLibrary
    from trainless.bench.sheet import Sheet
    from trainless.core.progress import Bars
    from trainless.core.types import Floats
    from trainless.runs.score_file import ScoreFile
    from trainless.runs.sweep import SweepProgress

bench = typer.Typer(help="Measure proxies, rankings and search methods against tables.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV rows.")]


@bench.callback()
def _benches() -> None:
    """Measure proxies, rankings and search methods against tables."""


@bench.command("sweep")
@with_settings(SweepSettings)
def sweep(
    settings: SweepSettings,
    csv: Annotated[str, typer.Option("--csv", metavar="FILE", help="Write all scores to a CSV file too.")] = "",
) -> None:
    """Score a whole space or a sample of it, in parallel and resumable."""
    from trainless.execution.fork_server import prepare

    if settings.engine == "local" and settings.device == "cpu":
        prepare("trainless.runs.sweep_work")  # workers import torch while this process does
    from trainless.core.progress import Bars, tell_interrupted
    from trainless.runs.sweep import sweep as run
    from trainless.runs.sweep import to_store
    from trainless.store import open_store

    with Bars(patience=0.0) as bars:
        file = run(settings, _following(bars), tick=0.5, notice=tell_interrupted)
    with open_store(settings.store) as store:
        kept = 0 if store is None else to_store(file, settings, store)
    if csv:
        file.to_csv(csv)
    last = file.environment["runs"][-1]
    typer.echo(
        f"{last['archs']} networks in {last['seconds']} s ({last['archs_per_s']} per second once the"
        f" {last['processes']} processes on {last['device']} had begun); {kept} scores kept in the store; everything is"
        f" in {settings.out}/scores.npz"
    )
    _tell_failures(file)
    if last["archs"] < last["of"]:
        typer.echo(f"{last['of'] - last['archs']} networks are left: give the same command again to resume", err=True)


def _following(bars: Bars) -> Callable[[SweepProgress], None]:
    """A bar that follows a sweep's reports."""
    return lambda progress: bars.show("scoring", progress.done, progress.total, f"{progress.rate:.1f} networks/s")


def _tell_failures(file: ScoreFile) -> None:
    """How many networks have no score, proxy by proxy, and the reasons."""
    for proxy in file.proxies:
        reasons = sorted(file.failures(proxy).items(), key=lambda one: -one[1])
        if reasons:
            (most, count), others = reasons[0], len(reasons) - 1
            more = f" ({count} of them; {others} other reasons)" if others else ""
            typer.echo(f"{proxy}: {sum(times for _, times in reasons)} scores failed: {most}{more}", err=True)


@bench.command("correlate")
@with_settings(CorrelateSettings)
def correlate(
    settings: CorrelateSettings, as_json: AsJson = False, as_markdown: AsMarkdown = False, as_csv: AsCsv = False
) -> None:
    """Measure any column of scores, or a new proxy, against a table's trained accuracies.

    Statistics: Spearman's ρ and Kendall's τ-b over all networks and over the best tenth, nDCG, overlaps of the top,
    best of 100 and of 1,000, and regret; each with its bootstrap interval, failures ranked last and failures left out.
    """
    from trainless.bench.correlate import meanings
    from trainless.bench.figures import scatter
    from trainless.bench.score_library import Missing, ScoreLibrary
    from trainless.cli.table import show_sheets
    from trainless.core.errors import InputError

    if bool(settings.scores) == bool(settings.proxy):
        raise InputError("expected either --scores FILE or --proxy FILE.py:NAME, one of them")
    library = ScoreLibrary()
    try:
        library.table(settings.table)
    except Missing as missing:
        raise InputError(str(missing)) from missing
    sheet, name, values, accuracy = (_judged if settings.proxy else _measured)(library, settings)
    if settings.plot:
        about = f"{settings.task} {settings.metric} accuracy"
        scatter(Path(settings.plot), values, accuracy, name=name, truth=about)
    people = not (as_json or as_markdown or as_csv)
    if people and (settings.everything or len({row[0] for row in sheet.rows}) == 1):
        sheet = replace(sheet.unfolded(), notes=(*sheet.notes, *meanings()))
    show_sheets([sheet], as_json=as_json, as_markdown=as_markdown, as_csv=as_csv)


def _judged(library: ScoreLibrary, settings: CorrelateSettings) -> tuple[Sheet, str, Floats, Floats]:
    """A new proxy: the sheet, its name, and scores and accuracies for a picture."""
    from tempfile import TemporaryDirectory

    from trainless.bench.correlate import judge_proxy
    from trainless.core.progress import Bars

    inputs = settings.inputs or _inputs(settings.task)
    with TemporaryDirectory() as temporary, Bars(patience=0.0) as bars:
        asked = replace(settings, inputs=inputs, out=settings.out or temporary)
        found = judge_proxy(library, asked, _following(bars))
    return found.sheet, found.name, found.column.upward()[found.chosen], found.accuracy[found.chosen]


def _inputs(task: str) -> str:
    """The task's own images where they are here, else noise of their shape."""
    from trainless.core.errors import TrainlessError
    from trainless.tasks import task as open_task

    try:
        return open_task(task).name
    except TrainlessError:
        typer.echo(f"note: the data of {task} is not here: noise of 3x32x32 is scored instead", err=True)
        return "noise:3x32x32:10"


def _measured(library: ScoreLibrary, settings: CorrelateSettings) -> tuple[Sheet, str, Floats, Floats]:
    """Columns of a file: the sheet, the first one's name, and its scores and accuracies for a picture."""
    import numpy as np

    from trainless.bench.correlate import board, open_columns
    from trainless.bench.score_library import truth

    opened = library.table(settings.table)
    columns = open_columns(settings.scores, settings.column, settings.key, opened, settings.where)
    if settings.lower_is_better:
        columns = {name: replace(each, higher_is_better=False) for name, each in columns.items()}
    accuracy = truth(opened, settings.task, settings.metric)
    within = library.population(settings.table, settings.population)
    title = f"{Path(settings.scores).name}: {settings.title}, {settings.population}"
    sheet = board(columns, accuracy, within, title=title, draws=settings.draws)
    name, shown = next(iter(columns.items()))
    chosen = within & shown.asked & np.isfinite(accuracy)
    return sheet, name, shown.upward()[chosen], accuracy[chosen]


@bench.command("paper")
def paper(
    name: Annotated[
        str,
        typer.Argument(help="Such as vkdnw:table1; a paper's name for all of its tables (trainless bench list)."),
    ],
    draws: Annotated[int, typer.Option(min=0, help="Bootstrap draws behind the intervals.")] = 200,
    runs: Annotated[int, typer.Option(min=0, help="Runs of each search; 0 for the paper's number.")] = 0,
    results: Annotated[
        str, typer.Option(metavar="FOLDER", help="Where our stored scores are. [default: results]")
    ] = "",
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    as_csv: AsCsv = False,
) -> None:
    """Run a published table or figure: published, ours, difference and interval side by side."""
    from trainless.bench.papers import compare, find
    from trainless.bench.score_library import ScoreLibrary
    from trainless.cli.table import show_sheets

    library = ScoreLibrary(Path(results) if results else None)
    sheets = [compare(each, library, draws=draws, runs=runs or None) for each in find(name)]
    show_sheets(sheets, as_json=as_json, as_markdown=as_markdown, as_csv=as_csv)


@bench.command("list")
def listed(as_json: AsJson = False) -> None:
    """List the published tables that can be run."""
    from trainless.bench.papers import definitions

    known = definitions()
    if as_json:
        typer.echo(json.dumps([{"name": name, "title": each.title} for name, each in known.items()], indent=2))
        return
    width = max(map(len, known))
    for name, each in known.items():
        typer.echo(f"{name:<{width}}  {each.title}")


@bench.command("search")
def search(
    table: Annotated[str, typer.Option(help="The tabular benchmark (trainless list tables).")] = "nb201",
    task: Annotated[str, typer.Option(help="The dataset that is searched on.")] = "cifar10",
    searcher: Annotated[str, typer.Option(help="The search method (trainless list searchers).")] = "evolution",
    searcher_args: Annotated[str, typer.Option(help="Its parameters, such as population=64,tournament=8.")] = "",
    time: Annotated[str, typer.Option(help="The simulated time of each run, such as 12000s.")] = "12000s",
    evaluations: Annotated[int, typer.Option(min=0, help="Evaluations of each run; 0 for no such limit.")] = 0,
    fidelity: Annotated[int, typer.Option(min=0, help="Epochs behind the signal; 0 for the fewest.")] = 0,
    runs: Annotated[int, typer.Option(min=1, help="How many independent runs.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="The seed of all runs.")] = 0,
    proxy_scores: Annotated[
        str, typer.Option(metavar="FILE.csv:COLUMN", help="Scores that assist g_*, warm_* and move_* searchers.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print means and deviations as JSON.")] = False,
) -> None:
    """Run a search method on a table many times and report what it finds, in trained accuracy."""
    from trainless.bench.sheet import Sheet
    from trainless.bench.simulation import bench_search, proxy_of_scores
    from trainless.bench.tables import table as open_table
    from trainless.cli.table import show_sheets
    from trainless.core.errors import InputError
    from trainless.core.parameters import parse_arguments
    from trainless.core.units import seconds_of
    from trainless.searchers.stopping import Budget
    from trainless.spaces import space

    opened = open_table(table)
    proxy = None
    if proxy_scores:
        file, _, column = proxy_scores.rpartition(":")
        if not file:
            raise InputError(f"--proxy-scores {proxy_scores} was given; expected FILE.csv:COLUMN")
        proxy = proxy_of_scores(Path(file), column, space(opened.space))
    worth = bench_search(
        opened,
        task,
        searcher,
        Budget(evaluations or None, simulated=seconds_of(time)),
        runs,
        parameters=parse_arguments(searcher_args, "--searcher-args", "population=64,tournament=8"),
        proxy=proxy,
        fidelity=fidelity or None,
        seed=seed,
    )
    if as_json:
        typer.echo(json.dumps(worth, indent=2))
        return
    shown = [[f"{part['mean']:.2f} ± {part['std']:.2f}" for part in parts.values()] for parts in worth.values()]
    rows = tuple((dataset, *cells) for dataset, cells in zip(worth, shown, strict=True))
    sheet = Sheet(f"{searcher} on {table}, {task}: {runs} runs of {time}", ("dataset", "valid", "test"), rows)
    show_sheets([sheet], as_json=False, as_markdown=False, as_csv=False)
