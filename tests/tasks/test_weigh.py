"""Files are weighed before they are read."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from trainless.core import processes
from trainless.core.errors import InputError
from trainless.tasks import task, weigh
from trainless.tasks.table import read_table


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.ts")
    with pytest.raises(InputError, match=r"a.ts is no regular file"):
        task(tmp_path / "a.ts")


def test_a_bomb_is_counted_and_no_further_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.ts.gz"
    path.write_bytes(gzip.compress(b"0," * 2**24))
    assert path.stat().st_size < 2**16
    assert weigh.unpacked_size(path, 2**22) <= 2**22 + weigh.PIECE
    assert weigh.unpacked_size(path, 2**30) == 2**25
    monkeypatch.setattr(weigh, "physical_memory", lambda: 2**26)
    with pytest.raises(InputError, match=r"a.ts.gz has more than 0.0 GB of text, which takes about 10 times"):
        task(path)


def test_an_endless_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weigh, "LONGEST", 1000)
    (tmp_path / "a.ts").write_text("@data\n" + "1," * 2000)
    with pytest.raises(InputError, match=r"line 2 of a.ts is longer than 1,000 bytes"):
        task(tmp_path / "a.ts")


@pytest.mark.parametrize("kind", ["str", "category"])
def test_a_parquet_table_is_weighed_by_the_texts_that_it_has_but_once(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    path, rows = tmp_path / "a.parquet", 5000
    text = pd.Series(["x" * 1000] * rows, dtype=kind)
    pd.DataFrame({"a": text, "label": np.arange(rows) % 2}).to_parquet(path)
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(processes, "physical_memory", lambda: 2 * rows * 1000)
    with pytest.raises(InputError, match=r"a.parquet would take 0.0 GB, but this machine has 0.0 GB: give a smaller"):
        task(path)
    monkeypatch.setattr(processes, "physical_memory", lambda: 10 * rows * 1000)
    assert len(read_table(path)) == rows
