"""Sizes and class names of every kind of data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tasks.test_new import stripped
from trainless.core.errors import InputError
from trainless.tasks import task
from trainless.tasks.new import read_new
from trainless.tasks.resize import resize

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(6, 9), (4, 6, 10)])
def test_shrinking_by_whole_factors_is_the_mean_of_blocks(shape: tuple[int, ...]) -> None:
    x = RANDOM.normal(size=(3, 2, *shape))
    small = tuple(side // 2 if side % 2 == 0 else side // 3 for side in shape)
    blocks = x.reshape(3, 2, *[n for new, old in zip(small, shape, strict=True) for n in (new, old // new)])
    expected = blocks.mean(tuple(range(3, 3 + 2 * len(shape), 2)))
    np.testing.assert_allclose(resize(x, small), expected, rtol=1e-5, atol=1e-6)


def test_growing_keeps_constants_and_lines() -> None:
    np.testing.assert_allclose(resize(np.full((1, 1, 3, 5), 7.0), (8, 11)), 7.0)
    line = resize(np.arange(8.0).reshape(1, 1, 1, 8), (1, 16))[0, 0, 0]
    np.testing.assert_allclose(np.diff(line[1:-1]), 0.5, atol=1e-6)
    signal = np.sin(np.linspace(0, 12, 300))[None, None]
    np.testing.assert_allclose(resize(signal, (150,))[0, 0, 5:-5], signal[0, 0, ::2][5:-5], atol=5e-3)
    assert resize(signal, (97,)).shape == (1, 1, 97)


@pytest.mark.parametrize(
    ("name", "size", "shape"),
    [
        ("digits", 6, (1, 6, 6)),
        ("digits", "4x12", (1, 4, 12)),
        ("ecg-sim", 64, (1, 64)),
        ("nodule-sim", 8, (1, 8, 8, 8)),
        ("breastmnist", 14, (1, 14, 14)),
        ("adrenalmnist3d", "14", (1, 14, 14, 14)),
    ],
)
def test_a_size_for_every_task(name: str, size: Any, shape: tuple[int, ...], data_dir: Path) -> None:
    made = task(name, size=size)
    assert made.input_shape == shape
    x = made.tensors("train")[0]
    assert x.shape[1:] == shape
    assert float(x.mean()) == pytest.approx(0, abs=1e-3)
    assert float(x.std()) == pytest.approx(1, abs=1e-3)


def test_new_arrays_of_the_old_size_are_brought_to_the_new_one(tmp_path: Path) -> None:
    x, y = RANDOM.normal(size=(40, 12, 12, 3)).astype(np.float32), np.arange(40) % 2
    np.savez(tmp_path / "a.npz", x=x, y=y)
    made = task(tmp_path / "a.npz", size=6)
    assert (made.input_shape, made.source.resized) == ((3, 6, 6), True)
    found = read_new(tmp_path / "a.npz", stripped(made)).x
    ours = np.concatenate([np.asarray(part.x) for part in (made.train, made.valid, made.test) if part is not None])
    assert sorted(row.tobytes() for row in found) == sorted(row.tobytes() for row in ours)
    np.savez(tmp_path / "b.npz", x=np.moveaxis(x, -1, 1)[:, :2])
    with pytest.raises(InputError, match=r"inputs of shape \(40, 2, 12, 12\) were given; expected \(N, 3, 6, 6\)"):
        read_new(tmp_path / "b.npz", stripped(made))


def test_sizes_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        InputError,
        match="size='4x4x4' was given; expected a whole number above 0, such as 64, or one per axis, such as 64x64",
    ):
        task("digits", size="4x4x4")
    with pytest.raises(InputError, match=r"size=4 was given, but .* has no data"):
        task("noise:3x8x8:4", size=4)
    with pytest.raises(InputError, match=r"size=100000x100000 would take [\d,.]+ GB, but this machine has"):
        task("digits", size=100_000)


def test_class_names() -> None:
    x = RANDOM.normal(size=(40, 6)).astype(np.float32)
    named = task((x, np.arange(40) % 2), classes=("malignant", "benign"))
    assert named.target.names == ("malignant", "benign")
    assert task((x, np.arange(40) % 2), classes="malignant,benign").target.names == ("malignant", "benign")
    words = np.array(["well", "sick"] * 20)
    plain, turned = task((x, words)), task((x, words), classes=("well", "sick"))
    assert (plain.target.names, turned.target.names) == (("sick", "well"), ("well", "sick"))
    np.testing.assert_array_equal(turned.part("train").y, 1 - plain.part("train").y)
    assert turned.fingerprint != plain.fingerprint
    other = task((x, words), classes=("a", "b"))
    assert "classes sick, well are called a, b in this order" in other.notes


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (("a",), "classes=a were given; expected 2 different names, for sick, well"),
        (("a", "a"), "expected 2 different names"),
        (("sick", "wel"), "of which the data have sick; expected all of sick, well in the order that you want"),
    ],
)
def test_class_names_that_do_not_fit(classes: tuple[str, ...], message: str) -> None:
    x = RANDOM.normal(size=(40, 6)).astype(np.float32)
    with pytest.raises(InputError, match=message):
        task((x, np.array(["well", "sick"] * 20)), classes=classes)
    with pytest.raises(InputError, match="were given, but arrays predicts regression"):
        task((x, RANDOM.normal(size=40)), classes=classes)
