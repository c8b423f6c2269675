"""Tasks from folders of NIfTI volumes with a label table."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.core.types import Array
from trainless.tasks.assemble import assemble
from trainless.tasks.reading import Reading, Samples, Source, parse_size
from trainless.tasks.table import GROUPS, LABELS, column, complete, read_table, shown

FILES = ("file", "filename", "path", "image", "volume")


def from_nifti(
    folder: Path,
    reading: Reading,
    *,
    table: str = "",
    group: str = "",
    size: int | str | tuple[int, ...] = 0,
    name: str = "",
) -> Task:
    """A task from ``.nii`` or ``.nii.gz`` volumes and a CSV with the columns file, label and optionally group.

    Args:
        folder: Holds the table and, beside or below it, the volumes.
        reading: What the user forces; ``label`` names the label's column.
        table: The table's file name, where the folder has several.
        group: The column that says who a volume came from; otherwise one called group, patient, subject or record.
        size: Resample to this by linear interpolation, where volumes differ.
        name: What to call it; the folder's name otherwise.
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
        reading = Reading(reading.kind, 3, "last" if x.ndim == 5 else "none", "", reading.seed)
    source = Source("volumes", resized=bool(size))
    return assemble(name or folder.resolve().name, {"train": Samples(x, y, groups)}, reading, source=source)


def has_volumes(folder: Path) -> bool:
    """Whether there is a NIfTI file in the folder or one below."""
    return any(path for pattern in ("*.nii*", "*/*.nii*") for path in folder.glob(pattern))


def is_volume(path: Path) -> bool:
    """Whether a file is called as a NIfTI volume.

    Example:
        >>> is_volume(Path("a.nii.gz")), is_volume(Path("a.png"))
        (True, False)
    """
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
