"""WFDB and EDF recordings: values as published programs have them, and files that are broken in many ways."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tasks.test_new import stripped
from trainless.core.errors import InputError
from trainless.tasks import task
from trainless.tasks.edf_files import read_edf
from trainless.tasks.new import read_new
from trainless.tasks.wfdb_files import read_wfdb

GOLDEN = json.loads((Path(__file__).parent / "wfdb_golden.json").read_text())["records"]  # written by wfdb 4.3.1
RANDOM = np.random.default_rng(0)
LEADS = ("EEG Fz", "EMG")


def unpacked(folder: Path, name: str) -> Path:
    for file, content in GOLDEN[name]["files"].items():
        (folder / file).write_bytes(base64.b64decode(content))
    return folder / f"{name}.hea"


def wfdb(folder: Path, name: str, signal: np.ndarray, hertz: float = 100, leads: tuple[str, ...] = ("I", "II")) -> Path:
    """A recording in format 16 by hand."""
    signal.T.astype("<i2").tofile(folder / f"{name}.dat")
    lines = [f"{name} {len(signal)} {hertz:g} {signal.shape[1]}"]
    for row, lead in zip(signal, leads, strict=True):
        lines.append(f"{name}.dat 16 100(0)/mV 16 0 {row[0]} {int(row.sum()) % 65536} 0 {lead}")
    (folder / f"{name}.hea").write_text("\n".join(lines) + "\n# a comment\n")
    return folder / f"{name}.hea"


def edf(
    path: Path, length: int, hertz: float = 100, leads: tuple[str, ...] = ("EEG Fz", "EMG"), value: float = 0
) -> Path:
    pyedflib = pytest.importorskip("pyedflib")
    with pyedflib.EdfWriter(str(path), len(leads), file_type=pyedflib.FILETYPE_EDFPLUS) as file:
        for place, lead in enumerate(leads):
            about = {"label": lead, "sample_frequency": hertz, "physical_min": -500, "physical_max": 500}
            about |= {"digital_min": -32768, "digital_max": 32767, "dimension": "uV", "transducer": "", "prefilter": ""}
            file.setSignalHeader(place, about)
        time = np.arange(length)
        file.writeSamples([100 * np.sin(time / 9 + place) + value for place in range(len(leads))])
    return path


@pytest.mark.parametrize("name", list(GOLDEN))
def test_every_format_gives_what_the_published_program_gives(name: str, tmp_path: Path) -> None:
    found, known = read_wfdb(unpacked(tmp_path, name)), GOLDEN[name]
    expected = np.array([[np.nan if value is None else value for value in row] for row in known["p_signal"]]).T
    np.testing.assert_allclose(np.stack(found.values), expected, rtol=1e-5, atol=1e-6)
    assert (found.names, set(found.hertz)) == (tuple(known["names"]), {known["fs"]})


def many_wfdb(folder: Path) -> Path:
    lines = []
    for place in range(40):
        length = 300 + 20 * (place % 5)
        wfdb(folder, f"A{place:03}", RANDOM.integers(-900, 900, (2, length)) + 500 * (place % 2))
        lines.append(f"A{place:03},{'N' if place % 2 else 'A'}")
    (folder / "REFERENCE.csv").write_text("\n".join(lines))
    return folder


def test_a_folder_of_physionet_with_its_table(tmp_path: Path) -> None:
    made = task(many_wfdb(tmp_path))
    assert (made.input_shape, made.target.names) == ((2, 340), ("A", "N"))
    for part in (made.part("train"), made.part("valid"), made.part("test")):
        assert part.names is not None
        for name, y in zip(part.names, part.y, strict=True):
            assert made.target.names[y] == ("N" if int(name[1:4]) % 2 else "A")
    assert sum(made.part(part).cases for part in ("train", "valid", "test")) == 40
    new = read_new(tmp_path, stripped(made))
    assert sorted(new.names) == sorted(f"A{place:03}.hea" for place in range(40))
    parts = [made.part(part) for part in ("train", "valid", "test")]
    assert sorted(row.tobytes() for row in new.x) == sorted(
        np.asarray(row).tobytes() for part in parts for row in part.x
    )
    one = read_new(tmp_path / "A003.hea", stripped(made))
    assert list(one.names) == ["A003.hea"]


def test_recordings_by_class_at_different_rates_and_channels_by_name(tmp_path: Path) -> None:
    for label in ("rest", "move"):
        (tmp_path / label).mkdir()
        for place in range(12):
            fast = place % 3 == 0
            time = np.arange(400 if fast else 200) / (200 if fast else 100)
            slow = (
                np.stack([1000 * np.sin(2 * np.pi * 3 * time), 500 * np.cos(2 * np.pi * 2 * time)]).round().astype(int)
            )
            turned = place % 2 == 1
            leads = ("II", "I") if turned else ("I", "II")
            wfdb(tmp_path / label, f"r{place}", slow[::-1] if turned else slow, 200 if fast else 100, leads)
    made = task(tmp_path)
    assert (made.input_shape, made.source.hertz, made.source.columns) == ((2, 400), 200.0, ("I", "II"))
    assert any("signals of 100, 200 Hz were resampled to 200 Hz" in note for note in made.notes)
    time = np.arange(400) / 200
    for row in np.asarray(made.part("train").x):
        np.testing.assert_allclose(row[0, 20:-20], 10 * np.sin(2 * np.pi * 3 * time)[20:-20], atol=0.06)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: (f / "A001.dat").write_bytes(b"\0" * 100), r"A001.dat has 25 samples .* declares 320.* incomplete"),
        (lambda f: (f / "A001.dat").unlink(), r"A001.hea names A001.dat, which is not there"),
        (lambda f: head(f, "A001.dat 16 ", "../A002.dat 16 "), "which is outside its folder"),
        (lambda f: head(f, "dat 16 ", "dat 310 "), "has signals of format 310; expected one of 16, 24, 32"),
        (lambda f: head(f, "dat 16 ", "dat 16x4 "), "has signals of format 16x4; expected"),
        (lambda f: head(f, " 2 100 320", " 2 100 99999999999999"), "declares 99,999,999,999,999: it is incomplete"),
        (lambda f: head(f, " 2 100 320", " 200000 100 320"), "declares 200000 signals at 100 Hz and has 2"),
        (lambda f: head(f, " 2 100 320", " 2 -5 320"), "declares 2 signals at -5 Hz"),
        (lambda f: head(f, " 2 100 320", " 2 inf 320"), "declares 2 signals at inf Hz"),
        (lambda f: head(f, " 2 100 320", " 2 0.001 320"), "0.001 samples per second, too far from 100"),
        (lambda f: head(f, " 2 100 320", " two 100 320"), "is no WFDB header"),
        (lambda f: head(f, "A001 2", "A001/3 2"), "has several segments"),
        (lambda f: head(f, " II\n", " III\n"), r"A001.hea has no channel 'II'; it has I, III: expected those of the"),
        (lambda f: flip(f / "A001.dat"), "has not the checksum of A001.hea"),
        (lambda f: (f / "A001.hea").write_bytes(b""), "A001.hea is empty"),
        (lambda f: (f / "A001.hea").write_bytes(b"\xff" * 2_000_000), "too many for a header"),
        (lambda f: fifo(f / "A001.hea"), "A001.hea is no regular file"),
        (lambda f: lead_out(f / "A001.dat"), r"A001.dat points outside .*: copy it into the folder"),
        (lambda f: lead_out(f / "A001.hea"), r"A001.hea points outside .*: copy it into the folder"),
        (lambda f: lead_out(f / "REFERENCE.csv"), r"REFERENCE.csv points outside .*: copy it into the folder"),
    ],
)
def test_broken_wfdb_recordings(change: Any, message: str, tmp_path: Path) -> None:
    change(many_wfdb(tmp_path))
    with pytest.raises(InputError, match=message) as found:
        task(tmp_path)
    assert "\n" not in str(found.value)


def head(folder: Path, old: str, new: str) -> None:
    path = folder / "A001.hea"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[10] ^= 1
    path.write_bytes(raw)


def lead_out(path: Path) -> None:
    """Put a link in the place of a file, to the file where it is now: beside the folder."""
    path.symlink_to(path.rename(path.parent.with_name(f"{path.parent.name}-{path.name}")))


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def many_edf(folder: Path, **options: Any) -> Path:
    lines = ["recording_file,stage,subject_id"]
    for place in range(24):
        edf(folder / f"s{place:02}.edf", 200 + 100 * (place % 3), value=100 * (place % 2), **options)
        lines.append(f"s{place:02}.edf,{'sleep' if place % 2 else 'wake'},{place // 2 + 20 * (place % 2)}")
    (folder / "labels.csv").write_text("\n".join(lines))
    return folder


def test_edf_with_a_table_and_new_ones(tmp_path: Path) -> None:
    made = task(many_edf(tmp_path), label="stage")
    assert (made.input_shape, made.source.columns) == ((2, 300), ("EEG Fz", "EMG"))
    assert made.target.names == ("sleep", "wake")
    part = made.part("train")
    assert part.names is not None
    for row, name in zip(np.asarray(part.x), part.names, strict=True):
        time = np.arange(200)
        value = 100 * (int(name[1:3]) % 2)
        if int(name[1:3]) % 3 == 0:
            np.testing.assert_allclose(row[1, :200], 100 * np.sin(time / 9 + 1) + value, atol=0.02)
    new = read_new(tmp_path / "s02.edf", stripped(made))
    assert list(new.names) == ["s02.edf"]
    edf(tmp_path / "other.edf", 200, leads=("EEG Fz", "ECG"))
    with pytest.raises(InputError, match=r"other.edf has no channel 'EMG'; it has EEG Fz, ECG"):
        read_new(tmp_path / "other.edf", stripped(made))


@pytest.mark.parametrize("keep", [0, 100, 255, 256, 700, 1000, -1])
def test_a_truncated_edf_is_one_sentence(keep: int, tmp_path: Path) -> None:
    whole = edf(tmp_path / "a.edf", 300).read_bytes()
    (tmp_path / "a.edf").write_bytes(whole[:keep])
    with pytest.raises(InputError, match=r"a.edf (is empty|is no EDF|declares|cannot be read)"):
        read_edf(tmp_path / "a.edf")


@pytest.mark.parametrize(
    ("place", "text", "message"),
    [
        (236, b"99999999", "declares .* bytes and has"),
        (252, b"9999", "declares 9999 signals .* cannot be in"),
        (252, b"-1  ", "declares -1 signals"),
        (184, b"what?   ", "is no EDF recording: its header has"),
        (236, b"-1      ", "and -1 records"),
    ],
)
def test_edf_headers_that_lie(place: int, text: bytes, message: str, tmp_path: Path) -> None:
    raw = bytearray(edf(tmp_path / "a.edf", 300).read_bytes())
    raw[place : place + len(text)] = text
    (tmp_path / "a.edf").write_bytes(raw)
    with pytest.raises(InputError, match=message):
        read_edf(tmp_path / "a.edf")


@pytest.mark.parametrize("kind", ["edf", "wfdb"])
def test_changed_bytes_never_end_in_anything_but_a_sentence(kind: str, tmp_path: Path) -> None:
    if kind == "edf":
        path, read = edf(tmp_path / "a.edf", 200), read_edf
    else:
        path, read = wfdb(tmp_path, "a", RANDOM.integers(-9, 9, (2, 50))), read_wfdb  # type: ignore[assignment]
    whole = path.read_bytes()
    said = list[str]()
    for _ in range(150):
        raw = bytearray(whole)
        for place in RANDOM.integers(0, min(1024, len(raw)), 3):
            raw[place] = RANDOM.integers(0, 256)
        path.write_bytes(raw)
        try:
            read(path)
        except InputError as error:
            said.append(str(error))
    assert len(said) > 5
    assert not any("\n" in line for line in said)


def test_without_pyedflib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = edf(tmp_path / "a.edf", 200)
    monkeypatch.setitem(sys.modules, "pyedflib", None)
    with pytest.raises(InputError, match=r"needs pyedflib: pip install 'trainless\[signals\]'"):
        read_edf(path)
