"""Volumes from NIfTI files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from trainless.core.errors import InputError
from trainless.core.processes import require_room
from trainless.core.progress import watched
from trainless.core.task import InputFormat, PartName, Task
from trainless.core.types import Array
from trainless.tasks.assemble import assemble
from trainless.tasks.cases import Cases
from trainless.tasks.reading import Samples, parse_size
from trainless.tasks.resize import resize, suggested
from trainless.tasks.settings import Reading
from trainless.tasks.weigh import readable, require_plain

Read = Callable[[Path], Array]


def is_volume(path: Path) -> bool:
    """Whether a file is called as a NIfTI volume."""
    return path.name.lower().endswith((".nii", ".nii.gz")) and not path.is_dir()


def from_volumes(cases: Cases, reading: Reading) -> Task:
    """A task from NIfTI volumes; those that differ are resized to ``reading.size``."""
    return stacked(cases, reading, volume, InputFormat("volumes", resized=bool(reading.size)), 3)


def stacked(
    cases: Cases, reading: Reading, read: Read, source: InputFormat, dims: int, notes: Sequence[str] = ()
) -> Task:
    """A task from files that are one array each, with channels last where there is one more axis."""
    size = parse_size(reading.size, dims) if reading.size else ()
    given: dict[PartName, Samples] = {}
    for part, held in cases.parts.items():
        x = stack(held.paths, read, size, dims)
        given[part] = Samples(x, held.y, held.groups, names=cases.names(part))
    forced = replace(reading, size="", label="")
    if not reading.channels and not reading.dims:
        last = given["train"].x.ndim == dims + 2
        forced = replace(forced, dims=dims, channels="last" if last else "none")
    return assemble(cases.name, given, forced, cases.classes, notes, source)


def stack(paths: Sequence[Path], read: Read, size: tuple[int, ...], dims: int) -> Array:
    """The arrays of files, one after the other, in one size."""
    found: list[Array] = []
    for path in watched(paths, "reading volumes" if dims == 3 else "reading images"):
        one = brought(read(path), size, dims)
        if found and one.shape != found[0].shape:
            what, sizes = ("volumes" if dims == 3 else "images"), [found[0].shape, one.shape]
            both = zip((paths[0], path), sizes, strict=True)
            named = ", ".join(f"{each.name} {'x'.join(map(str, shape))}" for each, shape in both)
            size_for_all = suggested([shape[:dims] for shape in sizes])
            raise InputError(
                f"{what} have different sizes ({named}): give one size for all, such as --size {size_for_all}"
            )
        if not found:
            require_room(2 * one.nbytes * len(paths), f"{len(paths)} files like {path.name}", "give a smaller --size")
        found.append(one)
    return np.stack(found)


def brought(values: Array, size: tuple[int, ...], dims: int) -> Array:
    """An array of ``dims`` axes, and channels last where there is one more, in another size; as it is without one."""
    if not size or values.shape[:dims] == size:
        return values
    first = np.moveaxis(values, -1, 0)[None] if values.ndim > dims else values[None, None]
    made = resize(first, size)[0]
    return np.moveaxis(made, 0, -1) if values.ndim > dims else made[0]


def volume(path: Path) -> Array:
    """The values of a NIfTI file: three axes, or four with channels last."""
    try:
        import nibabel
    except ImportError as error:
        raise InputError(
            f"{path.name} is a NIfTI volume, which needs nibabel: pip install 'trainless[medical]'"
        ) from error
    require_plain(path)
    logging.getLogger("nibabel").setLevel(logging.CRITICAL)  # what is wrong is said once, by us
    with readable(path, "a NIfTI volume"):
        image = nibabel.Nifti1Image.from_filename(path)
        shape = image.shape
        require_room(8.0 * float(np.prod([float(side) for side in shape])), path.name, "get or save it again")
        if len(shape) not in (3, 4):
            raise InputError(f"{path.name} has {len(shape)} axes; expected a volume of 3, or of 4 with channels last")
        values: Array = image.get_fdata(dtype=np.float32)
    if values.shape != shape or not values.size:
        raise InputError(f"{path.name} has {values.shape} values where {shape} are declared: get or save it again")
    return values
