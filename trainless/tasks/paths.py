"""Which loader reads a path, and where the data directory is."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.tasks import check_options, registry
from trainless.tasks.reading import Reading

READABLE = ".npz, .npy, .csv, .tsv, .txt, .text, .tokens, a folder of images by class or of NIfTI volumes with a table"


def data_directory() -> Path:
    """Where real data sets lie: ``TRAINLESS_DATA``, else the user's cache."""
    given = os.environ.get("TRAINLESS_DATA")
    if given:
        return Path(given)
    import platformdirs

    return Path(platformdirs.user_cache_dir("trainless")) / "data"


def missing(what: str, source: str, file: str, folder: Path) -> InputError:
    """The error for a set that is not there: what it is, where it comes from and where it goes."""
    return InputError(
        f"{what} is not in the data directory: get it from {source} and put {file} in {folder}"
        " (TRAINLESS_DATA sets another data directory)"
    )


def from_path(source: str | os.PathLike[str], options: dict[str, Any]) -> Task:
    """Read a file or folder by the loader that its kind has."""
    path = Path(source)
    if not path.exists():
        return _not_there(path, source, options)
    if path.name in ("", ".."):
        path = path.resolve()
    if not os.access(path, os.R_OK):
        raise InputError(f"{path} cannot be read: change its permissions")
    loader = _folder_loader(path) if path.is_dir() else _file_loader(path)
    parameters = inspect.signature(loader).parameters
    own = [name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]
    forced = [field.name for field in fields(Reading)] if "reading" in parameters else []
    check_options(path.name, options, own + forced)
    reading = [Reading(**{name: value for name, value in options.items() if name in forced})] if forced else []
    try:
        return loader(path, *reading, **{name: value for name, value in options.items() if name in own})
    except InputError as error:
        if path.name in str(error):
            raise
        raise InputError(f"{path.name}: {error}") from error


def _not_there(path: Path, source: str | os.PathLike[str], options: dict[str, Any]) -> Task:
    """A MedMNIST file by its bare name, or the error."""
    bare = isinstance(source, str) and path.name == source and not path.suffix
    if bare and "mnist" in path.name and (data_directory() / "medmnist" / f"{path.name}.npz").is_file():
        from trainless.tasks.datasets import medmnist

        check_options(path.name, options, ["label"])
        return medmnist(path.name, **options)
    if bare:
        return registry[str(source)]()
    raise InputError(f"there is no file or folder {path}: check the path, or give a name (trainless list tasks)")


def _file_loader(path: Path) -> Callable[..., Task]:
    suffix = path.suffixes[-2].lower() if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix.lower()
    if suffix == ".npz":
        from trainless.tasks.numpy_files import from_npz

        return from_npz
    if suffix == ".npy":
        from trainless.tasks.numpy_files import from_npy

        return from_npy
    if suffix in (".csv", ".tsv"):
        from trainless.tasks.table import from_csv

        return from_csv
    if suffix in (".txt", ".text", ".tokens"):
        from trainless.tasks.text import from_text

        return from_text
    if suffix == ".nii":
        raise InputError(f"{path.name} is one volume; give the folder that holds all of them and a CSV with file,label")
    raise InputError(f"{path.name} is of a kind that no loader reads; expected {READABLE}")


def _folder_loader(folder: Path) -> Callable[..., Task]:
    from trainless.tasks.images import from_images, has_images
    from trainless.tasks.nifti import from_nifti, has_volumes
    from trainless.tasks.text import from_text, text_files

    if has_volumes(folder):
        return from_nifti
    if has_images(folder):
        return from_images
    if text_files(folder):
        return from_text
    raise InputError(f"the folder {folder.name} holds nothing that a loader reads; expected {READABLE}")
