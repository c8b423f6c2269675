"""Whatever data are broken on purpose: one sentence, at once."""

from __future__ import annotations

import gzip
import os
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tasks.test_new import stripped
from trainless.core.errors import InputError
from trainless.tasks import task
from trainless.tasks.new import read_new

RANDOM = np.random.default_rng(0)
ENDINGS = ["npz", "npy", "csv", "tsv", "csv.gz", "parquet", "ts", "ts.gz", "txt", "tokens"]


def valid(path: Path) -> Path:
    """A small file of each kind that is read."""
    x, y = RANDOM.normal(size=(30, 6)).astype(np.float32), np.arange(30) % 2
    kind = path.name.split(".", 1)[1]
    if kind == "npz":
        np.savez_compressed(path, x=x, y=y)
    elif kind == "npy":
        np.save(path, np.column_stack([x, y]))
    elif kind == "parquet":
        import pandas as pd

        pd.DataFrame(x).rename(columns=str).assign(label=y).to_parquet(path)
    elif "ts" in kind.split(".") and "tsv" not in kind:
        rows = "\n".join(",".join(map(str, row)) + f":{label}" for row, label in zip(x, y, strict=True))
        path.write_bytes(_packed(f"@classLabel true 0 1\n@data\n{rows}", path))
    elif kind in ("txt", "tokens"):
        path.write_text("a b c d e f g\n" * 300)
    else:
        sign = "\t" if "tsv" in kind else ","
        rows = "\n".join(sign.join(map(str, [*row, label])) for row, label in zip(x, y, strict=True))
        path.write_bytes(_packed(sign.join([*"abcdef", "label"]) + "\n" + rows, path))
    return path


def _packed(text: str, path: Path) -> bytes:
    return gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode()


@pytest.mark.parametrize("ending", ENDINGS)
def test_pipes_empty_files_and_folders_with_an_ending(ending: str, tmp_path: Path) -> None:
    made = stripped(task((RANDOM.normal(size=(30, 6)), np.arange(30) % 2)))
    path = tmp_path / f"a.{ending}"
    os.mkfifo(path)
    for read in (task, lambda place: read_new(place, made)):
        with pytest.raises(InputError, match=r"is no regular file|is of a kind that cannot be read"):
            read(path)
    path.unlink()
    path.touch()
    with pytest.raises(InputError, match="is empty"):
        task(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="holds nothing that a loader reads"):
        task(path)


@pytest.mark.parametrize("ending", ENDINGS)
def test_changed_and_missing_bytes_never_end_in_anything_but_a_sentence(ending: str, tmp_path: Path) -> None:
    path = valid(tmp_path / f"a.{ending}")
    task(path)
    whole, said = path.read_bytes(), list[str]()
    for turn in range(60):
        raw = bytearray(whole)
        if turn % 3 == 0:
            raw = raw[: RANDOM.integers(1, len(raw))]
        else:
            for place in RANDOM.integers(0, len(raw), 4):
                raw[place] = RANDOM.integers(0, 256)
        path.write_bytes(raw)
        try:
            task(path)
        except InputError as error:
            said.append(str(error))
    assert said or ending in ("txt", "tokens")
    assert not any("\n" in line for line in said)


def test_an_encrypted_archive(tmp_path: Path) -> None:
    path = valid(tmp_path / "a.npz")
    raw = bytearray(path.read_bytes())
    for sign, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flag of every member
        at = raw.find(sign)
        while at >= 0:
            raw[at + place] |= 1
            at = raw.find(sign, at + 4)
    path.write_bytes(raw)
    with pytest.raises(InputError, match=r"a.npz cannot be read .*encrypted"):
        task(path)


def test_an_archive_that_declares_more_than_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    header = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (4000000000000,), }".ljust(
        117
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header + b"\n")
        archive.writestr("y.npy", header + b"\n")
    with pytest.raises(InputError, match=r"a.npz cannot be read"):
        task(path)


def test_a_row_of_very_many_fields_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(",".join(f"c{place}" for place in range(200_000)) + "\n" + "1," * 199_999 + "1\n")
    start = time.monotonic()
    with pytest.raises(InputError, match=r"a.csv has 200,000 columns, more than 20,000"):
        task(path)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("columns", ["a,b,label", "file,label", "t,record,v,label"])
def test_tables_with_odd_text(columns: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"time_column": "t"} if columns.startswith("t,") else {}
    for content in ('"', "\0\0\0", "=1+1,2,x", "\ufeff", '"a\nb",1,2', "1;2;3", "😀" * 50):
        (tmp_path / "a.csv").write_text(f"{columns}\n{content}\n{content}\n", encoding="utf-8")
        with pytest.raises(InputError) as found:
            task(tmp_path / "a.csv", **options)
        assert "\n" not in str(found.value)


def test_a_broken_volume_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where the values begin is no number: the library that reads it would print a line of its own."""
    import nibabel

    nibabel.save(nibabel.Nifti1Image(np.zeros((4, 4, 4), np.float32), np.eye(4)), tmp_path / "0.nii")
    content = bytearray((tmp_path / "0.nii").read_bytes())
    content[108:112] = np.float32(np.nan).tobytes()  # vox_offset
    (tmp_path / "0.nii").write_bytes(content)
    (tmp_path / "labels.csv").write_text("file,label\n0.nii,1\n")
    with pytest.raises(InputError, match="cannot be read as a NIfTI volume"):
        task(tmp_path)
    assert not caplog.records
