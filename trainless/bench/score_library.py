"""What there is to judge by: tables, our stored scores of their architectures, and what others published."""

from __future__ import annotations

import copy
import functools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

import trainless
from trainless.bench.tables import Table, peer_scores
from trainless.bench.tables import table as open_table
from trainless.bench.tables.files import MissingFile
from trainless.bench.tables.table import population
from trainless.core.errors import InputError
from trainless.core.opening import without_links
from trainless.core.scores import Record, Scores
from trainless.core.task import Task
from trainless.core.text import counted
from trainless.core.types import Floats, Mask
from trainless.rankings import Ranking
from trainless.runs.score_file import ScoreFile, read_scores
from trainless.spaces import space
from trainless.spaces.protocol import Counted, counter

PRICES = "prices.json"
COUNTS = ("params", "flops", "layers")
LOWER_IS_BETTER = ("perplexity", "valid_loss", "test_loss", "train_time", "latency", "energy", "params", "flops")


def results_directory() -> Path:
    """The folder of stored scores: ``$TRAINLESS_RESULTS``, or ``results`` in the checkout."""
    given = os.environ.get("TRAINLESS_RESULTS")
    return Path(given) if given else Path(trainless.__file__).resolve().parents[1] / "results"


@dataclass(frozen=True, eq=False)
class ScoreColumn:
    """Scores of a table's networks: seeds × rows of the table, NaN where there is no score.

    A NaN where a score was ``asked`` for is a failure, elsewhere it means nothing. ``twins`` are the rows whose scores
    are a twin's.
    """

    values: Floats
    asked: Mask
    higher_is_better: bool = True
    twins: Mask | None = None

    def upward(self) -> Floats:
        """The mean over seeds, turned so that higher is better."""
        return np.asarray(self.values.mean(axis=0) * (1 if self.higher_is_better else -1))


class Missing(Exception):
    """The data that a figure needs does not exist here; ``brief`` says which in a few words, for many places."""

    def __init__(self, message: str, brief: str = "") -> None:
        super().__init__(message)
        self.brief = brief or message


def in_words(error: InputError) -> str:
    """What is missing, for a page that others read: no folder of this machine."""
    return error.bring if isinstance(error, MissingFile) else str(error)


class ScoreLibrary:
    """Tables and scores, each read once; stored scores are ``TABLE.npz`` of ``results_directory`` or a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or results_directory()
        self._only: Mapping[str, Sequence[str]] = {}

    def only(self, files: Mapping[str, Sequence[str]]) -> Self:
        """The same library with these files alone, in this order, for the tables that are named."""
        found = copy.copy(self)
        found._only = files
        return found

    @functools.cache  # noqa: B019 - lives as long as the library is looked at
    def table(self, name: str) -> Table:
        """A table."""
        try:
            return open_table(name)
        except InputError as error:
            raise Missing(in_words(error), f"no table {name}") from error

    @functools.cache  # noqa: B019
    def population(self, table: str, name: str) -> Mask:
        """A population of a table."""
        return population(self.table(table), name)

    @functools.cache  # noqa: B019
    def stored(self, table: str) -> list[tuple[ScoreFile, npt.NDArray[np.intp]]]:
        """Our files of scores, and for each row of the table the row of the file, −1 where it has none.

        ``TABLE.npz`` counts before ``TABLE_*.npz``, which may have other proxies or settings and count by their size.
        """
        if table in self._only:
            paths = [self.folder / f"{name}.npz" for name in self._only[table]]
            files = [read_scores(without_links(path)) for path in paths if path.is_file()]
        else:
            main, others = self.folder / f"{table}.npz", sorted(self.folder.glob(f"{table}_*.npz"))
            more = sorted((read_scores(without_links(path)) for path in others), key=lambda file: -len(file.archs))
            files = [*([read_scores(without_links(main))] if main.is_file() else []), *more]
        if not files:
            raise Missing(
                f"no scores of {table} are stored here: {table}.npz is not in {self.folder.name}/",
                f"no stored scores of {table}",
            )
        return [(file, places(file.archs, self.table(table))) for file in files]

    def describe(self, table: str) -> list[str]:
        """One line on each file of scores: settings, seeds, where and how fast."""
        return [described(file) for file, _ in self.stored(table)]

    def source(self, table: str, proxy: str) -> ScoreFile | None:
        """The file that our scores by a proxy come from; None where they are counted from shapes."""
        if proxy in COUNTS and self._counts(table) is not None:
            return None
        for file, _ in self.stored(table):
            if proxy in file.proxies and file.seeds_of(proxy):
                return file
        raise Missing(f"{proxy} is not among the stored scores of {table}")

    def proxies(self, table: str) -> list[str]:
        """The proxies that have scores, and the counts; those of small samples alone are to be asked for by name."""
        files = [file for file, _ in self.stored(table) if not self._small(table, file)]
        names = [name for file in files for name in file.proxies if file.seeds_of(name)]
        return list(dict.fromkeys([*names, *COUNTS]))

    def _small(self, table: str, file: ScoreFile) -> bool:
        """Whether a file holds fewer than half as many networks as another one of the table."""
        return 2 * len(file.archs) < max(len(each.archs) for each, _ in self.stored(table))

    def ours(self, table: str, proxy: str) -> ScoreColumn:
        """Our scores by a proxy, one row per seed; parameters, FLOPs and layers are counted from shapes.

        Of a small sample of classes the first of twins counts, so that a class with many does not rule it.
        """
        file = self.source(table, proxy)
        if file is None:
            return ScoreColumn(self._counts(table)[COUNTS.index(proxy)][None], np.full(len(self.table(table)), True))
        rows = next(rows for each, rows in self.stored(table) if each is file)
        return column_of(file, proxy, _once(rows) if self._small(table, file) else rows, self.table(table))

    def of_file(self, table: str, name: str, proxy: str, twins: bool = False) -> ScoreColumn:
        """Our scores by a proxy in a file of its own, where a setting is not that of the other scores.

        A sample of canonical classes: of twins the first counts, so that a class with many does not rule the sample,
        unless all ``twins`` are asked for.
        """
        file, rows = self._file(table, name, twins)
        if proxy not in file.proxies:
            raise Missing(f"{proxy} is not among the scores in {self.folder.name}/{name}.npz")
        return column_of(file, proxy, rows, self.table(table))

    @functools.cache  # noqa: B019
    def _file(self, table: str, name: str, twins: bool) -> tuple[ScoreFile, npt.NDArray[np.intp]]:
        path = self.folder / f"{name}.npz"
        if not path.is_file():
            raise Missing(f"no scores are stored in {self.folder.name}/{name}.npz")
        file = read_scores(without_links(path))
        rows = places(file.archs, self.table(table))
        return file, rows if twins else _once(rows)

    @functools.cache  # noqa: B019
    def _counts(self, table: str) -> Any:
        """Counts × rows, as the networks are written, parts that do nothing included; None where none are known."""
        opened = self.table(table)
        rules = space(opened.space)
        if not isinstance(rules, Counted):
            return None
        count = counter(rules, Task.noise((3, 32, 32), 10))
        found = [count(rules.parse(arch)) for arch in opened.archs]
        return np.array([[getattr(each, name) for each in found] for name in COUNTS], np.float64)

    def price(self, table: str, proxies: Sequence[str]) -> float:
        """Milliseconds of scoring one network by these proxies and nothing else; raises Missing where not measured."""
        path = self.folder / PRICES
        known = json.loads(path.read_text(encoding="utf-8"))["ms"].get(table, {}) if path.is_file() else {}
        if (name := ",".join(proxies)) not in known:
            raise Missing(f"what {name} costs alone was not measured on {table} (python -m benchmarks.prices)")
        return float(known[name])

    def peers(self, name: str, task: str, proxy: str, table: str) -> ScoreColumn:
        """What others published."""
        try:
            found = peer_scores(name, task)[proxy]
        except InputError as error:
            raise Missing(in_words(error), f"no published scores {name!r}") from error
        opened = self.table(table)
        values, asked = np.full(len(opened), np.nan), np.full(len(opened), False)
        known = [place for place, arch in enumerate(found.index) if _has(opened, arch)]
        rows = opened.rows(found.index[known])
        values[rows], asked[rows] = found.to_numpy()[known], True
        return ScoreColumn(values[None], asked)

    def ranked(self, table: str, ranking: Ranking, within: Mask, file: str = "") -> ScoreColumn:
        """Our scores, all but counts from a file of their own where one is named, combined by a ranking.

        It is relative to the networks within.
        """
        columns = [self._column(table, proxy, file) for proxy in ranking.proxies]
        asked = np.logical_and.reduce([within, *(column.asked for column in columns)])
        rows = np.flatnonzero(asked)
        seeds = max(len(column.values) for column in columns)
        values = np.full((seeds, len(within)), np.nan)
        for seed in range(seeds):
            parts = [self._records(table, proxy, seed, rows.tobytes(), file) for proxy in ranking.proxies]
            values[seed, rows] = ranking(Scores([record for part in parts for record in part]))
        return ScoreColumn(np.where(np.isneginf(values), np.nan, values), asked)

    def _column(self, table: str, proxy: str, file: str) -> ScoreColumn:
        return self.of_file(table, file, proxy) if file and proxy not in COUNTS else self.ours(table, proxy)

    @functools.cache  # noqa: B019
    def _records(self, table: str, proxy: str, seed: int, rows: bytes, file: str) -> list[Record]:
        """A proxy's scores of some rows; a proxy with fewer seeds is taken again from its first."""
        column = self._column(table, proxy, file)
        values = column.values[seed % len(column.values), np.frombuffer(rows, np.intp)]
        return [
            Record(str(place), proxy, value, column.higher_is_better, "ok" if value == value else "failed")
            for place, value in enumerate(values.tolist())
        ]


def described(file: ScoreFile) -> str:
    """One line on a file of scores: settings, seeds, where and how fast."""
    held, run = file.settings, dict(next(iter(file.environment.get("runs", [])), {}))
    return (
        f"{len(file.archs):,} networks of {held.get('space', '?')} × {counted(len(file.proxies), 'proxy', 'proxies')},"
        f" {len(file.seeds)} seed{'s' if len(file.seeds) > 1 else ''}: {held.get('init', '?')} setting, batch"
        f" {held.get('batch') or 'of each paper'}, data {held.get('task', '?')}, on {run.get('device', '?')}"
        f" (torch {run.get('torch', '?')}), {run.get('archs_per_s', '?')} networks per second by"
        f" {counted(run['processes'], 'process', 'processes') if 'processes' in run else '? processes'}"
    )


def column_of(file: ScoreFile, proxy: str, rows: npt.NDArray[np.intp], table: Table | None = None) -> ScoreColumn:
    """A proxy's scores of a table's rows, given the place of each row in the file; with the table, which are twins'."""
    at = [file.seeds.index(seed) for seed in file.seeds_of(proxy)] or [0]
    place = file.proxies.index(proxy)
    values = np.where(rows >= 0, file.values[:, place][:, at].T.astype(np.float64)[:, rows], np.nan)
    asked = (rows >= 0) & (file.codes[:, place][:, at] != 1).all(axis=1)[rows]
    twins = None if table is None else asked & (np.array(table.archs) != np.array(file.archs)[rows])
    return ScoreColumn(values, asked, file.higher_is_better(proxy), twins)


def _once(rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Each place at the first row that has it alone: 4, −1, 4, 2 is 4, −1, −1, 2."""
    _, first = np.unique(rows, return_index=True)
    once = np.full_like(rows, -1)
    once[first] = rows[first]
    return once


def truth(table: Table, task: str, metric: str, fidelity: int | None = None) -> Floats:
    """A column of a table turned so that higher is better.

    Example:
        >>> from trainless.bench.tables.table import ColumnKey
        >>> columns = {ColumnKey("toy", "perplexity", 9): np.array([80.0, 90.0])}
        >>> truth(Table("toy", "letters", ("a", "b"), {frozenset(columns): lambda: columns}), "toy", "perplexity")
        array([-80., -90.])
    """
    values = table.column(task, metric, fidelity)
    return -values if metric in LOWER_IS_BETTER else values


def _has(table: Table, arch: str) -> bool:
    try:
        table.index(arch)
    except InputError:
        return False
    return True


def places(archs: Sequence[str], table: Table) -> npt.NDArray[np.intp]:
    """For each row of a table the place of its arch, or else of its canonical twin, among some; −1 for none."""
    rules = space(table.space)
    known = {arch: place for place, arch in enumerate(archs)}
    found = np.full(len(table), -1, np.intp)
    for row, text in enumerate(table.archs):
        if (place := known.get(text)) is None:
            if text in table.numbers:  # an arch that nobody has written down
                continue
            arch = rules.parse(text)
            if (place := known.get(rules.format(arch))) is None:
                place = known.get(rules.format(rules.canonical(arch)), -1)
        found[row] = place
    return found
