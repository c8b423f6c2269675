"""Flips and turns are allowed where data look alike from either side, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.designs.tiny import small
from trainless.core.errors import InputError
from trainless.core.target import Target
from trainless.core.task import Part, Task
from trainless.designs.pipeline import design
from trainless.learn.recipe import Augmentation
from trainless.learn.symmetry import LOST, allowed, known, named, symmetries

RANDOM = np.random.default_rng(2)


class Reads(nn.Module):
    """Two logits from the mean of a part of the input, chosen by a function."""

    def __init__(self, where) -> None:
        super().__init__()
        self.where = where

    def forward(self, x: Tensor) -> Tensor:
        level = 3 * self.where(x).flatten(1).mean(1)
        return torch.stack([-level, level], 1)


def task_of(x: np.ndarray, y: np.ndarray) -> Task:
    half = len(x) // 2
    parts = [Part(x[part].astype(np.float32), y[part]) for part in (slice(0, half), slice(half, None))]
    return Task("planted", x.shape[1:], Target("binary", 2), *parts)


def planted(shape: tuple[int, ...], where, n: int = 400) -> Task:
    """Noise, brighter or darker in the part that tells the class."""
    y = np.arange(n) % 2
    x = RANDOM.normal(size=(n, *shape))
    where(x)[:] += (2 * y - 1).reshape(-1, *[1] * (x.ndim - 1))
    return task_of(x, y)


@pytest.mark.parametrize(
    ("shape", "where", "wanted"),
    [
        ((1, 30), lambda x: x[:, :, :10], set()),
        ((1, 30), lambda x: x[:, :, 10:20], {"time"}),
        ((1, 12, 12), lambda x: x[:, :, :4], {"leftright"}),
        ((1, 12, 12), lambda x: x[:, :, :, 8:], {"updown"}),
        ((1, 12, 12), lambda x: x[:, :, 4:8, 4:8], {"updown", "leftright", "turn"}),
        ((1, 8, 8, 8), lambda x: x[:, :, :3], {"updown", "leftright", "turn"}),
        ((1, 8, 8, 8), lambda x: x[:, :, :, :, :3], {"depth", "updown"}),
    ],
)
def test_what_changes_nothing_is_found(shape, where, wanted) -> None:
    task = planted(shape, where)
    found = symmetries(Reads(where), task)
    assert tuple(one.name for one in found) == known(len(shape) - 1)
    assert {one.name for one in found if one.allowed and one.name != "turn"} == wanted - {"turn"}
    if "turn" in wanted and len(shape) == 4:
        assert next(one for one in found if one.name == "turn").most < 0.5  # corners leave a square that is turned
    assert all(("left out" in str(one)) != one.allowed for one in found)


def test_who_knows_nothing_allows_nothing() -> None:
    """A symmetric network on labels that belong to nothing: flips cost it nothing, and it has nothing to lose."""
    task = planted((1, 12, 12), lambda x: x[:, :, 4:8, 4:8])
    shuffled = task_of(np.asarray(task.part("valid").x), RANDOM.permutation(task.part("valid").y))
    assert not any(one.allowed for one in symmetries(Reads(lambda x: x), shuffled))


def test_costs_are_paired_differences() -> None:
    task = planted((1, 20), lambda x: x[:, :, :5], n=40)
    net = Reads(lambda x: x[:, :, :5])
    x, y = task.tensors("valid")

    def losses(x: Tensor) -> np.ndarray:
        return nn.functional.cross_entropy(net(x), y, reduction="none").double().numpy()

    counts = np.bincount(task.part("train").y) + 1
    gain = -np.log((counts / counts.sum())[y.numpy()]) - losses(x)
    knows = gain.mean() - 1.645 * gain.std(ddof=1) / np.sqrt(len(y))
    cost = losses(x.flip(2)) - losses(x)
    (found,) = symmetries(net, task)
    assert found.lost == pytest.approx(cost.mean() / knows, rel=1e-4)
    assert found.most == pytest.approx((cost.mean() + 1.645 * cost.std(ddof=1) / np.sqrt(len(y))) / knows, rel=1e-4)
    assert found.most > LOST


def test_names() -> None:
    assert named("updown, turn", 2) == ("updown", "turn")
    assert named("", 2) == ()
    assert allowed(Augmentation(flip=(0,)), ("leftright",), 3).flip == (0, 2)
    with pytest.raises(InputError, match="--symmetry updown was given; these data can have: time"):
        named("updown", 1)
    with pytest.raises(InputError, match="these data can have: none: it has no grid"):
        named("time", 0)


@pytest.mark.slow
def test_a_design_takes_what_was_asked_for_and_what_it_learnt(tmp_path: Path) -> None:
    task = planted((1, 8, 8), lambda x: 4 * x[:, :, 2:6, 2:6], n=120)
    asked = small(plain=True, symmetry="leftright", members=2, epochs=1)
    found = design(task, tmp_path / "asked", settings=asked, report=False)
    assert found.summary["plan"]["recipe"]["augmentation"]["flip"] == [1]
    learnt = design(task, tmp_path / "learnt", settings=small(plain=True, symmetry="learn", epochs=1), report=False)
    notes = learnt.summary["plan"]["notes"]
    assert [note.split(" were ")[0] for note in notes] == ["flips (updown)", "flips (leftright)", "turns"]
    flips = [axis for axis, note in enumerate(notes[:2]) if "added to the training" in note]
    assert learnt.summary["plan"]["recipe"]["augmentation"]["flip"] == flips
    with pytest.raises(InputError, match="these data can have: updown, leftright, turn"):
        design(task, tmp_path / "wrong", settings=small(symmetry="time"))
