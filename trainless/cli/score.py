"""``trainless score``: what the proxies say of networks that were never trained."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def score(
    candidates: Annotated[
        list[str],
        typer.Argument(
            help="Architectures of --space in its own notation; or module:factory or file.py:factory, anything that"
            " is or makes an nn.Module."
        ),
    ],
    space: str = typer.Option("", help="The search space of the architectures (trainless list spaces)."),
    space_args: str = typer.Option("", help="Its parameters, such as channels=8,cells=2."),
    task: str = typer.Option("", help="A built-in task, or a file or folder of your data (trainless list tasks)."),
    shape: str = typer.Option(
        "", "--input", metavar="CxHxW", help="Without a task: noise of this shape. [default: 3x32x32]"
    ),
    classes: Annotated[int | None, typer.Option(help="Number of classes of the noise. [default: 10]")] = None,
    size: str = typer.Option("", help="Resize a task's images or volumes, such as 32 or 32x48."),
    proxies: str = typer.Option(
        "",
        help="Names or patterns with commas between them, or file.py:name (trainless list proxies); a name may carry"
        " options, as in zico/batches=4. [default: all; with --ranking those that it needs]",
    ),
    ranking: str = typer.Option(
        "", metavar="NAME", help="Put the candidates in the order of a ranking (trainless list rankings)."
    ),
    seed: int = typer.Option(0, min=0, help="The first seed."),
    seeds: int = typer.Option(1, min=1, help="How many seeds; the table has their mean and spread."),
    init: str = typer.Option(
        "own",
        help="own: as the network was made; kaiming: weights drawn anew, N(0, 2/fan_in); paper: each proxy's published"
        " setting.",
    ),
    batch: Annotated[int | None, typer.Option(min=1, help="Samples per batch. [default: 64, or the paper's]")] = None,
    output: str = typer.Option("", metavar="KEY", help="Which of a network's outputs, such as 0 or logits."),
    device: str = typer.Option("cpu", help="cpu, cuda or cuda:1."),
    as_json: bool = typer.Option(False, "--json", help="Print a list of objects and nothing else."),
    as_csv: str = typer.Option("", "--csv", metavar="FILE", help="Write rows to a file; - prints them."),
    store: str = typer.Option(
        "", metavar="PLACE", help="A file or postgresql://… that keeps scores; none keeps nothing. [default: cache]"
    ),
) -> None:
    """Score networks at initialisation: architectures of a space, or any nn.Module of yours."""
    from contextlib import redirect_stdout

    from trainless.cli import score_ranking
    from trainless.cli.inputs import open_subjects, say_capped, task_or_noise
    from trainless.cli.progress import tracked
    from trainless.cli.table import show, summarise
    from trainless.core.errors import InputError
    from trainless.core.scores import MACHINE
    from trainless.rankings import ranking as find_ranking
    from trainless.scoring.evaluate import evaluate, in_order
    from trainless.scoring.request import data_for, init_named, seed_list, select
    from trainless.store import open_store

    if as_json and as_csv == "-":
        raise InputError("--json and --csv - were given; expected one of them on the output: give --csv a file")
    wanted = [proxies] if proxies else ["" if ranking else "all"]
    if ranking:
        score_ranking.require_several(candidates)
        wanted += find_ranking(ranking).proxies
    chosen, how, numbers = select(",".join(wanted)), init_named(init), seed_list(seed, seeds)
    with redirect_stdout(sys.stderr):  # whatever the user's own code prints
        opened = task_or_noise(task, shape, classes, size)
        subjects = open_subjects(candidates, space, space_args, output)
        data = data_for(batch, opened, subjects, device)
        for note in opened.notes:
            typer.echo(f"note: {note}", err=True)
        with open_store(store) as keeper:
            records = evaluate(subjects, data, chosen, numbers, init=how, store=keeper)
            done = list(tracked(records, len(subjects) * len(chosen) * seeds, "scoring"))
    say_capped(chosen, how, data)
    scores = in_order(done, subjects, chosen)
    rows, title = summarise(scores, chosen), f"{opened.name}, {how} setting, {seeds} seed{'s' if seeds > 1 else ''}"
    if ranking:
        score_ranking.show(score_ranking.rank(ranking, scores), rows, title, as_json=as_json, as_csv=as_csv)
    else:
        show(rows, title, as_json=as_json, as_csv=as_csv)
    if all(record.status.startswith(MACHINE) for record in done):
        typer.echo(f"trainless: there is no score at all: {done[0].status}", err=True)
        raise typer.Exit(1)
