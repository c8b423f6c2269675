"""Files by class in folders, or named by a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trainless.core.errors import InputError
from trainless.tasks import task
from trainless.tasks.images import pixels


def scans(root: Path, table: str = "labels.csv", head: str = "path,label,patient", count: int = 40) -> Path:
    (root / "scans").mkdir(parents=True, exist_ok=True)
    lines = [head]
    for place in range(count):
        image = np.full((10, 8), place, np.uint8)
        image[0, 0] = 255
        Image.fromarray(image).save(root / "scans" / f"{place:02}.png")
        lines.append(f"scans/{place:02}.png,{'sick' if place // 2 % 2 else 'well'},{place // 2}")
    (root / table).write_text("\n".join(lines))
    return root / table


@pytest.mark.parametrize("given", ["table", "folder"])
def test_a_manifest_names_images_labels_and_patients(given: str, tmp_path: Path) -> None:
    path = scans(tmp_path / "study")
    made = task(path if given == "table" else path.parent)
    assert (made.name, made.input_shape, made.target.names) == ("study", (1, 10, 8), ("sick", "well"))
    seen = []
    for part in (made.part("train"), made.part("valid"), made.part("test")):
        assert part.names is not None
        assert part.groups is not None
        for row, y, name, group in zip(np.asarray(part.x), part.y, part.names, part.groups, strict=True):
            number = int(row[0, 5, 5])
            assert (name, group) == (f"scans/{number:02}.png", number // 2)
            assert made.target.names[y] == ("sick" if number // 2 % 2 else "well")
        seen.append(set(part.groups.tolist()))
    assert sum(map(len, seen)) == len(set.union(*seen)) == 20


def test_columns_are_named_by_hand_and_a_split_is_kept(tmp_path: Path) -> None:
    path = scans(tmp_path, head="file,diagnosis,who")
    lines = path.read_text().splitlines()
    split = ["split", *(("train", "train", "val", "test")[place // 2 % 4 if place < 36 else 0] for place in range(40))]
    path.write_text("\n".join(f"{line},{word}" for line, word in zip(lines, split, strict=True)))
    made = task(path, label="diagnosis", group="who")
    assert [len(made.part(part)) for part in ("train", "valid", "test")] == [24, 8, 8]
    path.write_text(path.read_text().replace(",val", ",later"))
    with pytest.raises(InputError, match="has the column split with 'later'; expected train, valid and test there"):
        task(path, label="diagnosis", group="who")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("../outside.png,well,1", r"names '../outside.png', which is outside"),
        ("scans/77.png,well,1", r"names 'scans/77.png', but .* has no such file"),
        ("labels.csv,well,1", r"names 'labels.csv', which is not one of the images"),
    ],
)
def test_a_manifest_that_does_not_fit(line: str, message: str, tmp_path: Path) -> None:
    path = scans(tmp_path)
    path.write_text(path.read_text() + "\n" + line)
    (tmp_path.parent / "outside.png").write_bytes((tmp_path / "scans" / "00.png").read_bytes())
    with pytest.raises(InputError, match=message):
        task(path)


def test_a_manifest_of_unknown_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("file,label\nx.xyz,1\ny.xyz,0\n")
    with pytest.raises(InputError, match=r"a.csv names 'x.xyz', which is not there or none of: NIfTI volumes"):
        task(tmp_path / "a.csv")


def test_several_tables_ask_for_one(tmp_path: Path) -> None:
    scans(tmp_path)
    scans(tmp_path, "other.csv", count=30)
    with pytest.raises(InputError, match=r"has 2 CSV tables; expected one .*choose with --labels"):
        task(tmp_path)
    assert sum(len(task(tmp_path, labels="other.csv").part(p)) for p in ("train", "valid", "test")) == 30
    with pytest.raises(InputError, match=r"labels='x.csv' was given, but .* has no such file"):
        task(tmp_path, labels="../x.csv")


def test_images_lie_as_they_are_meant_to_be_seen(tmp_path: Path) -> None:
    image = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(6, 8))
    exif = Image.Exif()
    exif[274] = 6  # to be turned by a quarter to the right
    image.save(tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(pixels(tmp_path / "a.png", "L", (8, 6)), np.rot90(np.asarray(image), -1))


def test_several_frames_are_refused(tmp_path: Path) -> None:
    for label in "ab":
        (tmp_path / label).mkdir()
        for place in range(6):
            frames = [Image.fromarray(np.full((8, 8), value, np.uint8)) for value in (place, 100)]
            frames[0].save(tmp_path / label / f"{place}.tif", save_all=True, append_images=frames[1:])
    with pytest.raises(InputError, match=r"image 0.tif has 2 frames; expected one"):
        task(tmp_path)
