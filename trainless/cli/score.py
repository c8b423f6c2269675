"""``trainless score``: what the proxies say of networks that were never trained."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from trainless.cli.options import with_settings
from trainless.core.settings import setting


@dataclass(frozen=True)
class ScoreSettings:
    """What is scored, on which data, and by which proxies."""

    space: str = setting("", "The search space of the architectures (trainless list spaces).")
    space_args: str = setting("", "The space's parameters, such as channels=8,cells=2.")
    task: str = setting("", "A built-in task, or a file or folder of your data (trainless list tasks).")
    shape: str = setting(
        "",
        "Without a task: noise of this shape; own: of the size that each network was made for. [default: 3x32x32]",
        flag="--input",
        metavar="CxHxW",
    )
    classes: int | None = setting(None, "The number of classes of the noise. [default: 10]", kind=int)
    size: str = setting("", "Resize a task's images or volumes, such as 32 or 32x48.")
    proxies: str = setting(
        "",
        "Names or patterns with commas between them, or file.py:name (trainless list proxies); a name may carry"
        " options, as in zico/batches=4. [default: all; with --ranking those that it needs]",
    )
    ranking: str = setting("", "Order the candidates by a ranking (trainless list rankings).", metavar="NAME")
    seed: int = setting(0, "The first seed.", least=0)
    seeds: int = setting(1, "The number of seeds; the table has their mean and spread.", least=1)
    init: str = setting(
        "own",
        "own: as the network was made; kaiming: weights drawn anew, N(0, 2/fan_in); paper: each proxy's published"
        " setting.",
    )
    batch: int | None = setting(None, "Samples per batch. [default: 64, or the paper's]", kind=int, least=1)
    output: str = setting("", "Which of a network's outputs to use, such as 0 or logits.", metavar="KEY")
    device: str = setting("cpu", "cpu, cuda or cuda:1.")
    workers: int = setting(1, "The number of processes that score candidates side by side.", least=1)
    csv: str = setting("", "Write rows to a file; - prints them.", metavar="FILE")
    store: str = setting(
        "",
        "A file or postgresql://… that keeps scores; none keeps nothing. [default: a file in the user's cache]",
        metavar="PLACE",
    )


@with_settings(ScoreSettings)
def score(
    candidates: Annotated[
        list[str],
        typer.Argument(
            help="Architectures of --space in its own notation; or module:factory or file.py:factory, anything that"
            " is or makes an nn.Module; or networks of a library with random weights, such as 'timm:resnet*',"
            " hf:bert@config or monai:DenseNet121 (trainless list networks)."
        ),
    ],
    settings: ScoreSettings,
    as_json: Annotated[bool, typer.Option("--json", help="Print a list of objects and nothing else.")] = False,
) -> None:
    """Score networks at initialisation: architectures of a space, or any nn.Module of yours."""
    from contextlib import redirect_stdout

    from trainless.cli.inputs import OWN, open_subjects, say_capped, task_or_noise
    from trainless.cli.table import rank, show, show_order, summarise
    from trainless.core.errors import InputError
    from trainless.core.progress import tracked
    from trainless.core.scores import MACHINE
    from trainless.rankings import ranking as find_ranking
    from trainless.scoring.evaluate import in_order, scored
    from trainless.scoring.request import data_for, init_named, seed_list, select
    from trainless.store import place_of

    given = settings
    if as_json and given.csv == "-":
        raise InputError("--json and --csv - were given; expected one of them on the output: give --csv a file")
    wanted = [given.proxies] if given.proxies else ["" if given.ranking else "all"]
    wanted += find_ranking(given.ranking).proxies if given.ranking else ()
    chosen, how, numbers = select(",".join(wanted)), init_named(given.init), seed_list(given.seed, given.seeds)
    with redirect_stdout(sys.stderr):  # whatever the user's own code prints
        opened = task_or_noise(given.task, given.shape, given.classes, given.size)
        subjects = open_subjects(candidates, given.space, given.space_args, given.output)
        if given.ranking and len(subjects) < 2:
            raise InputError(
                "--ranking was given with 1 candidate; expected two or more: a ranking is relative to others"
            )
        data = data_for(given.batch, opened, given.device, OWN if given.shape == OWN else None)
        for note in opened.notes:
            typer.echo(f"note: {note}", err=True)
        strict = bool(given.space) or len(subjects) == 1
        records = scored(
            subjects, data, chosen, numbers, init=how, store=place_of(given.store), strict=strict, workers=given.workers
        )
        done = list(tracked(records, len(subjects) * len(chosen) * given.seeds, "scoring"))
    say_capped(chosen, how, data)
    scores = in_order(done, chosen)
    rows = summarise(scores, chosen)
    title = f"{opened.name}, {how} setting, {given.seeds} seed{'s' if given.seeds > 1 else ''}"
    if given.ranking:
        show_order(rank(given.ranking, scores), rows, title, as_json=as_json, as_csv=given.csv)
    else:
        show(rows, title, as_json=as_json, as_csv=given.csv)
    if all(record.status.startswith(MACHINE) or (record.failed and not strict) for record in done):
        typer.echo(f"trainless: there is no score at all: {done[0].status}", err=True)
        raise typer.Exit(1)
