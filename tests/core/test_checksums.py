from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from trainless.core.checksums import FIRST, SUMS, checksums, digest, record, unofficial, verify
from trainless.core.errors import InputError


def test_a_file_nobody_has_a_checksum_of_keeps_that_of_its_first_reading(tmp_path: Path) -> None:
    file = tmp_path / "set" / "a.csv"
    file.parent.mkdir()
    file.write_text("first")
    verify(file, tmp_path)
    assert (tmp_path / FIRST).read_text() == f"{hashlib.sha256(b'first').hexdigest()}  ./set/a.csv\n"
    verify(file, tmp_path)
    file.write_text("other")
    with pytest.raises(InputError, match=r"a.csv has the SHA-256 .*SUMS.first expects .* what was first read here"):
        verify(file, tmp_path)
    record(file, tmp_path, FIRST)
    verify(file, tmp_path)
    assert not (tmp_path / SUMS).exists()


def test_a_known_checksum_rules_and_nothing_is_recorded(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("right")
    record(file, tmp_path)
    verify(file, tmp_path)
    file.write_text("wrong")
    with pytest.raises(InputError, match=r"SHA256SUMS expects .*the file is damaged or another version"):
        verify(file, tmp_path)
    assert checksums(tmp_path, FIRST) == {}
    assert checksums(tmp_path) == {"a.csv": hashlib.sha256(b"right").hexdigest()}
    assert digest(file) == hashlib.sha256(b"wrong").hexdigest()


def test_a_file_that_is_not_the_official_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    file.write_bytes(b"abc")
    assert unofficial(file, ("900150983cd24fb0d6963f7d28e17f72",)) == ""  # RFC 1321's own example
    assert unofficial(file, ("0",)) == (
        "a.npz is not the official file: its MD5 checksum is 900150983cd24fb0d6963f7d28e17f72"
    )
