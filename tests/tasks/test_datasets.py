from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from trainless.core.checksums import FIRST, checksums, digest
from trainless.core.errors import InputError
from trainless.core.files import data_directory
from trainless.core.task import PartName, Task
from trainless.tasks import task

PARTS: tuple[PartName, ...] = ("train", "valid", "test")


def sizes(made: Task) -> list[int]:
    return [len(made.part(part)) for part in PARTS]


@pytest.mark.parametrize(
    ("name", "shape", "counts"),
    [
        ("breastmnist", (1, 28, 28), [546, 78, 156]),
        ("pneumoniamnist", (1, 28, 28), [4708, 524, 624]),
        ("adrenalmnist3d", (1, 28, 28, 28), [1188, 98, 298]),
        ("medmnist:breastmnist", (1, 28, 28), [546, 78, 156]),
    ],
)
def test_medmnist(data_dir: Path, name: str, shape: tuple[int, ...], counts: list[int]) -> None:
    made = task(name)
    assert (made.input_shape, sizes(made), made.target.kind) == (shape, counts, "binary")
    x, y = made.batch(4, seed=0)
    assert x.shape == (4, *shape)
    assert sorted(y.tolist()) == [0, 0, 1, 1]


def test_the_known_duplicates_are_noted(data_dir: Path) -> None:
    assert "the valid part has exact copies of training samples: 8" in task("pneumoniamnist").notes


@pytest.mark.slow
def test_cinc2017_is_split_by_record(data_dir: Path) -> None:
    made = task("cinc2017-windows")
    assert (made.input_shape, made.target.names) == ((1, 1000), ("N", "A", "O", "~"))
    records = [set(np.asarray(made.part(part).groups).tolist()) for part in PARTS]
    assert sum(map(len, records)) == len(set().union(*records)) == 1500
    raw = np.load(data_dir / "ecg2017" / "cinc2017_subset1500.npz", allow_pickle=False)
    lengths = np.diff(raw["offsets"])
    assert sum(sizes(made)) == int(((lengths - 1000) // 500 + 1).sum())
    truth = dict(zip(raw["records"].tolist(), raw["labels"].tolist(), strict=True))
    seen = [truth[record] for record in set().union(*records)]
    assert [seen.count(rhythm) for rhythm in "NAO~"] == [893, 133, 425, 49]
    test = made.part("test")
    assert all(truth[g] == made.target.names[y] for g, y in zip(np.asarray(test.groups).tolist(), test.y, strict=True))


def test_cinc2017_windows_are_the_records_own_samples(data_dir: Path) -> None:
    made = task("cinc2017-windows")
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0":  # older ones round means otherwise
        assert made.fingerprint == "222aaeee32d9beaf"  # that of the published study
    part = made.part("valid")
    raw = np.load(data_dir / "ecg2017" / "cinc2017_subset1500.npz", allow_pickle=False)
    first = str(np.asarray(part.groups)[0])
    start = raw["offsets"][raw["records"].tolist().index(first)]
    np.testing.assert_array_equal(part.x[:2][:, 0], np.stack([raw["signal"][start + k :][:1000] for k in (0, 500)]))


@pytest.mark.slow
def test_cinc2017_answers_by_recording(data_dir: Path) -> None:
    made = task("cinc2017")
    assert (made.input_shape, made.target.names) == ((1, 4500), ("N", "A", "O", "~"))
    assert [made.part(part).cases for part in PARTS] == [1050, 225, 225]
    windows = [task("cinc2017-windows").part(part) for part in PARTS]
    for part, other in zip(PARTS, windows, strict=True):
        assert set(np.asarray(made.part(part).names).tolist()) == set(np.asarray(other.groups).tolist())
    file = task(data_dir / "ecg2017" / "cinc2017_subset1500.npz")
    assert (file.input_shape, file.target.names) == ((1, 4500), ("A", "N", "O", "~"))
    assert task("cinc2017", window=1000).input_shape == (1, 1000)
    assert task("cinc2017", size=3000).source.resampling == (1, 3)


def test_cifar10_subset(data_dir: Path) -> None:
    made = task("cifar10")
    assert (made.input_shape, sum(sizes(made)), made.target.outputs) == ((3, 32, 32), 4000, 10)
    assert made.target.names[:2] == ("airplane", "automobile")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "breastmnist",
            r"MedMNIST's breastmnist is not in the data directory: get it from medmnist.com .*breastmnist.npz",
        ),
        ("medmnist:foomnist", "put foomnist.npz in .*medmnist"),
        ("cinc2017", "CinC 2017 ECG set is not in the data directory: get it from physionet.org .*training2017"),
        (
            "cifar10",
            "CIFAR-10 is not in .*: get it from www.cs.toronto.edu/~kriz/cifar.html .*cifar-10-batches-bin",
        ),
        (
            "imagenet",
            r"ImageNet-1k is not in .*: get it from image-net.org .*put its folder train, .* in .*imagenet",
        ),
        ("medmnist:../x", "expected a set's name such as medmnist:bloodmnist"),
    ],
)
def test_a_missing_set_says_where_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.setenv("TRAINLESS_DATA", str(tmp_path))
    with pytest.raises(InputError, match=message):
        task(name)


def test_the_data_directory_is_the_users_cache_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINLESS_DATA", raising=False)
    assert data_directory().parts[-2:] == ("trainless", "data")


def test_any_other_medmnist_file_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINLESS_DATA", str(tmp_path))
    (tmp_path / "medmnist").mkdir()
    random = np.random.default_rng(0)
    arrays = {f"{p}_images": random.integers(0, 255, (20, 28, 28, 3), dtype=np.uint8) for p in ("train", "val", "test")}
    labels = {f"{p}_labels": np.arange(20)[:, None] % 4 for p in ("train", "val", "test")}
    for name in ("bloodmnist", "mymnist"):
        np.savez(tmp_path / "medmnist" / f"{name}.npz", **arrays, **labels)
        made = task(name)
        assert (made.name, made.input_shape, sizes(made)) == (name, (3, 28, 28), [20, 20, 20])
    many = {f"{p}_labels": random.integers(0, 2, (20, 14)) for p in ("train", "val", "test")}
    np.savez(tmp_path / "medmnist" / "chestmnist.npz", **arrays, **many)
    with pytest.raises(InputError, match="multi-label"):
        task("chestmnist")
    assert task("chestmnist", label=3).target.kind == "binary"


def test_nodulemnist3d_that_is_not_the_official_file_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINLESS_DATA", str(tmp_path))
    file = tmp_path / "medmnist" / "nodulemnist3d.npz"
    file.parent.mkdir()
    random = np.random.default_rng(0)
    volumes = {
        f"{p}_images": random.integers(0, 255, (8, 28, 28, 28), dtype=np.uint8) for p in ("train", "val", "test")
    }
    np.savez(file, **volumes, **{f"{p}_labels": np.arange(8)[:, None] % 2 for p in ("train", "val", "test")})
    made = task("nodulemnist3d")
    assert (made.input_shape, made.target.names) == ((1, 28, 28, 28), ("benign", "malignant"))
    found = hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
    assert made.notes == (f"nodulemnist3d.npz is not the official file: its MD5 checksum is {found}",)
    monkeypatch.setattr("trainless.tasks.datasets.MD5", {"nodulemnist3d": (found,)})
    assert task("nodulemnist3d").notes == ()


def test_a_sample_of_imagenet_is_read_from_folders_by_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINLESS_DATA", str(tmp_path))
    shades, random = {"n01440764": 60, "n01443537": 200}, np.random.default_rng(0)
    for part, count in (("train", 6), ("val", 2)):
        for name, shade in shades.items():
            folder = tmp_path / "imagenet" / part / name
            folder.mkdir(parents=True)
            for place in range(count):
                grey = random.integers(shade - 20, shade + 20, (5, 7 + place, 3)).astype(np.uint8)
                image = grey.repeat(8, axis=0).repeat(8, axis=1)
                image[:, :4] = 0  # what the crop leaves out
                Image.fromarray(image).save(folder / f"{name}_{place}.JPEG", quality=95)
    made = task("imagenet", per_class=5, size=28)
    assert (made.input_shape, sizes(made)[2], made.target.names) == ((3, 28, 28), 4, tuple(shades))
    assert made.notes == ("5 of each class", "2 of ImageNet's 1,000 classes")
    x, y = made.test.x[:], made.test.y
    for image, label in zip(x, y, strict=True):
        assert np.median(image) == pytest.approx(shades[made.target.names[label]], abs=15)
        assert image.min() > 20
    (tmp_path / "imagenet" / "val").rename(tmp_path / "imagenet" / "other")
    assert sum(sizes(task("imagenet", per_class=6, size=28))) == 12
    with pytest.raises(InputError, match="per_class=0 and size=224 were given; expected at least 1"):
        task("imagenet", per_class=0)
    for path in (tmp_path / "imagenet" / "train" / "n01440764").iterdir():
        path.unlink()
    with pytest.raises(InputError, match="imagenet/train/n01440764 has no images: unpack the archive"):
        task("imagenet")


def test_cinc2017_from_the_challenges_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINLESS_DATA", str(tmp_path))
    folder = tmp_path / "ecg2017" / "training2017"
    folder.mkdir(parents=True)
    lines = []
    for i in range(24):
        savemat(folder / f"A{i:05}.mat", {"val": (np.arange(2700) + i).astype(np.int16)[None]}, format="4")
        lines.append(f"A{i:05},{'NAO~'[i % 4]}")
    (folder / "REFERENCE.csv").write_text("\n".join(lines))
    made = task("cinc2017")
    assert (made.input_shape, sum(sizes(made))) == ((1, 2700), 24)
    assert sum(sizes(task("cinc2017-windows"))) == 24 * 4
    assert "24 of the challenge's 8,528 records" in made.notes
    assert checksums(tmp_path, FIRST)["ecg2017/training2017/REFERENCE.csv"] == digest(folder / "REFERENCE.csv")
    held = (folder / "REFERENCE.csv").read_text()
    (folder / "REFERENCE.csv").write_text(held.replace("A00001,A", "A00001,N"))
    with pytest.raises(InputError, match=r"REFERENCE.csv has the SHA-256 checksum .* what was first read here"):
        task("cinc2017")
    (folder / "REFERENCE.csv").write_text(held)
    (folder / "A00003.mat").unlink()
    with pytest.raises(InputError, match=r"record A00003.mat is missing or cannot be read"):
        task("cinc2017")


def test_cifar10_from_the_official_binary_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINLESS_DATA", str(tmp_path))
    folder = tmp_path / "cifar10" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
        rows = np.random.default_rng(len(name)).integers(0, 255, (40, 3073), dtype=np.uint8)
        rows[:, 0] = np.arange(40) % 10
        rows[:, 1 + 1024 : 1 + 2048] = 7  # green
        rows.tofile(folder / name)
    made = task("cifar10")
    assert (made.input_shape, len(made.part("test"))) == ((3, 32, 32), 40)
    assert set(np.unique(made.part("test").x[:][:, 1])) == {7}
    (folder / "test_batch.bin").write_bytes(b"123")
    with pytest.raises(InputError, match=r"test_batch.bin of CIFAR-10 is missing or incomplete"):
        task("cifar10")
