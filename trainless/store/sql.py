"""A store in a database, whichever it is: the SQL that finds, keeps, counts, streams, drops and exports scores."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, BinaryIO, Self

from trainless.core.errors import InputError
from trainless.core.files import replacing
from trainless.core.opening import without_links
from trainless.store.claims import Claims, Place
from trainless.store.keys import (
    Context,
    Count,
    Key,
    Result,
    Row,
    Selection,
    Store,
    StoreError,
    brief,
    column,
    context_of,
    number,
)
from trainless.store.runs import Runs
from trainless.store.schema import ADD_CONTEXT, Cursor, Database

COLUMNS = (*Key._fields, "value", "status", "ms", "fbe", "notes", "kept")
PAGE, GROUP = 5000, 50_000  # rows in memory at a time, and of Parquet
EVERYTHING = Selection()
_EVER = 1e18

_FIND = "SELECT value, status, ms, fbe, notes FROM results WHERE context = ? AND arch = ?"
_KEEP = (
    "INSERT INTO results (context, arch, value, status, ms, fbe, notes, kept)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, now_seconds()) ON CONFLICT DO NOTHING"
)
_CONTEXT = "SELECT space, proxy, version, setting, task, seed FROM contexts WHERE id = ?"
_CONTEXTS = "SELECT id, space, proxy, version, setting, task, seed FROM contexts ORDER BY space, task, proxy, id"
_PAGE = (
    "SELECT arch, value, status, ms, fbe, notes, kept FROM results WHERE context = ? AND arch > ?"
    " AND (status <> 'ok' OR ? = 0) AND kept < ? ORDER BY arch LIMIT ?"
)
_COUNTS = (
    "SELECT context, count(*), count(*) FILTER (WHERE status <> 'ok') FROM results"
    " WHERE (status <> 'ok' OR ? = 0) AND kept < ? GROUP BY context"
)
_DROP = "DELETE FROM results WHERE context = ? AND (status <> 'ok' OR ? = 0) AND kept < ?"


class SqlStore(Store):
    """Scores, claims and runs in a database; a claim that is not renewed is void after the lease."""

    def __init__(self, database: Database, claims: Claims, *, lease: float) -> None:
        self._database = database
        self._claims = claims
        self._contexts: dict[Context, int] = {}
        self.runs = Runs(database, claims, lease)

    @property
    def url(self) -> str:
        return self._database.url

    @property
    def shown(self) -> str:
        """Its name for people, without a password."""
        return self._database.shown

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def find(self, keys: Iterable[Key]) -> dict[Key, Result]:
        wanted = list(keys)
        if not wanted:
            return {}
        places = [_place(key) for key in wanted]
        found = self._database.read(lambda cursor: cursor.each(_FIND, places))
        return {key: self._result(rows[0]) for key, rows in zip(wanted, found, strict=True) if rows}

    def keep(self, results: Iterable[tuple[Key, Result]]) -> None:
        rows = {_place(key): (context_of(key), result) for key, result in reversed(list(results))}
        places = sorted(rows)  # everybody in the same order, so that nobody waits for one who waits for him
        fresh = {context for context, _ in rows.values()} - self._contexts.keys()
        columns = [(*place, *(column(part) for part in astuple(rows[place][1]))) for place in places]

        def work(cursor: Cursor) -> None:
            self._add(cursor, sorted(fresh))
            cursor.each(_KEEP, columns)
            self._claims.end(cursor, places)

        if places:
            self._database.write(work)
        self._claims.ended(places)
        self._contexts.update({context: context.number for context in fresh})

    def claim(self, keys: Iterable[Key]) -> set[Key]:
        places = {_place(key): key for key in keys}
        won = [places[place] for place in self._claims.take(places)]
        scored = self.find(won)  # kept by whoever had the claim, between our looking and our claiming
        self.release(scored.keys())
        return set(won) - scored.keys()

    def release(self, keys: Collection[Key]) -> None:
        self._claims.free(_place(key) for key in keys)

    def counts(self, selection: Selection = EVERYTHING) -> list[Count]:
        """The numbers of scores, by space, task, proxy and setting."""
        found = {row[0]: row[1:] for row in self._database.rows(_COUNTS, *_limits(selection))}
        return [
            Count(each.space, each.task, each.proxy, each.version, each.setting, each.seed, *map(int, found[place]))
            for place, each in self._chosen(selection)
            if place in found
        ]

    def rows(self, selection: Selection = EVERYTHING) -> Iterator[Row]:
        """Every score, a page of them in memory at a time."""
        for place, each in self._chosen(selection):
            for arch, *result, kept in self._column(place, selection):
                key = Key(each.space, str(arch), *each[1:])
                yield Row(key, self._result(result), self._result((kept, "", None, None, "")).value)

    def _column(self, place: int, selection: Selection) -> Iterator[tuple[Any, ...]]:
        """The results of a context, page by page."""
        asked = (place, "", *_limits(selection), PAGE)
        while page := self._database.rows(_PAGE, *asked):
            yield from page
            asked = (place, page[-1][0], *_limits(selection), PAGE)

    def drop(self, selection: Selection) -> int:
        """Remove scores for good; how many."""
        dropped = [(place, *_limits(selection)) for place, _ in self._chosen(selection)]
        gone = self._database.write(lambda cursor: sum(cursor.change(_DROP, each) for each in dropped))
        if gone:
            self._database.compact()
        return gone

    def close(self) -> None:
        self._claims.close()

    def _add(self, cursor: Cursor, contexts: list[Context]) -> None:
        """Write contexts down; two that share a number would mix their scores, so that is looked at."""
        if not contexts:
            return
        cursor.each(ADD_CONTEXT, [(context.number, *context) for context in contexts])
        there = cursor.each(_CONTEXT, [(context.number,) for context in contexts])
        for context, rows in zip(contexts, there, strict=True):
            if rows != [tuple(context)]:
                raise StoreError(f"{self.shown} holds {rows} in the place of {tuple(context)}: give another store")

    def _chosen(self, selection: Selection) -> list[tuple[int, Context]]:
        contexts = [self._context(row) for row in self._database.rows(_CONTEXTS)]
        return [(place, context) for place, context in contexts if selection.covers(context)]

    def _context(self, row: Sequence[Any]) -> tuple[int, Context]:
        if [type(part) for part in row] != [int, str, str, int, str, str, int]:
            raise StoreError(f"{self.shown} is damaged (no scores are of {row!r:.80}): give another store")
        return row[0], Context(*row[1:])

    def _result(self, row: Iterable[Any]) -> Result:
        value, status, ms, fbe, notes = row
        try:
            return Result(number(value), str(status), number(ms), number(fbe), str(notes))
        except (TypeError, ValueError) as error:
            raise StoreError(f"{self.shown} is damaged ({error}): give another store with --store") from error


def merge(source: SqlStore, target: SqlStore) -> int:
    """Copy every score of one store into another, where it is not there yet; how many were looked at."""
    seen, page = 0, []
    for row in source.rows():
        page.append((row.key, row.result))
        if len(page) == PAGE:
            target.keep(page)
            seen, page = seen + len(page), []
    target.keep(page)
    return seen + len(page)


def _place(key: Key) -> Place:
    return context_of(key).number, brief(key.arch)


def _limits(selection: Selection) -> tuple[int, float]:
    return int(selection.failures), _EVER if selection.before is None else selection.before


def export(rows: Iterable[Row], path: str | Path) -> int:
    """Write scores to ``.csv`` or, where pyarrow is there, ``.parquet``; how many.

    A file that is there is replaced once everything is written.
    """
    place = Path(path)
    writers = {".csv": _to_csv, ".parquet": _to_parquet}
    if place.suffix not in writers:
        raise InputError(f"{place} was given; expected a name that ends in .csv or .parquet")
    if not place.parent.is_dir():
        raise InputError(f"{place} cannot be written: there is no folder {place.parent}; make it or give another file")
    with replacing(without_links(place)) as file:
        return writers[place.suffix](rows, file)


def plain(row: Row) -> tuple[Any, ...]:
    """A row as columns; no value where it is NaN."""
    result = row.result
    numbers = [None if math.isnan(each) else each for each in (result.value, result.ms, result.fbe)]
    return (*row.key, numbers[0], result.status, numbers[1], numbers[2], result.notes, row.kept)


def _to_csv(rows: Iterable[Row], file: BinaryIO) -> int:
    count, stream = 0, io.TextIOWrapper(file, newline="", encoding="utf-8")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for count, row in enumerate(rows, start=1):  # noqa: B007 - the last is the number of them
        writer.writerow("" if part is None else part for part in plain(row))
    stream.detach()
    return count


def _to_parquet(rows: Iterable[Row], file: BinaryIO) -> int:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            "Parquet needs pyarrow: pip install 'trainless[parquet]', or give a name that ends in .csv"
        ) from None
    kinds = {"version": pyarrow.int64(), "seed": pyarrow.int64()}
    kinds |= dict.fromkeys(("value", "ms", "fbe", "kept"), pyarrow.float64())
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in COLUMNS])
    count, source = 0, iter(rows)
    with parquet.ParquetWriter(file, schema) as writer:
        while group := list(itertools.islice(source, GROUP)):
            columns = [list(column) for column in zip(*map(plain, group), strict=True)]
            writer.write_table(pyarrow.table(columns, schema=schema))
            count += len(group)
    return count
