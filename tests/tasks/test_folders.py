from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trainless.core.errors import InputError
from trainless.tasks import task

RANDOM = np.random.default_rng(0)


def save(path: Path, shape: tuple[int, ...], dtype: type = np.uint8) -> np.ndarray:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = RANDOM.integers(0, 250, shape).astype(dtype)
    Image.fromarray(pixels).save(path)
    return pixels


def folder(root: Path, shape: tuple[int, ...], n: int = 8, dtype: type = np.uint8) -> dict[str, np.ndarray]:
    return {f"{k}/{i}": save(root / k / f"{i}.png", shape, dtype) for k in ("cat", "dog") for i in range(n)}


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [((9, 12, 3), np.uint8, (3, 9, 12)), ((9, 12), np.uint8, (1, 9, 12)), ((9, 12), np.uint16, (1, 9, 12))],
)
def test_images_by_class(tmp_path: Path, shape: tuple[int, ...], dtype: type, expected: tuple[int, ...]) -> None:
    written = folder(tmp_path, shape, dtype=dtype)
    (tmp_path / "cat" / ".DS_Store").touch()
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    made = task(tmp_path)
    assert (made.input_shape, made.target.names, made.target.kind) == (expected, ("cat", "dog"), "binary")
    known = {
        (np.moveaxis(pixels, -1, 0) if pixels.ndim == 3 else pixels[None]).astype(float).tobytes(): name[:3]
        for name, pixels in written.items()
    }
    for part in (made.train, made.valid, made.test):
        assert part is not None
        for x, y in zip(part.x[:], part.y, strict=True):
            assert known[np.ascontiguousarray(x).astype(float).tobytes()] == made.target.names[y]


def test_folders_that_are_split_already(tmp_path: Path) -> None:
    for part, n in (("train", 6), ("val", 3), ("test", 4)):
        folder(tmp_path / part, (8, 8), n)
    made = task(tmp_path)
    assert [len(part or ()) for part in (made.train, made.valid, made.test)] == [12, 6, 8]
    assert made.target.names == ("cat", "dog")


def test_different_sizes_offer_a_size(tmp_path: Path) -> None:
    folder(tmp_path, (9, 9))
    save(tmp_path / "dog" / "big.png", (12, 20))
    with pytest.raises(InputError, match=r"different sizes \(0.png 9x9, big.png 12x20\): give one size .* --size 9"):
        task(tmp_path)
    assert task(tmp_path, size=16).input_shape == (1, 16, 16)
    assert task(tmp_path, size="8x12").input_shape == (1, 8, 12)


def test_grey_and_coloured_images_together_are_coloured(tmp_path: Path) -> None:
    folder(tmp_path, (9, 9))
    save(tmp_path / "dog" / "red.png", (9, 9, 3))
    assert task(tmp_path).input_shape == (3, 9, 9)


def test_depths_are_not_mixed(tmp_path: Path) -> None:
    """As 8 bits a pixel of 16 would be white."""
    folder(tmp_path, (9, 9, 3))
    save(tmp_path / "dog" / "x-ray.png", (9, 9), np.uint16)
    with pytest.raises(InputError, match=r"depths \(x-ray.png more than 8 bits per pixel, 0.png 8\).*save all"):
        task(tmp_path)


def test_broken_images_and_single_classes(tmp_path: Path) -> None:
    folder(tmp_path, (9, 9))
    (tmp_path / "dog" / "bad.png").write_bytes(b"not a picture")
    with pytest.raises(InputError, match=r"image dog/bad.png cannot be read"):
        task(tmp_path)
    raw = (tmp_path / "dog" / "0.png").read_bytes()
    (tmp_path / "dog" / "bad.png").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(InputError, match=r"image dog/bad.png cannot be read"):
        task(tmp_path)
    save(tmp_path / "one" / "only" / "a.png", (8, 8))
    with pytest.raises(InputError, match="images of 1 classes; expected at least two"):
        task(tmp_path / "one")


def test_a_class_whose_images_lie_deeper_is_not_left_out(tmp_path: Path) -> None:
    folder(tmp_path, (9, 9))
    save(tmp_path / "emu" / "patient 7" / "a.png", (9, 9))
    with pytest.raises(InputError, match=r"emu/patient 7/a.png lies deeper .* class: move images up .* patient"):
        task(tmp_path)


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    folder(tmp_path / "in", (9, 9))
    save(tmp_path / "outside.png", (9, 9))
    (tmp_path / "in" / "dog" / "link.png").symlink_to(tmp_path / "outside.png")
    with pytest.raises(InputError, match=r"dog/link.png points outside in"):
        task(tmp_path / "in")
