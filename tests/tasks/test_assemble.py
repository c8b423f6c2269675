from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import trainless.tasks
from trainless.core.errors import InputError, UnknownName
from trainless.core.task import PartName, Task
from trainless.tasks import task
from trainless.tasks.assemble import copies, moments

PARTS: tuple[PartName, ...] = ("train", "valid", "test")


def data(n: int = 60, classes: int = 3, shape: tuple[int, ...] = (2, 9)) -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(0).normal(3, 2, (n, *shape)), np.arange(n) % classes


def whole(made: Task) -> np.ndarray:
    return np.concatenate([np.asarray(made.part(part).x[:]) for part in PARTS])


def test_importing_tasks_does_not_import_torch() -> None:
    code = "import sys, trainless.tasks; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_sample_is_in_exactly_one_part_with_its_label() -> None:
    x, y = data()
    x[:, 0, 0] = np.arange(60)
    made = task((x, y))
    found = {
        int(row[0, 0]): int(label)
        for part in PARTS
        for row, label in zip(made.part(part).x, made.part(part).y, strict=True)
    }
    assert found == dict(enumerate(y.tolist()))


@given(st.integers(1, 4), st.floats(-50, 50), st.floats(0.1, 30))
@settings(max_examples=15, deadline=None)
def test_normalisation_comes_from_the_training_part_alone(channels: int, shift: float, scale: float) -> None:
    x = np.random.default_rng(channels).normal(shift, scale, (40, channels, 30))
    made = task((x, np.arange(40) % 2), dims=1, channels="first")
    train, _ = made.tensors("train")
    torch.testing.assert_close(train.mean((0, 2)), torch.zeros(channels), atol=2e-3, rtol=0)
    torch.testing.assert_close(train.std((0, 2), correction=0), torch.ones(channels), atol=2e-3, rtol=0)
    assert made.mean == pytest.approx(made.part("train").x[:].mean((0, 2)))
    test, _ = made.tensors("test")
    expected = (made.part("test").x[:] - np.reshape(made.mean, (1, -1, 1))) / np.reshape(made.std, (1, -1, 1))
    np.testing.assert_allclose(test.numpy(), expected, rtol=1e-3, atol=1e-3)


@given(st.integers(1, 500))
@settings(max_examples=20, deadline=None)
def test_moments_do_not_depend_on_the_pieces(values: int) -> None:
    x = np.random.default_rng(1).normal(1000, 0.1, (23, 3, 4, 5))
    mean, std = moments(x, values)
    np.testing.assert_allclose(mean, x.mean((0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(std, x.std((0, 2, 3)), rtol=1e-9)


def test_the_fingerprint_is_deterministic_and_sees_one_changed_value() -> None:
    x, y = data()
    first = task((x, y)).fingerprint
    assert task((x.copy(), y.copy())).fingerprint == first
    changed = x.copy()
    changed[17, 1, 3] += 1e-9
    other = y.copy()
    other[[0, 1]] = other[[1, 0]]
    prints = {first, task((changed, y)).fingerprint, task((x, other)).fingerprint, task((x, y), seed=1).fingerprint}
    assert len(prints) == 4


def test_a_batch_holds_no_sample_twice() -> None:
    made = task((np.arange(40.0).reshape(20, 2), np.arange(20) % 2))
    assert made.train is not None
    x, _ = made.batch(64, seed=0)
    assert len(x) == len(made.train)
    assert len(x.unique(dim=0)) == len(x)


def test_batches_of_classes_hold_every_class() -> None:
    made = task(data())
    x, y = made.batch(6, seed=0)
    assert x.dtype == torch.float32
    assert sorted(y.tolist()) == [0, 0, 1, 1, 2, 2]
    assert y.dtype == torch.int64


def test_float_labels_are_regression() -> None:
    x, _ = data()
    values = np.random.default_rng(1).normal(size=60)
    made = task((x, values))
    assert (made.target.kind, made.target.outputs) == ("regression", 1)
    inputs, y = made.batch(4, seed=0)
    assert y.dtype == torch.float32
    assert made.target.losses(torch.zeros(4, 1), y).shape == inputs.shape[:1]
    several = task((x, np.stack([values, 2 * values], 1)))
    assert (several.target.outputs, several.batch(4, 0)[1].shape) == (2, (4, 2))


@pytest.mark.parametrize(
    ("labels", "options", "kind", "outputs"),
    [
        (np.arange(60) % 2, {}, "binary", 2),
        (np.arange(60) % 2 == 0, {}, "binary", 2),
        ((np.arange(60) % 2).reshape(60, 1), {}, "binary", 2),
        ((np.arange(60) % 4).astype(float), {}, "multiclass", 4),
        (np.arange(60) % 5, {"kind": "regression"}, "regression", 1),
        (np.arange(60) % 2, {"kind": "multiclass"}, "multiclass", 2),
        (np.linspace(0, 1, 60).round(1), {"kind": "multiclass"}, "multiclass", 11),
        (np.eye(3)[np.arange(60) % 3], {}, "multiclass", 3),
        (np.stack([np.arange(60) % 2, np.arange(60) % 3], 1), {"label": 1}, "multiclass", 3),
    ],
)
def test_the_kind_is_detected_or_forced(
    labels: np.ndarray, options: dict[str, object], kind: str, outputs: int
) -> None:
    made = task((data()[0], labels), **options)
    assert (made.target.kind, made.target.outputs) == (kind, outputs)


def test_labels_are_mapped_and_it_is_said() -> None:
    x, y = data()
    made = task((x, np.array([7, -1, 30])[y]))
    assert made.target.names == ("-1", "7", "30")
    assert any("labels -1, 7, 30 were mapped to 0…2" in note for note in made.notes)
    words = task((x, np.array(["sick", "healthy", "unsure"])[y]))
    assert words.target.names == ("healthy", "sick", "unsure")
    assert sorted(np.unique(words.part("train").y).tolist()) == [0, 1, 2]


def test_classes_in_another_order_keep_their_cases_and_no_note_says_otherwise() -> None:
    sick = np.arange(30) % 3 > 0
    made = task((np.stack([sick] * 8, 1).astype(np.float32), np.where(sick, "sick", "well")), classes="well,sick")
    assert made.target.names == ("well", "sick")
    for part in (made.part("train"), made.part("valid"), made.part("test")):
        assert np.array_equal(part.y, part.x[:].reshape(len(part), -1)[:, 0])  # its cases are called sick, as before
    assert not any("mapped" in note for note in made.notes)


def test_groups_are_never_split_and_are_kept() -> None:
    x, y = data(120)
    patients = np.array([f"p{i // 4}" for i in range(120)])
    made = task((x, y, patients))
    owners = [set(made.part(part).groups.tolist()) for part in PARTS]  # type: ignore[union-attr]
    assert sum(map(len, owners)) == len(set().union(*owners)) == 30


def test_lists_and_tensors_are_arrays_too() -> None:
    x, y = data()
    made = task((torch.tensor(x), torch.tensor(y)))
    assert made.fingerprint == task((x.tolist(), y.tolist())).fingerprint


def test_a_class_too_small_to_stratify_is_noted() -> None:
    x, _ = data()
    made = task((x, np.array([0] * 30 + [1] * 29 + [2])))
    assert 2 in made.part("train").y
    assert "the valid part has no sample of class 2" in made.notes


def test_a_constant_channel_is_noted_and_not_divided_by_zero() -> None:
    x, y = data()
    x[:, 1] = 5
    made = task((x, y))
    assert "channel 1 is constant in the training part" in made.notes
    assert made.tensors("train")[0][:, 1].abs().max() == 0


def test_copies_in_another_part_are_counted() -> None:
    x = np.arange(12).reshape(6, 2)
    assert copies(x[:4], x[2:]) == 2


def bad(**change: object) -> tuple[object, ...]:
    x, y = data()
    values: dict[str, object] = {"x": x, "y": y, **change}
    return tuple(values.values())


def with_value(value: float) -> np.ndarray:
    x, _ = data()
    x[3, 1, 2] = value
    return x


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (bad(x=with_value(np.nan)), r"1 values are NaN or infinite"),
        (bad(x=with_value(-np.inf)), r"1 values are NaN or infinite"),
        (bad(x=with_value(1e200)), r"1 values are NaN or infinite"),
        (bad(y=np.zeros(60)), "all 60 labels are '0.0', one class only; expected at least two"),
        (bad(y=np.arange(60)), "60 classes for 60 samples were given; expected at least two"),
        (bad(y=np.arange(59) % 2), "60 inputs and 59 labels were given"),
        (bad(groups=np.arange(50)), "60 inputs and 50 groups were given"),
        (bad(groups=np.arange(60) % 2), "2 groups were given; expected at least 3"),
        (bad(y=np.where(np.arange(60) % 2, np.nan, 1)), "30 labels are NaN or infinite"),
        (bad(y=np.ones((60, 4, 4))), "expected one class or value per sample: masks .segmentation. are not supported"),
        (bad(y=np.random.default_rng(0).integers(0, 2, (60, 5))), "multi-label.*choose one column with label=0"),
        (bad(y=np.arange(120).reshape(60, 2)), "labels have 2 columns; choose one"),
        (bad(y=np.zeros(60, complex)), "labels are of type complex128"),
        (bad(x=np.array([["a"]] * 60)), "inputs of the train part are of type <U1"),
        (bad(x=np.empty((0, 4)), y=np.empty(0)), "inputs of the train part are empty"),
        (bad(x=[[1, 2], [3]]), "x cannot be read as one array"),
        ((np.zeros((3, 9)), np.array([0, 1, 1])), "2 classes for 3 samples"),
        ((np.arange(18.0).reshape(2, 9), np.array([0.1, 0.2])), "2 samples are too few to split in 3 parts"),
        ((1,), "a task from 1 arrays was asked for; expected a registered name, a path"),
        (5, "a task from a value of type int was asked for"),
    ],
)
def test_bad_arrays_get_one_clear_line(arrays: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        task(arrays)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "binary"}, "kind=binary was given, but labels have 3 classes"),
        ({"window": 3}, "a task from arrays has no option 'window'; it has: channels, classes, dims, kind"),
    ],
)
def test_bad_options_get_one_clear_line(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        task(data(), **options)
    with pytest.raises(InputError, match="kind=regression was given, but labels are strings"):
        task((data()[0], ["a", "b"] * 30), kind="regression")


def test_unknown_names_say_what_is_near() -> None:
    with pytest.raises(
        UnknownName, match="there is no file or folder digit, and no task is called 'digit'; did you mean 'digits'"
    ):
        task("digit")
    with pytest.raises(InputError, match="digits has no option 'group'; it has: classes, seed, size"):
        task("digits", group="a")
    with pytest.raises(InputError, match="there is no file or folder"):
        task("nowhere/data.npz")


def test_every_registered_task_has_a_description() -> None:
    assert set(trainless.tasks.descriptions) == set(trainless.tasks.registry.names())
