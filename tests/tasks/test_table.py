from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trainless.core.errors import InputError
from trainless.tasks import task
from trainless.tasks.table import read_table

X = np.random.default_rng(0).normal(size=(60, 20))
Y = np.arange(60) % 3


def csv(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]))
    return path


def rows(tail: str = "") -> list[str]:
    return [",".join(f"{value:.4f}" for value in X[i, :8]) + f",{'NAO'[Y[i]]}{tail.format(i // 4)}" for i in range(60)]


HEADER = ",".join(f"t{i}" for i in range(8))


def test_csv_with_a_label_column(tmp_path: Path) -> None:
    made = task(csv(tmp_path / "ecg.csv", HEADER + ",label", rows()))
    assert (made.name, made.input_shape, made.target.names) == ("ecg", (1, 8), ("A", "N", "O"))
    named = task(csv(tmp_path / "b.csv", HEADER + ",rhythm", rows()), label="rhythm")
    assert named.fingerprint == made.fingerprint


def test_csv_groups_named_or_found(tmp_path: Path) -> None:
    named = task(csv(tmp_path / "a.csv", HEADER + ",class,ward", rows(",{}")), group="ward")
    found = task(csv(tmp_path / "b.csv", HEADER + ",class,patient", rows(",{}")))
    assert named.input_shape == found.input_shape == (1, 8)
    assert "column 'patient' was read as the group: it is never split" in found.notes
    assert not set(found.part("train").groups) & set(found.part("test").groups)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("header", "lines", "options", "message"),
    [
        (HEADER + ",foo", rows(), {}, "a.csv has the columns t0, .*; expected one called label, target, class, y"),
        (HEADER + ",label", rows(), {"label": "bar"}, "a.csv has no label column 'bar'"),
        (HEADER + ",label", rows(), {"group": "bar"}, "a.csv has no group column 'bar'"),
        (HEADER + ",label,word", rows(",w{}"), {}, "columns that are not numbers: word"),
        (
            HEADER + ",label",
            ["1,2,3,4,5,6,7,,N", *rows()],
            {},
            "a.csv has 1 cell without a value, the first in row 2, column 't7'",
        ),
        (HEADER + ",label", [*rows(), "1,2,3,4,5,6,7,8,"], {}, "a.csv has 1 row without a label, the first is row 62"),
        (HEADER + ",label,patient", [*rows(",{}"), "1,2,3,4,5,6,7,8,N,"], {}, "a.csv has 1 row without a group"),
        (HEADER + ",label", [], {}, "a.csv has no rows"),
        ("", [], {}, "a.csv is empty|a.csv cannot be read as a table"),
        (HEADER + ",label", ["1,2", '"3'], {}, "a.csv cannot be read as a table"),
        (
            HEADER + ",label",
            rows(),
            {"table": 4},
            "a.csv has no option 'table'; it has: channels, classes, dims",
        ),
        (HEADER + ",label", rows(), {"record": "t0"}, "record='t0' was given for a.csv without time_column: give both"),
        (
            "1,2,3",
            ["4,5,6"],
            {},
            "a.csv begins with 1, 2, 3, which looks like a case; expected a first line that names the columns",
        ),
    ],
)
def test_bad_tables(tmp_path: Path, header: str, lines: list[str], options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        task(csv(tmp_path / "a.csv", header, lines), **options)
    assert "\n" not in str(caught.value)


def test_a_header_of_repeated_names_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "deep.csv"
    path.write_text("a," * 200_000 + "\n1,1,1,\n")
    with pytest.raises(InputError, match=r"deep.csv has 200,001 columns, more than 20,000"):
        read_table(path)


@pytest.mark.parametrize("sign", [",", "."])
def test_semicolons_of_spreadsheets_where_the_decimal_sign_is_a_comma(tmp_path: Path, sign: str) -> None:
    lines = [f"{('well', 'ill')[n % 2]};{n}{sign}5;p{n // 2}" for n in range(40)]
    (tmp_path / "t.csv").write_text("\ufeff" + "\n".join(["diagnosis;age;patient", *lines]))
    made = task(tmp_path / "t.csv", label="diagnosis")
    assert made.target.names == ("ill", "well")
    parts = [part for part in (made.train, made.valid, made.test) if part is not None]
    assert sorted(float(row[0]) for part in parts for row in part.x[:].reshape(-1, 1)) == [n + 0.5 for n in range(40)]
    assert all(part.groups is not None for part in parts)


def test_two_decimal_signs_are_refused(tmp_path: Path) -> None:
    lines = [f"{n % 2};{n},5;{n}.5" for n in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["label;age;dose", *lines]))
    with pytest.raises(InputError, match=r"t.csv has numbers with a comma \(age\) and with a point \(dose\)"):
        task(tmp_path / "t.csv")
