"""Rows that are measurements side by side, and rows that are signals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trainless.core.errors import InputError
from trainless.tasks import task
from trainless.tasks.drawing import in_text, sheet
from trainless.tasks.look import look_at
from trainless.tasks.new import read_new

RANDOM = np.random.default_rng(0)
SCALES = 10.0 ** np.array([3, -2, 0, 4, -1, 2, 1, -3, 0, 3])


def table(path: Path, n: int = 60) -> np.ndarray:
    x = RANDOM.normal(size=(n, 10)) * SCALES + 5 * SCALES
    names = "age,height,ratio,income,share,weight,count,dose,score,pressure,label"
    np.savetxt(path, np.column_stack([x, np.arange(n) % 2]), delimiter=",", header=names, comments="", fmt="%.9g")
    return x


def test_every_column_of_a_table_has_its_own_scale(tmp_path: Path) -> None:
    x = table(tmp_path / "patients.csv")
    made = task(str(tmp_path / "patients.csv"))
    assert made.input_shape == (10,)
    assert any("measurements side by side; --dims 1" in note for note in made.notes)
    seen = made.tensors("train")[0]
    np.testing.assert_allclose(seen.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(seen.std(0, correction=0), 1, atol=1e-4)
    np.testing.assert_allclose(read_new(tmp_path / "patients.csv", made).x, x, rtol=1e-6)


def test_a_signal_stays_one_and_either_can_be_asked_for(tmp_path: Path) -> None:
    waves = np.sin(np.arange(30) / 4 + RANDOM.normal(size=(40, 1)))
    y = np.arange(40) % 2
    assert task((waves, y)).input_shape == (1, 30)
    assert task((waves, y), channels="first").input_shape == (30,)
    table(tmp_path / "t.csv")
    assert task(str(tmp_path / "t.csv"), dims=1).input_shape == (1, 10)
    with pytest.raises(InputError, match="does not fit"):
        task((waves, y), dims=2)


def test_a_look_at_a_table(tmp_path: Path) -> None:
    """A single value never varies within itself, so that no row is called constant; examples are their first values."""
    x = table(tmp_path / "patients.csv")
    found = look_at(task(str(tmp_path / "patients.csv")), labels=False)
    assert found.input_shape == (10,)
    assert found.constant == ()
    assert in_text(x[0]) == ["  ".join(f"{value:.4g}" for value in x[0])]
    assert sheet({"a": [x[0], x[1]]}).size[0] > 600  # two lines side by side
