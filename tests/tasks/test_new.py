"""New inputs are read as the data of a task were: every sample of the data, read again, is the same."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainless.core.errors import InputError
from trainless.core.files import from_json, to_json
from trainless.core.task import InputFormat, Task
from trainless.tasks import task
from trainless.tasks.new import as_inputs, read_new

RANDOM = np.random.default_rng(0)


def stripped(made: Task) -> Task:
    """As it comes back from a run folder: without data, its source through JSON."""
    source = from_json(InputFormat, json.loads(json.dumps(to_json(made.source))))
    bare = replace(made, train=None, valid=None, test=None)
    return Task(**{**vars(bare), "source": source})


def same(x: Any, made: Task) -> bool:
    """Whether samples are those of all parts of a task, in any order."""
    parts = [part.x[:] for part in (made.train, made.valid, made.test) if part is not None]
    rows = sorted(np.asarray(row, np.float32).tobytes() for row in np.concatenate(parts))
    return rows == sorted(np.asarray(row, np.float32).tobytes() for row in x) and x.shape[1:] == made.input_shape


def images(folder: Path, shape: tuple[int, ...], dtype: Any = np.uint8, sizes: int = 1) -> Path:
    for label in ("a", "b"):
        (folder / label).mkdir(parents=True)
        for number in range(12):
            own = (shape[0] + number % sizes, *shape[1:])
            pixels = RANDOM.integers(0, np.iinfo(dtype).max, own).astype(dtype)
            Image.fromarray(pixels).save(folder / label / f"{number}.png")
    return folder


@pytest.mark.parametrize(
    ("shape", "dtype", "options"),
    [
        ((12, 14, 3), np.uint8, {}),
        ((12, 14), np.uint8, {}),
        ((9, 9), np.uint16, {}),
        ((12, 14, 3), np.uint8, {"size": "8x10"}),
        ((12, 14, 3), np.uint8, {"channels": "none"}),
    ],
)
def test_images_in_class_folders_flat_and_alone(
    shape: tuple[int, ...], dtype: Any, options: dict[str, Any], tmp_path: Path
) -> None:
    folder = images(tmp_path / "imgs", shape, dtype)
    made = task(str(folder), **options)
    new = read_new(folder, stripped(made))
    assert same(new.x, made)
    assert new.names == sorted(f"{label}/{number}.png" for label in "ab" for number in range(12))
    flat = read_new(folder / "b", stripped(made))
    assert np.array_equal(flat.x, new.x[12:])
    assert "3.png" in flat.names
    alone = read_new(folder / "b" / "3.png", stripped(made))
    assert alone.names == ["3.png"]
    assert np.array_equal(alone.x[0], new.x[list(new.names).index("b/3.png")])


def test_images_that_do_not_fit_are_one_line(tmp_path: Path) -> None:
    made = stripped(task(str(images(tmp_path / "imgs", (12, 14)))))
    cases = (
        ((13, 14), np.uint8, "image x.png is 13x14; the training images were 12x14"),
        ((12, 14), np.uint16, "more than 8 bits per pixel; the training images had 8 bits"),
    )
    for shape, dtype, words in cases:
        Image.fromarray(np.zeros(shape, dtype)).save(tmp_path / "x.png")
        with pytest.raises(InputError, match=words):
            read_new(tmp_path / "x.png", made)
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"table.csv holds a table .* but the run was made from images: give those"):
        read_new(tmp_path / "table.csv", made)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds none of NIfTI volumes, DICOM images"):
        read_new(tmp_path / "empty", made)
    (tmp_path / "imgs" / "a" / "out.png").symlink_to(tmp_path / "x.png")
    with pytest.raises(InputError, match="points outside imgs"):
        read_new(tmp_path / "imgs", made)
    resized = stripped(task(str(images(tmp_path / "many", (12, 14), sizes=3)), size=8))
    assert read_new(tmp_path / "many", resized).x.shape == (24, 1, 8, 8)


def table(path: Path, columns: list[str], rows: list[list[Any]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def test_tables_with_and_without_their_label_in_any_order(tmp_path: Path) -> None:
    values = RANDOM.normal(size=(30, 5)).round(4)
    names = [f"t{number}" for number in range(5)]
    rows = [["ab"[n % 2], f"p{n % 10}", *values[n]] for n in range(30)]
    made = task(str(table(tmp_path / "sig.csv", ["label", "patient", *names], rows)))
    bare = stripped(made)
    assert bare.input_shape == (1, 5)
    assert same(read_new(tmp_path / "sig.csv", bare).x, made)
    plain = read_new(table(tmp_path / "new.csv", names, values.tolist()), bare)
    assert np.array_equal(plain.x[:, 0], values.astype(np.float32))
    assert list(plain.names) == [f"row {number}" for number in range(2, 32)]
    back = read_new(table(tmp_path / "back.csv", names[::-1], values[:, ::-1].tolist()), bare)
    assert np.array_equal(back.x, plain.x)
    with pytest.raises(InputError, match=r"few.csv has no column 't4'; expected a header with all 5 columns"):
        read_new(table(tmp_path / "few.csv", names[:4], values[:, :4].tolist()), bare)
    with pytest.raises(InputError, match="columns that are not numbers: t0"):
        read_new(table(tmp_path / "words.csv", names, [["x", 1, 2, 3, 4]]), bare)
    with pytest.raises(InputError, match=r"gap.csv has 1 cell without a value, the first in row 2, column 't0'"):
        read_new(table(tmp_path / "gap.csv", names, [["", 1, 2, 3, 4]]), bare)


def test_arrays_with_channels_where_they_were(tmp_path: Path) -> None:
    x = RANDOM.normal(size=(30, 6, 6, 6)).astype(np.float32)
    made = task((x, np.arange(30) % 2), channels="last")
    np.savez(tmp_path / "new.npz", x=x)
    new = read_new(tmp_path / "new.npz", stripped(made))
    assert np.array_equal(new.x, np.moveaxis(x, -1, 1))  # a cube: the shape alone does not tell
    assert as_inputs(np.zeros((2, 8, 8, 3)), (3, 8, 8)).shape == (2, 3, 8, 8)
    with pytest.raises(InputError, match=r"expected \(N, 3, 8, 8\)"):
        as_inputs(np.zeros((2, 8, 8)), (3, 8, 8))


def test_an_array_whose_last_column_is_the_label(tmp_path: Path) -> None:
    rows = np.column_stack([RANDOM.normal(size=(30, 6)), np.arange(30) % 2]).astype(np.float32)
    np.save(tmp_path / "all.npy", rows)
    np.save(tmp_path / "new.npy", rows[:, :-1])
    made = task(str(tmp_path / "all.npy"))
    bare = stripped(made)
    assert same(read_new(tmp_path / "all.npy", bare).x, made)
    assert np.array_equal(read_new(tmp_path / "new.npy", bare).x[:, 0], rows[:, :-1])


@pytest.mark.parametrize("options", [{}, {"size": 4}])
@pytest.mark.parametrize("shape", [(5, 6, 7), (5, 6, 7, 2)])
def test_volumes(shape: tuple[int, ...], options: dict[str, Any], tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    folder = tmp_path / "scans"
    folder.mkdir()
    for number in range(12):
        scan = RANDOM.normal(size=shape).astype(np.float32)
        nibabel.Nifti1Image(scan, np.eye(4)).to_filename(folder / f"{number:02d}.nii.gz")
    table(folder / "labels.csv", ["file", "label"], [[f"{number:02d}.nii.gz", number % 2] for number in range(12)])
    made = task(str(folder), **options)
    bare = stripped(made)
    new = read_new(folder, bare)
    assert same(new.x, made)
    alone = read_new(folder / "03.nii.gz", bare)
    assert alone.names == ["03.nii.gz"]
    assert np.array_equal(alone.x[0], new.x[3])
    nibabel.Nifti1Image(np.zeros((3, 3, 3), np.float32), np.eye(4)).to_filename(tmp_path / "odd.nii")
    if not options:
        with pytest.raises(InputError, match=r"volume odd.nii is 3x3x3; the training volumes were 5x6x7"):
            read_new(tmp_path / "odd.nii", bare)


def test_what_is_not_there_or_not_known(tmp_path: Path) -> None:
    made = stripped(task("digits"))
    with pytest.raises(InputError, match=r"there is no file or folder none.npz: expected new inputs, such as new.npz"):
        read_new(Path("none.npz"), made)
    (tmp_path / "x.wav").write_bytes(b"")
    with pytest.raises(InputError, match=r"x.wav is of a kind that cannot be read; expected .npz"):
        read_new(tmp_path / "x.wav", made)
    with pytest.raises(InputError, match="a source of kind 'tape'"):
        from_json(InputFormat, {"kind": "tape", "columns": []})
