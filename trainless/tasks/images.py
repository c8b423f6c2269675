"""Images from files: PNG, JPEG, TIFF and the like, grey, coloured or of more than 8 bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from trainless.core.errors import InputError
from trainless.core.processes import require_room
from trainless.core.progress import watched
from trainless.core.task import InputFormat, PartName, Task
from trainless.core.types import Array
from trainless.tasks.assemble import assemble
from trainless.tasks.cases import Cases
from trainless.tasks.reading import Samples, parse_size
from trainless.tasks.resize import require_detail, suggested
from trainless.tasks.settings import Reading
from trainless.tasks.weigh import require_plain

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".gif"}
DEEP = ("I;16", "I;16B", "I;16L", "I", "F")
TURNED = (5, 6, 7, 8)  # values of the orientation tag that swap height and width
ORIENTATION = 274


def is_image(path: Path) -> bool:
    """Whether a file is called as an image."""
    return path.suffix.lower() in SUFFIXES and path.is_file()


def from_images(cases: Cases, reading: Reading) -> Task:
    """A task from images; those that differ are resized to ``reading.size``, height × width."""
    size = reading.size
    mode, shape = _common(cases.paths, cases.root, parse_size(size, 2) if size else ())
    values = {"L": 1, "RGB": 3, "F": 4}[mode]
    require_room(2 * values * len(cases.paths) * shape[0] * shape[1], cases.root.name, "give a smaller --size")
    given: dict[PartName, Samples] = {}
    for part, held in cases.parts.items():
        x = np.stack([pixels(path, mode, shape) for path in watched(held.paths, "reading images")])
        given[part] = Samples(x, held.y, held.groups, names=cases.names(part))
    if not reading.channels and not reading.dims:
        reading = replace(reading, dims=2, channels="last" if mode == "RGB" else "none")
    source = InputFormat("images", mode=mode, resized=bool(size))
    forced = replace(reading, size="", label="")
    return assemble(cases.name, given, forced, cases.classes, source=source)


@contextmanager
def _open(path: Path) -> Iterator[Image.Image]:
    """The image, whose pixels are decoded only when they are asked for."""
    require_plain(path)
    try:
        with path.open("rb") as file, Image.open(file) as image:
            frames = getattr(image, "n_frames", 1)
            if frames > 1:
                raise InputError(
                    f"image {path.name} has {frames} frames; expected one: save its frames apart, or as a volume"
                )
            yield image
    except InputError:
        raise
    except Exception as error:  # Pillow's plugins raise anything on broken files
        raise InputError(f"image {path.parent.name}/{path.name} cannot be read: remove it or save it again") from error


def square(path: Path, size: int) -> Array:
    """The middle of an image, ``(size, size, 3)``: its shorter side becomes ``size · 8/7``, as networks are judged."""
    with _open(path) as image:
        return np.asarray(_middle(image.convert("RGB"), size))


def _middle(image: Image.Image, size: int) -> Image.Image:
    shorter = round(size * 8 / 7)
    scale = shorter / min(image.size)
    wide, high = (max(size, round(side * scale)) for side in image.size)
    left, top = (wide - size) // 2, (high - size) // 2
    return image.resize((wide, high), Image.Resampling.BILINEAR).crop((left, top, left + size, top + size))


def _size(image: Image.Image) -> tuple[int, int]:
    """Height and width as the image is meant to be looked at."""
    turned = image.getexif().get(ORIENTATION) in TURNED
    return (image.width, image.height) if turned else (image.height, image.width)


def _common(paths: Sequence[Path], folder: Path, size: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """The mode that holds all images and their one size (height, width)."""
    modes: dict[str, Path] = {}
    sizes: dict[tuple[int, int], Path] = {}
    for path in watched(paths, "looking at images"):
        with _open(path) as image:
            modes.setdefault(image.mode, path)
            sizes.setdefault(_size(image), path)
    deep = next((path for mode, path in modes.items() if mode in DEEP), None)
    flat = next((path for mode, path in modes.items() if mode not in DEEP), None)
    if deep is not None and flat is not None:
        raise InputError(
            f"images in {folder.name} have different depths ({deep.name} more than 8 bits per pixel, {flat.name} 8):"
            " nobody knows which values mean the same: save all with one depth"
        )
    if len(sizes) > 1 and not size:
        (first, one), (second, other) = list(sizes.items())[:2]
        raise InputError(
            f"images in {folder.name} have different sizes ({one.name} {first[0]}x{first[1]}, {other.name}"
            f" {second[0]}x{second[1]}): give one size for all, such as --size {suggested(list(sizes))}"
        )
    if size:
        require_detail(size, (max(height for height, _ in sizes), max(width for _, width in sizes)))
    return "F" if deep is not None else "L" if set(modes) <= {"1", "L"} else "RGB", size or next(iter(sizes))


def require_like(path: Path, mode: str, size: tuple[int, ...] = ()) -> None:
    """Raise InputError where an image cannot stand beside those that were read before.

    Those had a ``mode`` and, unless they were resized, one ``size`` (height, width).
    """
    with _open(path) as image:
        deep, own = image.mode in DEEP, _size(image)
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
        turned = ImageOps.exif_transpose(image) if image.getexif().get(ORIENTATION) else image
        same = turned.convert(mode)
        if (same.height, same.width) != size:
            same = same.resize((size[1], size[0]), Image.Resampling.BILINEAR)
        return np.asarray(same)
