from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp

from tests.spaces.oracle import built_counts, hooked_counts, random_valid
from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces import moves
from trainless.spaces.mobilenet import START, Group, MobileNet, small_mobilenet
from trainless.spaces.protocol import key

IMAGENET = Task.noise((3, 224, 224), classes=1000)
CIFAR = Task.noise((3, 32, 32), classes=10)
LARGE, SMALL = MobileNet(), small_mobilenet()
SHAPES = [(3, 32, 32), (1, 28, 28), (1, 300), (1, 28, 28, 28)]


def archs(space: MobileNet, n: int, seed: int = 0) -> list[Arch]:
    """Uniform over what is valid, written down without the package's sampler."""
    rng, found = random.Random(seed), []
    while len(found) < n:
        arch = tuple(rng.randrange(len(decision)) for decision in space.decisions)
        if space.valid(arch):
            found.append(arch)
    return found


@pytest.mark.slow
def test_counts_equal_the_built_network_for_200_random_archs() -> None:
    sizes = [(32, 32), (64, 48), (33, 97), (40, 57)]
    for index, arch in enumerate(archs(LARGE, 100)):
        task = Task.noise((3, *sizes[index % 4]), classes=7)
        assert LARGE.counts(arch, task) == hooked_counts(LARGE, arch, task)
    shapes = [(3, 32, 32), (1, 28, 28), (1, 300), (1, 9, 8, 11)]
    for index, arch in enumerate(archs(SMALL, 100)):
        task = Task.noise(shapes[index % 4], classes=3)
        assert SMALL.counts(arch, task) == hooked_counts(SMALL, arch, task)


@pytest.mark.slow
def test_counts_at_full_resolution_equal_the_built_network() -> None:
    for index, arch in enumerate(archs(LARGE, 10, seed=3)):
        task = Task.noise((3, 224, (224, 192)[index % 2]), classes=1000)
        assert LARGE.counts(arch, task) == built_counts(LARGE, arch, task)


def test_the_start_of_the_published_searches() -> None:
    arch = LARGE.parse(START)
    assert LARGE.format(arch) == START
    assert LARGE.counts(arch, IMAGENET) == built_counts(LARGE, arch, IMAGENET)
    assert LARGE.layers(arch) == 4


def test_a_published_zennet_is_expressible() -> None:
    text = (
        "SuperConvK3BNRELU(3,16,2,1)SuperResIDWE2K7(16,40,2,40,1)SuperResIDWE4K7(40,64,2,64,1)"
        "SuperResIDWE4K7(64,96,2,96,5)SuperResIDWE2K7(96,224,2,224,5)SuperConvK1BNRELU(224,2048,1,1)"
    )
    assert LARGE.format(LARGE.parse(text)) == text


def test_residuals_of_a_group_by_hand() -> None:
    chain = list(Group(kernel=5, expansion=4, inputs=16, outputs=32, stride=2, bottleneck=24, layers=2).residuals())
    assert [(r.inputs, r.middle, r.outputs, r.stride, r.project) for r in chain] == [
        (16, 96, 24, 2, True),
        (24, 128, 32, 1, True),
        (32, 96, 24, 1, True),
        (24, 128, 32, 1, True),
    ]
    same = list(Group(kernel=3, expansion=1, inputs=32, outputs=32, stride=1, bottleneck=32, layers=2).residuals())
    assert [r.project for r in same] == [True, False, False, False]


@pytest.mark.parametrize("shape", SHAPES)
def test_small_networks_run(shape: tuple[int, ...]) -> None:
    task = Task.noise(shape, classes=2)
    arch = (0,) * len(SMALL.decisions)
    net = SMALL.build(arch, task)
    x, _ = task.batch(2, seed=0)
    assert net(x).shape == (2, 2)
    assert set(net.block_names) <= set(dict(net.named_modules()))


def test_large_network_runs() -> None:
    net = LARGE.build(LARGE.parse(START), Task.noise((3, 64, 64), classes=5))
    assert net(torch.zeros(2, 3, 64, 64)).shape == (2, 5)


@pytest.mark.parametrize("space", [LARGE, SMALL])
def test_notation_round_trip_and_canonical(space: MobileNet) -> None:
    rng = torch.Generator().manual_seed(1)
    for _ in range(50):
        arch = random_valid(space, rng)
        canonical = space.canonical(arch)
        assert space.canonical(canonical) == canonical
        assert space.plan(canonical) == space.plan(arch)
        assert space.parse(space.format(arch)) == canonical


def test_the_layer_limit_is_part_of_validity() -> None:
    space = MobileNet(max_layers=6)
    full = tuple(len(decision) - 1 for decision in space.decisions)
    assert not space.valid(full)
    assert MobileNet(max_layers=32).valid(full)
    assert not MobileNet(max_layers=31).valid(full)
    for arch in archs(LARGE, 20):
        assert sum(group.layers for group in LARGE.plan(arch).groups) == LARGE.layers(arch) <= 14


@pytest.mark.parametrize(("space", "task", "budget"), [(LARGE, IMAGENET, 450e6), (SMALL, CIFAR, 50e6)])
def test_sampling_under_a_flops_limit_is_feasible_and_does_not_collapse(
    space: MobileNet, task: Task, budget: float
) -> None:
    """The sampler's FLOPs against those of an independent rejection sample, by Kolmogorov–Smirnov.

    Large networks are the common ones in this space, so a sampler that collapsed onto small ones (such as one that
    shrinks what is too large) would have another distribution and a lower median.
    """
    rng, feasible = np.random.default_rng(1), lambda arch: space.counts(arch, task).flops <= budget
    found = [moves.sample(space, rng, feasible=feasible) for _ in range(150)]
    flops = np.array([space.counts(arch, task).flops for arch in found])
    assert flops.max() <= budget
    free = np.array([space.counts(arch, task).flops for arch in archs(space, 500, seed=2)])
    reference = free[free <= budget]
    assert ks_2samp(flops, reference).pvalue > 1e-3
    assert np.median(flops) > 0.6 * budget
    assert len(reference) / len(free) > 0.2, "plain rejection has to stay cheap at the papers' budgets"


def test_mutation_under_a_flops_limit_stays_feasible_and_large() -> None:
    rng, feasible = np.random.default_rng(0), lambda arch: LARGE.counts(arch, IMAGENET).flops <= 450e6
    arch, seen = LARGE.parse(START), []
    for _ in range(300):
        arch = moves.mutate(LARGE, arch, rng, feasible=feasible)
        seen.append(LARGE.counts(arch, IMAGENET).flops)
    assert max(seen) <= 450e6
    assert np.median(seen[150:]) > 1.5 * LARGE.counts(LARGE.parse(START), IMAGENET).flops


def test_keys_tell_the_variants_apart() -> None:
    assert key(LARGE) != key(SMALL)
    assert key(SMALL).startswith("mobilenet-small(")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("SuperConvK3BNRELU(3,8,2,1)", ""), "the network begins with SuperResIDWE6K3; expected SuperConvK3BNRELU"),
        (("(8,32,2,8,1)", "(16,32,2,8,1)"), "SuperResIDWE6K3 takes 16 channels, but the block before it gives 8"),
        (("(8,32,2,8,1)", "(8,32,2,8)"), r"expected SuperResIDWE6K3\(inputs,outputs,stride,bottleneck,layers\)"),
        (("E6K3(8,", "E6K9(8,"), "stage1a.kernel=9 was given; expected one of 3, 5, 7"),
        (("E6K3(8,", "E3K3(8,"), "stage1a.expansion=3"),
        (("2,96,1)", "2,96,6)"), "stage4a.layers=6"),
        (("(8,32,2,8,1)", "(8,32,1,8,1)"), "stage 1 of 4 has to begin with a block of stride 2; got one of stride 1"),
        (("128,2048", "128,1024"), r"the last SuperConvK1BNRELU\(inputs,outputs,1,1\) has outputs=1024; expected 2048"),
        (("SuperResIDWE6K3(8", "SuperBlock(8"), "'SuperBlock' is not a block"),
        ((")SuperConvK1", ")!SuperConvK1"), "is no block of numbers; expected such as SuperResIDWE6K3"),
        (("K3(96,128,2,96,1)", "K3(96,128,2,96,1)" + "SuperResIDWE1K3(128,128,1,96,1)" * 2), "1 blocks are left over"),
    ],
)
def test_what_is_wrong_with_a_string_is_said(change: tuple[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        LARGE.parse(START.replace(*change))


def test_a_string_of_the_other_variant_is_known() -> None:
    with pytest.raises(InputError, match=r"has stride=2; expected 1; it looks like an architecture of mobilenet"):
        SMALL.parse(START)
    with pytest.raises(InputError, match="looks like an architecture of mobilenet-small: choose that space"):
        LARGE.parse(SMALL.format((0,) * len(SMALL.decisions)))
    with pytest.raises(InputError, match=r"has stride=1; expected 2$"):
        LARGE.parse(START.replace("(3,8,2,1)", "(3,8,1,1)"))
    with pytest.raises(InputError, match="nothing was given"):
        SMALL.parse(" ")
    with pytest.raises(InputError, match="no block between SuperConvK3BNRELU and SuperConvK1BNRELU"):
        SMALL.parse("SuperConvK3BNRELU(3,8,1,1)SuperConvK1BNRELU(8,512,1,1)")
    deep = "".join(f"SuperResIDWE6K3({a},{b},{s},16,5)" for a, b, s in ((8, 32, 1), (32, 32, 2), (32, 64, 2)))
    with pytest.raises(InputError, match=r"have 15 layers together .*; expected at most 14"):
        SMALL.parse(f"SuperConvK3BNRELU(3,8,1,1){deep}SuperConvK1BNRELU(64,512,1,1)")


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(InputError, match=r"halves them 5 times: at least 32 .*mobilenet-small"):
        LARGE.check(Task.noise((1, 28, 28), classes=2))
    with pytest.raises(InputError, match="signals, images and volumes"):
        SMALL.check(Task.noise((9,), classes=2))
    with pytest.raises(InputError, match="max_layers=3 was given"):
        MobileNet(max_layers=3)
