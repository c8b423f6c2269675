"""A thousand networks of the DARTS space, and the converter of Network Design Spaces (Radosavovic et al., 2019)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainless.bench.tables.files import DataFile, columns_of, write_columns
from trainless.bench.tables.table import ColumnKey, Table
from trainless.core.errors import InputError
from trainless.core.types import Floats

FILE = DataFile(
    "darts/darts_1000_cifar10.csv.gz",
    "1,000 DARTS genotypes with their CIFAR-10 validation accuracy after a short training",
    "https://github.com/pym1024/SWAP",
    ("genotype",),
)
_KEY = ColumnKey("cifar10", "valid")


def open_darts() -> Table:
    """The genotypes as DARTS writes them; the release does not say how many epochs, so the fidelity is 0."""
    return Table("darts", "darts", columns_of(FILE).strings("genotype"), {frozenset({_KEY}): _load})


def _load() -> Mapping[ColumnKey, Floats]:
    return {_KEY: columns_of(FILE).floats("val_acc")}


_HEADER = ("genotype", "depth", "width", "val_acc", "params_m", "flops_m", "epochs", "seed")


def convert_nds(source: Path, destination: Path) -> Path:
    """Write a table of one cell space of NDS, such as ``DARTS.json``; its accuracy is 100 less the last top-1 error.

    The source is a list of networks, or ``{"top": […], "mid": […]}``.
    """
    try:
        content = json.loads(source.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{source} is not a JSON file that can be read: {error}") from None
    networks = [*content.get("top", ()), *content.get("mid", ())] if isinstance(content, dict) else content
    if not isinstance(networks, list) or not networks:
        raise InputError(f"{source} has no networks: expected a list, or lists under 'top' and 'mid', as NDS has them")
    return write_columns(destination, _HEADER, [_row(network, source) for network in networks])


def _row(network: Any, source: Path) -> list[object]:
    try:
        config, errors = network["net"], network["test_ep_top1"]
        return [
            genotype(config["genotype"]),
            config["depth"],
            config["width"],
            round(100 - float(errors[-1]), 6),
            float(network["params"]) / 1e6,
            float(network["flops"]) / 1e6,
            len(errors),
            network.get("rng_seed", ""),
        ]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(
            f"{source} has a network without genotype, depth, width, params, flops or test_ep_top1 ({error}): only the"
            " cell spaces of NDS are tables of genotypes"
        ) from None


def genotype(cells: Any) -> str:
    """A genotype in DARTS's notation.

    Example:
        >>> genotype({"normal": [["skip_connect", 0]], "normal_concat": [2], "reduce": [], "reduce_concat": [2]})
        "Genotype(normal=[('skip_connect', 0)], normal_concat=[2], reduce=[], reduce_concat=[2])"
    """
    parts = []
    for name in ("normal", "reduce"):
        edges = [(str(operation), int(node)) for operation, node in cells[name]]
        parts.append(f"{name}={edges}, {name}_concat={[int(node) for node in cells[f'{name}_concat']]}")
    return f"Genotype({', '.join(parts)})"
