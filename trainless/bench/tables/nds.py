"""The cell spaces of Network Design Spaces, whose networks each have their own size; a user converts the files."""

from __future__ import annotations

from collections.abc import Mapping

from trainless.bench.tables.files import DataFile, columns_of
from trainless.bench.tables.table import ColumnKey, Table
from trainless.core.types import Floats

OFFICIAL = {"darts": "DARTS", "enas": "ENAS", "pnas": "PNAS", "nasnet": "NASNet", "amoeba": "Amoeba"}
_KEY = ColumnKey("cifar10", "test")
_COSTS = {ColumnKey("cifar10", "params"): "params_m", ColumnKey("cifar10", "flops"): "flops_m"}


def nds_file(family: str) -> DataFile:
    """The converted file of a family."""
    return DataFile(
        f"nds/{family}.csv.gz",
        f"NDS's trained networks of {OFFICIAL[family]}",
        f"https://github.com/facebookresearch/nds: python -m benchmarks.nds {family} --source {OFFICIAL[family]}.json"
        " converts its file and puts it there",
        ("genotype",),
    )


def sized(family: str) -> list[tuple[int, int, str]]:
    """Width, depth and genotype of every network, in the order of the table."""
    columns = columns_of(nds_file(family))
    widths, depths = (columns.floats(name).astype(int).tolist() for name in ("width", "depth"))
    return list(zip(widths, depths, columns.strings("genotype"), strict=True))


def notation(width: int, depth: int, genotype: str) -> str:
    """How the table writes a network: ``16x8 Genotype(…)``."""
    return f"{width}x{depth} {genotype}"


def _open(family: str) -> Table:
    archs = tuple(notation(*network) for network in sized(family))
    accuracies = {frozenset({_KEY, *_COSTS}): lambda: _load(family)}
    keys = tuple(f"{row} {arch}" for row, arch in enumerate(archs))  # some networks were trained twice
    return Table(f"nds-{family}", family, archs, accuracies, keys=keys)


def _load(family: str) -> Mapping[ColumnKey, Floats]:
    columns = columns_of(nds_file(family))
    return {_KEY: columns.floats("val_acc"), **{key: columns.floats(name) for key, name in _COSTS.items()}}


def open_darts() -> Table:
    """NDS's DARTS networks, each of its own width and depth: CIFAR-10 accuracy."""
    return _open("darts")


def open_enas() -> Table:
    """NDS's ENAS networks, each of its own width and depth: CIFAR-10 accuracy."""
    return _open("enas")


def open_pnas() -> Table:
    """NDS's PNAS networks, each of its own width and depth: CIFAR-10 accuracy."""
    return _open("pnas")


def open_nasnet() -> Table:
    """NDS's NASNet networks, each of its own width and depth: CIFAR-10 accuracy."""
    return _open("nasnet")


def open_amoeba() -> Table:
    """NDS's AmoebaNet networks, each of its own width and depth: CIFAR-10 accuracy."""
    return _open("amoeba")
