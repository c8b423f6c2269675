"""Published figures beside ours as they were last measured in full, and whether a small run agrees with them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from trainless.bench.papers import COLUMNS, Definition, compare, definitions
from trainless.bench.score_library import ScoreLibrary
from trainless.bench.sheet import Interval, Share, Sheet, Value
from trainless.core.errors import InputError
from trainless.core.files import number, read_json, write_atomic
from trainless.core.opening import is_there

FILE = "papers.json"
PEERS = "beside-peers"
RUNS = 1  # of each search and fit in a check
REMEDY = "python -m benchmarks.measure_results"
SHARE = 10  # one in ten definitions is checked
SAME = 1e-4  # what is computed without chance, relative: figures are stored with six digits
Z = 4.0  # standard errors by which means of runs may differ: one figure in 16,000 by chance


def write(sheets: Mapping[str, Sheet], path: Path) -> None:
    """Write sheets of plain values, one row a line."""
    parts = [f"{json.dumps(name)}: {_sheet_json(sheet)}" for name, sheet in sheets.items()]
    write_atomic(path, "{\n" + ",\n".join(parts) + "\n}\n")


def _sheet_json(sheet: Sheet) -> str:
    about = {"title": sheet.title, "columns": sheet.columns, "brief": sheet.brief, "notes": sheet.notes}
    rows = ",\n".join(json.dumps([_plain(value) for value in row], ensure_ascii=False) for row in sheet.rows)
    return json.dumps(about, ensure_ascii=False)[:-1] + f', "rows": [\n{rows}\n]}}'


def _plain(value: Value) -> float | str | int | None:
    plain = value.value if isinstance(value, (Interval, Share)) else value
    return number(float(f"{plain:.6g}")) if isinstance(plain, float) else plain


def read(path: Path) -> dict[str, Sheet]:
    """Read the sheets that :func:`write` wrote, by the names of their definitions."""
    remedy = f"expected the file that {REMEDY} writes"
    if not is_there(path):
        raise InputError(f"there are no stored results {path}: {remedy}")
    try:
        return {name: _sheet(table) for name, table in read_json(path, remedy).items()}
    except (KeyError, TypeError) as error:
        raise InputError(f"{path} has no stored results ({error!r}): {remedy}") from None


def _sheet(data: Mapping[str, Any]) -> Sheet:
    rows = tuple(tuple(row) for row in data["rows"])
    return Sheet(data["title"], tuple(data["columns"]), rows, tuple(data["notes"]), tuple(data["brief"]))


@dataclass(frozen=True)
class TableCheck:
    """How many figures of a definition were compared with the stored ones, and which of them do not agree."""

    name: str
    figures: int
    faults: tuple[str, ...]


def some(seed: int) -> list[Definition]:
    """A random tenth of all definitions, each with one of the tasks of every row.

    Example:
        >>> len(some(0)) == math.ceil(len(definitions()) / 10), some(0)[0].name == some(0)[0].name
        (True, True)
    """
    known, rng = definitions(), np.random.default_rng(seed)
    chosen = rng.permutation(sorted(known))[: math.ceil(len(known) / SHARE)]
    return [_thinned(known[str(name)], rng) for name in chosen]


def _thinned(definition: Definition, rng: np.random.Generator) -> Definition:
    rows = []
    for row in definition.rows:
        task = list(row.published)[rng.integers(len(row.published))]
        rows.append(replace(row, published={task: row.published[task]}))
    return replace(definition, rows=tuple(rows))


def check(definition: Definition, library: ScoreLibrary, known: Mapping[str, Sheet]) -> TableCheck:
    """Run a definition again in small, and compare its figures with the stored ones.

    What is computed without chance has to be the same; what is a mean over runs may differ by chance.
    """
    if definition.name not in known:
        return TableCheck(definition.name, 0, (f"nothing is stored: {REMEDY} {definition.name}",))
    before = _rows(definition, known[definition.name])
    after = compare(definition, library, draws=0, runs=RUNS).rows
    if [row[:_KEY] for row in before] != [row[:_KEY] for row in after]:
        return TableCheck(definition.name, len(before), (f"other rows are stored: {REMEDY} {definition.name}",))
    pairs = list(zip(before, after, strict=True))
    faults = [
        f"{', '.join(map(str, a[:_KEY]))}: {_number(a[_OURS]):.6g} stored, {_number(b[_OURS]):.6g} now"
        for a, b in pairs
        if not agree(a, b)
    ]
    return TableCheck(definition.name, len(pairs), tuple(faults))


def _rows(definition: Definition, sheet: Sheet) -> list[tuple[Value, ...]]:
    """The stored rows of a definition, of which some tasks may have been left out."""
    whole = definitions()[definition.name]
    kept = [
        task in row.published
        for full, row in zip(whole.rows, definition.rows, strict=True)
        for task, printed in full.published.items()
        for _ in printed
    ]
    return [row for row, wanted in zip(sheet.rows, kept, strict=False) if wanted]


_KEY, (_PUBLISHED, _OURS, _LOW, _HIGH, _RUNS) = 4, map(COLUMNS.index, ("published", "ours", "low", "high", "runs"))


def agree(before: Sequence[Value], after: Sequence[Value]) -> bool:
    """Whether a stored row and one of few runs say the same.

    Runs agree where their means differ by no more than four standard errors, and the deviation of the few is at most
    four times the stored one.

    Example:
        >>> stored = ("RS", "cifar10", "test", "mean", 93.6, 93.5, -0.1, 93.402, 93.598, 93.5, 1.0, 9, 100, "")
        >>> [agree(stored, (*stored[:5], ours, *stored[6:12], 4, "")) for ours in (93.5, 94.5, 94.6)]
        [True, True, False]
    """
    a, b = (_number(row[_OURS]) for row in (before, after))
    if not _same(_number(before[_PUBLISHED]), _number(after[_PUBLISHED])):
        return False
    runs, few = _number(before[_RUNS]), _number(after[_RUNS])
    if runs == few or math.isnan(a) or math.isnan(b):
        return _same(a, b)
    if before[_KEY - 1] == "std":
        return b <= Z * a + SAME
    error = (_number(before[_HIGH]) - _number(before[_LOW])) / (2 * 1.96)
    if math.isnan(error):  # a mean without an interval does not depend on chance
        return _same(a, b)
    return abs(a - b) <= Z * error * math.sqrt(1 + runs / few) + SAME


def _same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=SAME, abs_tol=SAME)


def _number(value: Value) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan
