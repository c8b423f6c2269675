"""TransNAS-Bench-101's micro space (Duan et al., 2021) and NAS-Bench-Macro (Su et al., 2021)."""

from __future__ import annotations

from collections.abc import Mapping

from trainless.bench.tables.files import DataFile, columns_of
from trainless.bench.tables.table import ColumnKey, Table
from trainless.core.types import Floats

MICRO = DataFile(
    "tnb101/tnb101_micro.csv.gz",
    "TransNAS-Bench-101's results of its 4,096 micro networks on seven tasks",
    "https://github.com/yawen-d/TransNASBench (extracted from NASLib's copy)",
    ("arch",),
)
MACRO = DataFile(
    "nbmacro/nbmacro_cifar10.csv.gz",
    "NAS-Bench-Macro's CIFAR-10 accuracies of 6,561 networks",
    "https://github.com/xiusu/NAS-Bench-Macro",
    ("arch",),
)
TASKS = ("autoencoder", "room_layout", "class_object", "class_scene", "jigsaw", "normal", "segmentsemantic")
BEGINNING = "64-41414-"
SEEDS = 3


def open_transnas_micro() -> Table:
    """The validation result of each task as ``valid``; higher is better in every one. Epochs are not in the file."""
    keys = frozenset(ColumnKey(task, "valid") for task in TASKS)
    return Table("transnas-micro", "transnas-micro", columns_of(MICRO).strings("arch"), {keys: _micro}, key=_whole)


def _whole(text: str) -> str:
    """The table's notation of a cell, whose beginning may be missing."""
    return text if text.startswith(BEGINNING) else BEGINNING + text


def _micro() -> Mapping[ColumnKey, Floats]:
    return {ColumnKey(task, "valid"): columns_of(MICRO).floats(task) for task in TASKS}


def open_nb_macro() -> Table:
    """``test`` in percent, averaged over three seeds (``test_seed_0`` … are single ones), ``params`` in millions."""
    fields = {ColumnKey("cifar10", "test"): ("mean_acc", 1.0)}
    fields |= {ColumnKey("cifar10", f"test_seed_{seed}"): (f"test_acc_seed{seed}", 1.0) for seed in range(SEEDS)}
    fields |= {ColumnKey("cifar10", name): (name, 1e-6) for name in ("params", "flops")}
    archs = tuple(text.zfill(8) for text in columns_of(MACRO).strings("arch"))

    def load() -> Mapping[ColumnKey, Floats]:
        return {key: factor * columns_of(MACRO).floats(name) for key, (name, factor) in fields.items()}

    return Table("nb-macro", "nb-macro", archs, {frozenset(fields): load}, key=lambda text: text.zfill(8))
