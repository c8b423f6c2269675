"""A new proxy against the built-in ones, on a sample of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from trainless.bench.correlate import board, columns_of_sweep, stored_columns
from trainless.bench.plan import Plan
from trainless.bench.score_library import Missing, ScoreColumn, ScoreLibrary, described, truth
from trainless.bench.sheet import Sheet
from trainless.bench.sweep import SweepProgress, sweep
from trainless.core.errors import InputError
from trainless.core.types import Mask
from trainless.scoring.request import proxy_in_file, select
from trainless.store.score_file import ScoreFile


@dataclass(frozen=True, eq=False)
class Judged:
    """A leaderboard, the new proxy's name, and its scores and the truth for a picture."""

    sheet: Sheet
    name: str
    column: ScoreColumn
    accuracy: np.ndarray[tuple[int], np.dtype[np.float64]]
    chosen: Mask


def judge_proxy(
    library: ScoreLibrary,
    text: str,
    folder: Path,
    *,
    table: str = "nb201",
    task: str = "cifar10",
    metric: str = "test",
    population: str = "all",
    sample: int = 500,
    against: str = "all",
    rescore: bool = False,
    plan: Plan | None = None,
    draws: int = 1000,
    report: Callable[[SweepProgress], None] | None = None,
) -> Judged:
    """Score a sample of a table's networks by a new proxy and rank it among the built-in ones.

    Built-in scores are those stored for the table where there are any; else they are computed on the same sample.
    Stored ones are of networks in full size: where the new proxy sees smaller ones, the sheet says so.

    Args:
        library: Tables and stored scores.
        text: The new proxy, ``file.py:name``.
        folder: Where the sweep is kept: given again, it resumes.
        table: The table.
        task: The dataset whose accuracy counts.
        metric: ``valid`` or ``test``.
        population: Which networks the sample is drawn from.
        sample: How many.
        against: The built-in proxies, by names and patterns.
        rescore: Compute the built-in proxies on the same sample even where scores are stored.
        plan: Inputs, batch, device, processes and space arguments of the sweep.
        draws: Bootstrap draws.
        report: Told of the sweep's progress.
    """
    opened = library.table(table)
    mine = proxy_in_file(text).name
    within = library.population(table, population)
    accuracy = truth(opened, task, metric)
    if sample < 10:
        raise InputError(f"a sample of {sample} was given; expected at least 10 networks")
    rows = np.random.default_rng(0).permutation(np.flatnonzero(within & np.isfinite(accuracy)))[:sample]
    others = [proxy.name for proxy in select(against) if proxy.name != mine]
    stored, note = _stored(library, table, rescore)
    folder.mkdir(parents=True, exist_ok=True)
    listed = folder / "archs.txt"
    listed.write_text("\n".join(opened.archs[row] for row in sorted(rows)), encoding="utf-8")
    wanted = ",".join([text, *([] if stored else others)])
    todo = replace(plan or Plan(""), out=str(folder), space=opened.space, archs=str(listed), proxies=wanted)
    file = sweep(todo, report)
    computed = columns_of_sweep(file, [mine, *([] if stored else others)], opened)
    columns = {
        mine: computed[mine],
        **{name: (stored or computed)[name] for name in others if name in (stored or computed)},
    }
    chosen = np.zeros(len(opened), bool)
    chosen[rows] = True
    about = f"{table}, {task} {metric}, {len(rows)} networks ({population})"
    title = f"{mine} among {len(columns) - 1} built-in proxies: {about}"
    failed = [f"{count} networks have no {mine}: {reason}." for reason, count in file.failures(mine).items()]
    stored_of = _sources(library, table, list(columns)[1:]) if stored else []
    settings = [f"{mine}: {described(file)}.", *(f"{', '.join(held)}: {described(each)}." for each, held in stored_of)]
    sheet = board(columns, accuracy, chosen, title=title, draws=draws, notes=(note, *settings, *failed[:5]))
    sheet = replace(sheet, notes=(*_unlike(mine, file, [each for each, _ in stored_of]), *sheet.notes))
    return Judged(sheet, mine, computed[mine], accuracy, chosen)


def _stored(library: ScoreLibrary, table: str, rescore: bool) -> tuple[dict[str, ScoreColumn], str]:
    """Stored scores by the built-in proxies, none where they are to be computed, and why."""
    if rescore:
        return {}, "Built-in scores were computed on the same networks and inputs."
    try:
        return stored_columns(library, table), "Built-in scores are the stored ones, computed as follows."
    except Missing as missing:
        return {}, f"Built-in scores were computed on the same networks and inputs ({missing})."


def _sources(library: ScoreLibrary, table: str, names: Sequence[str]) -> list[tuple[ScoreFile, list[str]]]:
    """The files that stored scores come from, each with the proxies that come from it."""
    found: dict[int, tuple[ScoreFile, list[str]]] = {}
    for name in names:
        if (source := library.source(table, name)) is not None:
            found.setdefault(id(source), (source, []))[1].append(name)
    return list(found.values())


def _unlike(mine: str, file: ScoreFile, stored: Sequence[ScoreFile]) -> tuple[str, ...]:
    """A warning where the stored scores are of networks of another size than the new proxy's."""
    here = file.settings.get("space")
    others = dict.fromkeys(str(each.settings.get("space")) for each in stored if each.settings.get("space") != here)
    if not others:
        return ()
    return (
        f"NOT LIKE FOR LIKE: {mine} was scored on {here}, the built-in proxies on {', '.join(others)}, whose scores are"
        " stored. --rescore scores them all on the same networks.",
    )
