"""A new proxy against the built-in ones, on a sample of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from trainless.bench.correlate import board, columns_of_sweep, stored_columns
from trainless.bench.score_library import Missing, ScoreColumn, ScoreLibrary, described, truth
from trainless.bench.settings import JudgeSettings
from trainless.bench.sheet import Sheet
from trainless.core.errors import InputError
from trainless.core.files import write_atomic
from trainless.core.types import Floats, Mask
from trainless.runs.score_file import ScoreFile
from trainless.runs.settings import SweepSettings
from trainless.runs.sweep import SweepProgress, sweep
from trainless.scoring.request import proxy_in_file, select


@dataclass(frozen=True, eq=False)
class Judged:
    """A leaderboard, the new proxy's name, and its scores and the truth for a picture."""

    sheet: Sheet
    name: str
    column: ScoreColumn
    accuracy: Floats
    chosen: Mask


def judge_proxy(
    library: ScoreLibrary, settings: JudgeSettings, report: Callable[[SweepProgress], None] = lambda progress: None
) -> Judged:
    """Score a sample of a table's networks by a new proxy and rank it among the built-in ones.

    Built-in scores are those stored for the table where there are any; else they are computed on the same sample.
    Stored ones are of networks in full size: where the new proxy sees smaller ones, the sheet says so.

    Args:
        library: Tables and stored scores.
        settings: The proxy, the sample, and the folder of the sweep: given again, it resumes.
        report: Told of the sweep's progress.
    """
    opened = library.table(settings.table)
    mine = proxy_in_file(settings.proxy).name
    within = library.population(settings.table, settings.population)
    accuracy = truth(opened, settings.task, settings.metric)
    if settings.sample < 10:
        raise InputError(f"a sample of {settings.sample} was given; expected at least 10 networks")
    rows = np.random.default_rng(0).permutation(np.flatnonzero(within & np.isfinite(accuracy)))[: settings.sample]
    others = [proxy.name for proxy in select(settings.against) if proxy.name != mine]
    stored, note = _stored(library, settings.table, settings.rescore)
    listed = Path(settings.out) / "archs.txt"
    write_atomic(listed, "\n".join(opened.archs[row] for row in sorted(rows)))
    asked = SweepSettings(
        out=settings.out,
        space=opened.space,
        space_args=settings.space_args,
        archs=str(listed),
        proxies=",".join([settings.proxy, *([] if stored else others)]),
        batch=settings.batch,
        workers=settings.workers,
        device=settings.device,
    )
    file = sweep(replace(asked, task=settings.inputs or asked.task), report)
    computed = columns_of_sweep(file, [mine, *([] if stored else others)], opened)
    known = stored or computed
    columns = {mine: computed[mine], **{name: known[name] for name in others if name in known}}
    chosen = np.zeros(len(opened), bool)
    chosen[rows] = True
    about = f"{settings.title}, {len(rows)} networks ({settings.population})"
    title = f"{mine} among {len(columns) - 1} built-in proxies: {about}"
    failed = [f"{count} networks have no {mine}: {reason}." for reason, count in file.failures(mine).items()]
    stored_of = _sources(library, settings.table, list(columns)[1:]) if stored else []
    told = [f"{mine}: {described(file)}.", *(f"{', '.join(held)}: {described(each)}." for each, held in stored_of)]
    sheet = board(columns, accuracy, chosen, title=title, draws=settings.draws, notes=(note, *told, *failed[:5]))
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
