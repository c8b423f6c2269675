"""Tasks from folders: of images by class, or of NIfTI volumes with a label table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from trainless.core.errors import InputError
from trainless.core.task import InputFormat, PartName, Task
from trainless.core.types import Array
from trainless.tasks.assemble import assemble
from trainless.tasks.numpy_files import SPELLINGS
from trainless.tasks.reading import Reading, Samples, parse_size
from trainless.tasks.table import GROUPS, LABELS, column, complete, read_table, shown

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".gif"}
DEEP = ("I;16", "I;16B", "I;16L", "I", "F")
FILES = ("file", "filename", "path", "image", "volume")
File = tuple[Path, str]


def from_images(folder: Path, reading: Reading, *, size: int | str | tuple[int, ...] = 0) -> Task:
    """A task from a folder with one sub-folder of images per class, or those in ``train``, ``val`` and ``test``.

    Images that differ are resized to ``size``, height × width.
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
        reading = replace(reading, dims=2, channels="last" if mode == "RGB" else "none")
    source = InputFormat("images", mode=mode, resized=bool(size))
    return assemble(folder.resolve().name, given, reading, names, source=source)


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

    Those had a ``mode`` and, unless they were resized, one ``size`` (height, width).
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


def from_nifti(
    folder: Path, reading: Reading, *, table: str = "", group: str = "", size: int | str | tuple[int, ...] = 0
) -> Task:
    """A task from ``.nii`` or ``.nii.gz`` volumes and a CSV with the columns file, label and optionally group.

    ``table`` is the table's file name, where the folder has several; ``group`` the column that says who a volume came
    from, otherwise one called group, patient, subject or record. Volumes that differ are resampled to ``size``.
    """
    path = _table(folder, table)
    rows = read_table(path)
    file = column(rows, "", FILES, "file", path)
    label = column(rows, str(reading.label), LABELS, "label", path)
    if not file or not label:
        raise InputError(
            f"{path.name} has the columns {shown(rows.columns)}; expected file, label and optionally group"
        )
    who = column(rows.drop(columns=[file, label]), group, GROUPS, "group", path)
    x = _stack([_inside(folder, str(entry)) for entry in rows[file]], parse_size(size, 3) if size else ())
    y = complete(rows[label], "label", path)
    groups = complete(rows[who], "group", path) if who else None
    if not reading.channels and not reading.dims:
        reading = replace(reading, dims=3, channels="last" if x.ndim == 5 else "none", label="")
    source = InputFormat("volumes", resized=bool(size))
    return assemble(folder.resolve().name, {"train": Samples(x, y, groups)}, reading, source=source)


def has_volumes(folder: Path) -> bool:
    """Whether there is a NIfTI file in the folder or one below."""
    return any(path for pattern in ("*.nii*", "*/*.nii*") for path in folder.glob(pattern))


def is_volume(path: Path) -> bool:
    """Whether a file is called as a NIfTI volume."""
    return path.name.lower().endswith((".nii", ".nii.gz"))


def _table(folder: Path, name: str) -> Path:
    if name:
        return _inside(folder, name)
    tables = sorted(folder.glob("*.csv"))
    if len(tables) != 1:
        raise InputError(
            f"{folder.name} has {len(tables)} CSV tables; expected one with the columns file and label"
            + (": choose with table=…" if tables else "")
        )
    return tables[0]


def _inside(folder: Path, name: str) -> Path:
    """A file that the table names, which must be in the folder."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"the label table names {name!r}, which is outside {folder.name}: expected files inside it")
    if not path.is_file():
        raise InputError(f"the label table names {name!r}, but {folder.name} has no such file")
    return path


def _stack(paths: list[Path], size: tuple[int, ...]) -> Array:
    volumes = [resampled(volume(path), size) for path in paths]
    for path, one in zip(paths, volumes, strict=True):
        if one.shape != volumes[0].shape:
            raise InputError(
                f"volumes have different sizes ({paths[0].name} {'x'.join(map(str, volumes[0].shape))}, {path.name}"
                f" {'x'.join(map(str, one.shape))}): give one size for all, such as --size {min(one.shape[:3])}"
            )
    return np.stack(volumes)


def volume(path: Path) -> Array:
    """The values of a NIfTI file: three axes, or four with channels last."""
    try:
        import nibabel
        from nibabel.wrapstruct import WrapStructError
    except ImportError as error:
        raise InputError(
            f"{path.name} is a NIfTI volume, which needs nibabel: pip install 'trainless[medical]'"
        ) from error
    try:
        values: Array = nibabel.Nifti1Image.from_filename(path).get_fdata(dtype=np.float32)
    except (nibabel.filebasedimages.ImageFileError, WrapStructError, OSError, ValueError, EOFError) as error:
        raise InputError(f"{path.name} cannot be read as a NIfTI volume: get or save it again") from error
    if values.ndim not in (3, 4):
        raise InputError(f"{path.name} has {values.ndim} axes; expected a volume of 3, or of 4 with channels last")
    return values


def resampled(values: Array, size: tuple[int, ...]) -> Array:
    """A volume brought to a size by linear interpolation; as it is without one."""
    if not size or values.shape[:3] == size:
        return values
    from scipy.ndimage import zoom

    factors = [new / old for new, old in zip(size, values.shape[:3], strict=True)] + [1] * (values.ndim - 3)
    return np.asarray(zoom(values, factors, order=1), np.float32)
