from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from sklearn.linear_model import Ridge, RidgeCV
from torch import Tensor, nn

from trainless.core.errors import InputError
from trainless.core.target import Target
from trainless.core.task import Part, Task
from trainless.core.types import Array, Floats
from trainless.learn.members import load_member, member_of, save_member
from trainless.learn.recipe import Recipe
from trainless.learn.ridge import calibrate, fit_head, last_linear, ridge
from trainless.spaces import space

RECIPE = Recipe("closed form")
SHAPES = [(12, 30), (12, 12), (30, 5), (9, 1)]  # more features than samples, and fewer


def data(n: int, p: int, outputs: int = 3) -> tuple[Floats, Floats, Floats]:
    random = np.random.default_rng(n + p)
    x = random.normal(size=(n, p))
    return x, x[:, :1] + random.normal(size=(n, outputs)), random.uniform(0.2, 3, n)


def tensors(*arrays: Floats) -> tuple[Tensor, ...]:
    return tuple(map(torch.from_numpy, arrays))


@pytest.mark.parametrize(("n", "p"), SHAPES)
@pytest.mark.parametrize("penalty", [1e-3, 1.0, 300.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_the_ridge_of_scikit_learn(n: int, p: int, penalty: float, weighted: bool) -> None:
    x, t, w = data(n, p)
    found = ridge(*tensors(x, t), torch.from_numpy(w) if weighted else None, [penalty])
    oracle = Ridge(penalty, tol=1e-12).fit(x, t, w if weighted else None)
    assert np.allclose(found.weights.T.numpy(), oracle.coef_, atol=1e-8)
    assert np.allclose(found.intercept.numpy(), oracle.intercept_, atol=1e-8)


@pytest.mark.parametrize(("n", "p"), SHAPES)
@pytest.mark.parametrize("penalty", [1e-3, 1.0, 300.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_answers_left_out_are_those_of_fits_without_them(
    n: int, p: int, penalty: float, weighted: bool, grouped: bool
) -> None:
    x, t, w = data(n, p)
    w = w if weighted else np.ones(n)
    owners: Array = np.random.default_rng(0).integers(0, n // 3 + 1, n) if grouped else np.arange(n)
    found = ridge(*tensors(x, t, w), [penalty], owners if grouped else None)
    for owner in np.unique(owners):
        out = owners == owner
        fit = Ridge(penalty, tol=1e-12).fit(x[~out], t[~out], w[~out])
        assert np.allclose(found.left_out[out].numpy(), fit.predict(x[out]).reshape(-1, 3), atol=1e-6)


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_the_penalty_is_that_of_ridge_cv(n: int, p: int) -> None:
    x, t, _ = data(n, p)
    penalties = np.logspace(-3, 3, 7)
    assert ridge(*tensors(x, t), penalties=penalties).penalty == RidgeCV(penalties).fit(x, t).alpha_


def test_copies_of_a_recording_do_not_pass_for_evidence() -> None:
    """Windows that are nearly the same answer for each other, unless they are left out together."""
    random = np.random.default_rng(0)
    x = np.repeat(random.normal(size=(15, 40)), 4, 0) + 1e-3 * random.normal(size=(60, 40))
    t = np.repeat(random.normal(size=(15, 1)), 4, 0)  # noise: nothing can be learnt
    alone, together = (ridge(*tensors(x, t), together=g) for g in (None, np.repeat(np.arange(15), 4)))
    assert alone.penalty < together.penalty
    assert (alone.left_out.numpy() - t).var() < 0.1 * t.var()
    assert (together.left_out.numpy() - t).var() > 0.8 * t.var()


def test_calibration_is_where_the_loss_is_least() -> None:
    random = np.random.default_rng(1)
    y = random.choice(3, 400, p=[0.7, 0.2, 0.1])
    decisions = np.eye(3)[y] + random.normal(size=(400, 3))
    prior = np.bincount(y) / 400
    scale, share = calibrate(decisions, y, prior)
    rows = np.arange(400)

    def loss(a: float, b: float) -> float:
        return float(-log_softmax(a * decisions + b * np.log(prior), axis=1)[rows, y].mean())

    around = [loss(scale * a, share + b) for a in (0.8, 1, 1.25) for b in (-0.2, 0, 0.2)]
    assert min(around) >= loss(scale, share) - 1e-3
    assert scale == pytest.approx(1, abs=0.3)  # a shift by one between normal variables is a logit of one
    assert share == pytest.approx(1, abs=0.3)


def test_answers_without_a_mistake_make_nothing_certain() -> None:
    for n in (10, 1000):
        y = np.arange(n) % 2
        scale, _ = calibrate(np.eye(2)[y], y, np.ones(2))
        assert softmax(scale * np.array([0.0, 1.0]))[0] == pytest.approx(0.5 / (n + 1), rel=0.01)


def normal(n: int, classes: int, seed: int, shares: list[float] | None = None) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    y = random.choice(classes, n, p=shares)
    centres = 1.5 * np.eye(classes, 6)
    return (centres[y] + random.normal(size=(n, 6)))[:, None].astype(np.float32), y


def task_of(classes: int = 3, n: int = 300, shares: list[float] | None = None) -> Task:
    parts = [Part(*normal(size, classes, seed, shares)) for seed, size in enumerate((n, 400, 2000))]
    return Task("normal", (1, 6), Target("binary" if classes == 2 else "multiclass", classes), *parts)


def probabilities(net: nn.Module, task: Task) -> tuple[Floats, Array]:
    x, y = task.tensors("test")
    with torch.no_grad():
        return softmax(net(x).double().numpy(), axis=1), y.numpy()


@pytest.mark.parametrize("balanced", ["none", "balanced"])
def test_probabilities_are_near_those_of_the_normal_model(balanced: str) -> None:
    """Classes are normal with known means: their true probabilities, and so the least log-loss, are known."""
    shares = [0.75, 0.2, 0.05]
    task = task_of(3, 2000, shares)
    recipe = Recipe("closed form", class_weights=balanced)  # type: ignore[arg-type]
    trained = fit_head(nn.Sequential(nn.Flatten(), nn.Linear(6, 3)), task, recipe)
    p, y = probabilities(trained.net, task)
    x = task.part("test").x[:, 0]
    truth = softmax(1.5 * np.asarray(x)[:, :3] + np.log(shares), axis=1)
    rows = np.arange(len(y))
    assert -np.log(p[rows, y]).mean() < -np.log(truth[rows, y]).mean() + 0.05
    assert (p.argmax(1) == y).mean() > (truth.argmax(1) == y).mean() - 0.02
    assert np.allclose(p.mean(0), shares, atol=0.04)
    (epoch,) = trained.history
    assert epoch.valid_loss == pytest.approx(-np.log(p[rows, y]).mean(), abs=0.08)
    assert epoch.train_loss == pytest.approx(-np.log(p[rows, y]).mean(), abs=0.08)
    assert trained.status == "ok"


def test_a_single_logit_says_the_same_as_two() -> None:
    task = task_of(2)
    two, one = (fit_head(nn.Sequential(nn.Flatten(), nn.Linear(6, k)), task, RECIPE) for k in (2, 1))
    x, _ = task.tensors("test")
    logits = two.net(x)
    assert torch.allclose(one.net(x)[:, 0], logits[:, 1] - logits[:, 0], atol=1e-5)
    assert one.history[0].valid_loss == pytest.approx(two.history[0].valid_loss, abs=1e-6)
    assert one.history[0].valid_accuracy == two.history[0].valid_accuracy > 0.8


def test_values_are_fitted_too() -> None:
    random = np.random.default_rng(0)
    xs = [random.normal(size=(n, 1, 5)).astype(np.float32) for n in (40, 20, 20)]
    parts = [Part(x, (x[:, 0] @ np.arange(5.0) + 7).astype(np.float32)) for x in xs]
    task = Task("values", (1, 5), Target("regression", 1), *parts)
    trained = fit_head(nn.Sequential(nn.Flatten(), nn.Linear(5, 1)), task, RECIPE)
    assert torch.allclose(trained.net[1].weight, torch.arange(5.0), atol=1e-3)  # type: ignore[index]
    assert trained.net[1].bias.item() == pytest.approx(7, abs=1e-3)  # type: ignore[index]
    assert trained.history[0].valid_loss < 1e-5
    assert np.isnan(trained.history[0].valid_accuracy)


class Watched(nn.Module):
    """A network that remembers what it was prepared with, has a norm, and a feature that never changes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(1), nn.Linear(7, 3)
        self.prepared = 0

    def prepare(self, x: Tensor) -> None:
        self.prepared = len(x)

    def forward(self, x: Tensor) -> Tensor:
        features = self.norm(5 * x + 2).flatten(1)
        answers: Tensor = self.head(torch.cat([features, torch.full_like(features[:, :1], 3.0)], 1))
        return answers


def test_the_network_is_prepared_and_its_norms_settle_on_a_copy() -> None:
    task, net = task_of(), Watched()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    trained = fit_head(net, task, RECIPE)
    assert isinstance(trained.net, Watched)
    assert (net.prepared, trained.net.prepared) == (0, 300)
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    x, _ = task.tensors("train")
    assert trained.net.norm.running_mean.item() == pytest.approx((5 * x + 2).mean().item(), abs=0.05)  # type: ignore[union-attr]
    assert trained.net.norm.running_var.item() == pytest.approx((5 * x).var().item(), rel=0.05)  # type: ignore[union-attr]
    assert not trained.net.training
    assert trained.net.norm.momentum == 0.1
    assert (trained.net.head.weight[:, 6] == 0).all()


def test_the_seed_decides_and_a_member_is_loaded_back(tmp_path: Path) -> None:
    task, home = task_of(), space("rocket")
    member = member_of(home, (0, 0, 0), RECIPE, seed=3)
    nets = [home.build(member.arch, task) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    first, again, other = (fit_head(nets[i], task, RECIPE, seed=seed) for i, seed in ((0, 3), (1, 3), (0, 4)))
    x, _ = task.tensors("valid")
    assert torch.equal(first.net(x), again.net(x))
    assert not torch.equal(first.net(x), other.net(x))
    assert first.history[0].valid_accuracy > 0.6
    save_member(tmp_path, member, first, task)
    held, trained, about = load_member(tmp_path)
    assert (held, about.fingerprint, trained.history) == (member, task.fingerprint, first.history)
    assert torch.equal(trained.net(x), first.net(x))


def test_features_that_are_not_finite_are_a_status() -> None:
    class Bad(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            answers: Tensor = self.head(x.flatten(1) / 0)
            return answers

    assert fit_head(Bad(), task_of(), RECIPE).status.startswith("diverged: the features are not finite")


def test_a_network_without_a_last_linear_layer_is_refused() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, 3), nn.ReLU())
    with pytest.raises(InputError, match="the output of Sequential is not that of a linear layer"):
        fit_head(net, task_of(), RECIPE)
    assert last_linear(net[:2], torch.zeros(2, 1, 6)) is net[1]
    with pytest.raises(InputError, match="has no bias"):
        fit_head(nn.Sequential(nn.Flatten(), nn.Linear(6, 3, bias=False)), task_of(), RECIPE)
