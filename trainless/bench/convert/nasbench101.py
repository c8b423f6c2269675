"""NAS-Bench-101 from its TFRecord files, or from JSON with the same rows."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trainless.bench.tables.files import write_columns
from trainless.core.errors import InputError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_METRICS = {1: "epoch", 2: "time", 3: "train", 4: "valid", 5: "test"}


def convert_nasbench101(source: Path, destination: Path) -> Path:
    """Write NAS-Bench-101's table from an official file.

    Args:
        source: ``nasbench_full.tfrecord`` or ``nasbench_only108.tfrecord``; or ``.json`` / ``.jsonl`` with the same
            rows ``[hash, epochs, adjacency, operations, metrics]``, as one list or one to a line.
        destination: The file to write, ``nb101/nb101_subset20001.csv.gz`` of the data directory.

    Returns:
        The destination: accuracies in percent at the end of training, means over the repeats.
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
        line += [_mean([100 * run[split] for run in runs.get(epochs, ())]) for epochs in all_epochs]
    last = runs.get(all_epochs[-1], [])
    return [*line, _mean([run["time"] for run in last]), int(next(iter(runs.values()))[0]["params"])]


def _mean(values: list[float]) -> float | str:
    return round(float(np.mean(values)), 6) if values else ""


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
