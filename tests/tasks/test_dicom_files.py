"""DICOM images and series, and NIfTI and DICOM files that are broken in many ways."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tasks.test_new import stripped
from trainless.core import processes
from trainless.core.errors import InputError
from trainless.tasks import task
from trainless.tasks.dicom_files import read_dicom
from trainless.tasks.new import read_new
from trainless.tasks.volumes import volume

pydicom = pytest.importorskip("pydicom")
nibabel = pytest.importorskip("nibabel")
RANDOM = np.random.default_rng(0)
SERIES = "1.2.826.0.1.3680043.8.498.1"


def dicom(path: Path, pixels: np.ndarray, **tags: Any) -> Path:
    """A file as pydicom writes it."""
    meta = pydicom.dataset.FileMetaDataset()
    meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.2"
    meta.MediaStorageSOPInstanceUID = "1.2.3"
    meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    made = pydicom.dataset.FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    colours = 3 if pixels.shape[-1] == 3 and pixels.ndim > 2 else 1
    frames = pixels.ndim - (colours == 3) == 3
    made.Rows, made.Columns = pixels.shape[int(frames) :][:2]
    if frames:
        made.NumberOfFrames = len(pixels)
    made.SamplesPerPixel = colours
    made.PhotometricInterpretation = "RGB" if colours == 3 else "MONOCHROME2"
    if colours == 3:
        made.PlanarConfiguration = 0
    made.BitsAllocated = made.BitsStored = pixels.dtype.itemsize * 8
    made.HighBit = made.BitsStored - 1
    made.PixelRepresentation = int(pixels.dtype.kind == "i")
    made.SeriesInstanceUID = SERIES
    for name, value in tags.items():
        setattr(made, name, value)
    made.PixelData = pixels.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    made.save_as(path, enforce_file_format=True)
    return path


def series(folder: Path, values: np.ndarray, shuffle: bool = True, **tags: Any) -> Path:
    """A folder of slices whose names say nothing about their place."""
    order = RANDOM.permutation(len(values)) if shuffle else np.arange(len(values))
    for name, place in enumerate(order):
        where = {"ImagePositionPatient": [0, 0, 2.5 * place], "ImageOrientationPatient": [1, 0, 0, 0, 1, 0]}
        dicom(folder / f"IM{name}", values[place], **{"InstanceNumber": int(name), **where, **tags})
    return folder


def test_the_patients_that_files_name_are_never_split(tmp_path: Path) -> None:
    """Two scans of each of twelve patients; names that an anonymiser gave to everybody are none."""
    for place in range(24):
        label = "ill" if place % 4 < 2 else "well"
        dicom(
            tmp_path / "some" / label / f"{place}.dcm",
            RANDOM.integers(0, 9, (4, 4)).astype(np.uint16),
            PatientID=f"p{place // 2}",
        )
        dicom(
            tmp_path / "anon" / label / f"{place}.dcm",
            RANDOM.integers(0, 9, (4, 4)).astype(np.uint16),
            PatientID="ANON",
        )
    made = task(tmp_path / "some")
    assert "PatientID was read as the group of 12 patients: it is never split" in made.notes
    parts = [
        set(part.groups.tolist()) for part in (made.train, made.valid, made.test) if part and part.groups is not None
    ]
    assert len(parts) == 3
    assert sum(map(len, parts)) == len(set.union(*parts)) == 12
    anonymous = task(tmp_path / "anon")
    assert anonymous.part("train").groups is None
    assert any("the files name 1 patient (PatientID) for 24 cases" in note for note in anonymous.notes)


def test_rescaling_dark_and_light_colours_and_frames(tmp_path: Path) -> None:
    grey = RANDOM.integers(0, 4000, (6, 5)).astype(np.uint16)
    found = read_dicom(dicom(tmp_path / "a.dcm", grey, RescaleSlope="2", RescaleIntercept="-1024"))
    np.testing.assert_array_equal(found, 2 * grey.astype(np.float32) - 1024)
    turned = read_dicom(dicom(tmp_path / "b.dcm", grey, PhotometricInterpretation="MONOCHROME1"))
    np.testing.assert_array_equal(turned, 65535 - grey.astype(np.float32))
    signed = RANDOM.integers(-900, 900, (6, 5)).astype(np.int16)
    turned = read_dicom(dicom(tmp_path / "c.dcm", signed, PhotometricInterpretation="MONOCHROME1"))
    np.testing.assert_array_equal(turned, -1 - signed.astype(np.float32))
    rgb = RANDOM.integers(0, 255, (6, 5, 3)).astype(np.uint8)
    np.testing.assert_array_equal(read_dicom(dicom(tmp_path / "d.dcm", rgb)), rgb)
    frames = RANDOM.integers(0, 255, (4, 6, 5)).astype(np.uint8)
    np.testing.assert_array_equal(read_dicom(dicom(tmp_path / "e.dcm", frames)), frames)


def test_slices_are_ordered_by_place_else_by_number(tmp_path: Path) -> None:
    values = RANDOM.integers(0, 4000, (7, 6, 5)).astype(np.uint16)
    np.testing.assert_array_equal(read_dicom(series(tmp_path / "a", values)), values)
    for name, place in enumerate([3, 0, 6, 1, 5, 2, 4]):
        dicom(tmp_path / "b" / f"x{name}.dcm", values[place], InstanceNumber=int(place))
    np.testing.assert_array_equal(read_dicom(tmp_path / "b"), values)


def test_images_by_class_and_series_with_a_table(tmp_path: Path) -> None:
    for label in ("cyst", "mass"):
        for place in range(10):
            dicom(tmp_path / "flat" / label / f"{place}.dcm", RANDOM.integers(0, 4000, (12, 10)).astype(np.uint16))
    made = task(tmp_path / "flat")
    assert (made.input_shape, made.target.names) == ((1, 12, 10), ("cyst", "mass"))
    assert task(tmp_path / "flat", size=6).input_shape == (1, 6, 6)
    new = read_new(tmp_path / "flat", stripped(made))
    assert (len(new.x), new.names[0]) == (20, "cyst/0.dcm")
    lines = ["path,label,patient"]
    for place in range(16):
        series(tmp_path / "deep" / f"p{place}" / "ct", RANDOM.integers(0, 99, (4, 6, 5)).astype(np.uint16) + place)
        lines.append(f"p{place}/ct,{place % 2},{place}")
    (tmp_path / "deep" / "labels.csv").write_text("\n".join(lines))
    made = task(tmp_path / "deep")
    assert (made.input_shape, len(made.part("train"))) == ((1, 4, 6, 5), 12)
    new = read_new(tmp_path / "deep", stripped(made))
    assert sorted(new.names) == sorted(f"p{place}/ct" for place in range(16))
    assert read_new(tmp_path / "deep" / "p3" / "ct", stripped(made)).x.shape == (1, 1, 4, 6, 5)
    slice_ = min((tmp_path / "deep" / "p3" / "ct").iterdir())
    slice_.symlink_to(slice_.rename(tmp_path / "elsewhere.dcm"))
    for read in (task, lambda place: read_new(place, stripped(made))):
        with pytest.raises(InputError, match=r"p3/ct/.* points outside deep: copy it into the folder"):
            read(tmp_path / "deep")
    with pytest.raises(InputError, match="points outside ct: copy it into the folder"):
        read_new(tmp_path / "deep" / "p3" / "ct", stripped(made))


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ({"Rows": 60000, "Columns": 60000, "NumberOfFrames": 30000}, "would take .* GB, but this machine has"),
        ({"Rows": 50}, "cannot be read as a DICOM file"),
        ({"PhotometricInterpretation": "PALETTE COLOR"}, "has pixels of kind PALETTE COLOR; expected grey or RGB"),
        ({"BitsAllocated": 7}, "cannot be read as a DICOM file"),
    ],
)
def test_broken_dicom(tags: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = dicom(tmp_path / "a.dcm", np.zeros((6, 5), np.uint16))
    made = pydicom.dcmread(path)
    for name, value in tags.items():
        setattr(made, name, value)
    made.save_as(path)
    with pytest.raises(InputError, match=message) as found:
        read_dicom(path)
    assert "\n" not in str(found.value)


def test_a_file_that_is_compressed_as_a_whole_is_not_unpacked(tmp_path: Path) -> None:
    path = dicom(tmp_path / "a.dcm", np.zeros((600, 500), np.uint16))
    made = pydicom.dcmread(path)
    made.file_meta.TransferSyntaxUID = pydicom.uid.DeflatedExplicitVRLittleEndian
    made.save_as(path)
    assert path.stat().st_size < 3000
    with pytest.raises(InputError, match=r"a.dcm is compressed as a whole, and could unpack to anything"):
        read_dicom(path)


def test_series_that_are_none(tmp_path: Path) -> None:
    values = RANDOM.integers(0, 99, (3, 6, 5)).astype(np.uint16)
    dicom(series(tmp_path / "a", values) / "other.dcm", values[0], SeriesInstanceUID="1.2.9")
    with pytest.raises(InputError, match="a holds 2 series; expected one"):
        read_dicom(tmp_path / "a")
    dicom(series(tmp_path / "b", values, InstanceNumber=1, ImagePositionPatient=[0, 0, 0]) / "again.dcm", values[0])
    with pytest.raises(InputError, match=r"b holds two slices at the same place|nor their number"):
        read_dicom(tmp_path / "b")
    dicom(series(tmp_path / "c", values) / "wide.dcm", np.zeros((9, 9), np.uint16), InstanceNumber=9)
    with pytest.raises(InputError, match="slices of different sizes"):
        read_dicom(tmp_path / "c")
    dicom(tmp_path / "d" / "x.dcm", values[0])
    dicom(tmp_path / "d" / "y.dcm", values[1])
    with pytest.raises(InputError, match="neither where they lie nor their number"):
        read_dicom(tmp_path / "d")


def nifti(path: Path, shape: tuple[int, ...] = (5, 6, 7), dtype: Any = np.int16) -> Path:
    nibabel.save(nibabel.Nifti1Image(RANDOM.integers(0, 99, shape).astype(dtype), np.eye(4)), path)
    return path


@pytest.mark.parametrize("kind", ["dcm", "nii", "nii.gz"])
def test_changed_and_missing_bytes_never_end_in_anything_but_a_sentence(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    if kind == "dcm":
        dicom(path, RANDOM.integers(0, 99, (6, 5)).astype(np.uint16))
        read: Any = read_dicom
    else:
        nifti(path)
        read = volume
    whole, said = path.read_bytes(), list[str]()
    for turn in range(150):
        raw = bytearray(whole)
        if turn % 5 == 0:
            raw = raw[: RANDOM.integers(0, len(raw))]
        elif kind == "nii.gz" and turn % 2:
            inside = bytearray(gzip.decompress(whole))
            for place in RANDOM.integers(0, 352, 3):
                inside[place] = RANDOM.integers(0, 256)
            raw = bytearray(gzip.compress(bytes(inside)))
        else:
            for place in RANDOM.integers(0, min(600, len(raw)), 3):
                raw[place] = RANDOM.integers(0, 256)
        path.write_bytes(raw)
        try:
            read(path)
        except InputError as error:
            said.append(str(error))
    assert len(said) > 20
    assert not any("\n" in line for line in said)


def test_nifti_that_declares_more_than_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = nifti(tmp_path / "a.nii")
    raw = bytearray(path.read_bytes())
    raw[42:48] = np.array([32000, 32000, 32000], "<i2").tobytes()
    path.write_bytes(raw)
    with pytest.raises(InputError, match=r"a.nii would take [\d,.]+ GB, but this machine has"):
        volume(path)
    (tmp_path / "rgb.nii").write_bytes(b"")
    with pytest.raises(InputError, match=r"rgb.nii is empty"):
        volume(tmp_path / "rgb.nii")
    colours = np.zeros((4, 4, 4), [("R", "u1"), ("G", "u1"), ("B", "u1")])
    nibabel.save(nibabel.Nifti1Image(colours, np.eye(4)), tmp_path / "rgb.nii")
    with pytest.raises(InputError, match=r"rgb.nii cannot be read as a NIfTI volume"):
        volume(tmp_path / "rgb.nii")
    bomb = nifti(tmp_path / "b.nii.gz", (40, 40, 40), np.uint8)
    monkeypatch.setattr(processes, "physical_memory", lambda: 100_000)
    with pytest.raises(InputError, match=r"b.nii.gz would take"):
        volume(bomb)


def test_without_pydicom_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = dicom(tmp_path / "a.dcm", np.zeros((6, 5), np.uint16))
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(InputError, match=r"DICOM files need pydicom: pip install 'trainless\[medical\]'"):
        read_dicom(path)
