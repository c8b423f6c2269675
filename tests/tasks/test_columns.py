"""Columns of words in tables, and columns that are left out: the same in new tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.learn.members import task_from_json, task_to_json
from trainless.tasks import task
from trainless.tasks.columns import MOST_WORDS
from trainless.tasks.new import read_new

CASES = 60


def study(path: Path, **more: object) -> Path:
    """A clinical table: numbers, words, a patient, and what is in every table but no input."""
    random = np.random.default_rng(0)
    columns = {
        "patient": [f"p{n // 2:02d}" for n in range(CASES)],
        "sex": [("m", "f")[n % 2] for n in range(CASES)],
        "age": random.integers(30, 80, CASES),
        "ward": [("a", "b", "c")[n % 3] for n in range(CASES)],
        "visit": [f"2024-01-{n // 2 + 1:02d}" for n in range(CASES)],
        "diagnosis": [("well", "ill")[n % 2] for n in range(CASES)],
    }
    pd.DataFrame({**columns, **more}).to_csv(path, index=False)
    return path


def test_words_are_zeros_and_ones_here_and_in_new_tables(tmp_path: Path) -> None:
    path = study(tmp_path / "study.csv")
    made = task(path, label="diagnosis", ignore="visit", seed=3)
    assert made.input_shape == (5,)
    assert made.source.value_names == ("sex=m", "age", "ward=a", "ward=b", "ward=c")
    assert "column 'sex' was read as 1 for m and 0 for f" in made.notes
    assert "column 'ward' was read as 0 or 1 for each of a, b, c" in made.notes
    table = pd.read_csv(path)
    coded = np.stack(
        [table.sex == "m", table.age, table.ward == "a", table.ward == "b", table.ward == "c"], 1, dtype=np.float64
    )
    for part in (made.part("train"), made.part("valid"), made.part("test")):
        assert part.names is not None
        rows = [int(str(name).removeprefix("row ")) - 2 for name in part.names]  # the first row names the columns
        assert np.array_equal(np.asarray(part.x), coded[rows])
    kept = task_from_json(task_to_json(made))
    table[["ward", "age", "sex"]].iloc[[1, 4]].to_csv(tmp_path / "new.csv", index=False)  # in any order
    new = read_new(tmp_path / "new.csv", kept)
    assert np.array_equal(new.x, coded[[1, 4]])
    assert list(new.names) == ["row 2", "row 3"]


def test_a_new_word_is_refused(tmp_path: Path) -> None:
    made: Task = task(study(tmp_path / "study.csv"), label="diagnosis", ignore=("visit", "ward"))
    study(tmp_path / "new.csv", sex=["d"] * CASES)
    with pytest.raises(
        InputError, match=r"new.csv has 'd' in the column sex; expected one of f, m, as in the training"
    ):
        read_new(tmp_path / "new.csv", made)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"that are not numbers: visit \(in visit 30 different words, such as '2024-01-01'\); leave them out with"),
        ({}, rf"--ignore visit \(in Python ignore=…\), write them as numbers or as at most {MOST_WORDS} different"),
        ({"ignore": "visit,when"}, "study.csv has no column 'when' to ignore; it has patient, sex, age"),
        ({"ignore": "visit,diagnosis"}, "study.csv has no label column 'diagnosis'"),
    ],
)
def test_what_cannot_be_read_says_what_to_do(tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        task(study(tmp_path / "study.csv"), label="diagnosis", **options)


def test_a_long_table_leaves_columns_out_too(tmp_path: Path) -> None:
    rows = [
        {"record": f"r{r}", "t": t, "lead": float(t * r), "note": f"{r}-{t}", "label": r % 2}
        for r in range(20)
        for t in range(10)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "long.csv", index=False)
    made = task(tmp_path / "long.csv", time_column="t", ignore="note")
    assert made.source.columns == ("lead",)
