"""Scores that other programs published, under this project's names of the proxies."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from trainless.bench.tables.files import DataFile, FileColumns, columns_of
from trainless.bench.tables.nb101 import notation
from trainless.bench.tables.nb201 import MAIN
from trainless.core.errors import UnknownName

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Peer:
    """One published table of scores, of the archs of one of our tables.

    ``columns`` is task to proxy to column. ``rows`` names the column that says which task a row is of; it is empty
    where a row has the scores of all tasks.
    """

    file: DataFile
    table: str
    columns: Mapping[str, Mapping[str, str]]
    rows: str = ""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that have scores."""
        return tuple(self.columns)


def _peer(about: Mapping[str, Any]) -> Peer:
    file: dict[str, Any] = {**about["file"], "text": tuple(about["file"].get("text", ()))}
    columns = {task: each["columns"] for each in about["scores"] for task in each["tasks"]}
    return Peer(DataFile(**file), about["table"], columns, about.get("rows", ""))


_READ = tomllib.loads((files("trainless.bench.tables") / "peers.toml").read_text("utf-8"))
PEERS: Mapping[str, Peer] = MappingProxyType({name: _peer(about) for name, about in _READ.items()})


def load(name: str, task: str) -> pd.DataFrame:
    """The published scores of one task; see ``trainless.bench.tables.peer_scores``."""
    import pandas as pd

    if name not in PEERS:
        raise UnknownName(f"no published scores are called {name!r}; there are: {', '.join(PEERS)}")
    peer = PEERS[name]
    if task not in peer.columns:
        raise UnknownName(f"the scores {name!r} have no task {task!r}; there are: {', '.join(peer.tasks)}")
    columns = columns_of(peer.file)
    chosen = np.full(len(columns), True)
    if peer.rows:
        chosen = np.array([value == task for value in columns.strings(peer.rows)])
    return pd.DataFrame(
        {proxy: columns.floats(column)[chosen] for proxy, column in peer.columns[task].items()},
        index=pd.Index(np.array(_archs(peer, columns), object)[chosen], name="arch"),
    )


def _archs(peer: Peer, columns: FileColumns) -> list[str]:
    """The archs of a peer's rows in the space's notation (a NAS-Bench-NLP cell by its number)."""
    if peer.table == "nb101":
        return list(map(notation, columns.strings("adjacency"), columns.strings("operations")))
    if peer.table == "nbnlp":
        return list(columns.strings("recepie_id"))
    archs = columns_of(MAIN).strings("arch_str")
    return [archs[int(index)] for index in columns.floats("arch_index")]
