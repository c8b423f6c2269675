"""``trainless score``: what the proxies say of networks that were never trained."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from trainless.cli.options import AsJson, with_settings
from trainless.cli.terminal import say
from trainless.core.settings import setting
from trainless.core.vocabulary import common
from trainless.tasks.settings import Reading


@dataclass(frozen=True)
class ScoreSettings:
    """What is scored, on which data, and by which proxies."""

    space: str = common("space", "", shown="none: the candidates are networks")
    space_args: str = common("space_args")
    task: str = common("task")
    shape: str = common("shape")
    proxies: str = common("proxies", "", shown="all; with --ranking those that it needs")
    ranking: str | None = common("ranking")
    seed: int = common("seed")
    seeds: int = common("seeds")
    init: str = common("init")
    batch: int = common("batch")
    output: str = setting("", "Which of a network's outputs to use, such as 0 or logits.", metavar="KEY")
    device: str = common("device")
    workers: int = common("workers")
    fbe: bool = setting(False, "Time a plain pass of each network too, and say what each proxy cost in such passes.")
    csv: str = common("csv")
    store: str = common("store", "", shown="a file in the user's cache")


@with_settings
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
    form: Reading,
    as_json: AsJson = False,
) -> None:
    """Score networks at initialisation: architectures of a space, or any nn.Module of yours."""
    from contextlib import redirect_stdout

    from trainless.cli.inputs import OWN, open_subjects, say_capped, task_or_noise
    from trainless.cli.table import rank, show, show_order, summarise
    from trainless.core.errors import InputError
    from trainless.core.progress import tracked
    from trainless.core.scores import MACHINE
    from trainless.core.text import counted
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
        opened = task_or_noise(given.task, given.shape, form)
        subjects = open_subjects(candidates, given.space, given.space_args, given.output)
        if given.ranking and len(subjects) < 2:
            raise InputError(
                "--ranking was given with 1 candidate; expected two or more: a ranking is relative to others"
            )
        data = data_for(given.batch or None, opened, given.device, OWN if given.shape == OWN else None)
        for note in opened.notes:
            say(f"note: {note}", err=True)
        strict = bool(given.space) or len(subjects) == 1
        place, workers = place_of(given.store), given.workers
        records = scored(
            subjects, data, chosen, numbers, init=how, store=place, strict=strict, workers=workers, fbe=given.fbe
        )
        done = list(tracked(records, len(subjects) * len(chosen) * given.seeds, "scoring"))
    say_capped(chosen, how, data)
    scores = in_order(done, chosen)
    rows = summarise(scores, chosen)
    title = f"{opened.name}, {how} setting, {counted(given.seeds, 'seed')}"
    if given.ranking:
        show_order(rank(given.ranking, scores), rows, title, as_json=as_json, as_csv=given.csv)
    else:
        show(rows, title, as_json=as_json, as_csv=given.csv)
    if all(record.status.startswith(MACHINE) or (record.failed and not strict) for record in done):
        say(f"trainless: there is no score at all: {done[0].status}", err=True)
        raise typer.Exit(1)
