"""Any column of scores, or a new proxy, against a table: statistics, both ways to count failures, what is missing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainless.bench.correlation import spearman
from trainless.bench.score_library import Missing, ScoreColumn, ScoreLibrary, column_of, described, places, truth
from trainless.bench.settings import JudgeSettings, SampleSettings
from trainless.bench.sheet import Interval, Share, Sheet, Value, shown
from trainless.bench.statistics import MEANINGS, Evaluation, evaluate_all
from trainless.bench.tables import Table
from trainless.bench.tables.peers import PEERS
from trainless.bench.weighted_order import sample_of
from trainless.core.errors import InputError
from trainless.core.files import write_atomic
from trainless.core.opening import without_links
from trainless.core.types import Floats, Indices, Mask
from trainless.proxies.proxy import canonical
from trainless.runs.score_file import ScoreFile, read_scores
from trainless.runs.settings import SweepSettings
from trainless.runs.sweep import SweepProgress, sweep
from trainless.scoring.request import proxy_in_file, select

if TYPE_CHECKING:
    import pandas as pd

KEYS = ("arch_index", "arch_str")
BRIEF = ("scores", "failures", "coverage", "spearman", "kendall", "ndcg_1000", "best_of_1000", "regret")
LISTED = tuple(name for name in MEANINGS if not name.endswith("_std"))


def columns_of_csv(
    path: str | os.PathLike[str], key: str, names: Sequence[str], table: Table, where: str = ""
) -> dict[str, ScoreColumn]:
    """Columns of a CSV file with one row per arch, found by its number in the table or by its notation.

    Several rows of an arch are its seeds where the file has a column ``seed``, and refused where it has none. A row
    whose score is empty or not a number is a failure; an arch without a row was not asked for. ``key`` is the column
    that names archs, ``names`` those of scores; ``where`` is ``COLUMN=VALUE``: only the rows that have it.
    """
    import pandas as pd

    try:
        frame = pd.read_csv(path)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: expected a CSV file of scores") from None
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} cannot be read ({error}): expected a CSV file of scores") from None
    at, _, wanted = where.partition("=")
    for name in (key, *names, *([at] if where else [])):
        if name not in frame:
            raise InputError(f"{path} has no column {name!r}; its columns are: {', '.join(map(str, frame.columns))}")
    if where:
        frame = frame[frame[at].astype(str) == wanted]
    if frame.empty:
        raise InputError(f"{path} has no row{f' with {where}' if where else ''}: expected one row per network")
    rows = _rows(frame[key], key, table)
    seeds = frame["seed"].to_numpy() if "seed" in frame else np.zeros(len(frame), np.int64)
    again = frame.duplicated([key, *(["seed"] if "seed" in frame else [])])
    if again.any():
        raise InputError(
            f"{path} has {key} {frame[key][again].iloc[0]} more than once: give the rows that are meant by --where"
            " COLUMN=VALUE, or number repeats in a column 'seed'"
        )
    return {name: _column(frame[name], rows, seeds, len(table)) for name in names}


def _rows(keys: pd.Series, key: str, table: Table) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    if key == "arch_str":
        return table.rows(str(arch) for arch in keys)
    if key != "arch_index":
        raise InputError(f"--key {key} was given; expected one of {', '.join(KEYS)}")
    try:
        numbers = keys.to_numpy(np.float64)
        rows = numbers.astype(np.intp)
        if not np.array_equal(rows, numbers):
            raise ValueError("not whole numbers")
    except (TypeError, ValueError):
        raise InputError(
            f"the column arch_index should hold row numbers of {table.name}, but has {keys.iloc[0]}"
        ) from None
    if len(rows) and not 0 <= rows.min() <= rows.max() < len(table):
        raise InputError(f"arch_index {rows.min()} to {rows.max()} were given; expected 0 to {len(table) - 1}")
    return rows


def _column(values: pd.Series, rows: np.ndarray, seeds: np.ndarray, size: int) -> ScoreColumn:
    import pandas as pd

    numbers = pd.to_numeric(values, errors="coerce").to_numpy(np.float64)
    if not np.isfinite(numbers).any():
        raise InputError(f"the column {values.name} has no finite number, but {values.iloc[0]!s:.40}: give another one")
    kinds = np.unique(seeds)
    table, asked = np.full((len(kinds), size), np.nan), np.zeros((len(kinds), size), bool)
    for place, seed in enumerate(kinds):
        mine = seeds == seed
        table[place, rows[mine]], asked[place, rows[mine]] = numbers[mine], True
    return ScoreColumn(table, np.asarray(asked.all(axis=0)))


def columns_of_sweep(file: ScoreFile, names: Sequence[str], table: Table) -> dict[str, ScoreColumn]:
    """Columns of a sweep's file; an arch that is not there has its canonical twin's scores."""
    held = str(file.settings.get("space", table.space)).partition("(")[0]
    if held != table.space:
        raise InputError(f"the scores are of the space {held}, the table {table.name} of {table.space}: give another")
    rows = places(file.archs, table)
    return {name: column_of(file, name, rows, table) for name in names}


def open_columns(path: str, column: str, key: str, table: Table, where: str = "") -> dict[str, ScoreColumn]:
    """Columns of a file: of a sweep's npz all or one, of a CSV file the ones that are named, with commas."""
    names = [name.strip() for name in column.split(",") if name.strip()]
    if Path(path).suffix == ".npz":
        file = read_scores(without_links(path))
        names = [name if name in file.proxies else canonical(name) for name in names]
        for name in names:
            file.column(name)
        return columns_of_sweep(file, names or list(file.proxies), table)
    if not names:
        raise InputError("no column was given; expected --column NAME of the CSV file")
    return columns_of_csv(path, key, names, table, where)


def board(
    columns: Mapping[str, ScoreColumn],
    accuracy: Floats,
    within: Mask,
    *,
    title: str,
    draws: int = 1000,
    notes: Sequence[str] = (),
) -> Sheet:
    """A leaderboard: every column's statistics on the networks of a population that all columns were asked for."""
    chosen = np.logical_and.reduce([within, np.isfinite(accuracy), *(column.asked for column in columns.values())])
    if chosen.sum() < 2:
        raise InputError(
            f"{int(chosen.sum())} networks of the population have scores and accuracies; expected 2 or more"
        )
    judged = evaluate_all(
        {name: column.values[:, chosen] for name, column in columns.items()},
        accuracy[chosen],
        higher_is_better={name: column.higher_is_better for name, column in columns.items()},
        draws=draws,
    )
    order = sorted(judged, key=lambda pair: -np.nan_to_num(pair[0].statistics["spearman"].value, nan=-2.0))
    header = ("scores", "failures", "seeds", "coverage", *LISTED)
    rows = tuple(_row(one) for pair in order for one in (pair if pair[0].coverage < 1 else pair[:1]))
    covered = f"Judged on the {int(chosen.sum()):,} networks that every column has, of {int(within.sum()):,}"
    if chosen.sum() < within.sum():
        covered += " (those without a row play no part: give them an empty score to count them as failures)"
    infinite = {name: int(np.isinf(column.values[:, chosen]).sum()) for name, column in columns.items()}
    about = (
        f"{covered}; {f'intervals are 95 % by {draws}' if draws else 'no'} bootstrap draws over networks and seeds.",
        "failures last: networks without a score are ranked last, and counted; out: they are left out, as most papers"
        " do. A column without failures has one row.",
        *(f"{name}: {count:,} infinite scores count as failures." for name, count in infinite.items() if count),
        *_not_covered(rows, accuracy[chosen]),
        *_twins(columns.values(), chosen),
    )
    return Sheet(title, header, rows, (*about, *notes), BRIEF)


def _row(one: Evaluation) -> tuple[Value, ...]:
    found: list[Value] = [one.name, one.failures, one.seeds, Share(one.scored, one.asked)]
    for name in LISTED:
        own, deviation = one.statistics[name], one.statistics.get(f"{name}_std")
        std = None if deviation is None else deviation.value
        found.append(replace(own, std=std, seed_std=own.seed_std if one.seeds > 1 else None))
    return tuple(found)


def _twins(columns: Iterable[ScoreColumn], chosen: Mask) -> tuple[str, ...]:
    """How many networks have a score that was not computed on themselves, and what that means."""
    found = [column.twins for column in columns if column.twins is not None]
    count = int((np.logical_or.reduce(found) & chosen).sum()) if found else 0
    if not count:
        return ()
    return (
        f"{int(chosen.sum()) - count:,} of them were scored themselves; {count:,} have a twin's score in some column:"
        " of networks that compute the same function, and differ only in parts that change nothing, one was scored for"
        " all.",
    )


def _not_covered(rows: Sequence[Sequence[Value]], accuracy: Floats) -> tuple[str, ...]:
    """Which statistics have no value, and why."""
    few = "there are fewer than {:,} networks"
    reasons = {
        "ndcg_1000": (accuracy.min() < 0 or accuracy.max() > 100, "the truth is not a percentage"),
        **{f"best_of_{count}": (len(accuracy) < count, few.format(count)) for count in (100, 1000)},
    }
    told = []
    for place, name in enumerate(LISTED, len(rows[0]) - len(LISTED)):
        empty = [str(row[0]) for row in rows if isinstance(cell := row[place], Interval) and np.isnan(cell.value)]
        holds, reason = reasons.get(name, (False, ""))
        if empty:
            why = reason if holds else f"its networks are too few or all equal: {', '.join(dict.fromkeys(empty))}"
            told.append(f"{name} ({why})")
    return (f"Not covered: {'; '.join(told)}.",) if told else ()


def meanings() -> tuple[str, ...]:
    """What the columns of a board mean, one line each."""
    exact = "; ± its deviation over such draws, both exact: the limit of the papers' 500 draws"
    return tuple(f"{name}: {MEANINGS[name]}{exact if f'{name}_std' in MEANINGS else ''}." for name in LISTED)


def stored_columns(library: ScoreLibrary, table: str, names: Sequence[str] = ()) -> dict[str, ScoreColumn]:
    """Our stored scores of a table by these proxies, or all of them where none is named."""
    return {name: library.ours(table, name) for name in names or library.proxies(table)}


PEER, TABLE = "suite-zero", "nb201"
TITLE = "Suite-Zero's published scores beside ours, network by network"
PEER_COLUMNS = ("proxy", "task", "networks", "theirs", "ours", "between")
MEANING = (
    "Spearman's ρ with test accuracy of their scores and of ours on the networks that have both, and between the two."
    " Where both programs agree and a paper's figure lies elsewhere, the paper's networks, accuracies or settings were"
    " others."
)


def beside_peers(library: ScoreLibrary) -> Sheet:
    """Each proxy that both have, on each task that the other has."""
    rows = []
    for task, columns in PEERS[PEER].columns.items():
        accuracy = truth(library.table(TABLE), task, "test")
        for proxy in columns:
            try:
                theirs = library.peers(PEER, task, proxy, TABLE).values[0]
                ours = library.ours(TABLE, proxy).values.mean(axis=0)
            except Missing:
                continue
            rows.append(_agreement(proxy, task, theirs, ours, accuracy))
    return Sheet(TITLE, PEER_COLUMNS, tuple(rows), notes=(MEANING,))


def _agreement(proxy: str, task: str, theirs: Floats, ours: Floats, accuracy: Floats) -> tuple[Value, ...]:
    both = np.isfinite(theirs) & np.isfinite(ours) & np.isfinite(accuracy)
    found = ((theirs, accuracy), (ours, accuracy), (theirs, ours))
    return (proxy, task, int(both.sum()), *(float(spearman(sample_of(a[both], b[both]))[0]) for a, b in found))


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
    Stored ones are of networks in full size: where the new proxy sees smaller ones, the sheet says so. A folder of a
    sweep that is given again resumes it.
    """
    opened = library.table(settings.table)
    mine = proxy_in_file(settings.proxy).name
    others = [proxy.name for proxy in select(settings.against) if proxy.name != mine]
    stored, note = _stored(library, settings.table, settings.rescore)
    accuracy = truth(opened, settings.dataset, settings.metric)
    within = library.population(settings.table, settings.population) & np.isfinite(accuracy)
    file, rows = sample_sweep(library, settings, within, [] if stored else others, report)
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
    unlike = _unlike(mine, file, [each for each, _ in stored_of])
    sheet = replace(sheet, notes=(*unlike, *_place_of(mine, sheet), *sheet.notes))
    return Judged(sheet, mine, computed[mine], accuracy, chosen)


def _place_of(mine: str, sheet: Sheet) -> list[str]:
    """Where the new proxy stands, in words: the answer to what was asked."""
    name, failures, rho = (sheet.columns.index(each) for each in ("scores", "failures", "spearman"))
    rows = [row for row in sheet.rows if row[failures] == "last"]
    place = next((number for number, row in enumerate(rows, start=1) if row[name] == mine), None)
    if place is None:
        return []
    return [f"{mine} is number {place} of {len(rows)} by Spearman's ρ, which is {shown(rows[place - 1][rho])}."]


def sample_sweep(
    library: ScoreLibrary,
    settings: SampleSettings,
    within: Mask,
    others: Sequence[str] = (),
    report: Callable[[SweepProgress], None] = lambda progress: None,
) -> tuple[ScoreFile, Indices]:
    """Score a sample of a table's networks by a new proxy, and by others; the rows of the sample, too."""
    if settings.sample < 10:
        raise InputError(f"a sample of {settings.sample} was given; expected at least 10 networks")
    opened = library.table(settings.table)
    rows: Indices = np.random.default_rng(0).permutation(np.flatnonzero(within))[: settings.sample]
    listed = without_links(settings.out) / "archs.txt"
    write_atomic(listed, "\n".join(opened.archs[row] for row in sorted(rows)))
    asked = SweepSettings(
        out=settings.out,
        space=opened.space,
        space_args=settings.space_args,
        archs=str(listed),
        proxies=",".join([settings.proxy, *others]),
        batch=settings.batch,
        workers=settings.workers,
        device=settings.device,
    )
    return sweep(replace(asked, task=settings.task or asked.task), report), rows


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
