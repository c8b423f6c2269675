"""Folders and tables of files: which kind of file a folder holds, and who reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.tasks.cases import FILES, Cases, cases_of_table, entries, find_cases
from trainless.tasks.dicom_files import from_dicom, is_dicom
from trainless.tasks.edf_files import from_edf, is_edf
from trainless.tasks.images import from_images, is_image
from trainless.tasks.settings import Reading, reads
from trainless.tasks.table import column, read_table
from trainless.tasks.volumes import from_volumes, is_volume
from trainless.tasks.wfdb_files import from_wfdb, is_wfdb


@dataclass(frozen=True)
class FileKind:
    """A kind of file that is a case: what it is called, how it is told, how a task is made of some."""

    name: str
    words: str
    is_case: Callable[[Path], bool]
    load: Callable[[Cases, Reading], Task]


KINDS = (
    FileKind("volumes", "NIfTI volumes", is_volume, from_volumes),
    FileKind("dicom", "DICOM images", is_dicom, from_dicom),
    FileKind("wfdb", "WFDB recordings", is_wfdb, from_wfdb),
    FileKind("edf", "EDF recordings", is_edf, from_edf),
    FileKind("images", "images", is_image, from_images),
)


def kind_of(folder: Path) -> FileKind | None:
    """The kind of file that a folder holds: the first of KINDS of which there is one, down to three levels."""
    there = list(entries(folder))
    return next((kind for kind in KINDS if any(kind.is_case(path) for path in there)), None)


@reads("kind dims channels label group labels seed size window")
def from_folder(folder: Path, reading: Reading) -> Task:
    """A task from a folder of files: by class in sub-folders, or with a table that has file, label and group."""
    kind = kind_of(folder)
    if kind is None:
        raise InputError(f"the folder {folder.name} holds no files that are read")
    return kind.load(find_cases(folder, reading, kind.is_case, kind.words), reading)


def from_manifest(path: Path, reading: Reading) -> Task:
    """A task from a table that names files beside it or in folders below, with their labels."""
    rows = read_table(path)
    first = path.parent / str(rows[column(rows, "", FILES, "file", path)].iloc[0])
    kind = next((kind for kind in KINDS if kind.is_case(first)), None)
    if kind is None:
        near = [other for other in first.parent.glob(f"{first.name}*") for kind in KINDS if kind.is_case(other)]
        kind = next((kind for kind in KINDS if near and kind.is_case(near[0])), None)
    if kind is None:
        words = ", ".join(kind.words for kind in KINDS)
        raise InputError(f"{path.name} names {first.name!r}, which is not there or none of: {words}")
    return kind.load(cases_of_table(path, path.parent, reading, kind.is_case, kind.words), reading)
