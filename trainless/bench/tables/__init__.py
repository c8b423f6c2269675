"""Tabular benchmarks: the true trained accuracy of each arch, and the scores that others published."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from trainless.bench.tables.table import Table
from trainless.core.registry import Registry

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Table", "peer_scores", "registry", "table"]

registry: Registry[Callable[[], Table]] = Registry("table", "tables")
registry.add("nb201", "trainless.bench.tables.nb201:open_nb201")
registry.add("nb101", "trainless.bench.tables.nb101:open_nb101")
registry.add("ecnas", "trainless.bench.tables.nb101:open_ecnas")
registry.add("darts", "trainless.bench.tables.darts:open_darts")
for _family in ("darts", "enas", "pnas", "nasnet", "amoeba"):
    registry.add(f"nds-{_family}", f"trainless.bench.tables.nds:open_{_family}")
registry.add("nbnlp", "trainless.bench.tables.nbnlp:open_nbnlp")
registry.add("transnas-micro", "trainless.bench.tables.transnas:open_transnas_micro")
registry.add("nb-macro", "trainless.bench.tables.transnas:open_nb_macro")


def table(name: str) -> Table:
    """Open a table by its name; the data directory is ``$TRAINLESS_DATA`` or the user's cache.

    Raises:
        InputError: Its file is missing (and what it is, where it comes from and where to put it) or damaged.
    """
    return registry[name]()


def peer_scores(name: str, task: str = "cifar10") -> pd.DataFrame:
    """Scores that others published: one row per arch in the space's notation, one column per proxy.

    Names are such as ``"epsilon"``; ``trainless.bench.tables.peers.PEERS`` has all.
    """
    from trainless.bench.tables.peers import load

    return load(name, task)
