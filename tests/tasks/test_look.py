"""A look at data finds what was planted in them, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainless.core.task import Task
from trainless.tasks import task
from trainless.tasks.drawing import in_text, sheet, tile
from trainless.tasks.look import examples, look_at

RANDOM = np.random.default_rng(0)


def bright(n: int = 200, **options: Any) -> Task:
    """Images whose brightness tells the class."""
    random = np.random.default_rng(1)
    y = np.arange(n) % 2
    return task((random.normal(size=(n, 10, 10)) + 2 * y[:, None, None], y), **options)


def changed(made: Task, part: str, **arrays: Any) -> Task:
    return replace(made, **{part: replace(getattr(made, part), **arrays)}, fingerprint="")


def test_clean_data_have_nothing_to_say() -> None:
    found = look_at(bright())
    assert found.cases == {"train": 140, "valid": 30, "test": 30}
    assert found.classes["train"] == {"0": 70, "1": 70}
    assert (found.leaks, found.copies, found.constant, found.doubtful) == ([], (), (), ())
    assert found.trees > 0.95


def test_wrong_labels_are_found() -> None:
    made = bright()
    y = np.asarray(made.part("train").y).copy()
    wrong = [3, 40, 77]
    y[wrong] = 1 - y[wrong]
    found = look_at(changed(made, "train", y=y))
    assert {int(each.case) for each in found.doubtful} == set(wrong)
    assert all(each.label != each.looks_like and each.probability > 0.5 for each in found.doubtful)


def test_noise_is_not_doubted() -> None:
    x, y = RANDOM.normal(size=(200, 10, 10)), np.arange(200) % 2
    found = look_at(task((x, y)))
    assert found.doubtful == ()
    assert 0.3 < found.trees < 0.66


def test_copies_leaks_contradictions_and_constants() -> None:
    made = bright()
    x, test = np.asarray(made.part("train").x).copy(), np.asarray(made.part("test").x).copy()
    x[5] = x[9]  # of the same class
    test[2] = x[20]
    x[33] = 7.0
    made = changed(changed(made, "train", x=x), "test", x=test)
    train_y, test_y = made.part("train").y, np.asarray(made.part("test").y).copy()
    test_y[2] = 1 - train_y[20]
    found = look_at(changed(made, "test", y=test_y), labels=False)
    assert {each.cases for each in found.copies} == {("5", "9"), ("20", "2")}
    assert [each.parts for each in found.leaks] == [("train", "test")]
    assert [each.cases for each in found.contradictions][-1:] == [("20", "2")]
    assert found.constant == ("train 33",)


def test_groups_in_two_parts() -> None:
    made = bright()
    parts = {name: len(getattr(made, name)) for name in ("train", "valid", "test")}
    for name, count in parts.items():
        made = changed(made, name, groups=np.array([f"{name}{i // 2}" for i in range(count)]))
    assert look_at(made, labels=False).shared_groups == ()
    groups = np.asarray(made.part("test").groups).copy()
    groups[:2] = "train0"
    found = look_at(changed(made, "test", groups=groups), labels=False)
    assert found.shared_groups == ("train0",)
    assert found.groups == {"train": 70, "valid": 15, "test": 15}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ecg-sim", "nodule-sim", "digits", "tiny-text"])
def test_every_kind_of_data_can_be_looked_at(name: str) -> None:
    made = task(name)
    found = look_at(made)
    assert found.notes == made.notes
    if not made.vocabulary:
        shown = examples(made, 2)
        assert list(shown) == list(made.target.names)
        assert all(tile(row[0]).size[1] == 112 for row in shown.values())
        assert sheet(shown).size[1] > 112 * len(shown)
        assert all(in_text(row[0]) for row in shown.values())


def test_values_are_shown_from_the_least_to_the_greatest() -> None:
    y = RANDOM.normal(size=60)
    made = task((RANDOM.normal(size=(60, 8)), y), kind="regression")
    assert np.isnan(look_at(made).trees)
    shown = [float(name) for name in examples(made, 4)]
    train = np.asarray(made.part("train").y)
    assert shown == sorted(shown)
    assert [shown[0], shown[-1]] == pytest.approx([train.min(), train.max()], rel=1e-4)


def test_breastmnist_has_a_leak_and_its_own_names(data_dir: Path) -> None:
    made = task(data_dir / "medmnist" / "breastmnist.npz")
    assert made.target.names == ("malignant", "normal, benign")
    assert task("breastmnist").target.names == made.target.names
    found = look_at(made, labels=False)
    raw = np.load(data_dir / "medmnist" / "breastmnist.npz")
    train, test = raw["train_images"], raw["test_images"]
    same = [(i, j) for i in range(len(train)) for j in range(len(test)) if train[i, 0, 0] == test[j, 0, 0]]
    same = [(i, j) for i, j in same if (train[i] == test[j]).all()]
    assert [each.cases for each in found.leaks] == [(str(i), str(j)) for i, j in same]
    pneumonia = task(data_dir / "medmnist" / "pneumoniamnist_rebuilt.npz")
    assert pneumonia.target.names == ("normal", "pneumonia")
    assert task(data_dir / "medmnist" / "adrenalmnist3d.npz").target.names == ("normal", "hyperplasia")


def test_another_file_of_that_name_has_no_such_names(tmp_path: Path) -> None:
    arrays = {f"{part}_images": RANDOM.normal(size=(20, 28, 28)) for part in ("train", "val", "test")}
    labels = {f"{part}_labels": np.arange(20)[:, None] % 2 for part in ("train", "val", "test")}
    np.savez(tmp_path / "breastmnist.npz", **arrays, **labels)
    assert task(tmp_path / "breastmnist.npz").target.names == ()
