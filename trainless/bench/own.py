"""A new proxy against the built-in ones, on a sample of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from trainless.bench.correlate import board, columns_of_sweep, stored_columns
from trainless.bench.evidence import Column, Evidence, Mask, Missing, truth
from trainless.bench.plan import Plan, open_proxies, proxy_in_file
from trainless.bench.sheet import Sheet
from trainless.bench.sweep import Progress, sweep
from trainless.core.errors import InputError


@dataclass(frozen=True, eq=False)
class Judged:
    """A leaderboard, the new proxy's name, and its scores and the truth for a picture."""

    sheet: Sheet
    name: str
    column: Column
    accuracy: np.ndarray[tuple[int], np.dtype[np.float64]]
    chosen: Mask


def judge_proxy(
    evidence: Evidence,
    text: str,
    folder: Path,
    *,
    table: str = "nb201",
    task: str = "cifar10",
    metric: str = "test",
    population: str = "all",
    sample: int = 500,
    against: str = "all",
    plan: Plan | None = None,
    draws: int = 1000,
    report: Callable[[Progress], None] | None = None,
) -> Judged:
    """Score a sample of a table's networks by a new proxy and rank it among the built-in ones.

    Built-in scores are those stored for the table where there are any; else they are computed on the same sample.

    Args:
        evidence: Tables and stored scores.
        text: The new proxy, ``file.py:name``.
        folder: Where the sweep is kept: given again, it resumes.
        table: The table.
        task: The dataset whose accuracy counts.
        metric: ``valid`` or ``test``.
        population: Which networks the sample is drawn from.
        sample: How many.
        against: The built-in proxies, by names and patterns.
        plan: Inputs, batch, device, processes and space arguments of the sweep.
        draws: Bootstrap draws.
        report: Told of the sweep's progress.
    """
    opened = evidence.table(table)
    mine = proxy_in_file(text).name
    within = evidence.population(table, population)
    accuracy = truth(opened, task, metric)
    if sample < 10:
        raise InputError(f"a sample of {sample} was given; expected at least 10 networks")
    rows = np.random.default_rng(0).permutation(np.flatnonzero(within & np.isfinite(accuracy)))[:sample]
    others = [proxy.name for proxy in open_proxies(against) if proxy.name != mine]
    try:
        stored = stored_columns(evidence, table)
        note = "Built-in scores are the stored ones, at their papers' settings."
    except Missing as missing:
        stored, note = {}, f"Built-in scores were computed on this sample ({missing})."
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
    sheet = board(columns, accuracy, chosen, title=title, draws=draws, notes=(note, *failed[:5]))
    return Judged(sheet, mine, computed[mine], accuracy, chosen)
