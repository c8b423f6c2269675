"""``trainless bench``: proxies and published tables against tabular benchmarks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import typer

from trainless.cli.bench_search import bench_search

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainless.bench.plan import Plan
    from trainless.bench.sweep import SweepProgress
    from trainless.store.score_file import ScoreFile

bench = typer.Typer(help="Measure proxies, rankings and search methods against tables.", no_args_is_help=True)
bench.command("search")(bench_search)

JSON = typer.Option(False, "--json", help="Print JSON and nothing else.")
MARKDOWN = typer.Option(False, "--markdown", help="Print a Markdown table.")
CSV = typer.Option(False, "--csv", help="Print CSV rows.")


@bench.callback()
def _benches() -> None:
    """Measure proxies, rankings and search methods against tables."""


@bench.command("sweep")
def sweep(
    out: str = typer.Option(..., help="Folder of the journals and of scores.npz; given again, the sweep resumes."),
    space: str = typer.Option("nb201", help="The search space (trainless list spaces)."),
    space_args: str = typer.Option("", help="Its parameters, such as channels=8,cells=2."),
    archs: str = typer.Option(
        "canonical",
        help="canonical (one network of each set of twins, which compute the same function), all, sample:500, or a file"
        " with one notation per line.",
    ),
    proxies: str = typer.Option(
        "all", help="Names (with options, as in zico/batches=4) or patterns with commas between them, or file.py:name."
    ),
    init: str = typer.Option("paper", help="paper: each proxy's published setting; own: PyTorch's weights; kaiming."),
    batch: int = typer.Option(0, min=0, help="Samples per batch; 0 leaves it to each proxy's setting."),
    task: str = typer.Option("noise:3x32x32:10", help="A task's name, file.npz with x and y, or noise:SHAPE:CLASSES."),
    seeds: str = typer.Option("0", help="The seeds, such as 0,1,2."),
    processes: int = typer.Option(1, min=1, help="Worker processes."),
    device: str = typer.Option("cpu", help="cpu or cuda."),
    limit_s: float = typer.Option(0.0, min=0.0, help="Seconds after which no network is begun; 0 for no limit."),
    timeout: str = typer.Option("", help="The most that one network may take, such as 60s."),
    memory_limit: str = typer.Option("", metavar="SIZE", help="The most that one process may take, such as 4g."),
    engine: str = typer.Option("local", help="local: processes of this machine; ray: a Ray cluster."),
    address: str = typer.Option("", help="A Ray cluster's address; one is started here without it."),
    csv: str = typer.Option("", "--csv", metavar="FILE", help="Write all scores to a CSV file too."),
    store: str = typer.Option(
        "", metavar="PLACE", help="A file or postgresql://… to share with other sweeps; none: nothing. [default: cache]"
    ),
) -> None:
    """Score a whole space or a sample of it, in parallel and resumable."""
    from trainless.execution.fork_server import prepare

    if engine == "local" and device == "cpu":
        prepare("trainless.bench.worker")  # workers import torch while this process does
    from trainless.bench.export import to_csv, to_store
    from trainless.bench.plan import Plan
    from trainless.core.units import quantity, seconds_of
    from trainless.store import open_store

    limit = limit_s or math.inf
    seconds, most = seconds_of(timeout or 0.0) or 0.0, int(quantity(memory_limit, "memory")) if memory_limit else 0
    plan = Plan(
        out, space, space_args, archs, proxies, init, batch, task, _numbers(seeds), processes, device, limit,
        seconds, most, engine, address, "" if store == "none" else store,
    )  # fmt: skip
    file = _swept(plan)
    with open_store(store) as keeper:
        kept = to_store(file, plan, keeper) if keeper is not None else 0
    if csv:
        to_csv(file, csv)
    run = file.environment["runs"][-1]
    typer.echo(
        f"{run['archs']} networks in {run['seconds']} s ({run['archs_per_s']} per second once the {run['processes']}"
        f" processes on {run['device']} had begun); {kept} scores kept in the store; everything is in {out}/scores.npz"
    )
    _tell_failures(file)
    if run["archs"] < run["of"]:
        typer.echo(f"{run['of'] - run['archs']} networks are left: give the same command again to go on", err=True)


def _tell_failures(file: ScoreFile) -> None:
    """How many networks have no score, proxy by proxy, and the reasons."""
    for proxy in file.proxies:
        reasons = sorted(file.failures(proxy).items(), key=lambda one: -one[1])
        if reasons:
            (most, count), others = reasons[0], len(reasons) - 1
            more = f" ({count} of them; {others} other reasons)" if others else ""
            typer.echo(f"{proxy}: {sum(times for _, times in reasons)} scores failed: {most}{more}", err=True)


def _numbers(text: str) -> tuple[int, ...]:
    from trainless.core.errors import InputError

    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--seeds {text} was given; expected numbers such as 0,1,2") from None


def _swept(plan: Plan) -> ScoreFile:
    from trainless.bench.sweep import sweep as run
    from trainless.cli.progress import tell_interrupted

    with _bar("scoring") as report:
        return run(plan, report, tick=0.5, notice=tell_interrupted)


class _bar:  # noqa: N801 - used as a function
    """A progress bar on the error stream that follows a sweep's reports."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, TextColumn("{task.fields[rate]}"), console=Console(stderr=True))
        self._row = self._bar.add_task(title, total=None, rate="")

    def __enter__(self) -> Callable[[SweepProgress], None]:
        self._bar.start()
        return self._follow

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def _follow(self, progress: SweepProgress) -> None:
        rate = f"{progress.rate:.1f} networks/s"
        self._bar.update(self._row, completed=progress.done, total=progress.total, rate=rate)


@bench.command("correlate")
def correlate(
    scores: str = typer.Option("", metavar="FILE", help="Scores: a CSV file, or the scores.npz of a sweep."),
    column: str = typer.Option("", help="The column, or several with commas; all of an npz where it is left out."),
    key: str = typer.Option("arch_str", help="How the CSV file names networks: arch_index or arch_str."),
    where: str = typer.Option("", metavar="COLUMN=VALUE", help="Only these rows of the CSV file."),
    lower_is_better: bool = typer.Option(False, help="The CSV file's scores are better the lower they are."),
    proxy: str = typer.Option("", metavar="FILE.py:NAME", help="A proxy of yours, ranked among the built-in ones."),
    sample: int = typer.Option(500, min=10, help="With --proxy: how many networks to score."),
    against: str = typer.Option("all", help="With --proxy: the built-in proxies to compare with."),
    rescore: bool = typer.Option(
        False,
        "--rescore",
        help="With --proxy: score the built-in ones on the same networks, in place of stored scores.",
    ),
    inputs: str = typer.Option("", help="With --proxy: a task's name, file.npz or noise:3x32x32:10."),
    space_args: str = typer.Option("", help="With --proxy: a smaller network, such as channels=4,cells=1."),
    batch: int = typer.Option(0, min=0, help="With --proxy: samples per batch; 0 for each proxy's own."),
    processes: int = typer.Option(2, min=1, help="With --proxy: worker processes."),
    device: str = typer.Option("cpu", help="With --proxy: cpu or cuda."),
    out: str = typer.Option("", help="With --proxy: the folder of the sweep, to resume; a temporary one by default."),
    table: str = typer.Option("nb201", help="The tabular benchmark (trainless list tables)."),
    task: str = typer.Option("cifar10", help="The dataset whose accuracy counts."),
    metric: str = typer.Option("test", help="valid or test, or any other column of the table."),
    population: str = typer.Option("all", help="all, no-dead-edges or canonical."),
    draws: int = typer.Option(1000, min=0, help="Bootstrap draws behind the intervals."),
    plot: str = typer.Option("", metavar="FILE", help="Write a scatter plot, .svg or .png."),
    everything: bool = typer.Option(
        False, "--all", help="Print every statistic with its interval, one per line. [default for one column]"
    ),
    as_json: bool = JSON,
    as_markdown: bool = MARKDOWN,
    as_csv: bool = CSV,
) -> None:
    """Measure any column of scores, or a new proxy, against a table's trained accuracies.

    Statistics: Spearman's ρ and Kendall's τ-b over all networks and over the best tenth, nDCG, overlaps of the top,
    best of 100 and of 1,000, and regret; each with its bootstrap interval, failures ranked last and failures left out.
    """
    from dataclasses import replace
    from pathlib import Path
    from tempfile import TemporaryDirectory

    import numpy as np

    from trainless.bench.correlate import board, meanings, open_columns
    from trainless.bench.figures import scatter
    from trainless.bench.judge_proxy import judge_proxy
    from trainless.bench.plan import Plan
    from trainless.bench.score_library import Missing, ScoreLibrary, truth
    from trainless.cli.sheets import show
    from trainless.core.errors import InputError

    if bool(scores) == bool(proxy):
        raise InputError("expected either --scores FILE or --proxy FILE.py:NAME, one of them")
    library = ScoreLibrary()
    try:
        opened = library.table(table)
    except Missing as missing:
        raise InputError(str(missing)) from missing
    if proxy:
        plan = Plan(
            "", space_args=space_args, batch=batch, task=inputs or _inputs(task), processes=processes, device=device
        )
        with TemporaryDirectory() as temporary, _bar("scoring") as report:
            judged = judge_proxy(
                *(library, proxy, Path(out or temporary)),
                table=table, task=task, metric=metric, population=population, sample=sample, against=against,
                rescore=rescore, plan=plan, draws=draws, report=report,
            )  # fmt: skip
        sheet, name, shown, chosen = judged.sheet, judged.name, judged.column, judged.chosen
        accuracy = judged.accuracy
    else:
        columns = open_columns(scores, column, key, opened, where)
        if lower_is_better:
            columns = {name: replace(each, higher_is_better=False) for name, each in columns.items()}
        accuracy, within = truth(opened, task, metric), library.population(table, population)
        title = f"{Path(scores).name}: {table}, {task} {metric}, {population}"
        sheet = board(columns, accuracy, within, title=title, draws=draws)
        name, shown = next(iter(columns.items()))
        chosen = within & shown.asked & np.isfinite(accuracy)
    if plot:
        values = shown.values.mean(axis=0) * (1 if shown.higher_is_better else -1)
        scatter(Path(plot), values[chosen], accuracy[chosen], name=name, truth=f"{task} {metric} accuracy")
    people = not (as_json or as_markdown or as_csv)
    if people and (everything or len({row[0] for row in sheet.rows}) == 1):
        sheet = replace(sheet.unfolded(), notes=(*sheet.notes, *meanings()))
    show([sheet], as_json=as_json, as_markdown=as_markdown, as_csv=as_csv)


def _inputs(task: str) -> str:
    """The task's own images where they are here, else noise of their shape."""
    from trainless.core.errors import TrainlessError
    from trainless.tasks import task as open_task

    try:
        return open_task(task).name
    except TrainlessError:
        typer.echo(f"note: the data of {task} is not here: noise of 3x32x32 is scored instead", err=True)
        return "noise:3x32x32:10"


@bench.command("paper")
def paper(
    name: str = typer.Argument(
        help="Such as vkdnw:table1; a paper's name for all of its tables (trainless bench list)."
    ),
    draws: int = typer.Option(200, min=0, help="Bootstrap draws behind the intervals."),
    runs: int = typer.Option(0, min=0, help="Runs of each search; 0 for the paper's number."),
    results: str = typer.Option("", metavar="FOLDER", help="Where our stored scores are. [default: results]"),
    as_json: bool = JSON,
    as_markdown: bool = MARKDOWN,
    as_csv: bool = CSV,
) -> None:
    """Run a published table or figure: published, ours, difference and interval side by side."""
    from pathlib import Path

    from trainless.bench.papers import compare, find
    from trainless.bench.score_library import ScoreLibrary
    from trainless.cli.sheets import show

    library = ScoreLibrary(Path(results) if results else None)
    sheets = [compare(each, library, draws=draws, runs=runs or None) for each in find(name)]
    show(sheets, as_json=as_json, as_markdown=as_markdown, as_csv=as_csv)


@bench.command("list")
def listed(as_json: bool = JSON) -> None:
    """List the published tables that can be run."""
    import json

    from trainless.bench.papers import definitions

    known = definitions()
    if as_json:
        typer.echo(json.dumps([{"name": name, "title": each.title} for name, each in known.items()], indent=2))
        return
    width = max(map(len, known))
    for name, each in known.items():
        typer.echo(f"{name:<{width}}  {each.title}")
