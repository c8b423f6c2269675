"""TransNAS-Bench-101's micro space against published parameter counts and a numerical model of its cells."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from tests.spaces.oracle import built_counts
from trainless.core.arch import Arch
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.moves import enumerate_archs
from trainless.spaces.nb201 import EDGES, NONE, SKIP
from trainless.spaces.transnas import TransNasMicro

SPACE = TransNasMicro()
SCENES = Task.noise((3, 256, 256), classes=63)
PUBLISHED = {  # parameters with 63 classes, of others' scores of the benchmark's own networks
    "1_00_210": 910_687,
    "1_00_223": 9_440_607,
    "0_11_233": 16_256_351,
    "1_10_312": 7_381_087,
    "1_10_123": 9_103_199,
    "3_10_022": 8_064_351,
}


@pytest.mark.parametrize(("text", "params"), PUBLISHED.items())
def test_parameters_are_the_published_ones(text: str, params: int) -> None:
    arch = SPACE.parse(text)
    assert SPACE.counts(arch, SCENES).params == params
    assert built_counts(SPACE, arch, SCENES) == SPACE.counts(arch, SCENES)


@pytest.mark.parametrize("shape", [(2, 33), (3, 17, 20), (1, 9, 12, 10)], ids=str)
@pytest.mark.parametrize("text", ["1_02_333", "3_10_022", "0_11_211"])
def test_counts_are_those_of_the_network_in_every_dimension(text: str, shape: tuple[int, ...]) -> None:
    space, task = TransNasMicro(channels=5, cells=1), Task.noise(shape, classes=4)
    arch = space.parse(text)
    assert space.counts(arch, task) == built_counts(space, arch, task)


def test_notation_of_the_table(data_dir) -> None:
    from trainless.bench.tables import table

    archs = [SPACE.parse(text) for text in table("transnas-micro").archs]
    assert set(archs) == set(enumerate_archs(SPACE))
    assert [SPACE.format(arch) for arch in archs] == list(table("transnas-micro").archs)


@pytest.mark.parametrize("text", ["", "1_02_33", "64-41414-1_02_334", "64-42414-1_02_333", "1_02_333_"])
def test_other_notations_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected a digit from 0 to 3 for each edge"):
        SPACE.parse(text)


def live_edges(arch: Arch) -> list[int]:
    """Edges whose result reaches the output."""
    nodes, live = {3}, []
    for edge in reversed(range(6)):
        source, target = EDGES[edge]
        if arch[edge] != NONE and target in nodes:
            nodes.add(source)
            live.append(edge)
    return sorted(live)


def assignments(arch: Arch, live: list[int]) -> Iterator[dict[int, tuple[int, int]]]:
    """Every way to hand out weights of each kind to the edges that matter and have some."""
    kinds = [
        (kind, [edge for edge in live if arch[edge] == kind and (kind != SKIP or EDGES[edge][0] == 0)])
        for kind in (1, 2, 3)
    ]
    for orders in itertools.product(*(itertools.permutations(range(len(edges))) for _, edges in kinds)):
        yield {
            edge: (kind, place)
            for (kind, edges), order in zip(kinds, orders, strict=True)
            for edge, place in zip(edges, order, strict=True)
        }


@pytest.mark.slow
def test_classes_are_exactly_the_functions_of_a_cell_that_halves() -> None:
    """1,666 classes: cells share one if and only if they compute the same function of input and weights."""
    rng, width = np.random.default_rng(0), 8
    weights, biases = rng.standard_normal((4, 6, width, width)) / 2, rng.standard_normal((4, 6, width))
    x, mixed = rng.standard_normal(width), np.cos(np.arange(width))

    def function(arch: Arch) -> frozenset[float]:
        live, found = live_edges(arch), set()
        for slots in assignments(arch, live):
            nodes = [x, *(np.zeros(width) for _ in range(3))]
            for edge in live:
                source, target = EDGES[edge]
                value = nodes[source]
                if edge in slots:
                    value = weights[slots[edge]] @ np.maximum(value, 0) + biases[slots[edge]]
                nodes[target] = nodes[target] + value
            found.add(round(float(nodes[3] @ mixed), 7))
        return frozenset(found)

    classes: dict[Arch, set[frozenset[float]]] = {}
    functions: dict[frozenset[float], set[Arch]] = {}
    for arch in enumerate_archs(SPACE):
        key, computed = SPACE.canonical(arch), function(arch)
        classes.setdefault(key, set()).add(computed)
        functions.setdefault(computed, set()).add(key)
    assert len(classes) == SPACE.extent().different == 1_666
    assert {len(computed) for computed in classes.values()} == {1}, "a class holds cells that differ"
    assert {len(keys) for keys in functions.values()} == {1}, "two classes compute the same function"
    assert all(SPACE.canonical(key) == key for key in classes)
