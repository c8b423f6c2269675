"""Tasks from folders of images by class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from trainless.core.errors import InputError
from trainless.core.task import PartName, Task
from trainless.core.types import Array
from trainless.tasks.assemble import assemble
from trainless.tasks.numpy_files import SPELLINGS
from trainless.tasks.reading import Reading, Samples, Source, parse_size

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".gif"}
DEEP = ("I;16", "I;16B", "I;16L", "I", "F")
File = tuple[Path, str]


def from_images(folder: Path, reading: Reading, *, size: int | str | tuple[int, ...] = 0, name: str = "") -> Task:
    """A task from a folder with one sub-folder of images per class, or those in ``train``, ``val`` and ``test``.

    Args:
        folder: The folder.
        reading: What the user forces.
        size: Resize to this, height × width, where images differ.
        name: What to call it; the folder's name otherwise.
    """
    parts = _parts(folder)
    everything = [file for files in parts.values() for file in files]
    names = sorted({label for _, label in everything})
    if len(names) < 2:
        raise InputError(
            f"{folder.name} has images of {len(names)} classes; expected at least two, each in its sub-folder"
        )
    mode, shape = _common(everything, folder, parse_size(size, 2) if size else ())
    given: dict[PartName, Samples] = {}
    for part, files in parts.items():
        x = np.stack([pixels(path, mode, shape) for path, _ in files])
        given[part] = Samples(x, np.array([names.index(label) for _, label in files]))
    if not reading.channels and not reading.dims:
        reading = Reading(reading.kind, 2, "last" if mode == "RGB" else "none", reading.label, reading.seed)
    source = Source("images", mode=mode, resized=bool(size))
    return assemble(name or folder.resolve().name, given, reading, names, source=source)


def has_images(folder: Path) -> bool:
    """Whether there is an image one or two folders below."""
    return any(path.suffix.lower() in SUFFIXES for depth in ("*/*", "*/*/*") for path in folder.glob(depth))


def _parts(folder: Path) -> dict[PartName, list[File]]:
    """The images of each part; all in ``train`` where the sub-folders are the classes."""
    below = {path.name.lower(): path for path in sorted(folder.iterdir()) if path.is_dir()}
    spelled = {spelling: part for part, spellings in SPELLINGS.items() for spelling in spellings}
    if "train" in below and set(below) <= set(spelled):
        return {spelled[name]: _files(path, folder) for name, path in below.items()}
    return {"train": _files(folder, folder)}


def _files(folder: Path, root: Path) -> list[File]:
    found = []
    for path in sorted(folder.glob("*/*")):
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file():
            if not path.resolve().is_relative_to(root.resolve()):
                raise InputError(f"{path.relative_to(root)} points outside {root.name}: copy the image into the folder")
            found.append((path, path.parent.name))
    if not found:
        raise InputError(f"{folder.name} has no images in sub-folders; expected one sub-folder of images per class")
    return found


@contextmanager
def _open(path: Path) -> Iterator[Image.Image]:
    """The image, whose pixels are decoded only when they are asked for."""
    try:
        with path.open("rb") as file, Image.open(file) as image:
            yield image
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"image {path.parent.name}/{path.name} cannot be read: remove it or save it again") from error


def _common(files: Sequence[File], folder: Path, size: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """The mode that holds all images and their one size (height, width)."""
    modes: set[str] = set()
    sizes: dict[tuple[int, int], Path] = {}
    for path, _ in files:
        with _open(path) as image:
            modes.add(image.mode)
            sizes.setdefault((image.height, image.width), path)
    if len(sizes) > 1 and not size:
        (first, one), (second, other) = list(sizes.items())[:2]
        raise InputError(
            f"images in {folder.name} have different sizes ({one.name} {first[0]}x{first[1]}, {other.name}"
            f" {second[0]}x{second[1]}): give one size for all, such as --size {min(first + second)}"
        )
    deep = modes <= set(DEEP)
    return "F" if deep else "L" if modes <= {"1", "L"} else "RGB", size or next(iter(sizes))


def require_like(path: Path, mode: str, size: tuple[int, ...] = ()) -> None:
    """Raise InputError where an image cannot stand beside those that were read before.

    Args:
        path: The image.
        mode: What the pixels of those became.
        size: The size (height, width) that they all had; empty where they were resized.
    """
    with _open(path) as image:
        deep, own = image.mode in DEEP, (image.height, image.width)
    if deep != (mode == "F"):
        depths = ("more than 8 bits", "8 bits") if deep else ("8 bits", "more than 8 bits")
        raise InputError(
            f"image {path.name} has {depths[0]} per pixel; the training images had {depths[1]}: save it as those were"
        )
    if size and own != size:
        raise InputError(
            f"image {path.name} is {own[0]}x{own[1]}; the training images were {size[0]}x{size[1]}: resize it, or"
            " design with --size"
        )


def pixels(path: Path, mode: str, size: tuple[int, ...]) -> Array:
    """The pixels of an image in a mode, resized where it has another size (height, width)."""
    with _open(path) as image:
        same = image.convert(mode)
        if (same.height, same.width) != size:
            same = same.resize((size[1], size[0]), Image.Resampling.BILINEAR)
        return np.asarray(same)
