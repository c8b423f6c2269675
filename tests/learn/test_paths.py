"""Dropped paths and a second head, which training alone uses."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from trainless.core.errors import InputError
from trainless.core.target import Target
from trainless.core.task import Part, Task
from trainless.learn.batches import augment
from trainless.learn.loop import train
from trainless.learn.paths import AuxiliaryHead, TrainingParts
from trainless.learn.recipe import Augmentation, Recipe, recipe
from trainless.spaces import space
from trainless.spaces.nds_net import Skeleton


def made(size: int = 24) -> Task:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(size, 3, 16, 16)).astype(np.float32), np.arange(size) % 4
    part = Part(x, y)
    return Task("made", (3, 16, 16), Target("multiclass", 4), part, part, part, fingerprint="made")


TASK = made()
SMALL = Recipe("small", lr=0.02, epochs=2, batch=8, drop_path=0.5, auxiliary=0.4)


def network(skeleton: Skeleton = "cifar", cells: int = 4) -> nn.Module:
    """Cells of DARTS that all have an operation that can be dropped and an identity that cannot."""
    rules = space("darts", channels=4, cells=cells, skeleton=skeleton)
    arch = tuple(3 if place % 4 == 0 else 4 if place % 2 == 0 else 0 for place in range(len(rules.decisions)))
    torch.manual_seed(0)
    return rules.build(arch, TASK)


def parts(**options: float) -> TrainingParts:
    return TrainingParts(network(), Recipe("made", **options), TASK)  # type: ignore[arg-type]


def test_an_operation_is_left_out_for_some_samples_and_made_up_for_in_the_others() -> None:
    held = parts(drop_path=0.5)
    name = held.net.path_names[0]  # type: ignore[union-attr, index]
    seen: dict[str, torch.Tensor] = {}
    held.net.get_submodule(name).register_forward_hook(lambda module, inputs, output: seen.update(after=output))
    held.begin(0.5)
    held.train()
    x = torch.ones(400, 3, 16, 16) + torch.randn(1, 3, 16, 16)
    held(x)
    sizes = seen["after"].flatten(1).abs().sum(1)
    assert 60 < int((sizes == 0).sum()) < 140  # a quarter of them
    whole = sizes[sizes > 0]
    held.begin(0.0)
    held(x)
    plain = seen["after"].flatten(1).abs().sum(1)
    assert bool((plain > 0).all())
    torch.testing.assert_close(whole, plain[: len(whole)] / 0.75, rtol=1e-4, atol=1e-4)
    held.begin(1.0)
    held.eval()
    torch.testing.assert_close(held(x), held.left()(x))  # nothing is dropped where it is not trained


def test_identities_are_never_dropped() -> None:
    net = network()
    dropped = [type(net.get_submodule(name)) for name in net.path_names]  # type: ignore[union-attr]
    assert nn.Identity not in dropped
    assert sum(isinstance(module, nn.Identity) for module in net.modules()) > 0
    assert len(dropped) == sum("_from_" in name.rpartition(".")[2] for name, _ in net.named_modules()) - sum(
        isinstance(module, nn.Identity) for module in net.modules()
    )


@pytest.mark.parametrize(
    ("size", "strides", "taps"), [((8, 8), [3, 3], (2, 2)), ((7, 7), [2, 2], (2, 2)), ((4, 9), [1, 4], (1, 2))]
)
def test_the_second_head_is_darts(size: tuple[int, int], strides: list[int], taps: tuple[int, int]) -> None:
    head = AuxiliaryHead(torch.zeros(1, 12, *size), 10)
    assert head.stride == strides
    assert head.wide.weight.shape == (768, 128, *taps)
    assert head.eval()(torch.randn(3, 12, *size)).shape == (3, 10)
    with torch.no_grad():
        head.narrow.weight.zero_()
    rows = head(torch.randn(3, 12, *size))
    torch.testing.assert_close(rows[0], rows[1])  # nothing else leads around the convolutions


def test_the_second_head_is_heard_after_two_thirds_of_the_cells_in_training_alone() -> None:
    assert network(cells=20).auxiliary_at == "cells.13"  # type: ignore[union-attr]
    held = parts(auxiliary=0.4)
    held.train()
    held(torch.randn(2, 3, 16, 16))
    assert held.heard is not None
    assert held.heard.shape == (2, 4)
    held.heard = None
    held.eval()
    held(torch.randn(2, 3, 16, 16))
    assert held.heard is None


def test_its_loss_takes_part_with_its_weight() -> None:
    """By a network whose own answers are constant, what is learnt before the head is what the second one teaches."""
    net = network()
    classifier = net.classifier
    with torch.no_grad():
        classifier.weight.zero_()  # type: ignore[union-attr, operator]
    plain = dataclasses.replace(SMALL, epochs=1, batch=24, weight_decay=0.0, momentum=0.0, nesterov=False, drop_path=0)
    changes = {}
    for weight in (0.0, 0.4, 0.8):
        after = train(net, TASK, dataclasses.replace(plain, auxiliary=weight), seed=1).net
        changes[weight] = (after.stems[0][0].weight - net.stems[0][0].weight).detach()  # type: ignore[union-attr, index, operator]
    assert float(changes[0.0].abs().max()) == 0
    assert float(changes[0.4].abs().max()) > 0
    torch.testing.assert_close(changes[0.8], 2 * changes[0.4], rtol=1e-4, atol=1e-7)


def test_what_is_trained_is_the_network_alone(tmp_path: Path) -> None:
    net = network()
    found = train(net, TASK, SMALL, seed=3)
    assert found.status == "ok"
    assert found.net.state_dict().keys() == net.state_dict().keys()
    assert not any(module._forward_hooks for module in found.net.modules())
    again = train(net, TASK, SMALL, seed=3)
    for name, tensor in found.net.state_dict().items():
        assert torch.equal(tensor, again.net.state_dict()[name]), name


def test_a_training_that_was_interrupted_ends_with_the_same_bits(tmp_path: Path) -> None:
    net, path, taken = network(), tmp_path / "checkpoint.safetensors", []

    class Stop(Exception):
        pass

    class Once:
        def log(self, step: int, values: object) -> None:
            taken.append(step)
            if len(taken) == 1:
                raise Stop

        def end(self, status: str) -> None:
            pass

    whole = train(net, TASK, SMALL, seed=3)
    with pytest.raises(Stop):
        train(net, TASK, SMALL, seed=3, checkpoint=path, interval=0, callbacks=[Once()])  # type: ignore[list-item]
    resumed = train(net, TASK, SMALL, seed=3, checkpoint=path, interval=0)
    for name, tensor in whole.net.state_dict().items():
        assert torch.equal(tensor, resumed.net.state_dict()[name]), name


def test_a_network_without_cells_is_refused() -> None:
    net = space("nb201", channels=2, cells=1).build((1, 0, 0, 3, 0, 0), TASK)
    with pytest.raises(InputError, match=r"recipe darts: drop_path=0.3 was given for a network that has no such part"):
        train(net, TASK, recipe("darts", epochs=1))
    with pytest.raises(InputError, match=r"auxiliary=0.4 was given for .*of the space darts, or auxiliary=0"):
        train(nn.Sequential(nn.Flatten(), nn.Linear(768, 4)), TASK, recipe("darts", epochs=1, drop_path=0.0))
    for wrong in ({"drop_path": 1.0}, {"auxiliary": -0.1}, {"augmentation": Augmentation(cutout=-1)}):
        with pytest.raises(InputError, match=f"{'cutout' if 'augmentation' in wrong else next(iter(wrong))}=-?[01]"):
            recipe("darts", **wrong)


def test_cutout_zeroes_a_block_that_may_hang_over_the_edge() -> None:
    x = torch.ones(500, 2, 12, 10)
    changed = augment(x, Augmentation(cutout=4), torch.Generator().manual_seed(0))
    gone = changed[:, 0] == 0
    assert torch.equal(changed[:, 0], changed[:, 1])
    heights, widths = gone.any(2).sum(1), gone.any(1).sum(1)
    assert torch.equal(gone.sum((1, 2)), heights * widths)  # one block
    assert set(heights.tolist()) == set(widths.tolist()) == {2, 3, 4}
    assert float((heights == 4).float().mean()) == pytest.approx(9 / 12, abs=0.06)
    assert float(gone.float().mean()) == pytest.approx(44 / 12 * 36 / 10 / 120, rel=0.03)


def test_the_published_recipes_are_the_papers() -> None:
    ours, larger = recipe("darts"), recipe("darts-imagenet")
    assert (ours.lr, ours.drop_path, ours.auxiliary, ours.augmentation.cutout, ours.smoothing) == (
        0.025,
        0.3,
        0.4,
        16,
        0,
    )
    assert (larger.lr, larger.auxiliary, larger.smoothing > 0) == (0.5, 0.4, True)


@pytest.mark.slow
def test_cells_of_darts_learn_by_it_on_the_images_that_are_there(data_dir: Path) -> None:
    from trainless.tasks import task

    images = task("cifar10")
    rules = space("darts", channels=4, cells=3)
    net = rules.build(tuple(4 * (place % 2 == 0) for place in range(len(rules.decisions))), images)
    found = train(net, images, recipe("darts", epochs=2, samples=480), seed=0)
    assert found.status == "ok"
    assert found.history[-1].train_loss < found.history[0].train_loss
