"""Scores of a store as a table for other programs, row by row, so that any number of them fits."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from trainless.core.errors import InputError
from trainless.core.files import replacing
from trainless.store.keys import Row

COLUMNS = ("space", "arch", "proxy", "version", "setting", "task", "seed", "value", "status", "ms", "fbe", "kept")
GROUP = 50_000  # rows of Parquet in memory at a time


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
    with replacing(place) as beside:
        return writers[place.suffix](rows, beside)


def plain(row: Row) -> tuple[Any, ...]:
    """A row as columns; no value where it is NaN."""
    result = row.result
    numbers = [None if math.isnan(each) else each for each in (result.value, result.ms, result.fbe)]
    return (*row.key, numbers[0], result.status, numbers[1], numbers[2], row.kept)


def _to_csv(rows: Iterable[Row], path: Path) -> int:
    count = 0
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for count, row in enumerate(rows, start=1):  # noqa: B007 - the last is the number of them
            writer.writerow("" if part is None else part for part in plain(row))
    return count


def _to_parquet(rows: Iterable[Row], path: Path) -> int:
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
    count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for group in _groups(rows):
            columns = [list(column) for column in zip(*map(plain, group), strict=True)]
            writer.write_table(pyarrow.table(columns, schema=schema))
            count += len(group)
    return count


def _groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    source = iter(rows)
    while group := list(itertools.islice(source, GROUP)):
        yield group
