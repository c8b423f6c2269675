"""Files: complete or absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainless.core.errors import InputError
from trainless.core.files import write_atomic


def test_replacing_leaves_nothing_beside(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a.csv", "1\n")
    write_atomic(tmp_path / "a.csv", "2\n")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    assert (tmp_path / "a.csv").read_text() == "2\n"
    with pytest.raises(InputError, match="cannot be written"):
        write_atomic(tmp_path / "a.csv" / "b.csv", "")
