"""Any column of scores against a table: the statistics, both ways to count failures, and what is not covered."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainless.bench.correlation import spearman
from trainless.bench.score_library import Missing, ScoreColumn, ScoreLibrary, column_of, places, truth
from trainless.bench.sheet import Interval, Share, Sheet, Value
from trainless.bench.statistics import MEANINGS, Evaluation, evaluate_all
from trainless.bench.tables import Table
from trainless.bench.tables.peers import PEERS
from trainless.bench.weighted_order import sample_of
from trainless.core.errors import InputError
from trainless.core.types import Floats, Mask
from trainless.proxies.proxy import canonical
from trainless.runs.score_file import ScoreFile, read_scores

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
    whose score is empty or not a number is a failure; an arch without a row was not asked for.

    Args:
        path: The file.
        key: The column that names archs.
        names: The columns of scores.
        table: The table.
        where: ``COLUMN=VALUE``: only the rows that have it.
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
        file = read_scores(path)
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
    """A leaderboard: every column's statistics on the networks of a population that all columns were asked for.

    Args:
        columns: The scores by name.
        accuracy: The truth, one value per row of the table.
        within: The population.
        title: What this is.
        draws: Number of bootstrap draws.
        notes: What else a reader has to know.
    """
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
    about = (
        f"{covered}; {f'intervals are 95 % by {draws}' if draws else 'no'} bootstrap draws over networks and seeds.",
        "failures last: networks without a score are ranked last, and counted; out: they are left out, as most papers"
        " do. A column without failures has one row.",
        *_infinite(columns, chosen),
        *_not_covered(rows, accuracy[chosen]),
        *_twins(columns.values(), chosen),
    )
    return Sheet(title, header, rows, (*about, *notes), BRIEF)


def _row(one: Evaluation) -> tuple[Value, ...]:
    return (
        *(one.name, one.failures, one.seeds, Share(one.scored, one.asked)),
        *(_cell(one.statistics, name, one.seeds) for name in LISTED),
    )


def _cell(found: Mapping[str, Interval], name: str, seeds: int) -> Interval:
    one, deviation = found[name], found.get(f"{name}_std")
    std = None if deviation is None else deviation.value
    return replace(one, std=std, seed_std=one.seed_std if seeds > 1 else None)


def _infinite(columns: Mapping[str, ScoreColumn], chosen: Mask) -> tuple[str, ...]:
    """Which columns have infinite scores."""
    counts = {name: int(np.isinf(column.values[:, chosen]).sum()) for name, column in columns.items()}
    return tuple(f"{name}: {count:,} infinite scores count as failures." for name, count in counts.items() if count)


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
    reasons = {
        "ndcg_1000": (accuracy.min() < 0 or accuracy.max() > 100, "the truth is not a percentage"),
        **{
            f"best_of_{count}": (len(accuracy) < count, f"there are fewer than {count:,} networks")
            for count in (100, 1000)
        },
    }
    told = []
    for place, name in enumerate(LISTED, len(rows[0]) - len(LISTED)):
        empty = [str(row[0]) for row in rows if np.isnan(_number(row[place]))]
        holds, reason = reasons.get(name, (False, ""))
        if empty:
            why = reason if holds else f"its networks are too few or all equal: {', '.join(dict.fromkeys(empty))}"
            told.append(f"{name} ({why})")
    return (f"Not covered: {'; '.join(told)}.",) if told else ()


def _number(value: Value) -> float:
    return value.value if isinstance(value, Interval) else np.nan


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
