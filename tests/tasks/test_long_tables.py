"""Long tables: one row per moment."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.tasks.test_new import stripped
from trainless.core.errors import InputError
from trainless.tasks import task
from trainless.tasks.new import read_new


def long_table(lengths: list[int], step: float = 0.5) -> pd.DataFrame:
    random = np.random.default_rng(0)
    pieces = [
        pd.DataFrame(
            {
                "patient": place // 2,
                "recording": f"r{place}",
                "t": step * np.arange(length),
                "lead_i": random.normal(size=length).round(3),
                "lead_ii": 10.0 * place + np.arange(length),
                "rhythm": "af" if place // 2 % 2 else "sinus",
            }
        )
        for place, length in enumerate(lengths)
    ]
    return pd.concat(pieces).sample(frac=1, random_state=0)  # in no order


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "parquet"])
def test_moments_become_recordings_in_order_of_time(ending: str, tmp_path: Path) -> None:
    table, path = long_table([20] * 40), tmp_path / f"a.{ending}"
    if ending == "parquet":
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, index=False, sep="\t" if "tsv" in ending else ",")
    made = task(path, label="rhythm", time_column="t")
    assert (made.input_shape, made.target.names) == ((2, 20), ("af", "sinus"))
    for part in (made.part("train"), made.part("valid"), made.part("test")):
        assert part.names is not None
        assert part.groups is not None
        for row, name, group in zip(np.asarray(part.x), part.names, part.groups, strict=True):
            np.testing.assert_array_equal(row[1], 10 * int(name[1:]) + np.arange(20))
            assert group == int(name[1:]) // 2
    assert not set(made.part("train").groups.tolist()) & set(made.part("test").groups.tolist())  # type: ignore[union-attr]
    new = read_new(path, stripped(made))
    assert sorted(map(str, new.names)) == sorted(f"r{place}" for place in range(40))
    assert sorted(row.tobytes() for row in new.x) == sorted(
        row.tobytes()
        for part in ("train", "valid", "test")
        for row in np.asarray(made.part(part).x)  # type: ignore[arg-type]
    )


def test_different_lengths_uneven_steps_and_missing_values(tmp_path: Path) -> None:
    table = long_table([20] * 20 + [50] * 20)
    table = table[(table["recording"] != "r1") | (table["t"] != 2.0)]  # a moment is missing
    table.loc[(table["recording"] == "r2") & (table["t"] == 3.0), "lead_ii"] = np.nan
    table.to_csv(tmp_path / "a.csv", index=False)
    made = task(tmp_path / "a.csv", label="rhythm", time_column="t", record="recording", group="patient")
    assert sum(made.part(part).cases for part in ("train", "valid", "test")) == 40
    assert any("1 recordings have uneven steps of time and were interpolated at steps of 0.5" in n for n in made.notes)
    assert "1 missing values were filled in linearly" in made.notes
    own = made.input_shape[1]
    for part in (made.part("train"), made.part("valid"), made.part("test")):
        for row, name in zip(np.asarray(part.x), part.names, strict=True):  # type: ignore[arg-type]
            if name in ("r1", "r2"):
                np.testing.assert_allclose(row[1], 10 * int(name[1:]) + np.arange(own) % 20, atol=1e-5)


def test_dates_are_times(tmp_path: Path) -> None:
    table = long_table([20] * 40)
    table["t"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(table["t"], unit="s")
    table.to_csv(tmp_path / "a.csv", index=False)
    made = task(tmp_path / "a.csv", label="rhythm", time_column="t")
    assert (made.input_shape, made.source.step) == ((2, 20), pytest.approx(0.5))


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda t: t, {"time_column": "when"}, "a.csv has no time column 'when'; it has patient, recording"),
        (lambda t: t.assign(t="soon"), {}, "times that are neither numbers nor dates as 2026-01-31, but 'soon'"),
        (lambda t: t.assign(t=1.0), {}, "two rows of one recording at the same time 1"),
        (lambda t: t.assign(t=np.nan), {}, "a.csv has 800 rows without a time"),
        (
            lambda t: t.assign(rhythm=np.where(t["t"] > 3, "af", "x")),
            {},
            "several values of 'rhythm' .*expected one",
        ),
        (lambda t: t.assign(lead_i="high"), {}, "columns that are not numbers: lead_i"),
        (lambda t: t.assign(lead_i=np.nan), {}, "recording r.* of a.csv has a channel without a single value"),
        (lambda t: t.drop(columns=["lead_i", "lead_ii"]), {}, "has no values beside t, rhythm, recording"),
        (
            lambda t: t.drop(columns=["recording", "patient"]),
            {},
            "which recording a row is of: --record",
        ),
        (lambda t: t.rename(columns={"rhythm": "z"}), {"label": ""}, "expected one called label, target, class, y"),
    ],
)
def test_bad_long_tables(change, options: dict[str, str], message: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    change(long_table([20] * 40)).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(InputError, match=message) as found:
        task(tmp_path / "a.csv", **{"label": "rhythm", "time_column": "t", **options})
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("keep", [0, 4, 100, -4])
def test_a_truncated_parquet_table_is_one_sentence(keep: int, tmp_path: Path) -> None:
    long_table([20] * 4).to_parquet(tmp_path / "whole.parquet")
    (tmp_path / "a.parquet").write_bytes((tmp_path / "whole.parquet").read_bytes()[:keep])
    with pytest.raises(InputError, match=r"a.parquet (is empty|cannot be read as a table)"):
        task(tmp_path / "a.parquet")
