"""Our scores beside those that another program published for the same networks: is it the measure or the run?"""

from __future__ import annotations

import numpy as np

from trainless.bench.correlation import spearman
from trainless.bench.score_library import Evidence, Missing, truth
from trainless.bench.sheet import Sheet, Value
from trainless.bench.tables.peers import PEERS
from trainless.bench.weighted_order import sample_of
from trainless.core.types import Floats

PEER, TABLE = "suite-zero", "nb201"
TITLE = "Suite-Zero's published scores beside ours, network by network"
COLUMNS = ("proxy", "task", "networks", "theirs", "ours", "between")
MEANING = (
    "Spearman's ρ with test accuracy of their scores and of ours on the networks that have both, and between the two."
    " Where both programs agree and a paper's figure lies elsewhere, the paper's networks, accuracies or settings were"
    " others."
)


def beside_peers(evidence: Evidence) -> Sheet:
    """Each proxy that both have, on each task that the other has."""
    rows = []
    for task, columns in PEERS[PEER].columns.items():
        accuracy = truth(evidence.table(TABLE), task, "test")
        for proxy in columns:
            try:
                theirs = evidence.peers(PEER, task, proxy, TABLE).values[0]
                ours = evidence.ours(TABLE, proxy).values.mean(axis=0)
            except Missing:
                continue
            rows.append(_row(proxy, task, theirs, ours, accuracy))
    return Sheet(TITLE, COLUMNS, tuple(rows), notes=(MEANING,))


def _row(proxy: str, task: str, theirs: Floats, ours: Floats, accuracy: Floats) -> tuple[Value, ...]:
    both = np.isfinite(theirs) & np.isfinite(ours) & np.isfinite(accuracy)
    found = ((theirs, accuracy), (ours, accuracy), (theirs, ours))
    return (proxy, task, int(both.sum()), *(float(spearman(sample_of(a[both], b[both]))[0]) for a, b in found))
