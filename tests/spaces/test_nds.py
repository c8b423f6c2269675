from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.spaces import genotypes
from tests.spaces.oracle import built_counts
from trainless.core.arch import whole
from trainless.core.errors import InputError, UnknownName
from trainless.core.task import Task
from trainless.spaces.nds import FAMILIES, NdsSpace
from trainless.spaces.nds_net import FactorizedReduce, operation, tally_operation
from trainless.spaces.ops import Tally

NAMES = sorted(FAMILIES)
OPERATIONS = sorted({name for family in FAMILIES.values() for name in family.operations})
CIFAR = Task.noise((3, 32, 32), classes=10)


def test_the_five_families_are_those_of_the_study() -> None:
    """Table 1 of the study: operations, nodes, and whether all nodes or loose ends make the output."""
    found = {name: (len(f.operations), f.nodes, "L" if f.loose else "A") for name, f in FAMILIES.items()}
    assert found == {
        "nasnet": (13, 5, "L"),
        "amoeba": (8, 5, "L"),
        "pnas": (8, 5, "A"),
        "enas": (5, 5, "L"),
        "darts": (8, 4, "A"),
    }


@pytest.mark.parametrize(
    ("family", "text"),
    [("nasnet", genotypes.NASNET_A), ("amoeba", genotypes.AMOEBANET_A), ("pnas", genotypes.PNASNET)],
)
def test_published_cells_build_and_keep_their_notation(family: str, text: str) -> None:
    space = NdsSpace(family)
    arch = space.parse(text)
    assert space.format(arch) == text
    assert space.counts(arch, CIFAR) == built_counts(space, arch, CIFAR)


@pytest.mark.parametrize("family", NAMES)
@settings(max_examples=6, deadline=None)
@given(data=st.data(), shape=st.sampled_from([(2, 9), (1, 8, 5), (2, 4, 5, 6)]))
def test_counts_notation_and_canonical_form(family: str, data: st.DataObject, shape: tuple[int, ...]) -> None:
    space = NdsSpace(family, channels=2, cells=3)
    arch = data.draw(st.tuples(*(st.integers(0, len(decision) - 1) for decision in space.decisions)))
    task = Task.noise(shape, classes=3)
    assert space.counts(arch, task) == built_counts(space, arch, task)
    assert space.parse(space.format(arch)) == arch
    canonical = space.canonical(arch)
    assert space.valid(canonical)
    assert space.canonical(canonical) == canonical
    assert space.counts(canonical, task).layers == space.counts(arch, task).layers


@pytest.mark.parametrize("family", NAMES)
def test_supernets_build(family: str) -> None:
    space = NdsSpace(family, channels=2, cells=1)
    net = space.build_region(whole(space.decisions), Task.noise((1, 4), classes=2))
    assert net(torch.randn(2, 1, 4)).shape == (2, 2)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [(7,), (6, 5), (4, 2, 5)])
def test_operations_halve_and_cost_what_they_say(name: str, stride: int, size: tuple[int, ...]) -> None:
    module = operation(name, len(size), 3, stride)
    y = module(torch.randn(2, 3, *size))
    assert y.shape == (2, 3, *(-(-length // stride) for length in size))
    tally = Tally()
    tally_operation(tally, name, 3, stride, size)
    assert tally.params == sum(p.numel() for p in module.parameters())
    assert tally.tensors == len(list(module.parameters()))


@pytest.mark.parametrize(
    ("name", "params"),
    [
        # by hand at 4 channels in 2D: depthwise k²·4, pointwise 16, norm 8
        ("sep_conv_3x3", 2 * (36 + 16 + 8)),
        ("sep_conv_7x7", 2 * (196 + 16 + 8)),
        ("dil_sep_conv_3x3", 2 * (36 + 16 + 8)),
        ("dil_conv_5x5", 100 + 16 + 8),
        ("conv_1x1", 16 + 8),
        ("conv_3x1_1x3", 2 * 3 * 16 + 8),
        ("conv_7x1_1x7", 2 * 7 * 16 + 8),
        ("max_pool_5x5", 0),
    ],
)
def test_parameters_by_hand(name: str, params: int) -> None:
    assert sum(p.numel() for p in operation(name, 2, 4, 1).parameters()) == params


def test_axial_convolutions_run_along_the_last_axis_first() -> None:
    layers = [layer for layer in operation("conv_3x1_1x3", 2, 2, 2) if isinstance(layer, nn.Conv2d)]
    assert [(layer.kernel_size, layer.stride) for layer in layers] == [((1, 3), (1, 2)), ((3, 1), (2, 1))]


@pytest.mark.parametrize("size", [6, 7])
def test_factorized_reduce_sees_even_and_odd_places(size: int) -> None:
    reduce = FactorizedReduce(1, 1, 2).eval()
    with torch.no_grad():
        reduce.first.weight.fill_(1.0)
        reduce.second.weight.fill_(1.0)
    places = torch.arange(1.0, size + 1)
    y = reduce(places.reshape(1, 1, -1))[0] * (1 + reduce.norm.eps) ** 0.5
    shifted = torch.cat([places[1::2], torch.zeros(size % 2)])
    torch.testing.assert_close(y, torch.stack([places[::2], shifted]))


def test_averages_of_small_volumes_leave_the_padding_out() -> None:
    """A volume of one slice is averaged as that slice is."""
    x = torch.randn(2, 3, 1, 4, 5)
    for stride in (1, 2):
        flat = torch.nn.functional.avg_pool2d(x[:, :, 0], 3, stride, 1, count_include_pad=False)
        torch.testing.assert_close(operation("avg_pool_3x3", 3, 3, stride)(x)[:, :, 0], flat)


def test_loose_ends_are_required() -> None:
    wrong = genotypes.NASNET_A.replace("reduce_concat=[4, 5, 6]", "reduce_concat=[2, 4, 5, 6]")
    with pytest.raises(InputError, match=r"'reduce_concat' is \[2, 4, 5, 6\]; expected \[4, 5, 6\], the nodes that no"):
        NdsSpace("nasnet").parse(wrong)
    with pytest.raises(InputError, match="'conv_7x1_1x7' in the first pair of node 6 in 'reduce' is not an operation"):
        NdsSpace("enas").parse(genotypes.AMOEBANET_A.replace("sep_conv_7x7", "sep_conv_5x5"))
    with pytest.raises(UnknownName, match="no cell space is called 'dart'"):
        NdsSpace("dart")


def test_the_sketch_shows_both_cells() -> None:
    space = NdsSpace("nasnet")
    normal, reduction = space.sketch(space.parse(genotypes.NASNET_A))
    assert len(normal.edges) == 10 + 5
    assert {edge.source for edge in reduction.edges if edge.target == "output"} == {"4", "5", "6"}
