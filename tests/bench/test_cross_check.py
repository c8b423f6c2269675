from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from trainless.bench.cross_check import COLUMNS, beside_peers
from trainless.bench.score_library import Evidence


def test_theirs_is_what_their_file_says_and_sizes_agree(data_dir: Path) -> None:
    """By scipy, from the files themselves."""
    found = {(row[0], row[1]): dict(zip(COLUMNS, row, strict=True)) for row in beside_peers(Evidence()).rows}
    with gzip.open(data_dir / "nb201/nb201_all.csv.gz", "rt") as file:
        accuracy = {row["arch_str"]: row["ImageNet16-120_test_acc_200"] for row in csv.DictReader(file)}
    with gzip.open(data_dir / "nb201/nb201_zc_suite_zero_9445.csv.gz", "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["dataset"] == "ImageNet16-120"]
    truth = np.array([float(accuracy[row["arch_str"]]) for row in rows])
    for proxy in ("fisher", "snip"):
        expected = spearmanr([float(row[proxy]) for row in rows], truth).statistic
        line = found[proxy, "ImageNet16-120"]
        assert line["networks"] == 9445
        np.testing.assert_allclose(line["theirs"], expected, atol=1e-6)
    assert found["params", "cifar10"]["between"] > 0.999
    assert found["synflow", "cifar10"]["between"] > 0.999
