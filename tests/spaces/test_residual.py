from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.spaces.oracle import built_counts, random_valid
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.residual import Residual

SHAPES = [(2, 50), (3, 17, 12), (1, 9, 7, 6)]
RESNET18 = "width=64,depth=2,stages=4,kernel=narrow,stride=4,gate=no,pool=mean"


def test_resnet18_has_its_published_size() -> None:
    """11,689,512 parameters and 1.814 G products in the paper's, whose stem is 7×7; ours is 3×3."""
    space, task = Residual(), Task.noise((3, 224, 224), classes=1000)
    stem = 3 * 64 * (7 * 7 - 3 * 3)
    found = space.counts(space.parse(RESNET18), task)
    assert found.params == 11_689_512 - stem
    assert found.flops == 1_814_073_344 - stem * 112**2


@pytest.mark.parametrize("shape", SHAPES)
def test_counts_equal_the_built_network(shape: tuple[int, ...]) -> None:
    space, rng = Residual(), torch.Generator().manual_seed(0)
    task = Task.noise(shape, classes=3)
    for _ in range(8):
        arch = random_valid(space, rng)
        assert space.counts(arch, task) == built_counts(space, arch, task)
        assert space.parse(space.format(arch)) == arch


def naive(net: nn.Module, x: Tensor, stages: int, depth: int) -> Tensor:
    """The network on images of an even size with a stem's stride of four and gates, from its weights alone."""
    w = dict(net.named_parameters())

    def norm(x: Tensor, name: str) -> Tensor:
        mean, var = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), keepdim=True, correction=0)
        gain, shift = (w[f"{name}.{part}"].reshape(1, -1, 1, 1) for part in ("weight", "bias"))
        return (x - mean) / (var + 1e-5).sqrt() * gain + shift

    x = norm(F.conv2d(x, w["stem.0.weight"], stride=2, padding=1), "stem.1").clamp_min(0)
    x = F.max_pool2d(x, 3, 2, 1)
    for block in range(stages * depth):
        name = f"blocks.{block}"
        halves = block > 0 and block % depth == 0
        inner = F.conv2d(x, w[f"{name}.convs.0.weight"], stride=1 + halves, padding=1)
        inner = F.conv2d(norm(inner, f"{name}.norms.0").clamp_min(0), w[f"{name}.convs.1.weight"], padding=1)
        inner = norm(inner, f"{name}.norms.1")
        squeezed = inner.mean((2, 3)) @ w[f"{name}.gate.rule.0.weight"].T + w[f"{name}.gate.rule.0.bias"]
        gate = squeezed.clamp_min(0) @ w[f"{name}.gate.rule.2.weight"].T + w[f"{name}.gate.rule.2.bias"]
        inner = inner / (1 + (-gate).exp())[:, :, None, None]
        if halves:
            pairs = (x[..., ::2, ::2] + x[..., 1::2, ::2] + x[..., ::2, 1::2] + x[..., 1::2, 1::2]) / 4
            x = norm(F.conv2d(pairs, w[f"{name}.shortcut.1.weight"]), f"{name}.shortcut.2")
        x = (inner + x).clamp_min(0)
    both = torch.cat([x.mean((2, 3)), x.flatten(2).max(2).values], 1)
    return both @ w["classifier.weight"].T + w["classifier.bias"]


def test_the_network_computes_what_is_said() -> None:
    space, task = Residual(), Task.noise((3, 32, 32), classes=4)
    arch = space.parse("width=16,depth=2,stages=3,kernel=narrow,stride=4,gate=yes,pool=mean+max")
    net = space.build(arch, task).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
        x = task.batch(3, seed=0)[0].double()
        assert torch.allclose(net(x), naive(net, x, 3, 2), rtol=1e-9)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((1, 28, 28), "width=32,depth=2,stages=3,kernel=narrow,stride=1"),
        ((3, 8, 8), "width=32,depth=2,stages=2,kernel=narrow,stride=1"),
        ((3, 64, 64), "width=32,depth=2,stages=3,kernel=narrow,stride=2"),
        ((3, 224, 224), "width=16,depth=2,stages=4,kernel=narrow,stride=4"),
        ((1, 28, 28, 28), "width=16,depth=2,stages=3,kernel=narrow,stride=2"),
        ((1, 96), "width=32,depth=2,stages=3,kernel=medium,stride=1"),
        ((1, 150), "width=32,depth=2,stages=3,kernel=medium,stride=2"),
        ((1, 1000), "width=32,depth=2,stages=4,kernel=medium,stride=4"),
        ((1, 9000), "width=16,depth=2,stages=4,kernel=medium,stride=16"),
    ],
)
def test_the_plain_network_of_a_size(shape: tuple[int, ...], text: str) -> None:
    space = Residual()
    assert space.plain(Task.noise(shape, classes=2)) == space.parse(f"{text},gate=no,pool=mean")


@pytest.mark.parametrize("length", [4, 20, 50, 96, 150, 500, 1000, 3000, 4000])
def test_the_last_map_of_a_plain_network_for_signals_is_neither_long_nor_a_point(length: int) -> None:
    space, task = Residual(), Task.noise((1, length), classes=2)
    net = space.build(space.plain(task), task)
    seen: list[int] = []
    net.get_submodule("pool").register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[-1]))
    net(task.batch(2, seed=0)[0])
    assert min(8, length // 2) <= seen[0] <= 32


def test_blocks_begin_as_shortcuts_where_their_last_gain_is_zero() -> None:
    task = Task.noise((1, 8, 8), classes=2)
    x = torch.rand(4, 16, 8, 8)
    for zero_gain in (True, False):
        space = Residual(zero_gain=zero_gain)
        net = space.build(space.parse("width=16,depth=1,stages=2,kernel=narrow,stride=1,gate=no,pool=mean"), task)
        assert torch.equal(net.get_submodule("blocks.0")(x), x) == zero_gain


def test_weights_begin_as_he_has_them() -> None:
    net = Residual().build((2, 2, 1, 0, 0, 0, 0), Task.noise((1, 8, 8), classes=2))
    weight = net.get_parameter("blocks.2.convs.0.weight")
    assert weight.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.05)


def test_what_is_wrong_is_said() -> None:
    space = Residual()
    with pytest.raises(InputError, match="residual: width=20 was given; expected one of 16, 32, 64"):
        space.parse(RESNET18.replace("64", "20"))
    with pytest.raises(InputError, match="too small for residual"):
        space.check(Task.noise((1, 3, 8), classes=2))
    with pytest.raises(InputError, match="signals, images and volumes"):
        space.plain(Task.noise((7,), classes=2))
