from __future__ import annotations

import csv
import gzip
import itertools
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.spaces import genotypes
from tests.spaces.oracle import built_counts
from trainless.core.arch import region_of, whole
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.genotype import Nodes, canonical_nodes, parse_genotype
from trainless.spaces.nds import darts
from trainless.spaces.protocol import Counted, Scalable, Supernet

SPACE = darts()
TINY = darts(channels=2, cells=3)
CIFAR = Task.noise((3, 32, 32), classes=10)
IMAGENET = Task.noise((3, 224, 224), classes=1000)

archs = st.tuples(*(st.integers(0, len(decision) - 1) for decision in SPACE.decisions))


def test_it_is_a_supernet() -> None:
    assert isinstance(SPACE, Supernet)
    assert isinstance(SPACE, Counted)
    assert isinstance(SPACE, Scalable)
    assert SPACE.scaled(36, 6) == SPACE
    assert darts("imagenet").scaled(48, 4) == darts("imagenet")


@pytest.mark.parametrize(
    ("text", "millions"),
    [(genotypes.DARTS_SECOND, "3.3"), (genotypes.PC_DARTS, "3.6"), (genotypes.P_DARTS, "3.4")],
)
def test_cifar_parameters_are_the_papers_millions(text: str, millions: str) -> None:
    arch = SPACE.parse(text)
    assert f"{SPACE.counts(arch, CIFAR).params / 1e6:.1f}" == millions


@pytest.mark.slow
def test_the_built_networks_have_these_counts() -> None:
    for space, task in ((SPACE, CIFAR), (darts("imagenet"), IMAGENET)):
        arch = space.parse(genotypes.PC_DARTS)
        assert space.counts(arch, task) == built_counts(space, arch, task)


@pytest.mark.parametrize(
    ("text", "millions"),
    [
        (genotypes.DARTS_SECOND, "4.7"),
        (genotypes.PC_DARTS, "5.3"),
        (genotypes.PC_DARTS_IMAGENET, "5.3"),
        (genotypes.P_DARTS, "4.9"),
    ],
)
def test_imagenet_parameters_are_the_papers_millions(text: str, millions: str) -> None:
    space = darts("imagenet")
    arch = space.parse(text)
    assert f"{space.counts(arch, IMAGENET).params / 1e6:.1f}" == millions


def test_the_thousand_networks_both_ways(data_dir: Path) -> None:
    with gzip.open(data_dir / "darts" / "darts_1000_cifar10.csv.gz", "rt", encoding="utf8") as file:
        texts = [row["genotype"] for row in csv.DictReader(file)]
    assert len(texts) == 1000
    for text in texts:
        arch = SPACE.parse(text)
        assert SPACE.format(arch) == text
        canonical = SPACE.canonical(arch)
        assert SPACE.canonical(canonical) == canonical


def filled(net: nn.Module) -> nn.Module:
    """The same positive weight in every channel, so that the order of channels cannot matter; norms as at the start."""
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(1 / parameter[0].numel() if parameter.ndim > 1 else 1.0)
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.bias.fill_(0.1)
    return net.double().eval()


@settings(max_examples=12, deadline=None)
@given(arch=archs)
def test_the_canonical_network_computes_the_same(arch: tuple[int, ...]) -> None:
    canonical = TINY.canonical(arch)
    assert TINY.canonical(canonical) == canonical
    task = Task.noise((1, 6, 5), classes=3)
    x = torch.linspace(-1, 1, 60, dtype=torch.float64).reshape(2, 1, 6, 5)
    one, other = (filled(TINY.build(twin, task))(x) for twin in (arch, canonical))
    torch.testing.assert_close(one, other)


def test_canonical_partitions_small_cells_as_brute_force_does() -> None:
    """All cells of two nodes with two operations: twins are exactly those that a renumbering turns into each other."""
    names = ("sep_conv_3x3", "skip_connect")
    slots = {node: [(name, source) for name in names for source in range(node)] for node in (2, 3)}
    cells: list[Nodes] = [((a, b), (c, d)) for a, b, c, d in itertools.product(slots[2], slots[2], slots[3], slots[3])]
    for cell in cells:
        twins = set(orbit(cell))
        assert {canonical_nodes(twin) for twin in twins} == {canonical_nodes(cell)}
        assert canonical_nodes(cell) in twins


def orbit(cell: Nodes) -> list[Nodes]:
    found = []
    for order in itertools.permutations((2, 3)):
        place = {0: 0, 1: 1, order[0]: 2, order[1]: 3}
        moved = {place[old]: [(name, place[source]) for name, source in cell[old - 2]] for old in (2, 3)}
        if all(source < node for node, pairs in moved.items() for _, source in pairs):
            for swaps in itertools.product((1, -1), repeat=2):
                first, second = (tuple(moved[node][::swap]) for node, swap in zip((2, 3), swaps, strict=True))
                found.append((first, second))
    return found


def test_zeros_are_followed() -> None:
    """Node 2 is always zero, so node 3's pooling of it is none as well, whatever none reads."""
    dead = (("none", 1), ("none", 0))
    one = (dead, (("max_pool_3x3", 2), ("skip_connect", 1)))
    other = ((("none", 0), ("none", 0)), (("skip_connect", 1), ("none", 2)))
    assert canonical_nodes(one) == canonical_nodes(other)
    learnt = (dead, (("sep_conv_3x3", 2), ("skip_connect", 1)))  # its norm's bias makes it more than zero
    assert canonical_nodes(learnt) != canonical_nodes(one)


@settings(max_examples=10, deadline=None)
@given(arch=archs, shape=st.sampled_from([(2, 9), (1, 8, 5), (2, 4, 5, 6)]))
def test_counts_are_those_of_the_built_network(arch: tuple[int, ...], shape: tuple[int, ...]) -> None:
    task = Task.noise(shape, classes=3)
    assert TINY.counts(arch, task) == built_counts(TINY, arch, task)
    assert SPACE.parse(SPACE.format(arch)) == arch


@pytest.mark.parametrize("shape", [(2, 33), (3, 35, 32)])
def test_imagenet_counts_at_odd_sizes(shape: tuple[int, ...]) -> None:
    space, task = darts("imagenet", channels=3, cells=4), Task.noise(shape, classes=3)
    arch = space.parse(genotypes.P_DARTS)
    assert space.counts(arch, task) == built_counts(space, arch, task)


@pytest.mark.parametrize("shape", [(2, 9), (3, 8, 5), (1, 4, 5, 4)])
def test_networks_learn_in_every_dimension(shape: tuple[int, ...]) -> None:
    task = Task.noise(shape, classes=3)
    torch.manual_seed(0)
    net = TINY.build(TINY.parse(genotypes.PC_DARTS), task)
    x, y = task.batch(4, seed=0)
    task.target.losses(net(x), y).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
    assert net.block_names == ("stems.0", "cells.0", "cells.1", "cells.2")
    assert all(isinstance(net.get_submodule(name), nn.Module) for name in net.block_names)


def test_a_normal_cell_by_hand() -> None:
    arch = TINY.parse(genotypes.DARTS_SECOND)
    torch.manual_seed(0)
    net = TINY.build(arch, Task.noise((3, 8, 8), classes=3)).eval()
    cell = net.get_submodule("cells.0")
    x = torch.randn(2, 6, 8, 8)
    zero, one = cell.older(x), cell.newer(x)
    operations = [next(iter(slot.values())) for slot in cell.slots]
    two = operations[0](zero) + operations[1](one)
    three = operations[2](zero) + operations[3](one)
    four = operations[4](one) + zero
    five = zero + operations[7](two)
    torch.testing.assert_close(cell(x, x), torch.cat([two, three, four, five], 1))


def test_a_supernet_adds_up_and_its_survivors_keep_their_names() -> None:
    task = Task.noise((2, 8), classes=3)
    torch.manual_seed(0)
    net = TINY.build_region(whole(TINY.decisions), task)
    weights = net.state_dict()
    assert net(torch.randn(2, 2, 8)).isfinite().all()
    slot = net.get_submodule("cells.0").slots[2].eval()
    states = [torch.randn(2, 2, 8) for _ in range(3)]
    assert len(slot) == 3 * 8
    terms = [slot[f"{name}_from_{source}"](states[source]) for source in range(3) for name in TINY.decisions[0].options]
    torch.testing.assert_close(slot(states), sum(terms))
    arch = TINY.parse(genotypes.P_DARTS)
    single = TINY.build_region(region_of(arch), task)
    assert single.state_dict().keys() == TINY.build(arch, task).state_dict().keys()
    single.load_state_dict({name: weights[name] for name in single.state_dict()})


def test_regions_have_to_be_choices() -> None:
    region = whole(TINY.decisions)
    with pytest.raises(InputError, match=r"the options \[\] of 'normal.2.first.operation' are not"):
        TINY.build_region((frozenset(), *region[1:]), CIFAR)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "('dil_conv_3x3', 2)]",
            "('dil_conv_9x9', 2)]",
            r"'dil_conv_9x9' in the second pair of node 5 in 'normal' is not",
        ),
        (
            "('dil_conv_3x3', 2)]",
            "('dil_conv_3x3', 5)]",
            r"second pair of node 5 in 'normal' reads state 5; expected 0 to 4",
        ),
        ("('dil_conv_3x3', 2)]", "'dil_conv_3x3']", r"entry 7 of 'normal' is 'dil_conv_3x3'; expected \('operation'"),
        (", ('dil_conv_3x3', 2)]", "]", r"'normal' has 7 pairs; expected 8, two for each of 4 nodes"),
        ("reduce_concat=[2, 3, 4, 5]", "reduce_concat=[3, 4, 5]", r"'reduce_concat' is \[3, 4, 5\]; expected \[2, 3"),
        (
            "reduce_concat=[2, 3, 4, 5]",
            "reduce_concat=range(9**9)",
            r"range in 'reduce_concat' is not|not a plain list",
        ),
        ("reduce_concat=[2, 3, 4, 5]", "reduce_concat=open('x')", r"part 'reduce_concat' is not a plain list"),
        (", reduce_concat=[2, 3, 4, 5]", "", r"has no part 'reduce_concat'"),
        ("reduce_concat", "other", r"'other' is not a part of a genotype: normal, normal_concat"),
        ("Genotype(", "print(", r"is not a genotype; expected Genotype\("),
        ("Genotype(", "Genotype((", r"cannot be read as a genotype"),
        ("normal=[", "normal=3, n=[", r"'n' is not a part|part 'normal' is 3"),
    ],
)
def test_wrong_genotypes_say_what_is_wrong(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SPACE.parse(genotypes.DARTS_SECOND.replace(old, new))


def test_long_and_deep_texts_are_refused() -> None:
    with pytest.raises(InputError, match="expected at most"):
        parse_genotype("(" * 30_000)
    with pytest.raises(InputError, match="cannot be read"):
        parse_genotype("(" * 19_000)


def test_wrong_parameters_and_tasks() -> None:
    with pytest.raises(InputError, match="channels=0 was given; expected at least 1"):
        darts(channels=0)
    with pytest.raises(InputError, match="cells=0 was given"):
        darts(cells=0)
    with pytest.raises(InputError, match="expected 'cifar' or 'imagenet'"):
        darts("mnist")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least 32 along every axis"):
        darts("imagenet").check(Task.noise((3, 16, 64)))
    with pytest.raises(InputError, match="takes signals, images and volumes"):
        SPACE.check(Task.noise((3,)))
