from __future__ import annotations

import io
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.spaces.oracle import built_counts
from trainless.core.errors import InputError
from trainless.core.seeds import seeded
from trainless.core.task import Task
from trainless.core.types import Floats
from trainless.spaces.moves import enumerate_archs
from trainless.spaces.rocket import Competing, Fixed, Rocket, RocketNetwork

MINI = "features=10000,kernels=fixed,differences=no"
SHAPES = [(2, 50), (3, 17, 12), (1, 9, 7, 6)]


def built(text: str, shape: tuple[int, ...], seed: int = 0) -> RocketNetwork:
    space = Rocket()
    with seeded(seed):
        net = space.build(space.parse(text), Task.noise(shape, classes=3))
    assert isinstance(net, RocketNetwork)
    return net


def padded(x: Floats, kernel: Floats, dilation: int) -> Floats:
    """A dilated convolution of one channel, filled up with zeros, position by position."""
    reach, length = dilation * (len(kernel) // 2), len(x)
    wide = np.concatenate([np.zeros(reach), x, np.zeros(reach)])
    return np.array([sum(w * wide[i + j * dilation] for j, w in enumerate(kernel)) for i in range(length)])


def test_kernels_are_all_of_three_among_nine() -> None:
    (part,) = built(MINI, (1, 40)).parts
    assert isinstance(part, Fixed)
    assert len({tuple(row.tolist()) for row in part.patterns}) == 84
    assert all(sorted(row.tolist()) == [-1] * 6 + [2] * 3 for row in part.patterns)


@pytest.mark.parametrize("length", [10, 96, 150, 1000])
def test_dilations_are_the_papers(length: int) -> None:
    """Floors of 2 to the power of 32 even steps up to log₂((l − 1) / 8), 119 thresholds a kernel in all."""
    (part,) = built(MINI, (1, length)).parts
    assert isinstance(part, Fixed)
    wanted = np.unique(np.floor(2 ** np.linspace(0, np.log2((length - 1) / 8), 32) + 1e-9).astype(int))
    assert list(part.plan) == wanted.tolist()
    assert sum(part.plan.values()) == 119
    assert part.number == 9996


def test_shares_are_those_of_positions_above_thresholds() -> None:
    net = built("features=1000,kernels=fixed+means,differences=yes", (1, 40)).double()
    x = torch.randn(3, 1, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    net.prepare(x)
    found = net.features(x)[1].numpy()
    wanted: list[float] = []
    for part, signal in zip(net.parts, (x[1, 0].numpy(), np.diff(x[1, 0].numpy())), strict=True):
        assert isinstance(part, Fixed)
        at = 0
        for place, (dilation, count) in enumerate(part.plan.items()):
            for half in (0, 1):
                shares, means = [], []
                for kernel in range(half, 84, 2):
                    answers = padded(signal, part.patterns[kernel].numpy(), dilation)
                    if (half + place) % 2 and 8 * dilation < len(signal):
                        answers = answers[4 * dilation : len(signal) - 4 * dilation]
                    for threshold in part.thresholds[kernel, at : at + count].tolist():
                        above = answers - threshold
                        share = np.clip(1000 * above + 0.5, 0, 1).mean()
                        assert abs(share - (above > 0).mean()) <= 0.5 * (np.abs(above) < 5e-4).mean()
                        shares.append(share)
                        means.append(above[above > 0].sum() / len(above) / (share + 1e-3))
                wanted += shares + means
            at += count
    assert np.allclose(found, wanted, atol=1e-9)


def test_thresholds_are_quantiles_of_training_answers() -> None:
    """Of one training input each kernel has its own quantiles, spread by the golden ratio."""
    net = built(MINI, (1, 60)).double()
    x = torch.randn(1, 1, 60, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    net.prepare(x)
    (part,) = net.parts
    assert isinstance(part, Fixed)
    dilation, count = next(iter(part.plan.items()))
    answers = padded(x[0, 0].numpy(), part.patterns[1].numpy(), dilation)
    golden = (np.sqrt(5) + 1) / 2
    shares = (np.arange(1, 84 * 119 + 1) * golden % 1).reshape(84, 119)
    assert np.allclose(part.thresholds[1, :count].numpy(), np.quantile(answers, shares[1, :count]), atol=1e-5)


def test_before_any_data_thresholds_suit_white_noise() -> None:
    net = built(MINI, (4, 400))
    (part,) = net.parts
    assert isinstance(part, Fixed)
    shares = net.features(torch.randn(40, 4, 400, generator=torch.Generator().manual_seed(0))).mean(0)
    assert shares.mean().item() == pytest.approx(0.5, abs=0.01)
    assert shares.quantile(0.9).item() == pytest.approx(0.9, abs=0.03)


def test_rivals_win_and_lose() -> None:
    net = built("features=1000,kernels=competing,differences=no", (1, 40)).double()
    x = torch.randn(2, 1, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    (part,) = net.parts
    assert isinstance(part, Competing)
    found, wanted, shared = net.features(x)[0].numpy(), list[float](), list[float]()
    for place, dilation in enumerate(part.plan):
        wins, losses, ramps = (np.zeros((part.groups, 8)) for _ in range(3))
        for group in range(part.groups):
            kernels = part.kernels[place, 8 * group : 8 * group + 8, 0].numpy()
            assert np.allclose(kernels.sum(1), 0, atol=1e-6)
            answers = np.array([padded(x[0, 0].numpy(), kernel, dilation) for kernel in kernels])
            for position in answers.T:
                wins[group, position.argmax()] += position.max() / 40
                losses[group, position.argmin()] += 1 / 40
                ramps[group] += np.clip(1000 * (position - position.max()) + 1, 0, 1) * position.max() / 40
        shared += np.sqrt(ramps + 1e-4).ravel().tolist()
        wanted += [*np.sqrt(wins + 1e-4).ravel(), *np.sqrt(losses + 1e-4).ravel()]
    assert np.allclose(found.reshape(len(part.plan), 2, -1)[:, 0].ravel(), shared, atol=1e-7)
    assert np.quantile(np.abs(found - wanted), 0.8) < 1e-7  # rivals within a thousandth of each other share
    assert np.abs(found - wanted).max() < 0.05


@pytest.mark.parametrize("kernels", ["fixed", "competing"])
def test_kernels_read_a_few_channels(kernels: str) -> None:
    net = built(f"features=1000,kernels={kernels},differences=no", (28, 50))
    (part,) = net.parts
    read = part.channels.sum(2) if isinstance(part, Fixed) else (part.kernels != 0).any(3).sum(2)
    assert read.min() >= 1
    assert read.max() <= 9
    assert (read.float().mean() < 5) == (kernels == "fixed")
    assert len(torch.unique(read)) == (9 if kernels == "fixed" else 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_counts_equal_the_built_network(shape: tuple[int, ...]) -> None:
    space, task = Rocket(), Task.noise(shape, classes=3)
    for arch in enumerate_archs(space):
        if not arch[0]:
            assert space.counts(arch, task) == built_counts(space, arch, task)
            assert space.parse(space.format(arch)) == arch


@pytest.mark.parametrize("shape", [*SHAPES, (1, 4), (2, 4, 4)])
@pytest.mark.parametrize("kernels", ["fixed", "competing", "averages"])
def test_samples_do_not_depend_on_each_other(kernels: str, shape: tuple[int, ...]) -> None:
    net = built(f"features=1000,kernels={kernels},differences=yes", shape)
    x = torch.randn(70, *shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        net.prepare(x)
        whole = net(x)
        assert torch.allclose(net(x[3:5]), whole[3:5], atol=1e-5)
        assert torch.allclose(net.classifier(net.features(x)), whole, atol=1e-5)
    assert torch.isfinite(whole).all()


def test_the_seed_decides_kernels_and_thresholds() -> None:
    x = torch.randn(9, 4, 30, generator=torch.Generator().manual_seed(0))
    states = []
    for seed in (1, 1, 2):
        net = built("features=1000,kernels=fixed,differences=no", (4, 30), seed)
        with seeded(seed):
            net.prepare(x)
        states.append(net.state_dict())
    same = [all(torch.equal(states[0][name], other[name]) for name in other) for other in states[1:]]
    assert same == [True, False]


def test_what_is_held_is_loaded_back() -> None:
    net, other = (built("features=1000,kernels=fixed,differences=yes", (2, 30), seed) for seed in (0, 1))
    x = torch.randn(5, 2, 30, generator=torch.Generator().manual_seed(0))
    net.prepare(x)
    other.load_state_dict(net.state_dict())
    assert torch.equal(net(x), other(x))


def test_the_plain_one_is_minirocket_where_that_is_affordable() -> None:
    space = Rocket()
    assert space.format(space.plain(Task.noise((1, 150), classes=2))) == MINI
    kinds = [space.decisions[1].options[arch[1]] for arch in space.panel(Task.noise((1, 9), classes=2))]
    assert kinds == ["fixed", "fixed+means", "competing", "averages"]


@pytest.mark.parametrize("shape", [(2, 13), (1, 6, 9)])
def test_averages_are_means_over_halves_of_halves(shape: tuple[int, ...]) -> None:
    net = built("features=1000,kernels=averages,differences=no", shape)
    x = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    sizes = [tuple(min(2**scale, length) for length in shape[1:]) for scale in range(5)]
    pool = F.adaptive_avg_pool1d if len(shape) == 2 else F.adaptive_avg_pool2d
    wanted = torch.cat([pool(x, size).flatten(1) for size in sizes], 1)  # type: ignore[operator]
    assert torch.allclose(net.features(x), wanted, atol=1e-6)
    assert torch.allclose(net.features(x)[:, : shape[0]], x.flatten(2).mean(2), atol=1e-6)


def test_averages_see_a_level_that_kernels_do_not() -> None:
    x = torch.randn(4, 1, 64, generator=torch.Generator().manual_seed(0))
    for kind, seen in (("averages", True), ("competing", False)):
        net = built(f"features=1000,kernels={kind},differences=no", (1, 192))
        inside = [F.pad(each, (64, 64), value=level) for level in (0.0, 5.0) for each in (x + level,)]
        moved = (net.features(inside[0]) - net.features(inside[1])).abs().mean(0)
        assert (moved[0] > 1).item() == seen


def test_what_is_wrong_is_said() -> None:
    space = Rocket()
    with pytest.raises(InputError, match="rocket: features=7 was given; expected one of 1000, 2500"):
        space.parse(MINI.replace("10000", "7"))
    with pytest.raises(InputError, match="too small for rocket"):
        space.check(Task.noise((1, 3), classes=2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernels", "shape"), [("fixed+means", (2, 40)), ("competing", (1, 12, 12)), ("averages", (2, 11))]
)
def test_onnx_gives_what_pytorch_gives(kernels: str, shape: tuple[int, ...]) -> None:
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    net: nn.Module = built(f"features=1000,kernels={kernels},differences=yes", shape).eval()
    x = torch.randn(6, *shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = net(x)
        program = torch.onnx.export(
            net, (x[:3],), dynamo=True, verbose=False, dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1)}}
        )
    assert program is not None
    held = io.BytesIO()
    program.save(held)
    session = runtime.InferenceSession(held.getvalue(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    assert np.allclose(found, wanted.numpy(), atol=1e-5)
