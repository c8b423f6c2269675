"""Tasks from CSV tables of signals: one row per signal, with a label column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from trainless.core.errors import InputError
from trainless.core.task import InputFormat, Task
from trainless.core.types import Array
from trainless.tasks.assemble import assemble
from trainless.tasks.reading import Reading, Samples

LABELS = ("label", "target", "class", "y")
GROUPS = ("group", "patient", "patient_id", "subject", "subject_id", "record")


def from_csv(path: Path, reading: Reading, *, group: str = "") -> Task:
    """A task from a CSV file (``.tsv`` for tabs) whose first line names the columns.

    All columns but the label and the group are a signal's values in order. The label's column is called label, target,
    class or y unless ``reading.label`` names it; the group's is ``group``, or one called group, patient, subject or
    record.
    """
    table = read_table(path)
    label = column(table, str(reading.label), LABELS, "label", path)
    if not label:
        raise InputError(
            f"{path.name} has the columns {shown(table.columns)}; expected one called {', '.join(LABELS)}:"
            " name it with label=…"
        )
    who = column(table.drop(columns=label), group, GROUPS, "group", path)
    signals = table.drop(columns=[label, who] if who else label)
    values = numbers(signals, path)
    notes = [f"column {who!r} was read as the group: it is never split"] if who and not group else []
    groups = complete(table[who], "group", path) if who else None
    samples = Samples(values, complete(table[label], "label", path), groups)
    source = InputFormat("table", columns=tuple(str(each) for each in signals.columns))
    return assemble(path.name.split(".")[0], {"train": samples}, reading, notes=notes, source=source)


REPEATED = 1000  # names that are there twice cost their square to tell apart


def read_table(path: Path) -> pd.DataFrame:
    """A CSV or TSV file, or one line that says why not."""
    separator = "\t" if ".tsv" in path.suffixes else ","
    try:
        if path.suffix in (".csv", ".tsv"):
            with path.open(encoding="utf-8", errors="replace") as stream:
                names = stream.readline().split(separator)
            if (repeated := len(names) - len(set(names))) > REPEATED:
                raise ValueError(f"its header has {len(names):,} names, {repeated:,} of them repeated")
        table = pd.read_csv(path, sep=separator)
    except (ValueError, OSError, EOFError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path.name} cannot be read as a table ({reason}): expected a CSV with a header") from error
    if table.empty:
        raise InputError(f"{path.name} has no rows: expected a header and one line per sample")
    return table


def numbers(table: pd.DataFrame, path: Path) -> Array:
    """The values of columns that are all numbers."""
    words = [name for name, kind in table.dtypes.items() if not pd.api.types.is_numeric_dtype(kind)]
    if words:
        raise InputError(f"{path.name} has columns that are not numbers: {shown(words)}; remove them or correct them")
    return table.to_numpy(np.float32)


def column(table: pd.DataFrame, given: str, usual: Sequence[str], what: str, path: Path) -> str:
    """The column that is named, else the last one with a usual name, else an empty string."""
    names = [str(name) for name in table.columns]
    if given and given not in names:
        raise InputError(f"{path.name} has no {what} column {given!r}; it has {shown(names)}")
    return given or next((name for name in reversed(names) if name.lower() in usual), "")


def shown(names: Sequence[object] | pd.Index) -> str:
    """The first names of a list, for a message."""
    return ", ".join(str(name) for name in names[:6]) + (f", … ({len(names)} in all)" if len(names) > 6 else "")


def complete(values: pd.Series, what: str, path: Path) -> Array:
    """A column of labels or groups, where every row must have one."""
    missing = values.isna()
    if missing.any():
        raise InputError(
            f"{path.name} has {int(missing.sum())} rows without a {what}, first row {missing.argmax() + 1}:"
            " fill or remove them"
        )
    return values.to_numpy()
