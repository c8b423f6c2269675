"""Recordings of different lengths: windows that cover them, one part each, one answer each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.tasks.test_new import stripped
from trainless.core.errors import InputError
from trainless.core.task import Part, Task, by_record
from trainless.tasks import task
from trainless.tasks.new import read_new
from trainless.tasks.recordings import Recordings, Windowing, cut, from_recordings, plan_windows
from trainless.tasks.resize import resampled
from trainless.tasks.settings import Reading

RANDOM = np.random.default_rng(0)
PARTS = ("train", "valid", "test")


def saved(path: Path, lengths: list[int], channels: int = 1, **more: Any) -> Path:
    signals = [RANDOM.integers(-500, 500, (channels, length)).astype(np.int16) for length in lengths]
    joined = np.concatenate(signals, axis=1)
    arrays = {
        "signal": joined[0] if channels == 1 else joined,
        "offsets": np.concatenate([[0], np.cumsum(lengths)]),
        "labels": np.array(["sick" if place % 3 == 0 else "well" for place in range(len(lengths))]),
        **more,
    }
    np.savez(path, **arrays)
    return path


def lengths(count: int = 60) -> list[int]:
    return np.random.default_rng(1).integers(40, 400, count).tolist()


@pytest.mark.parametrize("length", [1, 7, 50, 99, 100, 101, 110, 111, 150, 200, 250, 999])
def test_windows_cover_the_recording_and_are_its_own_samples(length: int) -> None:
    signal = np.arange(2 * length).reshape(2, length)
    found = cut(signal, Windowing(100))
    assert found.shape[1:] == (2, 100)
    for window in found:
        assert (window[1] - window[0] == length).all()  # both channels at the same place
        if length >= 100:
            assert (np.diff(window[0]) == 1).all()
    missing = length - len(np.unique(found[:, 0]))
    assert missing <= (0 if length < 100 or length > 110 else 10)
    assert len(found) <= max(1, np.ceil(length / 100))
    if length < 100:
        np.testing.assert_array_equal(found[0, 0], np.tile(np.arange(length), 100)[:100])


def test_resampling_removes_what_the_new_rate_cannot_hold_and_keeps_the_rest() -> None:
    time = np.arange(9000) / 300
    slow, fast = np.sin(2 * np.pi * 5 * time)[None], np.sin(2 * np.pi * 130 * time)[None]
    inside = slice(100, -100)
    np.testing.assert_allclose(resampled(slow, 1, 2)[0, inside], slow[0, ::2][inside], atol=2e-3)
    assert np.abs(resampled(fast, 1, 2)[0, inside]).max() < 2e-3  # 130 Hz would be 20 Hz if it were aliased
    assert np.abs(fast[0, ::2]).max() > 0.9
    offset = resampled(np.full((1, 3000), 700.0), 1, 3)
    np.testing.assert_allclose(offset, 700.0, rtol=1e-4)  # no edge where the signal is not around zero


def test_the_mean_over_windows_is_that_of_pandas() -> None:
    records = RANDOM.permutation(np.repeat([9, 4, 6, 1], [1, 5, 2, 3]))
    values = RANDOM.normal(size=(3, 11, 2))
    found = by_record(values, records, axis=1)
    for member, expected in zip(found, values, strict=True):
        frame = pd.DataFrame(expected).groupby(records, sort=False).mean()
        np.testing.assert_allclose(member, frame.to_numpy())
    part = Part(values[0], records % 2, records=records)
    assert part.cases == 4
    np.testing.assert_array_equal(part.truth, pd.Series(records).drop_duplicates() % 2)
    rows = part.rows_of(np.array([2, 0]))
    wanted = records[part.first]
    assert records[rows].tolist() == [
        *[wanted[2]] * (records == wanted[2]).sum(),
        *[wanted[0]] * (records == wanted[0]).sum(),
    ]


def test_all_windows_of_a_recording_are_in_one_part_and_none_is_lost(tmp_path: Path) -> None:
    own = lengths()
    made = task(saved(tmp_path / "own.npz", own, records=np.array([f"r{i}" for i in range(60)])))
    size = round(float(np.median(own)))
    assert made.input_shape == (1, size)
    names = [set(np.asarray(made.part(part).names).tolist()) for part in PARTS]
    assert sum(map(len, names)) == len(set().union(*names)) == 60
    assert [made.part(part).cases for part in PARTS] == [42, 9, 9]
    assert sum(len(made.part(part)) for part in PARTS) == sum(max(1, int(np.ceil(n / size - 0.1))) for n in own)
    for part in PARTS:
        truth = {str(name): int(str(name)[1:]) % 3 == 0 for name in made.part(part).names}
        assert [made.target.names[y] == "sick" for y in made.part(part).y] == [
            truth[str(n)] for n in made.part(part).names
        ]
    assert any("answers are by recording" in note for note in made.notes)


def test_groups_keep_recordings_of_one_person_together(tmp_path: Path) -> None:
    people = np.repeat(np.arange(20), 3)
    labels = np.where(people % 2 == 0, "sick", "well")
    made = task(saved(tmp_path / "own.npz", lengths(), groups=people, labels=labels))
    seen = [set(np.asarray(made.part(part).groups).tolist()) for part in PARTS]
    assert sum(map(len, seen)) == len(set().union(*seen)) == 20


def test_window_and_size(tmp_path: Path) -> None:
    path = saved(tmp_path / "own.npz", [300] * 20 + [700] * 20, channels=3)
    assert task(path).input_shape == (3, 500)
    assert task(path, window=100).input_shape == (3, 100)
    assert task(path, window=100).part("train").cases == 28
    small = task(path, size=50)
    assert (small.input_shape, small.source.resampling) == ((3, 50), (1, 10))
    assert plan_windows([20_000_000] * 3) == Windowing(5000, 1, 4)
    with pytest.raises(InputError, match="size=3 was given for windows of 20000 samples; expected at least 20"):
        plan_windows([10**6], size=3)


def test_recordings_of_one_length_are_plain_samples(tmp_path: Path) -> None:
    made = task(saved(tmp_path / "own.npz", [128] * 40))
    assert made.input_shape == (1, 128)
    assert made.part("train").records is None
    assert not made.source.any_length
    new = saved(tmp_path / "new.npz", [100] * 2)
    with pytest.raises(InputError, match="recording 0 has 1 channels of 100 samples; the training data had 1 of 128"):
        read_new(new, stripped(made))


@pytest.mark.parametrize("options", [{}, {"size": 60}, {"window": 90}])
def test_new_recordings_are_cut_as_the_data_were(options: dict[str, Any], tmp_path: Path) -> None:
    path = saved(tmp_path / "own.npz", lengths(), channels=2)
    made = task(path, **options)
    new = read_new(path, stripped(made))
    assert list(new.names) == list(range(60))
    parts = [made.part(part) for part in PARTS]
    ours = sorted(np.asarray(row).tobytes() for part in parts for row in part.x)
    assert ours == sorted(np.asarray(row).tobytes() for row in new.x)
    assert new.records is not None
    assert len(np.unique(new.records)) == 60


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"offsets": np.array([0, 5, 3])},
            "offsets do not fit the signal; expected rising whole numbers from 0 to its",
        ),
        ({"offsets": np.array([0.0, 5.5])}, "offsets do not fit the signal"),
        ({"offsets": np.array([[0, 5]])}, "offsets do not fit the signal"),
        ({"labels": np.array(["a"])}, "recordings and 1 labels are in the train part"),
        ({"signal": np.zeros((2, 2, 2))}, "signal has shape .2, 2, 2. and type float64"),
        ({"signal": np.array(["a", "b"])}, "signal has shape .2,. and type <U1"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        task(saved(tmp_path / "own.npz", lengths(), **change))


def test_channels_must_be_the_same_in_all() -> None:
    with pytest.raises(InputError, match="recording 1 of the train part has 3 channels, the first one 2"):
        from_recordings("x", {"train": Recordings([np.ones((2, 9)), np.ones((3, 9))], np.arange(2))}, Reading())
    with pytest.raises(InputError, match="recording second of the train part is empty"):
        signals = [np.ones((1, 9)), np.ones((1, 0))]
        named = Recordings(signals, np.arange(2), names=np.array(["first", "second"]))
        from_recordings("x", {"train": named}, Reading())


def test_the_fingerprint_tells_recordings_apart() -> None:
    x, y = np.zeros((4, 1, 3), np.float32), np.array([0, 0, 1, 1])
    one = Task("a", (1, 3), task("digits").target, Part(x, y, records=np.array([0, 0, 1, 1])))
    other = Task("a", (1, 3), task("digits").target, Part(x, y))
    assert one.fingerprint != other.fingerprint
