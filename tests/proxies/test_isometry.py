"""``isometry`` against closed forms of blocks whose Jacobian is known, and against its formula written out in loops."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from trainless.core.errors import Unscorable
from trainless.core.target import Target
from trainless.probe import Probe
from trainless.probe.points import drawn
from trainless.proxies import registry


class Net(nn.Module):
    """A pointwise stem and a block."""

    block_names = ("stem", "block")

    def __init__(self, channels: int, block: nn.Module) -> None:
        super().__init__()
        self.stem, self.block = nn.Conv1d(2, channels, 1), block

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.block(self.stem(x))
        return features.flatten(2).mean(2)[:, :2]


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


def probe(block: nn.Module, channels: int, samples: int, places: int, seed: int = 0) -> Probe:
    x = torch.randn(samples, 2, places, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    labels = torch.zeros(samples, dtype=torch.long)
    return Probe.of(Net(channels, block).double(), (x, labels), Target("binary", 2), seed)


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, scale: float = 1.0) -> nn.Conv1d:
    layer = nn.Conv1d(inputs, outputs, kernel, stride, (kernel - 1) // 2 if stride == 1 else 0, bias=False)
    nn.init.normal_(layer.weight, std=scale, generator=torch.Generator().manual_seed(2))
    return layer


def centre(layer: nn.Conv1d) -> Tensor:
    return layer.weight.detach()[:, :, 1]


@pytest.mark.parametrize(
    ("make", "square"),
    [
        (lambda: nn.Identity(), lambda block: 1.0),
        (lambda: conv(6, 6, 1, scale=0.3), lambda block: block.weight.detach().square().sum() / 6),
        (lambda: conv(6, 9, 3, scale=0.2), lambda block: centre(block).square().sum() / 9),
        (
            lambda: Residual(conv(6, 6, 3, scale=0.1)),
            lambda block: (centre(block.inner) + torch.eye(6)).square().sum() / 6,
        ),
        (lambda: conv(6, 8, 2, stride=2, scale=0.4), lambda block: block.weight.detach().square().sum() / 8),
    ],
    ids=["identity", "pointwise", "3 taps", "residual", "stride"],
)
def test_closed_forms(make: Callable[[], nn.Module], square: Callable[[nn.Module], float]) -> None:
    block = make()
    expected = -abs(math.log(float(square(block)))) / 2
    assert registry["isometry"](probe(block, 6, 16, 1000)) == pytest.approx(expected, abs=0.02)


@pytest.mark.slow
def test_what_chance_adds_is_taken_off() -> None:
    """With 48 places and 8 channels, chance adds a third to ‖J₀‖²; the mean over seeds is right all the same."""
    block = conv(8, 8, 3, scale=0.15)
    true = float(centre(block).square().sum()) / 8
    scores = [registry["isometry"](probe(block, 8, 4, 12, seed)) for seed in range(300)]
    assert max(scores) < 0  # so that the logarithm's sign is known
    squares = np.exp(2 * np.array(scores))
    assert squares.mean() == pytest.approx(true, abs=3 * squares.std() / math.sqrt(300))
    assert squares.std() < true / 2


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 4), st.integers(2, 4), st.sampled_from([1, 3]), st.integers(2, 3), st.integers(3, 5))
def test_the_formula_written_out(inputs: int, outputs: int, kernel: int, samples: int, places: int) -> None:
    block = nn.Sequential(conv(inputs, outputs, kernel, scale=0.7), nn.Tanh())
    p = probe(block, inputs, samples, places)
    before = p.net.stem(p.x).detach()  # type: ignore[operator, union-attr]
    jacobian = torch.autograd.functional.jacobian(block.double(), before).numpy()
    signs = drawn("signs", (samples, outputs, places), p.generator("trainability/block"), before).numpy()
    found = np.zeros((inputs, outputs))
    power = 0.0
    for n in range(samples):
        for t in range(places):
            back = np.einsum("bos,bosi->i", signs, jacobian[:, :, :, n, :, t])
            power += float(back @ back)
            found += np.outer(back, signs[n, :, t])
    count = samples * places
    square = (np.square(found / count).sum() - power / count * outputs / count) / (1 - 1 / count) / outputs
    assert registry["isometry"](p) == pytest.approx(-abs(math.log(max(square, 1e-12))) / 2, rel=1e-6)


def test_few_places() -> None:
    """In the mean over draws an identity has r² = 1 even at three places; at one place nothing can be said."""
    passed = [math.exp(-2 * registry["isometry"](probe(nn.Identity(), 2, 1, 3, seed))) for seed in range(4)]
    assert all(math.isfinite(each) for each in passed)
    with pytest.raises(Unscorable, match="a single place"):
        registry["isometry"](probe(nn.Identity(), 2, 1, 1))


class Dead(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 0


def test_a_block_that_passes_nothing_is_named() -> None:
    with pytest.raises(Unscorable, match="no gradient passes block block"):
        registry["isometry"](probe(Dead(), 4, 3, 5))


def test_shortcuts_keep_directions_that_a_largest_singular_value_does_not_see() -> None:
    """One strong direction makes trainability's s near 1 while nothing else passes; isometry tells the two apart."""
    one = nn.Conv1d(8, 8, 1, bias=False)
    with torch.no_grad():
        one.weight.zero_()
        one.weight[0, 0, 0] = 1.0
    narrow, wide = probe(one, 8, 16, 500), probe(conv(8, 8, 1, scale=1 / math.sqrt(8)), 8, 16, 500)
    assert registry["trainability"](narrow) == pytest.approx(0, abs=0.02)
    assert registry["isometry"](narrow) == pytest.approx(math.log(1 / 8) / 2, abs=0.05)
    assert registry["isometry"](wide) == pytest.approx(0, abs=0.15)
