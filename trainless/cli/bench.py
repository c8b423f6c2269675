"""``trainless bench``: proxies, rankings, search methods and published tables against tabular benchmarks."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainless.bench.settings import (
    ColumnSettings,
    CorrelateSettings,
    PaperSettings,
    SampleSettings,
    SimulationSettings,
    SiteSettings,
)
from trainless.cli.options import AsJson, AsMarkdown, OwnDefaults, with_settings
from trainless.cli.terminal import say
from trainless.core.vocabulary import common
from trainless.runs.settings import SweepSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainless.bench.score_library import ScoreColumn, ScoreLibrary
    from trainless.bench.sheet import Sheet
    from trainless.bench.tables import Table
    from trainless.core.progress import Bars
    from trainless.core.types import Floats
    from trainless.runs.score_file import ScoreFile
    from trainless.runs.sweep import SweepProgress

bench = typer.Typer(help="Measure proxies, rankings and search methods against tables.", no_args_is_help=True)


@bench.callback()
def _benches() -> None:
    """Measure proxies, rankings and search methods against tables."""


@dataclass(frozen=True)
class RowSettings:
    """Where rows go besides the run folder."""

    csv: str = common("csv")


@bench.command("sweep", short_help="Score a whole space, in parallel and resumable.")
@with_settings
def sweep(settings: SweepSettings, rows: RowSettings) -> None:
    """Score a whole space or a sample of it, in parallel and resumable.

    With --time no network is begun once the time is over; the same command resumes it.
    """
    from trainless.execution.fork_server import prepare

    if settings.executor == "local" and settings.device == "cpu":
        prepare("trainless.runs.sweep_work")  # workers import torch while this process does
    from trainless.cli.table import put_csv
    from trainless.core.progress import Bars, tell_interrupted
    from trainless.core.text import counted
    from trainless.runs.sweep import sweep as run
    from trainless.runs.sweep import to_store
    from trainless.store import open_store

    with Bars(patience=0.0) as bars:
        file = run(settings, _following(bars), tick=0.5, notice=tell_interrupted)
    with open_store(settings.store) as store:
        kept = 0 if store is None else to_store(file, settings, store)
    if rows.csv:
        put_csv(file.to_csv(), rows.csv)
    last, printed = file.environment["runs"][-1], rows.csv == "-"
    say(
        f"{counted(last['archs'], 'network')} in {last['seconds']} s ({last['archs_per_s']} per second once"
        f" {counted(last['processes'], 'process', 'processes')} on {last['device']} had begun);"
        f" {counted(kept, 'score')} kept in the store; everything is in {settings.out}/scores.npz",
        err=printed,
    )
    _tell_failures(file)
    if left := last["of"] - last["archs"]:
        are = "is" if left == 1 else "are"
        say(f"{counted(left, 'network')} {are} left: give the same command again to resume", err=True)


def _following(bars: Bars) -> Callable[[SweepProgress], None]:
    """A bar that follows a sweep's reports."""
    return lambda progress: bars.show("scoring", progress.done, progress.total, f"{progress.rate:.1f} networks/s")


def _tell_failures(file: ScoreFile) -> None:
    """How many networks have no score, proxy by proxy, and the reasons."""
    from trainless.core.text import counted

    for proxy in file.proxies:
        reasons = sorted(file.failures(proxy).items(), key=lambda one: -one[1])
        if reasons:
            (most, count), others = reasons[0], len(reasons) - 1
            more = f" ({count} of them; {counted(others, 'other reason')})" if others else ""
            failed = counted(sum(times for _, times in reasons), "score")
            say(f"{proxy}: {failed} failed: {most}{more}", err=True)


@bench.command("correlate", short_help="Measure scores or a new proxy against a table.")
@with_settings
def correlate(
    settings: Annotated[CorrelateSettings, OwnDefaults(workers=0)],
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
) -> None:
    """Measure any column of scores, or a new proxy, against a table's trained accuracies.

    Columns of a file: --scores with --column, --key and --where. A new proxy: --proxy, which scores a sample of the
    table's networks; the options on how to score (--sample, --against, --rescore, --task, --space-args, --batch,
    --workers, --device and --out) are for it alone.

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
        about = f"{settings.dataset} {settings.metric} accuracy"
        scatter(Path(settings.plot), values, accuracy, name=name, truth=about)
    people = not (as_json or as_markdown or settings.csv)
    if people and (settings.everything or len({row[0] for row in sheet.rows}) == 1):
        sheet = replace(sheet.unfolded(), notes=(*sheet.notes, *meanings()))
    show_sheets([sheet], as_json=as_json, as_markdown=as_markdown, as_csv=settings.csv)


def _judged(library: ScoreLibrary, settings: CorrelateSettings) -> tuple[Sheet, str, Floats, Floats]:
    """A new proxy: the sheet, its name, and scores and accuracies for a picture."""
    from tempfile import TemporaryDirectory

    from trainless.bench.correlate import judge_proxy
    from trainless.core.progress import Bars

    task = settings.task or _own_images(settings.dataset)
    with TemporaryDirectory() as temporary, Bars(patience=0.0) as bars:
        asked = replace(settings, task=task, out=settings.out or temporary)
        found = judge_proxy(library, asked, _following(bars))
    return found.sheet, found.name, found.column.upward()[found.chosen], found.accuracy[found.chosen]


def _own_images(dataset: str) -> str:
    """The task of the dataset's own images where they are here, else noise of their shape."""
    from trainless.core.errors import TrainlessError
    from trainless.tasks import task as open_task

    try:
        return open_task(dataset).name
    except TrainlessError:
        say(f"note: the data of {dataset} is not here: noise of 3x32x32 is scored instead", err=True)
        return "noise:3x32x32:10"


def _measured(library: ScoreLibrary, settings: CorrelateSettings) -> tuple[Sheet, str, Floats, Floats]:
    """Columns of a file: the sheet, the first one's name, and its scores and accuracies for a picture."""
    import numpy as np

    from trainless.bench.correlate import board
    from trainless.bench.score_library import truth

    opened = library.table(settings.table)
    columns = _columns(settings, opened)
    accuracy = truth(opened, settings.dataset, settings.metric)
    within = library.population(settings.table, settings.population)
    title = f"{Path(settings.scores).name}: {settings.title}, {settings.population}"
    sheet = board(columns, accuracy, within, title=title, draws=settings.draws)
    name, shown = next(iter(columns.items()))
    chosen = within & shown.asked & np.isfinite(accuracy)
    return sheet, name, shown.upward()[chosen], accuracy[chosen]


def _columns(settings: ColumnSettings, table: Table) -> dict[str, ScoreColumn]:
    """Columns of a file, as they are meant."""
    from trainless.bench.correlate import open_columns

    columns = open_columns(settings.scores, settings.column, settings.key, table, settings.where)
    return {
        name: replace(each, higher_is_better=False) if settings.lower_is_better else each
        for name, each in columns.items()
    }


@bench.command("site", short_help="Make the leaderboard as a page, with your proxy.")
@with_settings
def site(settings: Annotated[SiteSettings, OwnDefaults(workers=0)]) -> None:
    """Make the leaderboard as a static page to sort, to link to and to download, with a proxy of yours.

    A new proxy: --proxy, which scores a sample of the table's networks. Scores that there are already: --scores with
    --column, --key and --where. Without both it is the leaderboard as it is.
    """
    from trainless.bench.leaderboard import FILE, read, with_entries
    from trainless.bench.score_library import Missing, ScoreLibrary
    from trainless.bench.site import write_site
    from trainless.core.errors import InputError

    if settings.scores and settings.proxy:
        raise InputError("expected either --scores FILE or --proxy FILE.py:NAME, not both")
    library = ScoreLibrary(Path(settings.results) if settings.results else None)
    found = read(library.folder / FILE)
    if settings.scores or settings.proxy:
        try:
            opened = library.table(settings.table)
        except Missing as missing:
            raise InputError(str(missing)) from missing
        if settings.scores:
            columns = _columns(settings, opened)
            about = f"{', '.join(columns)}: scores in {Path(settings.scores).name}."
        else:
            columns, about = _sampled(library, settings)
        found = with_entries(found, library, settings.table, columns, draws=settings.draws, about=[about])
    typer.echo(f"the page is {write_site(found, Path(settings.out))}")


def _sampled(library: ScoreLibrary, settings: SampleSettings) -> tuple[dict[str, ScoreColumn], str]:
    """Scores by a new proxy on a sample of a table's networks, and how; the sweep stays in the folder, and resumes."""
    from trainless.bench.correlate import columns_of_sweep, sample_sweep
    from trainless.bench.score_library import described
    from trainless.core.progress import Bars
    from trainless.scoring.request import proxy_in_file

    name, opened = proxy_in_file(settings.proxy).name, library.table(settings.table)
    asked = replace(settings, task=settings.task or _own_images("cifar10"), out=str(Path(settings.out) / "sweep"))
    with Bars(patience=0.0) as bars:
        file, _ = sample_sweep(library, asked, library.population(settings.table, "all"), (), _following(bars))
    _tell_failures(file)
    return columns_of_sweep(file, [name], opened), f"{name}: {described(file)}."


@bench.command("paper", short_help="Run a published table, or list all with their states.")
@with_settings
def paper(
    settings: PaperSettings,
    name: Annotated[
        str,
        typer.Argument(help="Such as vkdnw:table1; a paper's name or all for several; list for the state of each."),
    ] = "",
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
) -> None:
    """Run a published table or figure: published, ours, difference and interval side by side.

    The name list shows every table and figure of the papers: reproduced or not and why, or which data it needs.
    With --check it is run in small, few runs of each search and no intervals, and compared with what is stored in
    results/papers.json; --seed says which tenth of all tables is checked where none is named.
    """
    from trainless.bench.papers import compare, find
    from trainless.bench.papers.states import listed, states
    from trainless.bench.score_library import ScoreLibrary
    from trainless.cli.table import show_sheets
    from trainless.core.errors import InputError

    library = ScoreLibrary(Path(settings.results) if settings.results else None)
    if name == "list":
        show_sheets([listed(states(library.folder))], as_json=as_json, as_markdown=as_markdown, as_csv=settings.csv)
        return
    if settings.check:
        _check(library, name, settings.seed)
        return
    if not name:
        raise InputError("no table was given; expected one such as vkdnw:table1, list for all of them, or --check")
    sheets = [compare(each, library, draws=settings.draws, runs=settings.runs) for each in find(name)]
    show_sheets(sheets, as_json=as_json, as_markdown=as_markdown, as_csv=settings.csv)


def _check(library: ScoreLibrary, name: str, seed: int | None) -> None:
    """Compare tables in small with the stored results, and end with 1 where they do not agree."""
    import secrets

    from trainless.bench.papers import find, stored
    from trainless.core.text import counted

    known = stored.read(library.folder / stored.FILE)
    if name:
        chosen = find(name)
    else:
        seed = secrets.randbelow(10_000) if seed is None else seed
        chosen = stored.some(seed)
        typer.echo(f"{len(chosen)} of {len(known) - 1} tables, drawn with --seed {seed}")
    faults = 0
    for definition in chosen:
        found = stored.check(definition, library, known)
        faults += len(found.faults)
        state = f"{counted(len(found.faults), 'figure')} not" if found.faults else "all"
        typer.echo(f"{found.name}: of {counted(found.figures, 'figure')} {state} as stored")
        for fault in found.faults:
            typer.echo(f"  {fault}")
    if faults:
        raise typer.Exit(1)


@bench.command("search", short_help="Run a search method on a table many times.")
@with_settings
def search(settings: SimulationSettings, as_json: AsJson = False) -> None:
    """Run a search method on a table many times and report what it finds, in trained accuracy."""
    from trainless.bench.sheet import Sheet
    from trainless.bench.simulation import bench_search, proxy_of_scores
    from trainless.bench.tables import table as open_table
    from trainless.cli.table import show_sheets
    from trainless.core.errors import InputError
    from trainless.core.parameters import parse_arguments
    from trainless.core.text import counted
    from trainless.core.units import seconds_of
    from trainless.searchers.stopping import Budget
    from trainless.spaces import space

    given, opened, proxy = settings, open_table(settings.table), None
    if given.proxy_scores:
        file, _, column = given.proxy_scores.rpartition(":")
        if not file:
            raise InputError(f"--proxy-scores {given.proxy_scores} was given; expected FILE.csv:COLUMN")
        proxy = proxy_of_scores(Path(file), column, space(opened.space))
    worth = bench_search(
        opened,
        given.dataset,
        given.searcher,
        Budget(given.evaluations, simulated=seconds_of(given.simulated)),
        given.runs,
        parameters=parse_arguments(given.searcher_args, "--searcher-args", "population=64,tournament=8"),
        proxy=proxy,
        fidelity=given.fidelity or None,
        seed=given.seed,
    )
    if as_json:
        typer.echo(json.dumps(worth, indent=2))
        return
    shown = [[f"{part['mean']:.2f} ± {part['std']:.2f}" for part in parts.values()] for parts in worth.values()]
    rows = tuple((dataset, *cells) for dataset, cells in zip(worth, shown, strict=True))
    about = f"{given.searcher} on {given.table}, {given.dataset}: {counted(given.runs, 'run')} of {given.simulated}"
    show_sheets([Sheet(about, ("dataset", "valid", "test"), rows)])
