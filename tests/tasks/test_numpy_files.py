from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from trainless.core.errors import InputError
from trainless.core.task import Rows
from trainless.tasks import task

X = np.random.default_rng(0).normal(size=(60, 20))
Y = np.arange(60) % 3


def images(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, 255, (n, 10, 10, 3), dtype=np.uint8)


def test_npz_of_medmnist_keeps_its_split(tmp_path: Path) -> None:
    arrays = {f"{part}_images": images(n) for part, n in (("train", 30), ("val", 10), ("test", 12))}
    labels = {f"{part}_labels": (np.arange(n) % 2)[:, None] for part, n in (("train", 30), ("val", 10), ("test", 12))}
    np.savez(tmp_path / "mine.npz", **arrays, **labels)
    made = task(tmp_path / "mine.npz")
    assert (made.name, made.input_shape, made.target.kind) == ("mine", (3, 10, 10), "binary")
    np.testing.assert_array_equal(made.part("valid").x[:], np.moveaxis(arrays["val_images"], -1, 1))
    assert [len(made.part(part)) for part in ("train", "valid", "test")] == [30, 10, 12]  # type: ignore[arg-type]


def test_npz_of_x_and_y_with_groups_and_names(tmp_path: Path) -> None:
    groups = np.arange(60) // 5
    np.savez(tmp_path / "a.npz", x=X, y=Y, groups=groups, class_names=np.array(["a", "b", "c"]))
    made = task(str(tmp_path / "a.npz"), seed=3)
    assert made.target.names == ("a", "b", "c")
    assert made.part("train").groups is not None


def test_npz_without_a_validation_part_cuts_it_off_training(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=X, y_train=Y, x_test=X[:9] + 1, y_test=Y[:9])
    made = task(tmp_path / "a.npz")
    assert (len(made.part("train")), len(made.part("valid")), len(made.part("test"))) == (51, 9, 9)
    np.testing.assert_array_equal(made.part("test").x[:, 0], X[:9] + 1)


class Bomb:
    """What it would do if it were unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return (pytest.fail, ("the pickle was loaded",))


def test_pickles_are_refused_and_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([Bomb()] * 4, dtype=object), y=np.arange(4))
    np.save(tmp_path / "b.npy", np.array([Bomb()] * 4, dtype=object), allow_pickle=True)
    (tmp_path / "c.npz").write_bytes(pickle.dumps({"x": Bomb()}))
    for name in ("a.npz", "b.npy", "c.npz"):
        with pytest.raises(InputError, match=f"{name} holds pickled Python objects.*never loaded"):
            task(tmp_path / name)


def test_a_value_that_is_not_finite_is_told_by_file_and_sample(tmp_path: Path) -> None:
    x = X.astype(np.float32)
    x[17, 3] = np.nan
    np.savez(tmp_path / "mine.npz", x=x, y=Y)
    with pytest.raises(InputError, match=r"^mine.npz: 1 values are NaN or infinite, first in sample 17 \(counted"):
        task(tmp_path / "mine.npz")
    np.savez(tmp_path / "parts.npz", x_train=X, y_train=Y, x_test=x, y_test=Y)
    with pytest.raises(InputError, match=r"^parts.npz: 1 values of the test part are NaN .*first in sample 17"):
        task(tmp_path / "parts.npz")


def test_a_folder_without_a_name_is_named_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"the folder {tmp_path.name} holds nothing"):
        task(".")


def test_unreadable_archives(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "good.npz", x=X, y=Y)
    raw = (tmp_path / "good.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(raw[: len(raw) // 2])
    flipped = bytearray(raw)
    flipped[len(raw) // 3] ^= 0xFF
    (tmp_path / "flipped.npz").write_bytes(bytes(flipped))
    (tmp_path / "empty.npz").touch()
    (tmp_path / "noise.npz").write_bytes(bytes(range(7, 200)))
    np.savez(tmp_path / "other.npz", pictures=X)
    for name, message in {
        "cut.npz": "cut.npz cannot be read",
        "flipped.npz": "flipped.npz cannot be read",
        "empty.npz": "empty.npz is empty",
        "noise.npz": "noise.npz is not a readable .npz",
        "other.npz": "other.npz has the arrays pictures; expected train_images",
    }.items():
        with pytest.raises(InputError, match=message) as caught:
            task(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_splits_that_do_not_fit(tmp_path: Path) -> None:
    np.savez(tmp_path / "shape.npz", x_train=X, y_train=Y, x_test=X[:, :5], y_test=Y)
    np.savez(tmp_path / "class.npz", x_train=X, y_train=Y % 2, x_test=X, y_test=Y)
    leak = {"groups_train": np.arange(60), "groups_test": np.arange(59, 119)}
    np.savez(tmp_path / "leak.npz", x_train=X, y_train=Y, x_test=X, y_test=Y, **leak)
    with pytest.raises(InputError, match=r"\(20,\) in the train part and \(5,\) in test"):
        task(tmp_path / "shape.npz")
    with pytest.raises(InputError, match=r"class 2 has no sample in the training part"):
        task(tmp_path / "class.npz")
    with pytest.raises(InputError, match=r"group 59 is in the train and the test part, so it would leak"):
        task(tmp_path / "leak.npz")


def test_npy_is_mapped_and_equals_the_same_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    made = task(tmp_path / "x.npy", labels=tmp_path / "y.npy", seed=4)
    inputs = made.part("train").x
    assert isinstance(inputs, Rows)
    assert isinstance(inputs.source, np.memmap)
    same = task((X, Y), seed=4)
    assert made.fingerprint == same.fingerprint
    np.testing.assert_array_equal(made.batch(5, 0)[0], same.batch(5, 0)[0])


def test_npy_with_the_label_in_the_last_column(tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", np.column_stack([X, Y]))
    made = task(tmp_path / "table.npy")
    assert (made.input_shape, made.target.kind, made.target.outputs) == ((1, 20), "multiclass", 3)
    assert "the last column was read as the label" in made.notes


def test_npy_labels_and_groups_from_csv(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "y.csv").write_text("rhythm\n" + "\n".join("abc"[k] for k in Y))
    (tmp_path / "g.csv").write_text("who\n" + "\n".join(str(k // 4) for k in range(60)))
    made = task(tmp_path / "x.npy", labels=str(tmp_path / "y.csv"), groups=str(tmp_path / "g.csv"))
    assert made.target.names == ("a", "b", "c")
    assert made.part("test").groups is not None


def test_npy_without_labels(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", images(5))
    with pytest.raises(InputError, match=r"x.npy has shape .* and no labels: give --labels FILE"):
        task(tmp_path / "x.npy")
    with pytest.raises(InputError, match=r"there is no file .*nothing.csv"):
        task(tmp_path / "x.npy", labels=tmp_path / "nothing.csv")
    (tmp_path / "empty.npy").touch()
    with pytest.raises(InputError, match=r"empty.npy is empty"):
        task(tmp_path / "empty.npy")


def test_files_that_no_loader_reads(tmp_path: Path) -> None:
    (tmp_path / "a.pkl").write_bytes(b"")
    (tmp_path / "a.nii.gz").write_bytes(b"")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InputError, match=r"a.pkl is of a kind that no loader reads; expected .npz"):
        task(tmp_path / "a.pkl")
    with pytest.raises(InputError, match=r"is one case; give the folder"):
        task(tmp_path / "a.nii.gz")
    with pytest.raises(InputError, match=r"the folder nothing holds nothing that a loader reads"):
        task(tmp_path / "nothing")
