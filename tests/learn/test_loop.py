"""The training loop: it learns, resumes bit for bit, is deterministic, reports divergence and streams."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from trainless.core.errors import InputError, UnknownName
from trainless.core.target import Target
from trainless.core.task import Part, Rows, Task
from trainless.learn.batches import (
    Feed,
    Precision,
    augment,
    class_weights,
    in_order,
    mixed,
    shares_of,
    shuffled,
    smoothed_loss,
)
from trainless.learn.checkpoint import Trained, optimiser_tensors, read_tensors, restore_optimiser, write_tensors
from trainless.learn.loop import learning_rate, train
from trainless.learn.metrics import evaluate
from trainless.learn.predictor import predict_part
from trainless.learn.recipe import Augmentation, Recipe, recipe, recipe_for, registry
from trainless.spaces import space
from trainless.tasks import task as load

TINY = space("nb201", channels=4, cells=1)
ARCH = (3, 1, 0, 1, 3, 2)
QUICK = recipe(
    "default", optimiser="sgd", weight_decay=5e-4, epochs=3, batch=64, lr=0.1, average=0.1, smoothing=0.1, mixup=0.2
)


@pytest.fixture(scope="module")
def digits() -> Task:
    return load("digits")


def small(digits: Task, n: int = 160) -> Task:
    part = digits.part("train")
    return replace(digits, train=Part(part.x[:n], part.y[:n]), fingerprint="")


def tiny_net(task: Task, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return nn.Sequential(
            TINY.build(ARCH, task), nn.Dropout(0.1), nn.Linear(task.target.outputs, task.target.outputs)
        )


def same(one: Trained, two: Trained) -> bool:
    first, second = one.net.state_dict(), two.net.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.slow
def test_learns_digits(digits: Task) -> None:
    net = TINY.build(ARCH, digits)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    trained = train(net, digits, recipe("default", epochs=12, lr=0.1))
    assert trained.status == "ok"
    p = predict_part(trained.net, digits, "test")
    assert (p.argmax(1) == digits.part("test").y).mean() > 0.9
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())


class Stop(Exception):
    """The plug is pulled."""


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
@pytest.mark.parametrize("moment", [1, 4, 6, 7])
def test_interrupted_ends_with_the_same_bits(digits: Task, tmp_path: Path, optimiser: str, moment: int) -> None:
    """Killed at a checkpoint in the middle of an epoch, at its end or in a later one."""
    task = small(digits)  # three steps an epoch
    how = replace(QUICK, optimiser=optimiser, lr=0.01)
    whole = train(tiny_net(task), task, how, seed=5)
    file = tmp_path / "checkpoint.safetensors"
    net, calls = tiny_net(task), []

    def pull(module: nn.Module, inputs: object) -> None:
        calls.append(module.training)
        if sum(calls) > moment:
            raise Stop

    net.register_forward_pre_hook(pull)
    with pytest.raises(Stop):
        train(net, task, how, seed=5, checkpoint=file, interval=0)
    again = train(tiny_net(task, seed=99), task, how, seed=5, checkpoint=file)
    assert same(whole, again)
    assert [epoch.valid_loss for epoch in whole.history] == [epoch.valid_loss for epoch in again.history]


def test_restored_momentum_has_the_layout_of_its_kernel(digits: Task, tmp_path: Path) -> None:
    """CUDA's fused optimisers need that, and images are channels-last there."""
    net = nn.Conv2d(4, 4, 3).to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    net(torch.ones(1, 4, 5, 5)).sum().backward()
    optimiser.step()
    write_tensors(tmp_path / "o", optimiser_tensors(optimiser), {})
    momentum = optimiser.state[net.weight]["momentum_buffer"].clone()
    restore_optimiser(optimiser, read_tensors(tmp_path / "o")[0])
    restored = optimiser.state[net.weight]["momentum_buffer"]
    assert restored.stride() == net.weight.stride()
    assert torch.equal(restored, momentum)
    task = small(digits)
    last = Precision(torch.device("cpu"), layout=torch.channels_last)
    whole = train(tiny_net(task), task, QUICK, precision=last)
    assert whole.net.state_dict()["0.stem.0.weight"].is_contiguous()


def test_seed_decides_everything(digits: Task) -> None:
    task = small(digits)
    torch.default_generator.manual_seed(1)
    state = torch.get_rng_state()
    one = train(tiny_net(task), task, QUICK, seed=1)
    assert torch.equal(state, torch.get_rng_state())
    torch.rand(5)
    assert same(one, train(tiny_net(task), task, QUICK, seed=1))
    assert not same(one, train(tiny_net(task), task, QUICK, seed=2))


def test_checkpoint_of_another_recipe_or_broken_is_refused(digits: Task, tmp_path: Path) -> None:
    task, file = small(digits), tmp_path / "checkpoint.safetensors"
    train(tiny_net(task), task, QUICK, checkpoint=file, interval=0)
    with pytest.raises(InputError, match="belongs to another recipe, seed or task"):
        train(tiny_net(task), task, QUICK, seed=3, checkpoint=file)
    file.write_bytes(b"junk")
    with pytest.raises(InputError, match="cannot be read"):
        train(tiny_net(task), task, QUICK, checkpoint=file)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_best_weights_and_early_stopping(digits: Task) -> None:
    task = small(digits)
    how = replace(QUICK, epochs=40, keep="best", patience=2, lr=0.5, clip=0.0)
    trained = train(TINY.build(ARCH, task), task, how)
    losses = [epoch.valid_loss for epoch in trained.history]
    best = int(np.argmin(losses))
    assert len(losses) == min(40, best + 3)
    y = torch.as_tensor(np.asarray(task.part("valid").y))
    p = torch.from_numpy(predict_part(trained.net, task, "valid"))
    assert float(-p[torch.arange(len(y)), y].log().mean()) == pytest.approx(losses[best], rel=1e-4)


def test_divergence_is_a_status(digits: Task) -> None:
    task = small(digits)
    trained = train(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), task, replace(QUICK, lr=1e30, clip=0.0, epochs=20))
    assert trained.failed
    assert trained.status.startswith("diverged: the")
    assert len(trained.history) < 20


def test_memory_mapped_parts_are_read_by_batch(digits: Task, tmp_path: Path) -> None:
    task = small(digits)
    held = train(tiny_net(task), task, QUICK)
    np.save(tmp_path / "x.npy", task.part("train").x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    rows = Rows(mapped, np.arange(len(mapped)))
    streamed = replace(task, train=Part(rows, task.part("train").y))
    feed = Feed(streamed, "train", torch.device("cpu"))
    assert feed.held is None
    assert same(held, train(tiny_net(task), streamed, QUICK))


def test_feed_gives_every_sample_once() -> None:
    for n, batch in ((2, 64), (9, 4), (8, 4), (3, 2)):
        chunks = shuffled(n, batch, 0, 0)
        assert sorted(np.concatenate(chunks).tolist()) == list(range(n))
        assert min(len(chunk) for chunk in chunks) >= 2
        assert np.concatenate(in_order(n, batch)).tolist() == list(range(n))
    assert shuffled(50, 64, 0, 0)[0].tolist() != shuffled(50, 64, 0, 1)[0].tolist()
    with pytest.raises(InputError, match="1 training samples were given"):
        shuffled(1, 4, 0, 0)


def test_an_epoch_of_very_many_samples_is_drawn_anew() -> None:
    first, second = (np.concatenate(shuffled(100, 16, 0, epoch, 40)) for epoch in (0, 1))
    assert len(first) == len(set(first.tolist())) == len(second) == 40
    assert set(first.tolist()) != set(second.tolist())
    assert len(np.concatenate(shuffled(30, 16, 0, 0, 40))) == 30


@pytest.mark.parametrize("shape", [(5, 2, 9), (5, 1, 6, 7), (5, 1, 4, 5, 6)])
def test_augmented_samples_are_shifted_flipped_or_scaled_copies(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))

    def source() -> torch.Generator:
        return torch.Generator().manual_seed(1)

    flips = augment(x, Augmentation(flip=(x.ndim - 3,)), source())
    assert all(torch.equal(new, old) or torch.equal(new, old.flip(-1)) for new, old in zip(flips, x, strict=True))
    assert not torch.equal(flips, x)
    moved = augment(x, Augmentation(shift=0.25), source())
    for new, old in zip(moved, x, strict=True):
        ways = [_shifted(old, steps) for steps in np.ndindex(*[2 * 2 + 1] * (x.ndim - 2))]
        assert any(torch.equal(new, way) for way in ways)
    ratio = augment(x, Augmentation(scale=0.1), source()) / x
    assert torch.allclose(ratio.flatten(1), ratio.flatten(1)[:, :1])
    assert ((ratio - 1).abs() <= 0.1 + 1e-6).all()
    assert (augment(x, Augmentation(noise=0.01), source()) - x).std() == pytest.approx(0.01, rel=0.3)
    full = Augmentation((0, 1, 2), 0.2, 0.1, 10.0, 0.1, 0.1, 0.3)
    assert augment(x, full, source()).shape == x.shape
    assert torch.equal(augment(x, full, source()), augment(x, full, source()))
    tokens = torch.arange(6).reshape(2, 3)
    assert augment(tokens, full, source()) is tokens


def _shifted(sample: torch.Tensor, steps: tuple[int, ...]) -> torch.Tensor:
    """By naive padding: read position i + s, zero outside; shifts of −2 to 2."""
    moved = sample
    for axis, step in enumerate(steps, start=1):
        result = torch.zeros_like(moved)
        for i in range(moved.shape[axis]):
            if 0 <= i + step - 2 < moved.shape[axis]:
                result.select(axis, i).copy_(moved.select(axis, i + step - 2))
        moved = result
    return moved


def test_schedule() -> None:
    plain = recipe("nb201")
    for epoch in (0, 50, 150.5, 200):
        assert learning_rate(plain, epoch / 200) == pytest.approx(0.05 * (1 + math.cos(math.pi * epoch / 200)))
    warm = replace(plain, warmup=0.25)
    rates = [learning_rate(warm, step / 64) for step in range(17)]
    assert rates == sorted(rates)
    assert rates[-1] == 0.1


def test_recipes_are_the_papers() -> None:
    table = {
        "teacup-ecg2017": (0.01, 0.9, 1e-7, 10, "best"),
        "teacup-breastmnist": (0.001, 0.99, 0.001, 200, "last"),
        "teacup-nodulemnist3d": (0.1, 0.9, 0.005, 100, "last"),
        "nb201": (0.1, 0.9, 5e-4, 200, "last"),
    }
    for name, wanted in table.items():
        found = registry[name]
        assert (found.lr, found.momentum, found.weight_decay, found.epochs, found.keep) == wanted
        assert found.optimiser == "sgd"
    assert registry["nb201"].batch == 256
    assert recipe_for(replace(Task.noise((1, 28, 28), 2), name="breastmnist"), "paper").name == "teacup-breastmnist"
    with pytest.raises(UnknownName, match="no recipe is called 'teacup-breast'"):
        recipe("teacup-breast")
    with pytest.raises(InputError, match="a recipe has no 'epoch'"):
        recipe("default", epoch=3)
    with pytest.raises(InputError, match="batch=1 was given"):
        recipe("default", batch=1)
    with pytest.raises(InputError, match="patience=3 needs keep='best'"):
        Recipe("mine", patience=3)


def test_class_weights_are_sklearns() -> None:
    from sklearn.utils.class_weight import compute_class_weight

    y = np.array([0] * 7 + [1] * 2 + [3])
    task = Task("t", (1, 4), Target("multiclass", 4), Part(np.zeros((10, 1, 4)), y), fingerprint="t")
    weights = class_weights(task, "balanced", torch.device("cpu"))
    assert weights is not None
    assert weights[[0, 1, 3]].numpy() == pytest.approx(
        compute_class_weight("balanced", classes=np.array([0, 1, 3]), y=y)
    )
    assert weights[2] == 0


def made(x: np.ndarray, y: np.ndarray, target: Target, valid: slice = slice(None)) -> Task:
    part, held = Part(x, y), Part(x[valid], y[valid])
    return Task("made", x.shape[1:], target, part, held, held, fingerprint="made")


def test_degenerate_data_train(digits: Task) -> None:
    random = np.random.default_rng(0)
    how = recipe("default", epochs=2, class_weights="balanced")
    image = random.normal(size=(20, 1, 8, 8)).astype(np.float32)
    cases = {
        "20 samples, a class missing in validation": made(
            image, np.arange(20) % 3, Target("multiclass", 3), slice(0, 2)
        ),
        "constant input": made(np.zeros_like(image), np.arange(20) % 2, Target("binary", 2)),
        "1,000 classes": made(image, np.arange(20) * 50, Target("multiclass", 1000)),
        "values": made(image, random.normal(size=20).astype(np.float32), Target("regression", 1)),
        "signals": made(random.normal(size=(20, 2, 30)).astype(np.float32), np.arange(20) % 2, Target("binary", 2)),
        "volumes": made(random.normal(size=(6, 1, 8, 8, 8)).astype(np.float32), np.arange(6) % 2, Target("binary", 2)),
    }
    for name, task in cases.items():
        trained = train(TINY.build(ARCH, task), task, how)
        assert trained.status == "ok", name
        assert predict_part(trained.net, task, "test").shape == (len(task.part("test")), task.target.outputs), name
    with pytest.raises(InputError, match="has no valid part"):
        train(TINY.build(ARCH, digits), replace(digits, valid=None), how)


def test_tokens_train() -> None:
    task = load("tiny-text")
    part = task.part("train")
    few = replace(task, train=Part(part.x[:32], part.y[:32]), valid=Part(part.x[:8], part.y[:8]), fingerprint="")
    home = space("recurrent", emsize=8, nhid=8, layers=1)
    rnn = '{"f": {"op": "linear", "input": ["x", "h_prev_0"]}, "h_new_0": {"op": "activation_tanh", "input": ["f"]}}'
    trained = train(home.build(home.parse(rnn), few), few, recipe("default", epochs=2, optimiser="adamw", lr=0.01))
    assert trained.status == "ok"
    assert trained.history[1].train_loss < trained.history[0].train_loss


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_learns_and_resumes(digits: Task, tmp_path: Path) -> None:
    how = recipe("default", epochs=12, lr=0.1)
    trained = train(TINY.build(ARCH, digits), digits, how, device="cuda", checkpoint=tmp_path / "c", interval=0)
    p = predict_part(trained.net, digits, "test", "cuda")
    assert (p.argmax(1) == digits.part("test").y).mean() > 0.9
    again = train(TINY.build(ARCH, digits), digits, how, device="cuda", checkpoint=tmp_path / "c")
    assert len(again.history) == len(trained.history)
    adam = train(tiny_net(digits), digits, replace(how, optimiser="adamw", lr=0.01, epochs=3), device="cuda")
    assert adam.status == "ok"


@pytest.mark.slow
def test_a_rare_class_is_not_passed_over() -> None:
    """One in ten is ill, two deviations apart: equal weights find Φ(1) = 84 % of either class, none 46 % of the ill."""
    random = np.random.default_rng(0)
    y = (np.arange(2000) % 10 == 0).astype(np.int64)
    x = (random.normal(size=(2000, 1, 8, 8)) + 0.25 * y[:, None, None, None]).astype(np.float32)
    sets = [Part(x[start : start + 1000], y[start : start + 1000]) for start in (0, 1000)]
    task = Task("rare", (1, 8, 8), Target("binary", 2), sets[0], sets[1], sets[1], fingerprint="rare")
    how = recipe("default", epochs=6, batch=64)
    assert how.class_weights == "balanced"
    p = predict_part(train(tiny_net(task), task, how).net, task, "test")
    assert p[:, 1].mean() == pytest.approx(0.1, abs=0.04)  # the prior is back
    equal = p / np.array([0.9, 0.1])
    found = evaluate(task.target, sets[1].y, equal / equal.sum(1, keepdims=True), draws=0)
    assert found["sensitivity"].value > 0.65
    assert found["specificity"].value > 0.65


def test_a_network_that_does_not_end_with_a_linear_layer_is_trained_without_weights(digits: Task) -> None:
    task = small(digits)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.Tanh())
    plain = train(net, task, replace(QUICK, class_weights="none"))
    assert same(plain, train(net, task, replace(QUICK, class_weights="balanced")))


def test_a_smoothed_weighted_loss_is_pytorchs() -> None:
    answers, y = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 2, 1, 0])
    weights, target = torch.tensor([0.5, 2.0, 1.0]), Target("multiclass", 3)
    ours = smoothed_loss(target, answers, shares_of(y, 3, weights), 0.0)
    assert torch.allclose(ours, F.cross_entropy(answers, y, weights))
    ours = smoothed_loss(target, answers, shares_of(y, 3, None), 0.1)
    assert torch.allclose(ours, F.cross_entropy(answers, y, label_smoothing=0.1))
    single = answers[:, :1]
    both = torch.cat([torch.zeros_like(single), single], 1)
    shares = shares_of(y % 2, 2, weights[:2])
    one = smoothed_loss(Target("binary", 2), single, shares, 0.1)
    assert torch.allclose(one, smoothed_loss(Target("binary", 2), both, shares, 0.1))


def test_mixed_samples_lie_between_two_and_so_do_their_labels() -> None:
    x, y = torch.arange(8.0).view(8, 1, 1), shares_of(torch.arange(8), 8, None)
    new, labels = mixed(x, y, 0.4, torch.Generator().manual_seed(0))
    assert torch.allclose(labels.sum(1), torch.ones(8))
    assert (labels.diagonal() >= 0.5).all()
    assert torch.allclose(new.flatten(), labels @ torch.arange(8.0), atol=1e-5)
    assert not torch.equal(new, x)


def test_averaged_weights_are_an_exponential_mean(digits: Task) -> None:
    """One epoch of two steps with a horizon of one step keeps the last weights; of many steps it does not."""
    task = small(digits, 128)
    how = replace(QUICK, epochs=1, average=0.0)
    last = train(tiny_net(task), task, how)
    assert same(last, train(tiny_net(task), task, replace(how, average=0.5)))
    assert not same(last, train(tiny_net(task), task, replace(how, epochs=4, average=0.9)))


def test_turning_by_right_angles_and_zooming() -> None:
    """Zoom and angle are drawn; a whole turn is the identity, and a masked block is a zeroed box."""
    x = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    source = torch.Generator().manual_seed(0)
    bounded = augment(x, Augmentation(zoom=1e-6, rotate=1e-6), source)
    assert torch.allclose(bounded, x, atol=1e-4)
    cut = augment(x, Augmentation(mask=0.9), source) == 0
    for each in cut[:, 0]:
        rows, columns = each.any(1), each.any(0)
        assert torch.equal(each, rows[:, None] & columns[None])
    ramp = torch.arange(9.0).expand(1, 1, 9) - 4
    near = augment(ramp, Augmentation(zoom=0.5), source)[0, 0, 3:6]
    assert torch.allclose(near - near[1], (near[2] - near[1]) * torch.tensor([-1.0, 0.0, 1.0]), atol=1e-5)
    assert 0.6 < float(near[2] - near[1]) < 2.1


def test_a_schedule_fits_its_deadline(digits: Task) -> None:
    """Epochs without end are planned; it ends in time, with a learning rate that came down to almost nothing."""
    task = small(digits)
    start = time.time()
    trained = train(tiny_net(task), task, replace(QUICK, epochs=100_000), deadline=start + 3.0)
    assert 2.0 < time.time() - start < 4.5
    rates = [epoch.lr for epoch in trained.history]
    assert trained.status == "ok"
    assert max(rates) > 0.08
    assert rates[-1] < 0.02
    assert len(train(tiny_net(task), task, QUICK, deadline=start + 1000).history) == QUICK.epochs
    assert len(train(tiny_net(task), task, replace(QUICK, epochs=50), deadline=start).history) == 1
