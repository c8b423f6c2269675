"""NAS-Bench-201 against the published table, closed formulas and a numerical model of its cells."""

from __future__ import annotations

import csv
import gzip
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from trainless.core.arch import Arch, whole
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.probe.counts import count
from trainless.spaces.moves import enumerate_archs
from trainless.spaces.nb201 import CONV1, CONV3, EDGES, NONE, OPERATIONS, POOL, SKIP, NasBench201, has_dead_edges
from trainless.testing import check_space

SPACE = NasBench201()
THIN = NasBench201(channels=4, cells=1)
CIFAR = Task.noise((3, 32, 32), 10)
SMALL = Task.noise((2, 8, 8), 3)
BEST = (3, 3, 3, 1, 3, 3)
archs = st.tuples(*[st.integers(0, 4)] * 6)


@pytest.fixture(scope="module")
def table(data_dir: Path) -> list[dict[str, str]]:
    with gzip.open(data_dir / "nb201" / "nb201_all.csv.gz", "rt", encoding="utf8") as file:
        return list(csv.DictReader(file))


def test_counts_of_the_whole_space(table: list[dict[str, str]]) -> None:
    """Parameters equal the table; multiply–accumulates equal the sum of the layers' own, added up by hand.

    A 3×3 edge costs 9 · 16² · 32² in each of 15 cells, because halving the size and doubling the width cancel.
    """
    start = time.perf_counter()
    edge3 = 15 * 9 * 16**2 * 32**2
    reductions = sum((9 * c * 2 * c + 9 * (2 * c) ** 2 + c * 2 * c) * size**2 for c, size in ((16, 16), (32, 8)))
    base = 9 * 3 * 16 * 32**2 + reductions + 64 * 10
    assert len(table) == 15625
    for row in table:
        arch = SPACE.parse(row["arch_str"])
        counts = SPACE.counts(arch, CIFAR)
        assert counts.params == round(1e6 * float(row["cifar10_params_exact_m"])), row["arch_str"]
        assert counts.flops == base + edge3 * arch.count(CONV3) + edge3 // 9 * arch.count(CONV1)
        assert counts.layers == 21 + 45 * (arch.count(CONV1) + arch.count(CONV3))
    assert SPACE.counts(BEST, CIFAR).flops == 184_730_240
    assert time.perf_counter() - start < 60


def test_the_table_counts_norms_and_pooling_too(table: list[dict[str, str]]) -> None:
    """``cifar10_flops_m`` is a linear function of how often each operation occurs, with pooling not free."""
    counts = np.array([[row["ops"].count(str(option)) for option in range(5)] for row in table], float)
    said = np.array([float(row["cifar10_flops_m"]) for row in table])
    ours = np.array([SPACE.counts(SPACE.parse(row["arch_str"]), CIFAR).flops for row in table]) / 1e6
    weights, *_ = np.linalg.lstsq(counts, said, rcond=None)
    np.testing.assert_allclose(counts @ weights, said, atol=1e-5)
    assert (said > ours).all()
    per_edge = weights - weights[NONE]
    assert per_edge[SKIP] == pytest.approx(0, abs=1e-6)
    assert per_edge[POOL] > 0.1


@pytest.mark.parametrize("arch", [BEST, (0,) * 6, (2, 4, 1, 3, 0, 2)], ids=str)
def test_counts_are_those_of_the_network(arch: Arch) -> None:
    assert count(SPACE.build(arch, CIFAR), CIFAR.input_shape) == SPACE.counts(arch, CIFAR)


def test_notation(table: list[dict[str, str]]) -> None:
    seen = set()
    for row in table:
        arch = SPACE.parse(row["arch_str"])
        assert SPACE.format(arch) == row["arch_str"]
        assert "".join(map(str, arch)) == row["ops"]
        seen.add(arch)
    assert seen == set(enumerate_archs(SPACE))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("|skip_connect~0|", "expected 3"),
        ("|skip_connect~0|+|none~0|+|none~0|none~1|none~2|", "expected 2"),
        ("|conv~0|+|none~0|none~1|+|none~0|none~1|none~2|", "not an operation"),
        ("|none~0|+|none~1|none~0|+|none~0|none~1|none~2|", "should come from 0"),
    ],
)
def test_notation_errors(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        SPACE.parse(text)


def test_dead_edge_filter() -> None:
    """9,445: counted here by walking every path of every cell."""
    paths = [(3,), (0, 4), (1, 5), (0, 2, 5)]  # edges of the four paths from input to output
    assert [[EDGES[edge] for edge in path] for path in paths][3] == [(0, 1), (1, 2), (2, 3)]

    def whole_cell(arch: Arch) -> bool:
        alive = {edge for path in paths if all(arch[edge] != NONE for edge in path) for edge in path}
        return all(arch[edge] == NONE or edge in alive for edge in range(6))

    every = list(enumerate_archs(SPACE))
    kept = [arch for arch in every if not has_dead_edges(arch)]
    assert len(kept) == 9445
    assert kept == [arch for arch in every if whole_cell(arch)]


# --- canonical ------------------------------------------------------------------------------------------------


def to_output(arch: Arch) -> set[int]:
    """Edges whose result reaches the output."""
    nodes = {3}
    for edge in (5, 4, 3, 2, 1, 0):
        if arch[edge] != NONE and EDGES[edge][1] in nodes:
            nodes.add(EDGES[edge][0])
    return {edge for edge in range(6) if arch[edge] != NONE and EDGES[edge][1] in nodes}


def assignments(arch: Arch) -> Iterator[dict[int, int]]:
    """Every way to hand out the first weights of each kind to the convolutions that matter."""
    live = to_output(arch)
    kinds = [[edge for edge in sorted(live) if arch[edge] == kind] for kind in (CONV1, CONV3)]
    for orders in itertools.product(*(itertools.permutations(range(len(edges))) for edges in kinds)):
        yield {
            edge: slot
            for edges, order in zip(kinds, orders, strict=True)
            for edge, slot in zip(edges, order, strict=True)
        }


def fingerprint(
    arch: Arch, weights: np.ndarray, biases: np.ndarray, pool: np.ndarray, x: np.ndarray
) -> frozenset[float]:
    """What a cell can compute: pooling is a matrix, a convolution is ReLU, a matrix of its own and a bias."""
    live, found = to_output(arch), set()
    for slots in assignments(arch):
        nodes = [x, *(np.zeros_like(x) for _ in range(3))]
        for edge in sorted(live):
            source, target = EDGES[edge]
            value, kind = nodes[source], arch[edge]
            if kind == POOL:
                value = pool @ value
            elif kind != SKIP:
                place = kind - CONV1, slots[edge]
                value = weights[place] @ np.maximum(value, 0) + biases[place]
            nodes[target] = nodes[target] + value
        found.add(round(float(nodes[3] @ np.cos(np.arange(len(x)))), 7))
    return frozenset(found)


@pytest.mark.slow
def test_classes_are_exactly_the_functions() -> None:
    """5,653 classes: cells share one if and only if they compute the same function of input and weights."""
    rng, width = np.random.default_rng(0), 12
    weights, biases = rng.standard_normal((2, 6, width, width)) / 2, rng.standard_normal((2, 6, width))
    pool, x = rng.standard_normal((width, width)) / 3, rng.standard_normal(width)
    by_key: dict[Arch, set[frozenset[float]]] = {}
    by_function: dict[frozenset[float], set[Arch]] = {}
    for arch in enumerate_archs(SPACE):
        key, function = SPACE.canonical(arch), fingerprint(arch, weights, biases, pool, x)
        by_key.setdefault(key, set()).add(function)
        by_function.setdefault(function, set()).add(key)
    assert len(by_key) == 5653
    assert {len(functions) for functions in by_key.values()} == {1}, "a class holds cells that differ"
    assert {len(keys) for keys in by_function.values()} == {1}, "two classes compute the same function"
    assert all(SPACE.canonical(key) == key for key in by_key)


@torch.no_grad()
def carry_over(source: nn.Module, target: nn.Module, moves: dict[int, int]) -> None:
    """The source's weights, its edges' convolutions moved to the target's edges as told."""
    own = source.state_dict()
    names = {}
    for name in target.state_dict():
        parts = name.split(".")
        if "edges" in parts:
            parts[3] = str(moves.get(int(parts[3]), parts[3]))
        names[name] = ".".join(parts)
    target.load_state_dict({name: own[old] for name, old in names.items() if old in own}, strict=False)


def test_twins_on_real_networks() -> None:
    """With the convolutions of one carried over to the other in some order, twins give the same outputs."""
    rng = np.random.default_rng(1)
    x, _ = SMALL.batch(4, seed=0)
    checked = 0
    while checked < 15:
        arch = tuple(int(option) for option in rng.integers(0, 5, 6))
        key = SPACE.canonical(arch)
        mine, theirs = ([e for e in sorted(to_output(a)) if a[e] in (CONV1, CONV3)] for a in (arch, key))
        if key == arch or len(mine) > 3:
            continue
        source = THIN.build(arch, SMALL)
        outputs = source(x)
        checked += 1
        for order in itertools.permutations(mine):
            twin = THIN.build(key, SMALL)
            if [arch[edge] for edge in order] == [key[edge] for edge in theirs]:
                carry_over(source, twin, dict(zip(theirs, order, strict=True)))
                if torch.allclose(twin(x), outputs, atol=1e-5):
                    break
        else:
            pytest.fail(f"{arch} and {key} are called twins, but no order of weights makes them equal")


@settings(max_examples=20, deadline=None)
@given(archs)
def test_canonical_keeps_the_dead_dead(arch: Arch) -> None:
    key = SPACE.canonical(arch)
    assert SPACE.canonical(key) == key
    assert key <= arch
    assert not has_dead_edges(key) or not to_output(arch) or has_dead_edges(arch)


# --- networks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 9), (3, 8, 8), (1, 4, 5, 6)], ids=str)
def test_contract(shape: tuple[int, ...]) -> None:
    check_space(THIN, Task.noise(shape, 3), archs=[BEST, (0,) * 6, (4,) * 6], samples=3)


@pytest.mark.parametrize(
    ("shape", "complaint"), [((3, 3, 8), "too small"), ((5,), "5 measurements: choose the space mlp")]
)
def test_inputs_that_cannot_be(shape: tuple[int, ...], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        SPACE.build(BEST, Task.noise(shape, 3))


def test_supernet_shares_weights_by_name_and_adds_operations() -> None:
    supernet = THIN.build_region(whole(THIN.decisions), SMALL)
    own = supernet.state_dict()
    net = THIN.build((3, 0, 2, 1, 4, 3), SMALL)
    assert set(net.state_dict()) <= set(own)
    edge, x = supernet.blocks[0].edges[0], torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    assert list(edge) == list(OPERATIONS)
    assert torch.allclose(edge(x), sum(operation(x) for operation in edge.values()), atol=1e-6)
    with pytest.raises(InputError, match="not a non-empty choice"):
        THIN.build_region((frozenset(), *whole(THIN.decisions)[1:]), SMALL)
    with pytest.raises(InputError, match="expected 0 to 4"):
        THIN.build((5, 0, 0, 0, 0, 0), SMALL)
    with pytest.raises(InputError, match="at least 1"):
        NasBench201(channels=0)
