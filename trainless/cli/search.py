"""``trainless search``: find good architectures for data of yours, without training any."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainless.core.arch import Arch
    from trainless.core.task import Task
    from trainless.runs.search import Found
    from trainless.spaces.protocol import Space

SHOWN = 10


def search(
    data: Annotated[str, typer.Argument(help="A built-in task, or a file or folder of your data.")],
    space: Annotated[str, typer.Option(help="The search space (trainless list spaces).")],
    space_args: Annotated[str, typer.Option(help="Its parameters, such as channels=8,cells=2.")] = "",
    size: Annotated[str, typer.Option(help="Resize the task's images or volumes, such as 32 or 32x48.")] = "",
    searcher: Annotated[str, typer.Option(help="The search method (trainless list searchers).")] = "evolution",
    searcher_args: Annotated[str, typer.Option(help="Its parameters, such as population=64,tournament=8.")] = "",
    ranking: Annotated[str, typer.Option(help="Search by a ranking over everything seen.")] = "",
    proxies: Annotated[
        str, typer.Option(help="Search by proxies: one value, or several columns; zico/batches=4 has an option.")
    ] = "",
    assist: Annotated[str, typer.Option(help="The proxy of an assisted searcher, such as g_rea.")] = "",
    max_params: Annotated[str, typer.Option(metavar="N", help="The most parameters, such as 1.5M.")] = "",
    max_flops: Annotated[str, typer.Option(metavar="N", help="The most multiply-accumulates, such as 50M.")] = "",
    max_layers: Annotated[str, typer.Option(metavar="N", help="The most parameter tensors.")] = "",
    max_memory: Annotated[str, typer.Option(metavar="SIZE", help="Weights and activations, such as 64MB.")] = "",
    max_latency: Annotated[str, typer.Option(metavar="TIME", help="Measured here on one sample, such as 5ms.")] = "",
    latency_table: Annotated[
        str, typer.Option(metavar="TABLE:TASK:METRIC", help="Take the latency (in ms) from a table instead.")
    ] = "",
    objectives: Annotated[str, typer.Option(help="Costs to lower as well, such as flops,latency (for nsga2).")] = "",
    evaluations: Annotated[int, typer.Option(min=0, help="How many candidates; 0 for no such limit.")] = 0,
    time: Annotated[str, typer.Option(help="Wall time, such as 90s, 10m or 2h.")] = "",
    init: Annotated[
        str, typer.Option(help="own: PyTorch's weights; kaiming; paper: each proxy's published setting.")
    ] = "own",
    batch: Annotated[int, typer.Option(min=0, help="Samples per batch; 0 for 64, or the paper's.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:1.")] = "cpu",
    workers: Annotated[int, typer.Option(min=1, help="Processes, one thread each.")] = 1,
    ahead: Annotated[
        int, typer.Option(min=0, help="Single proposals in flight at a time; 0 for four per worker, or 1 with one.")
    ] = 0,
    timeout: Annotated[str, typer.Option(help="The most that one candidate may take, such as 60s.")] = "",
    memory_limit: Annotated[str, typer.Option(metavar="SIZE", help="The most that one worker may take: 4g.")] = "",
    engine: Annotated[str, typer.Option(help="local: processes of this machine; ray: a Ray cluster.")] = "local",
    address: Annotated[str, typer.Option(help="A Ray cluster's address; one is started here without it.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="The seed of everything.")] = 0,
    out: Annotated[Path, typer.Option(help="The run folder; the same command goes on from it.")] = Path("run"),
    store: Annotated[
        str,
        typer.Option(metavar="PLACE", help="A file or postgresql://… to share scores and the run; none: unshared."),
    ] = "",
    fork: Annotated[str, typer.Option(metavar="RUN", help="Begin as this run was after --step, with --seed.")] = "",
    step: Annotated[int, typer.Option(min=0, help="The step to fork from.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the best as JSON and nothing else.")] = False,
) -> None:
    """Search a space by a proxy or a ranking, under limits, into a run folder that can be gone on with."""
    from trainless.execution.fork_server import prepare

    if (workers > 1 or timeout or memory_limit) and engine == "local" and device == "cpu":
        prepare("trainless.scoring.measures")  # workers import torch while this process does
    from trainless.cli.searching import Bar, tell_interrupted
    from trainless.core.errors import InputError
    from trainless.core.parameters import parse_arguments
    from trainless.execution.limits import keep_warm
    from trainless.runs.search import search as run_search
    from trainless.spaces import open_space
    from trainless.tasks import task as open_task

    if bool(fork) != bool(step):
        raise InputError("--fork and --step belong together: the run to begin from and the step of it")
    keep_warm()
    task = open_task(data, **({"size": size} if size else {}))
    opened = open_space(space, space_args)
    limits = {
        "params": max_params,
        "flops": max_flops,
        "layers": max_layers,
        "memory": max_memory,
        "latency": max_latency,
    }
    if not as_json:
        _announce(task, evaluations, time, searcher)
    with Bar(opened, f"{searcher} on {task.name}") as bar:
        found = run_search(
            task,
            opened,
            searcher,
            proxies=proxies or None,
            ranking=ranking or None,
            searcher_args=parse_arguments(searcher_args, "--searcher-args", "population=64,tournament=8"),
            assist=assist or None,
            constraints={name: most for name, most in limits.items() if most},
            costs=_table_costs(latency_table, opened) if latency_table else None,
            objectives=[part.strip() for part in objectives.split(",") if part.strip()],
            evaluations=evaluations or None,
            time=time or None,
            seed=seed,
            init=init,
            batch=batch,
            device=device,
            workers=workers,
            ahead=ahead or None,
            timeout=timeout or None,
            memory_limit=memory_limit or None,
            engine=engine,
            address=address,
            out=out,
            store="" if store == "none" else store,
            parent=(fork, step) if fork else None,
            watch=bar.show,
            notice=tell_interrupted,
            tried=bar.tried,
        )
    _say_unscored(found)
    if as_json:
        _print_json(found, opened)
    else:
        _print_table(found, opened, out)


def _announce(task: Task, evaluations: int, time: str, searcher: str) -> None:
    for note in task.notes:
        typer.echo(f"note: {note}", err=True)
    if not evaluations and not time:
        typer.echo(f"note: no --evaluations and no --time: {searcher} goes on until it ends by itself", err=True)


def _say_unscored(found: Found) -> None:
    """Say so where a proxy has no value on any candidate, although others have."""
    for name in found.places[0].scores if found.places else ():
        reasons = [place.failures[name] for place in found.places if name in place.failures]
        if len(reasons) == len(found.places):
            typer.echo(f"note: {name} could not be scored on any candidate: {reasons[0]}", err=True)


def _table_costs(text: str, space: Space) -> dict[str, Callable[[Arch], float]]:
    """A table's latency in seconds as a function of an arch."""
    from trainless.bench.tables import table as open_table
    from trainless.core.errors import InputError

    parts = text.split(":")
    if len(parts) != 3:
        raise InputError(
            f"--latency-table {text} was given; expected table:task:metric such as nb201:cifar10:edgegpu_latency"
        )
    table = open_table(parts[0])
    if table.space != space.name:
        raise InputError(f"the table {parts[0]} is about {table.space}, not about {space.name}")
    column = table.column(parts[1], parts[2])

    def latency(arch: Arch) -> float:
        return float(column[table.index(space.format(arch))]) / 1000

    return {"latency": latency}


def _print_json(found: Found, space: Space) -> None:
    import json

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
    from rich.table import Table
    from rich.text import Text

    from trainless.cli.table import console, number

    first = found.places[0]
    table = Table(title=f"The best {min(SHOWN, len(found.places))} of {len(found.places)}", title_justify="left")
    for name in ("rank", "architecture", *first.scores, *first.costs):
        table.add_column(name, justify="left" if name == "architecture" else "right", overflow="fold")
    for place in found.places[:SHOWN]:
        values = [number(value) for value in (*place.scores.values(), *place.costs.values())]
        table.add_row(str(place.rank), Text(place.text), *values)
    console().print(table)
    why = "the searcher has finished" if found.end == "finished" else "the budget is used up"
    typer.echo(f"{found.spent.evaluations} evaluations in {found.steps} steps, {found.spent.seconds:.1f} s: {why}.")
    typer.echo(f"The searcher's own choice is {space.format(found.best)}; everything is in {out}.")
