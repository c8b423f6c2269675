"""NAS-Bench-101: a fair sample of it, its converter, and the small cells with measured energy."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from trainless.bench.tables.files import DataFile, columns_of, mean_of, write_columns
from trainless.bench.tables.table import ColumnKey, Table, own_notation
from trainless.core.errors import InputError
from trainless.core.types import Floats

SAMPLE = DataFile(
    "nb101/nb101_subset20001.csv.gz",
    "NAS-Bench-101's validation accuracies of the 20,001 lowest hashes after 4, 12, 36 and 108 epochs",
    "https://github.com/google-research/nasbench (trainless.bench.tables.nb101.convert_nasbench101 converts its file)",
    ("module_hash", "adjacency", "operations"),
)
ENERGY = DataFile(
    "nb101/ecnas_5v_4epochs.csv.gz",
    "EC-NAS: all NAS-Bench-101 cells of up to five vertices after 4 epochs, with energy",
    "https://github.com/saintslab/EC-NAS-Bench",
    ("module_hash", "adjacency", "operations"),
)
EPOCHS = (4, 12, 36, 108)
_SAMPLE_FIELDS = {
    **{ColumnKey("cifar10", "valid", epochs): (f"val_acc_{epochs}", 1.0) for epochs in EPOCHS},
    **{ColumnKey("cifar10", "test", epochs): (f"test_acc_{epochs}", 1.0) for epochs in EPOCHS},
    ColumnKey("cifar10", "train_time", 108): ("train_time_108_s", 1.0),
    ColumnKey("cifar10", "params"): ("trainable_params", 1e-6),
}
_ENERGY_FIELDS = {
    ColumnKey("cifar10", "train", 4): ("train_acc", 100.0),
    ColumnKey("cifar10", "valid", 4): ("val_acc", 100.0),
    ColumnKey("cifar10", "test", 4): ("test_acc", 100.0),
    ColumnKey("cifar10", "train_time", 4): ("train_time_s", 1.0),
    ColumnKey("cifar10", "energy", 4): ("energy_kwh", 1.0),
    ColumnKey("cifar10", "carbon", 4): ("co2eq_g", 1.0),
    ColumnKey("cifar10", "params"): ("trainable_params", 1e-6),
}
Fields = Mapping[ColumnKey, tuple[str, float]]


def open_nb101() -> Table:
    """The sample: accuracies in percent, time in seconds, ``params`` in millions; found also by hash.

    It has validation accuracies only; a file converted from an official release has test accuracies too.
    """
    return _open("nb101", SAMPLE, _SAMPLE_FIELDS)


def open_ecnas() -> Table:
    """The small cells: accuracies in percent, ``energy`` in kWh, ``carbon`` in grams of CO₂ equivalent."""
    return _open("ecnas", ENERGY, _ENERGY_FIELDS)


def notation(adjacency: str, operations: str) -> str:
    """Rows and operations as the space writes them, from rows that may not be parted.

    Example:
        >>> notation("011001000", "input|maxpool3x3|output")
        '011/001/000;input|maxpool3x3|output'
    """
    if "/" not in adjacency:
        size = operations.count("|") + 1
        adjacency = "/".join(adjacency[start : start + size] for start in range(0, len(adjacency), size))
    return f"{adjacency};{operations}"


def hashed(text: str) -> str:
    """The benchmark's hash of a cell: the same for all twins; a text that is no cell stays as it is.

    Example:
        >>> hashed("01/00;input|output")
        '043721b9c7fe8c5fad811d47d83132ec'
    """
    from trainless.spaces.nb101_cell import OPERATIONS, Cell, module_hash, pruned  # torch: not needed to open a table

    adjacency, parted, names = own_notation(text).partition(";")
    if not parted:
        return adjacency
    rows, operations = adjacency.split("/"), names.split("|")[1:-1]
    if any(len(row) != len(rows) for row in rows) or len(operations) != len(rows) - 2:
        raise InputError(f"nb101: {text!r} is not rows and operations, such as '011/001/000;input|maxpool3x3|output'")
    if unknown := set(operations) - set(OPERATIONS):
        raise InputError(f"nb101: {sorted(unknown)[0]!r} is not an operation: {', '.join(OPERATIONS)}")
    parents = tuple(tuple(s for s, row in enumerate(rows) if row[vertex] == "1") for vertex in range(len(rows)))
    cell = pruned(Cell(parents, tuple(map(OPERATIONS.index, operations))))
    return adjacency if cell is None else module_hash(cell)


def _open(name: str, file: DataFile, fields: Fields) -> Table:
    columns = columns_of(file)
    archs = tuple(map(notation, columns.strings("adjacency"), columns.strings("operations")))
    known = {key: field for key, field in fields.items() if field[0] in columns.numbers}
    groups = {frozenset(known): partial(_load, file, known)}
    return Table(name, "nb101", archs, groups, keys=columns.strings("module_hash"), key=hashed)


def _load(file: DataFile, fields: Fields) -> Mapping[ColumnKey, Floats]:
    columns = columns_of(file)
    return {key: columns.floats(name) * scale for key, (name, scale) in fields.items()}


_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_METRICS = {1: "epoch", 2: "time", 3: "train", 4: "valid", 5: "test"}


def convert_nasbench101(source: Path, destination: Path) -> Path:
    """Write NAS-Bench-101's table, ``nb101/nb101_subset20001.csv.gz`` of the data directory, from an official file.

    The source is ``nasbench_full.tfrecord`` or ``nasbench_only108.tfrecord``; or ``.json`` / ``.jsonl`` with the same
    rows ``[hash, epochs, adjacency, operations, metrics]``, as one list or one to a line. Accuracies are in percent at
    the end of training, means over the repeats.
    """
    cells: dict[str, tuple[str, str, dict[int, list[dict[str, float]]]]] = {}
    for row in _rows(source):
        name, epochs, adjacency, operations, final = _run(row, source)
        cells.setdefault(name, (adjacency, operations, {}))[2].setdefault(epochs, []).append(final)
    if not cells:
        raise InputError(f"{source} has no records: expected NAS-Bench-101's tfrecord or JSON rows")
    all_epochs = sorted({epochs for _, _, runs in cells.values() for epochs in runs})
    header = ["module_hash", "num_vertices", "num_edges", "adjacency", "operations"]
    header += [f"{split}_acc_{epochs}" for split in ("val", "test") for epochs in all_epochs]
    header += [f"train_time_{all_epochs[-1]}_s", "trainable_params"]
    return write_columns(destination, header, [_cell(name, *cells[name], all_epochs) for name in sorted(cells)])


def _cell(
    name: str, adjacency: str, operations: str, runs: dict[int, list[dict[str, float]]], all_epochs: list[int]
) -> list[object]:
    size = operations.count(",") + 1
    rows = "/".join(adjacency[start : start + size] for start in range(0, len(adjacency), size))
    line: list[object] = [name, size, adjacency.count("1"), rows, operations.replace(",", "|")]
    for split in ("valid", "test"):
        line += [mean_of([100 * run[split] for run in runs.get(epochs, ())]) for epochs in all_epochs]
    last = runs.get(all_epochs[-1], [])
    return [*line, mean_of([run["time"] for run in last]), int(next(iter(runs.values()))[0]["params"])]


def _rows(source: Path) -> Iterator[Any]:
    if not source.is_file():
        raise InputError(f"{source} is not a file: give NAS-Bench-101's tfrecord or JSON rows")
    try:
        if source.suffix not in (".json", ".jsonl"):
            yield from (json.loads(record) for record in records(source))
        elif source.suffix == ".json":
            yield from json.loads(source.read_text())
        else:
            with source.open() as stream:
                yield from (json.loads(line) for line in stream if line.strip())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{source} has a record that is not JSON: {error}") from None


def records(source: Path) -> Iterator[bytes]:
    """The records of a TFRecord file: length, its checksum, data, its checksum; the checksums are not looked at."""
    with source.open("rb") as stream:
        size = source.stat().st_size
        while head := stream.read(12):
            length = struct.unpack("<Q", head[:8])[0] if len(head) == 12 else size
            if length > size:
                raise InputError(f"{source} is cut off or is not a TFRecord file (a record of {length} bytes)")
            data = stream.read(length)
            if len(data) != length or len(stream.read(4)) != 4:
                raise InputError(f"{source} is cut off within a record")
            yield data


def _run(row: Any, source: Path) -> tuple[str, int, str, str, dict[str, float]]:
    """Hash, epochs, adjacency, operations and the metrics at the end of one training."""
    try:
        name, epochs, adjacency, operations, metrics = row
        return str(name), int(epochs), str(adjacency), str(operations), final_metrics(base64.b64decode(metrics))
    except (ValueError, TypeError, IndexError, KeyError, binascii.Error, struct.error):
        raise InputError(
            f"{source} has a row that is not [hash, epochs, adjacency, operations, metrics]: {str(row)[:80]}"
        ) from None


def final_metrics(message: bytes) -> dict[str, float]:
    """The last evaluation of a ModelMetrics message, and the number of parameters.

    ModelMetrics: 1 evaluations (epoch, time, train, valid and test accuracy as doubles 1 to 5), 2 parameters.
    """
    fields = list(wire_fields(message))
    last = [data for number, data in fields if number == 1 and isinstance(data, bytes)][-1]
    found = {
        _METRICS[number]: struct.unpack("<d", data)[0]
        for number, data in wire_fields(last)
        if number in _METRICS and isinstance(data, bytes)
    }
    params = [float(data) for number, data in fields if number == 2 and isinstance(data, int)]
    return found | {"params": params[-1]} | {name: found[name] for name in ("time", "valid", "test")}


def wire_fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Number and value of each field of a protocol buffer: an integer, or bytes for everything else.

    Example:
        >>> list(wire_fields(bytes([0x10, 0xAC, 0x02, 0x0A, 0x01, 0x61])))
        [(2, 300), (1, b'a')]
    """
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, place = _varint(message, place)
            yield number, value
            continue
        if kind == _BYTES:
            length, place = _varint(message, place)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if place + length > len(message):
            raise ValueError("a field that is cut off")
        yield number, message[place : place + length]
        place += length


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if not byte & 0x80:
            return value, place
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
