"""Explanations against known answers: linear networks, planted patches, and neighbours that are known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from trainless.core.errors import InputError
from trainless.core.seeds import seeded
from trainless.core.target import Target
from trainless.core.task import Part, Task
from trainless.learn.explain import _windows, answer, explain, integrated_gradients, normalised, occlusion
from trainless.learn.neighbours import Neighbours, features_of, neighbours_of
from trainless.learn.predictor import Predictor

SHAPES = [(2, 12), (1, 6, 7), (2, 4, 5, 6), (9,)]


class Linear(nn.Module):
    """A network that is Σ w x + b of its input, one row of weights per output."""

    def __init__(self, shape: tuple[int, ...], outputs: int, seed: int) -> None:
        super().__init__()
        with seeded(seed):
            self.last = nn.Linear(int(np.prod(shape)), outputs).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x.flatten(1).double())


def linear(shape: tuple[int, ...], kind: str = "regression") -> Predictor:
    target = Target("regression", 1) if kind == "regression" else Target("multiclass", 3)
    task = Task("linear", shape, target, mean=(1.0,) * shape[0], std=(2.0,) * shape[0])
    nets = tuple(Linear(shape, target.outputs, seed) for seed in range(2))
    return Predictor(task, nets, np.array([1.0, 3.0]))


def weights(predictor: Predictor, shape: tuple[int, ...]) -> np.ndarray:
    """The ensemble's own weights: those of its networks, one and three quarters."""
    each = [net.last.weight.detach().numpy()[0].reshape(shape) for net in predictor.nets]  # type: ignore[union-attr]
    return 0.25 * each[0] + 0.75 * each[1]


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_of_linear_networks_are_exact(shape: tuple[int, ...]) -> None:
    """w · (x − b), whatever the number of steps."""
    predictor, x = linear(shape), torch.randn(shape, generator=torch.Generator().manual_seed(0))
    w = weights(predictor, shape)
    for steps in (1, 7):
        assert integrated_gradients(predictor, x, 0, steps=steps) == pytest.approx(w * x.numpy(), rel=1e-5, abs=1e-7)
    start = torch.full(shape, 0.5)
    found = integrated_gradients(predictor, x, 0, baseline=start, steps=3)
    assert found == pytest.approx(w * (x - start).numpy(), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_of_classes_add_up_to_the_change(shape: tuple[int, ...]) -> None:
    predictor, x = linear(shape, "classes"), torch.randn(shape, generator=torch.Generator().manual_seed(0))
    change = answer(predictor, torch.stack([torch.zeros_like(x), x]), 2).detach().numpy()
    assert integrated_gradients(predictor, x, 2, steps=64).sum() == pytest.approx(change[1] - change[0], abs=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_occlusion_of_linear_networks_is_exact(shape: tuple[int, ...]) -> None:
    """A window's fall is the sum of w x inside it; places are means of the windows over them."""
    predictor, x = linear(shape), torch.randn(shape, generator=torch.Generator().manual_seed(0))
    parts = weights(predictor, shape) * x.numpy()
    spatial = shape[1:] or shape
    inside = parts.sum(0) if len(shape) > 1 else parts
    found = occlusion(predictor, x, 0, pieces=3)
    wanted, count = np.zeros(spatial), np.zeros(spatial)
    for window in _windows(spatial, 3):
        wanted[window] += inside[window].sum()
        count[window] += 1
    assert found == pytest.approx(wanted / count, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(("size", "pieces"), list(itertools.product([1, 2, 5, 28, 300], [1, 4, 8, 48])))
def test_windows_cover_everything_and_overlap(size: int, pieces: int) -> None:
    covered = np.zeros(size)
    found = list(_windows((size,), pieces))
    for (window,) in found:
        covered[window] += 1
    assert covered.min() >= 1
    assert len(found) <= pieces
    assert len({window[0].stop - window[0].start for window in found}) == 1


def planted(shape: tuple[int, ...], seed: int, n: int = 160) -> tuple[np.ndarray, np.ndarray, list[tuple[slice, ...]]]:
    """Noise; one class has a bright patch at a place of its own in every case."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 2
    x = random.normal(size=(n, 1, *shape)).astype(np.float32)
    places = []
    for one, label in zip(x, y, strict=True):
        place = tuple(slice(start, start + 4) for start in random.integers(0, np.array(shape) - 4))
        one[(0, *place)] += 4.0 * label
        places.append(place)
    return x, y, places


NETS = {
    1: lambda: nn.Sequential(nn.Conv1d(1, 6, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool1d(1)),
    2: lambda: nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(1)),
    3: lambda: nn.Sequential(nn.Conv3d(1, 6, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool3d(1)),
}


def trained(shape: tuple[int, ...], x: np.ndarray, y: np.ndarray) -> Predictor:
    task = Task("planted", (1, *shape), Target("binary", 2), Part(x, y))
    nets = []
    for seed in range(2):
        with seeded(seed):
            net = nn.Sequential(NETS[len(shape)](), nn.Flatten(), nn.Linear(6, 2))
            optimiser = torch.optim.Adam(net.parameters(), 0.03)
            for _ in range(60):
                optimiser.zero_grad()
                loss = nn.functional.cross_entropy(net(torch.from_numpy(x)), torch.from_numpy(y))
                loss.backward()
                optimiser.step()
        nets.append(net.eval())
    return Predictor(task, tuple(nets), np.ones(2))


@pytest.mark.parametrize("shape", [(60,), (20, 20), (10, 10, 10)])
def test_a_planted_patch_is_found(shape: tuple[int, ...]) -> None:
    """In new cases, by both methods: the hottest place is at the patch, and chance is far off."""
    x, y, _ = planted(shape, 0)
    predictor = trained(shape, x, y)
    new, labels, places = planted(shape, 1, 24)
    tensors = normalised(predictor.task, new)
    assert (answer(predictor, tensors, 1).detach().numpy().round() == labels).mean() > 0.9
    hits = {"occlusion": 0, "gradients": 0}
    for one, label, place in zip(new, labels, places, strict=True):
        if label:
            for by in hits:
                heat = explain(predictor, one, 1, by=by).heat
                top = np.unravel_index(int(heat.argmax()), heat.shape)
                hits[by] += all(at.start - 2 <= found < at.stop + 2 for found, at in zip(top, place, strict=True))
    assert hits["occlusion"] >= 10
    assert hits["gradients"] >= 10


def test_neighbours_are_the_nearest_by_cosine() -> None:
    predictor = linear((2, 12), "classes")
    x = np.random.default_rng(0).normal(size=(30, 2, 12)).astype(np.float32)
    task = Task("some", (2, 12), predictor.task.target, Part(x, np.arange(30) % 3), mean=(1.0, 1.0), std=(2.0, 2.0))
    kept = neighbours_of(predictor.nets, task)
    unit = normalised(task, x).flatten(1).double().numpy()  # what goes into the last layer is the input itself
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    places, cosines = kept.similar(features_of(predictor.nets, normalised(task, x[:5])), 4)
    wanted = unit[:5] @ unit.T
    assert places[:, 0].tolist() == [0, 1, 2, 3, 4]  # each is most similar to itself
    assert np.array_equal(places, np.argsort(-wanted, axis=1)[:, :4])
    assert cosines == pytest.approx(np.sort(wanted, axis=1)[:, ::-1][:, :4], abs=1e-5)
    assert kept.y.tolist() == (np.arange(30) % 3).tolist()


def test_networks_without_features_and_mistakes() -> None:
    class Bare(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.detach().flatten(1)[:, :3]

    predictor = Predictor(
        Task("bare", (1, 8), Target("multiclass", 3)),
        (Bare(),),
        np.ones(1),
        neighbours=Neighbours(np.zeros((2, 0), np.float32), np.zeros(2), np.arange(2)),
    )
    found = explain(predictor, np.ones((1, 8)), 0)
    assert len(found.similar) == 0
    assert found.heat[0] > 0  # the first value alone makes the first class
    with pytest.raises(InputError, match=r"the run's neighbours\.safetensors is of other networks"):
        Neighbours(np.zeros((2, 4), np.float32), np.zeros(2), np.arange(2)).similar(np.zeros((1, 3)))
    with pytest.raises(InputError, match="has no gradients: look by occlusion"):
        explain(predictor, np.ones((1, 8)), 0, by="gradients")
    with pytest.raises(InputError, match=r"an input of shape \(8,\) was given; expected \(1, 8\)"):
        explain(predictor, np.ones(8), 0)
    with pytest.raises(InputError, match="expected one of: occlusion, gradients"):
        explain(predictor, np.ones((1, 8)), 0, by="magic")
