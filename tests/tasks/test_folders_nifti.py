from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from trainless.core.errors import InputError
from trainless.tasks import task

nibabel = pytest.importorskip("nibabel")


def volumes(root: Path, n: int = 16, shape: tuple[int, ...] = (8, 9, 10), table: str = "file,label,patient") -> None:
    lines = [table]
    for i in range(n):
        values = np.full(shape, i, np.float32) + np.arange(shape[0], dtype=np.float32).reshape(
            -1, *[1] * (len(shape) - 1)
        )
        nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), root / f"v{i}.nii.gz")
        lines.append(f"v{i}.nii.gz,{'sick' if i % 2 else 'well'},{i // 2}")
    (root / "labels.csv").write_text("\n".join(lines))


def test_volumes_with_a_table(tmp_path: Path) -> None:
    volumes(tmp_path)
    made = task(tmp_path)
    assert (made.input_shape, made.target.names) == ((1, 8, 9, 10), ("sick", "well"))
    for part in (made.train, made.valid, made.test):
        assert part is not None
        first = part.x[:][:, 0, 0, 0, 0].astype(int)  # the volume's number, by construction
        assert [made.target.names[y] for y in part.y] == ["sick" if i % 2 else "well" for i in first]
        assert part.groups is not None
        assert part.groups.tolist() == (first // 2).tolist()


def test_channels_are_the_fourth_axis(tmp_path: Path) -> None:
    volumes(tmp_path, shape=(8, 9, 10, 2))
    assert task(tmp_path).input_shape == (2, 8, 9, 10)


def test_different_sizes_offer_a_size(tmp_path: Path) -> None:
    volumes(tmp_path)
    nibabel.save(nibabel.Nifti1Image(np.zeros((8, 9, 12), np.float32), np.eye(4)), tmp_path / "v3.nii.gz")
    with pytest.raises(InputError, match=r"different sizes \(v0.nii.gz 8x9x10, v3.nii.gz 8x9x12\).*--size 8"):
        task(tmp_path)
    assert task(tmp_path, size=8).input_shape == (1, 8, 8, 8)


@pytest.mark.parametrize("name", ["../secret.nii.gz", "{root}/secret.nii.gz"])
def test_paths_stay_inside_the_folder(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    volumes(inside)
    (tmp_path / "secret.nii.gz").write_bytes(b"")
    (inside / "labels.csv").write_text("file,label\n" + name.format(root=tmp_path) + ",1\nv0.nii.gz,0")
    with pytest.raises(InputError, match=r"which is outside in: expected files inside it"):
        task(inside)


def test_bad_tables_and_files(tmp_path: Path) -> None:
    volumes(tmp_path, table="scan,outcome,patient")
    with pytest.raises(InputError, match=r"labels.csv has the columns scan, outcome, patient; expected file, label"):
        task(tmp_path)
    (tmp_path / "labels.csv").write_text("file,label\nnothing.nii,1\nv0.nii.gz,0")
    with pytest.raises(InputError, match=r"names 'nothing.nii', but .* has no such file"):
        task(tmp_path)
    (tmp_path / "broken.nii").write_bytes(b"broken")
    (tmp_path / "labels.csv").write_text("file,label\nbroken.nii,1\nv0.nii.gz,0")
    with pytest.raises(InputError, match=r"broken.nii cannot be read as a NIfTI volume"):
        task(tmp_path)
    (tmp_path / "more.csv").write_text("file,label\n")
    with pytest.raises(InputError, match=r"has 2 CSV tables; expected one .*choose with --labels"):
        task(tmp_path)


def test_without_nibabel_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    volumes(tmp_path)
    monkeypatch.setitem(sys.modules, "nibabel", None)
    with pytest.raises(InputError, match=r"needs nibabel: pip install 'trainless\[medical\]'"):
        task(tmp_path)
