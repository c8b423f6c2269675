"""``trainless bench search``: a search method on a table, many times over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def bench_search(
    table: Annotated[str, typer.Option(help="The tabular benchmark (trainless list tables).")] = "nb201",
    task: Annotated[str, typer.Option(help="The dataset that is searched on.")] = "cifar10",
    searcher: Annotated[str, typer.Option(help="The search method (trainless list searchers).")] = "evolution",
    searcher_args: Annotated[str, typer.Option(help="Its parameters, such as population=64,tournament=8.")] = "",
    budget: Annotated[str, typer.Option(help="Simulated seconds of each run, such as 12000s.")] = "12000s",
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
    from trainless.bench.simulation import bench_search as run
    from trainless.bench.simulation import proxy_of_scores
    from trainless.bench.tables import table as open_table
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
    worth = run(
        opened,
        task,
        searcher,
        Budget(evaluations or None, simulated=seconds_of(budget)),
        runs,
        parameters=parse_arguments(searcher_args, "--searcher-args", "population=64,tournament=8"),
        proxy=proxy,
        fidelity=fidelity or None,
        seed=seed,
    )
    if as_json:
        typer.echo(json.dumps(worth, indent=2))
        return
    from rich.table import Table

    from trainless.cli.table import console

    shown = Table(title=f"{searcher} on {table}, {task}: {runs} runs of {budget}", title_justify="left")
    for name in ("dataset", "valid", "test"):
        shown.add_column(name, justify="left" if name == "dataset" else "right")
    for dataset, parts in worth.items():
        cells = [f"{part['mean']:.2f} ± {part['std']:.2f}" for part in parts.values()]
        shown.add_row(dataset, *cells)
    console().print(shown)
