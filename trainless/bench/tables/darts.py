"""A thousand networks of the DARTS space."""

from __future__ import annotations

from collections.abc import Mapping

from trainless.bench.tables.files import DataFile, columns_of
from trainless.bench.tables.table import Key, Table
from trainless.core.types import Floats

FILE = DataFile(
    "darts/darts_1000_cifar10.csv.gz",
    "1,000 DARTS genotypes with their CIFAR-10 validation accuracy after a short training",
    "https://github.com/pym1024/SWAP",
    ("genotype",),
)
_KEY = Key("cifar10", "valid")


def open_darts() -> Table:
    """The genotypes as DARTS writes them; the release does not say how many epochs, so the fidelity is 0."""
    return Table("darts", "darts", columns_of(FILE).strings("genotype"), {frozenset({_KEY}): _load})


def _load() -> Mapping[Key, Floats]:
    return {_KEY: columns_of(FILE).floats("val_acc")}
