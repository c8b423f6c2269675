"""Files are weighed before they are read."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from trainless.core.errors import InputError
from trainless.tasks import task, weigh


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
