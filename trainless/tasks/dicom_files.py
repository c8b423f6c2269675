"""Images and volumes from DICOM: a file is an image or a volume of frames, a folder of slices is a volume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trainless.core.errors import InputError
from trainless.core.processes import require_room
from trainless.core.task import InputFormat, Task
from trainless.core.text import counted
from trainless.core.types import Array
from trainless.tasks.cases import Cases
from trainless.tasks.settings import Reading
from trainless.tasks.volumes import stacked
from trainless.tasks.weigh import readable, require_plain

SUFFIXES = (".dcm", ".dicom", ".ima")
GREY = ("MONOCHROME1", "MONOCHROME2")
PATIENTS = 10  # different patients, below which the files' own names of them may be an anonymiser's


def is_dicom_file(path: Path) -> bool:
    """Whether a file is called as DICOM, or has no ending and begins as one."""
    if path.suffix.lower() in SUFFIXES:
        return not path.is_dir()
    if path.suffix or not path.is_file():
        return False
    try:
        with path.open("rb") as stream:
            return stream.read(132)[128:] == b"DICM"
    except OSError:
        return False


def is_dicom(path: Path) -> bool:
    """Whether a path is a DICOM file or a folder that holds some."""
    return any(is_dicom_file(file) for file in path.iterdir()) if path.is_dir() else is_dicom_file(path)


def from_dicom(cases: Cases, reading: Reading) -> Task:
    """A task from DICOM images, or from volumes; the distance between pixels is not made the same."""
    dims = 3 if cases.paths[0].is_dir() or _frames(cases.paths[0]) > 1 else 2
    source = InputFormat("dicom", resized=bool(reading.size))
    cases, notes = _with_patients(cases)
    return stacked(cases, reading, read_dicom, source, dims, notes)


def _with_patients(cases: Cases) -> tuple[Cases, list[str]]:
    """The cases with the patients that their files name, where no table says whose they are, and what to say of it."""
    if any(part.groups is not None for part in cases.parts.values()):
        return cases, []
    named = {name: [_patient(path) for path in part.paths] for name, part in cases.parts.items()}
    every = [patient for patients in named.values() for patient in patients]
    count = len(set(every))
    if not all(every) or count == len(every):  # unknown, or one case each
        return cases, []
    if count < PATIENTS:
        few = f"the files name {counted(count, 'patient')} (PatientID) for {len(every)} cases, too few to tell"
        return cases, [f"{few}: where one has several cases, give a table with the columns file, label and patient"]
    parts = {name: replace(part, groups=np.array(named[name])) for name, part in cases.parts.items()}
    return replace(cases, parts=parts), [f"PatientID was read as the group of {count} patients: it is never split"]


def _patient(path: Path) -> str:
    """Who a file, or the first one of a series, says that it is of; empty where it does not say."""
    files = sorted(file for file in path.iterdir() if is_dicom_file(file)) if path.is_dir() else [path]
    return str(_header(files[0]).get("PatientID", "") or "").strip() if files else ""


def read_dicom(path: Path) -> Array:
    """The values of a file or of a series: axes, and channels last where there are colours."""
    return _series(path) if path.is_dir() else _pixels(path, _header(path))


def _library() -> Any:
    try:
        import pydicom
    except ImportError as error:
        raise InputError("DICOM files need pydicom: pip install 'trainless[medical]'") from error
    return pydicom


def _header(path: Path) -> Any:
    pydicom = _library()
    require_plain(path)
    with readable(path, "a DICOM file"):
        about = pydicom.filereader.read_file_meta_info(path)
        if about.get("TransferSyntaxUID") == pydicom.uid.DeflatedExplicitVRLittleEndian:
            raise InputError(f"{path.name} is compressed as a whole, and could unpack to anything: save it plainly")
        found = pydicom.dcmread(path, stop_before_pixels=True)
        if "Rows" not in found or "Columns" not in found:
            raise InputError(f"{path.name} is a DICOM file without an image: remove it from the folder")
        return found


def _frames(path: Path) -> int:
    with readable(path, "a DICOM file"):
        return int(_header(path).get("NumberOfFrames", 1) or 1)


def _pixels(path: Path, header: Any) -> Array:
    """The pixels of a file in the unit of its rescaling, dark ones low."""
    pydicom = _library()
    with readable(path, "a DICOM file"):
        colours, kind = int(header.get("SamplesPerPixel", 1)), str(header.get("PhotometricInterpretation", ""))
        values = float(header.Rows) * float(header.Columns) * colours * float(header.get("NumberOfFrames", 1) or 1)
        require_room(8 * values, path.name, "get or save it again")
        if colours == 1 and kind not in GREY:
            raise InputError(f"{path.name} has pixels of kind {kind or 'unknown'}; expected grey or RGB: convert it")
        found = np.asarray(pydicom.pixels.pixel_array(path), np.float32)
        if kind == "MONOCHROME1":
            signed = int(header.get("PixelRepresentation", 0))
            found = (-1 if signed else 2 ** int(header.BitsStored) - 1) - found  # the least becomes the greatest
        slope, intercept = header.get("RescaleSlope", 1), header.get("RescaleIntercept", 0)
        return found * np.float32(slope or 1) + np.float32(intercept or 0)


def _series(folder: Path) -> Array:
    """The slices of a folder as one volume, in order of their place along the normal, or of their number."""
    files = [file for file in sorted(folder.iterdir()) if is_dicom_file(file)]
    if not files:
        raise InputError(f"{folder.name} holds no DICOM files: give the folder of a series")
    headers = [_header(file) for file in files]
    if len(files) == 1:
        return _pixels(files[0], headers[0])
    series = {str(header.get("SeriesInstanceUID", "")) for header in headers}
    if len(series) > 1:
        raise InputError(f"{folder.name} holds {len(series)} series; expected one: put each into a folder of its own")
    places = _places(headers, folder)
    if len(set(places)) < len(places):
        raise InputError(f"{folder.name} holds two slices at the same place: remove one")
    require_room(8.0 * len(files) * headers[0].Rows * headers[0].Columns, folder.name, "get or save it again")
    slices = [_pixels(files[at], headers[at]) for at in np.argsort(places, kind="stable")]
    if len({each.shape for each in slices}) > 1:
        sizes = sorted({"x".join(map(str, each.shape)) for each in slices})
        raise InputError(f"{folder.name} has slices of different sizes ({', '.join(sizes[:3])}): expected one size")
    return np.stack(slices)


def _places(headers: Sequence[Any], folder: Path) -> list[float]:
    """Where each slice lies, by its position along the normal where all say so, else by its number."""
    with readable(folder, "a DICOM series"):
        if all("ImagePositionPatient" in header and "ImageOrientationPatient" in header for header in headers):
            axes = np.array([float(value) for value in headers[0].ImageOrientationPatient])
            normal = np.cross(axes[:3], axes[3:])
            found = [float(np.dot(normal, [float(v) for v in header.ImagePositionPatient])) for header in headers]
            if len(set(found)) == len(found):
                return found
        if any("InstanceNumber" not in header for header in headers):
            raise InputError(f"{folder.name} has slices that say neither where they lie nor their number: get it again")
        return [float(header.InstanceNumber) for header in headers]
