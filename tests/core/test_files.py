"""Files: complete or absent; dataclasses as JSON and back."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from trainless.core.errors import InputError
from trainless.core.files import from_json, to_json, write_atomic
from trainless.core.target import Target
from trainless.learn.calibration import ConformalSets


def test_replacing_leaves_nothing_beside(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a.csv", "1\n")
    write_atomic(tmp_path / "a.csv", "2\n")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    assert (tmp_path / "a.csv").read_text() == "2\n"
    with pytest.raises(InputError, match="cannot be written"):
        write_atomic(tmp_path / "a.csv" / "b.csv", "")


@pytest.mark.parametrize(
    "wrong",
    [3, {"kind": "binary", "outputs": "2"}, {"kind": "binary", "outputs": 2, "names": 3}, {"no": 1}, {"outputs": 2}],
)
def test_what_is_no_such_dataclass_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        from_json(Target, wrong)


def test_dataclasses_come_back_with_what_is_not_finite() -> None:
    sets = ConformalSets(0.9, (0.5, math.inf), 7, by_class=True)
    assert from_json(ConformalSets, json.loads(json.dumps(to_json(sets), allow_nan=False))) == sets
