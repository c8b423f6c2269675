"""NAS-Bench-101: a fair sample of it, and the small cells with measured energy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from trainless.bench.tables.files import DataFile, columns_of
from trainless.bench.tables.table import Key, Table, own_notation
from trainless.core.errors import InputError
from trainless.core.types import Floats
from trainless.spaces.nb101_net import OPERATIONS, Cell, module_hash, pruned

SAMPLE = DataFile(
    "nb101/nb101_subset20001.csv.gz",
    "NAS-Bench-101's validation accuracies of the 20,001 lowest hashes after 4, 12, 36 and 108 epochs",
    "https://github.com/google-research/nasbench (convert an official file with trainless.bench.convert.nasbench101)",
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
    **{Key("cifar10", "valid", epochs): (f"val_acc_{epochs}", 1.0) for epochs in EPOCHS},
    **{Key("cifar10", "test", epochs): (f"test_acc_{epochs}", 1.0) for epochs in EPOCHS},
    Key("cifar10", "train_time", 108): ("train_time_108_s", 1.0),
    Key("cifar10", "params"): ("trainable_params", 1e-6),
}
_ENERGY_FIELDS = {
    Key("cifar10", "train", 4): ("train_acc", 100.0),
    Key("cifar10", "valid", 4): ("val_acc", 100.0),
    Key("cifar10", "test", 4): ("test_acc", 100.0),
    Key("cifar10", "train_time", 4): ("train_time_s", 1.0),
    Key("cifar10", "energy", 4): ("energy_kwh", 1.0),
    Key("cifar10", "carbon", 4): ("co2eq_g", 1.0),
    Key("cifar10", "params"): ("trainable_params", 1e-6),
}
Fields = Mapping[Key, tuple[str, float]]


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


def _load(file: DataFile, fields: Fields) -> Mapping[Key, Floats]:
    columns = columns_of(file)
    return {key: columns.floats(name) * scale for key, (name, scale) in fields.items()}
