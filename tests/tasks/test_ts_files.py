"""``.ts`` files of the UCR and UEA archives."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.tasks.test_new import stripped
from trainless.core.errors import InputError
from trainless.tasks import task
from trainless.tasks.new import read_new
from trainless.tasks.ts_files import read_ts

HEAD = """#about
@problemName Some
@timeStamps false
@missing false
@univariate {uni}
@equalLength true
@classLabel true {classes}
@data
"""


def write(path: Path, lines: list[str], classes: str = "up down", uni: str = "true") -> Path:
    text = HEAD.format(classes=classes, uni=uni) + "\n".join(lines) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def lines(count: int, length: int = 12, channels: int = 1, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    return [
        ":".join(",".join(f"{value:.3f}" for value in random.normal(size=length)) for _ in range(channels))
        + (":up" if place % 2 else ":down")
        for place in range(count)
    ]


@pytest.mark.parametrize(
    ("name", "shape", "train", "test", "classes"),
    [
        ("ECG200", (1, 96), 100, 100, ("-1", "1")),
        ("ERing", (4, 65), 30, 270, ("1", "2", "3", "4", "5", "6")),
        ("Epilepsy", (3, 206), 137, 138, ("EPILEPSY", "WALKING", "RUNNING", "SAWING")),
        ("FingerMovements", (28, 50), 316, 100, ("left", "right")),
    ],
)
def test_sets_of_the_archive(
    name: str, shape: tuple[int, ...], train: int, test: int, classes: tuple[str, ...], data_dir: Path
) -> None:
    made = task(data_dir / "ucr" / f"{name}_TRAIN.ts.gz")
    assert (made.name, made.input_shape, made.target.names) == (name, shape, classes)
    assert len(made.part("train")) + len(made.part("valid")) == train
    assert len(made.part("test")) == test
    assert f"{name}_TEST.ts.gz beside {name}_TRAIN.ts.gz is the test part" in made.notes
    text = gzip.decompress((data_dir / "ucr" / f"{name}_TEST.ts.gz").read_bytes()).decode()
    *channels, label = text.split("@data", 1)[1].split()[0].split(":")
    first = np.array([[float(value) for value in channel.split(",")] for channel in channels], np.float32)
    np.testing.assert_array_equal(made.part("test").x[0:1][0], first)
    assert classes[int(made.part("test").y[0])] == label


def test_the_test_part_is_found_in_either_packing_and_its_absence_is_said(tmp_path: Path) -> None:
    train = write(tmp_path / "Some_TRAIN.ts", lines(40))
    alone = task(train)
    assert alone.notes[0] == "there is no Some_TEST.ts beside Some_TRAIN.ts: a test part is cut off"
    assert len(alone.part("test")) == 6
    write(tmp_path / "Some_TEST.ts.gz", lines(10, seed=1))
    both = task(train)
    assert (len(both.part("test")), both.name) == (10, "Some")
    with pytest.raises(InputError, match=r"Some_TEST.ts.gz is a test part; give the training part Some_TRAIN.ts"):
        task(tmp_path / "Some_TEST.ts.gz")


def test_missing_values_are_filled_in_linearly_and_counted(tmp_path: Path) -> None:
    own = lines(40)
    own[0] = "?,1,?,?,4,5,6,NaN,8,9,10,?:down"
    path = write(tmp_path / "a.ts", own)
    np.testing.assert_allclose(read_ts(path).signals[0][0], [1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10])
    assert "5 missing values of a.ts were filled in linearly" in task(path).notes


def test_signals_of_different_lengths_are_recordings(tmp_path: Path) -> None:
    own = [line for length in (10, 20, 45) for line in lines(20, length, channels=2)]
    path = write(tmp_path / "a.ts", own, uni="false")
    made = task(path)
    assert made.input_shape == (2, 20)
    assert sum(made.part(part).cases for part in ("train", "valid", "test")) == 60
    assert sum(len(made.part(part)) for part in ("train", "valid", "test")) == 20 + 20 + 60
    new = read_new(path, stripped(made))
    assert (len(new.x), len(new.names)) == (100, 60)


def test_values_to_predict(tmp_path: Path) -> None:
    text = "@problemName a\n@timeStamps false\n@targetlabel true\n@data\n"
    path = tmp_path / "a.ts"
    path.write_text(text + "\n".join(f"1,2,{place}:{place / 7}" for place in range(60)))
    made = task(path)
    assert made.target.kind == "regression"
    path.write_text(text + "1,2,3:tall\n" * 30)
    with pytest.raises(InputError, match="could not convert string to float: 'tall', where @targetLabel promises"):
        task(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2,3\n4,5,6\n", r"bad.ts is no .ts file: expected lines with @problemName"),
        ("@problemName a\n@data\n", "bad.ts has no signals after @data"),
        ("@timeStamps true\n@classLabel true a b\n@data\n(0,1):a\n", "has time stamps"),
        ("@classLabel false\n@data\n1,2,3\n1,2,4\n", "has no labels"),
        ("@classLabel true a b\n@data\n1,2,3:a\n1,2:3,4:a\n", "line 4 of bad.ts has 2 channels; the first one has 1"),
        ("@classLabel true a b\n@data\n1,x,3:a\n", "line 3 of bad.ts is no signal .could not convert string to float"),
        ("@classLabel true a b\n@data\n1,2:1,2,3:a\n", "line 3 of bad.ts has channels of different lengths .2, 3."),
        ("@classLabel true a b\n@data\n?,?,?:a\n", "line 3 of bad.ts has a channel without a single value"),
        ("@classLabel true a b\n@data\n1,2,3:c\n", "bad.ts has the class 'c'; @classLabel names a, b"),
        ("@dimensions 7\n@classLabel true a b\n@data\n1,2,3:a\n", "declares 7 channels and has 1"),
        ("@classLabel true a b\n@data\n1,2,1e300:a\n" + 9 * "1,2,3:a\n" + 10 * "1,2,4:b\n", "are NaN or infinite"),
        ("@classLabel true a b\n@data\n" + 20 * "1,2,3:a\n", "class"),
        ("\0\0\0\0", "is no .ts file"),
        ("@classLabel\n@data\n1:a", "is no signal"),
    ],
)
def test_a_bad_file_is_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.ts").write_text(text)
    with pytest.raises(InputError, match=message) as found:
        task(tmp_path / "bad.ts")
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("keep", [0, 1, 20, 60, -8, -1])
def test_a_truncated_gzip_file_is_one_sentence(keep: int, tmp_path: Path) -> None:
    whole = gzip.compress(("@classLabel true up down\n@data\n" + "\n".join(lines(40))).encode())
    (tmp_path / "a.ts.gz").write_bytes(whole[:keep])
    with pytest.raises(InputError, match=r"a.ts.gz is (no complete gzip file|empty)"):
        task(tmp_path / "a.ts.gz")
