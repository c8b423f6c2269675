"""Tasks from tables (CSV, TSV, Parquet): a row is a case, or a moment of a recording, or names a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trainless.core.errors import InputError
from trainless.core.processes import require_room
from trainless.core.task import InputFormat, Task
from trainless.core.text import counted
from trainless.core.types import Array
from trainless.tasks.assemble import assemble
from trainless.tasks.columns import notes_of, shown, values_of, without, words_in
from trainless.tasks.reading import Samples
from trainless.tasks.settings import Reading, reads
from trainless.tasks.weigh import open_text, readable, require_plain, require_text

LABELS = ("label", "target", "class", "y")
GROUPS = ("group", "patient", "patient_id", "subject", "subject_id", "record")
BATCH = 1000  # rows of a Parquet table that are weighed at a time
TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
WIDEST = 20_000  # columns, whose reading takes a second or so
HEADER = 2**24  # bytes of a header at most
HEAD = 2  # the row of the first case, as spreadsheets count


@reads("kind dims channels label group ignore record time_column seed size window")
def from_table(path: Path, reading: Reading) -> Task:
    """A task from a table whose first line names the columns.

    With a column of file names it lists the cases of a folder, which is that of the table. With a ``time_column`` each
    row is a moment of a recording. Otherwise each row is a case, and all columns but the label, the group and those of
    ``reading.ignore`` are its values in order, words as zeros and ones (:mod:`trainless.tasks.columns`); a case is
    called by its row in a spreadsheet, where the names of columns are row 1. The label's column is called label,
    target, class or y unless ``reading.label`` names it; the
    group's is ``reading.group``, or one called group, patient, subject or record.
    """
    from trainless.tasks.cases import FILES

    if reading.time_column:
        from trainless.tasks.long_tables import from_long_table

        return from_long_table(path, reading)
    if {name.lower() for name in header(path)} & set(FILES):
        from trainless.tasks.folders import from_manifest

        return from_manifest(path, reading)
    _refuse(reading, ("record", "window"), path, "time_column")
    table = without(read_table(path), reading.ignore, path)
    label = label_column(table, reading, path)
    who = column(table.drop(columns=label), reading.group, GROUPS, "group", path)
    signals = table.drop(columns=[label, who] if who else label)
    words = words_in(signals, path)
    require_full(signals, path)
    notes = [f"column {who!r} was read as the group: it is never split"] if who and not reading.group else []
    notes += notes_of(words)
    groups = complete(table[who], "group", path) if who else None
    values, names = values_of(signals, words, path), row_names(len(table))
    samples = Samples(values, complete(table[label], "label", path), groups, names=names)
    source = InputFormat("table", columns=tuple(str(each) for each in signals.columns), words=words)
    return assemble(path.name.split(".")[0], {"train": samples}, reading, notes=notes, source=source)


def row_names(count: int) -> Array:
    """What the cases of a table are called: by their rows as a spreadsheet counts them.

    Example:
        >>> row_names(2).tolist()
        ['row 2', 'row 3']
    """
    return np.array([f"row {number}" for number in range(HEAD, count + HEAD)])


def _refuse(reading: Reading, names: Sequence[str], path: Path, needed: str) -> None:
    for name in names:
        if getattr(reading, name):
            raise InputError(f"{name}={getattr(reading, name)!r} was given for {path.name} without {needed}: give both")


def label_column(table: pd.DataFrame, reading: Reading, path: Path) -> str:
    """The column of the label, or one line that says how to name it."""
    label = column(table, str(reading.label), LABELS, "label", path)
    if not label:
        if 2 * sum(_is_number(str(name)) for name in table.columns) > len(table.columns):
            raise InputError(
                f"{path.name} begins with {shown(table.columns)}, which looks like a case; expected a first line that"
                " names the columns, one of them the label: add one, such as label,t0,t1"
            )
        raise InputError(
            f"{path.name} has the columns {shown(table.columns)}; expected one called {', '.join(LABELS)}: name it with"
            " --label (in Python label=…)"
        )
    return label


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.rsplit(".", 1)[0] != text and _is_number(text.rsplit(".", 1)[0])  # pandas numbers repeated names
    return True


def header(path: Path) -> list[str]:
    """The names of a table's columns."""
    require_plain(path)
    with readable(path, "a table", "expected a CSV with a header"):
        if path.suffix.lower() == ".parquet":
            return list(_parquet().ParquetFile(path).schema_arrow.names)
        return [name.strip().strip('"') for name in _first_line(path).split(_separator(path))]


def _first_line(path: Path) -> str:
    with open_text(path) as stream:
        return stream.readline(HEADER).decode("utf-8-sig", "replace")


def _separator(path: Path) -> str:
    """Tabs, commas, or the semicolons that spreadsheets write where the decimal sign is a comma."""
    if ".tsv" in path.suffixes:
        return "\t"
    line = _first_line(path)
    return ";" if ";" in line and "," not in line else ","


def read_table(path: Path, *, names: Sequence[str] = ()) -> pd.DataFrame:
    """A table, weighed before it is read, or one line that says why not; ``names`` where it has no header."""
    columns = header(path)
    if len(columns) > WIDEST:
        raise InputError(
            f"{path.name} has {len(columns):,} columns, more than {WIDEST:,}: save long signals as .npy or .npz, or as"
            " a long table with one row per moment"
        )
    with readable(path, "a table", "expected a CSV with a header"):
        table = _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_text(path, names)
    if table.empty:
        raise InputError(f"{path.name} has no rows: expected a header and one line per sample")
    return table


def _read_text(path: Path, names: Sequence[str]) -> pd.DataFrame:
    require_text(path)
    separator = _separator(path)
    if names:
        return pd.read_csv(path, sep=separator, header=None, names=list(names), dtype=str)
    rows = pd.read_csv(path, sep=separator, low_memory=False)
    return _with_decimal_commas(rows, path) if separator == ";" else rows


def _with_decimal_commas(rows: pd.DataFrame, path: Path) -> pd.DataFrame:
    """A table whose numbers may be written as 1,5; where others are written as 1.5 nobody knows what is meant."""
    read = {name: pd.to_numeric(values.str.replace(",", "."), errors="coerce") for name, values in _texts(rows)}
    commas = {name: values for name, values in read.items() if bool((values.isna() == rows[name].isna()).all())}
    points = [name for name, values in rows.select_dtypes("float").items() if bool((values % 1 > 0).any())]
    if commas and points:
        raise InputError(
            f"{path.name} has numbers with a comma ({next(iter(commas))}) and with a point ({points[0]}); expected one"
            " decimal sign"
        )
    return rows.assign(**{str(name): values for name, values in commas.items()})


def _texts(rows: pd.DataFrame) -> list[tuple[Any, pd.Series]]:
    return [(name, values) for name, values in rows.items() if pd.api.types.is_string_dtype(values)]


def _read_parquet(path: Path) -> pd.DataFrame:
    _weigh_parquet(path)
    found = pd.read_parquet(path)
    return found.reset_index() if found.index.name else found


def _weigh_parquet(path: Path) -> None:
    """Refuse a table beyond memory: by what it declares, and texts, of which it has each but once, by what they are."""
    file = _parquet().ParquetFile(path)
    about, remedy = file.metadata, "give a smaller table, or the values as .npy"
    columns = [about.schema.column(place) for place in range(about.num_columns)]
    if lists := [column.path for column in columns if column.max_repetition_level]:
        raise InputError(f"{path.name} has lists in column {lists[0]!r}: expected one value in every cell")
    # row groups are never asked for their columns: where what is said of these is broken, Arrow ends the process
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    values = sum(group.num_rows for group in groups) * len(columns)
    seen = max(8 * values, sum(group.total_byte_size for group in groups))
    require_room(2 * seen, path.name, remedy)
    texts = [column.path for column in columns if column.physical_type.endswith("BYTE_ARRAY")]
    for batch in file.iter_batches(BATCH, columns=texts) if texts else ():
        written = (each.dictionary_decode() if hasattr(each, "dictionary") else each for each in batch.columns)
        seen += sum(each.nbytes for each in written)
        require_room(2 * seen, path.name, remedy)


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise InputError("a Parquet table needs pyarrow: pip install 'trainless[parquet]'") from error
    return parquet


def numbers(table: pd.DataFrame, path: Path) -> Array:
    """The values of columns that are all numbers."""
    words = [name for name, kind in table.dtypes.items() if not pd.api.types.is_numeric_dtype(kind)]
    if words:
        raise InputError(
            f"{path.name} has columns that are not numbers: {shown(words)}; write them as numbers, such as"
            " 0 and 1, remove them, or name the label and the group (--label, --group)"
        )
    with np.errstate(over="ignore"):  # infinite values are refused later
        return table.to_numpy(np.float32)


def require_full(table: pd.DataFrame, path: Path) -> None:
    """Refuse a table with empty cells."""
    gaps = table.isna().to_numpy()
    if gaps.any():
        row, place = np.argwhere(gaps)[0]
        raise InputError(
            f"{path.name} has {counted(int(gaps.sum()), 'cell')} without a value, the first in row {row + HEAD}, column"
            f" {str(table.columns[place])!r}: fill them in, remove these rows, or leave columns out with --ignore"
        )


def column(table: pd.DataFrame, given: str, usual: Sequence[str], what: str, path: Path) -> str:
    """The column that is named, else the last one with a usual name, else an empty string."""
    names = [str(name) for name in table.columns]
    if given and given not in names:
        raise InputError(f"{path.name} has no {what} column {given!r}; it has {shown(names)}")
    return given or next((name for name in reversed(names) if name.lower() in usual), "")


def complete(values: pd.Series, what: str, path: Path) -> Array:
    """A column of labels or groups, where every row must have one."""
    missing = values.isna()
    if missing.any():
        rows = counted(int(missing.sum()), "row")
        raise InputError(
            f"{path.name} has {rows} without a {what}, the first is row {missing.argmax() + HEAD}: fill or remove them"
        )
    return values.to_numpy()
