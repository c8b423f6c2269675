from __future__ import annotations

import csv
import gzip
import itertools
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spaces.oracle import built_counts
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.spaces.nb101 import EDGES, NasBench101
from trainless.spaces.nb101_cell import VERTICES, Cell, vertex_channels
from trainless.spaces.protocol import Counted, Scalable, Space

SPACE = NasBench101()
TINY = NasBench101(channels=6, cells=1)
CIFAR = Task.noise((3, 32, 32), classes=10)

archs = st.tuples(*(st.integers(0, len(decision) - 1) for decision in SPACE.decisions)).filter(SPACE.valid)


def rows_of(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf8") as file:
        return list(csv.DictReader(file))


def notation(row: dict[str, str]) -> str:
    return f"{row['adjacency']};{row['operations']}"


@pytest.fixture(scope="module")
def table(data_dir: Path) -> list[dict[str, str]]:
    return rows_of(data_dir / "nb101" / "nb101_subset20001.csv.gz")


def test_it_is_a_space() -> None:
    assert isinstance(SPACE, Space)
    assert isinstance(SPACE, Counted)
    assert isinstance(SPACE, Scalable)
    assert SPACE.scaled(16, 1) == NasBench101(16, 1, 3)


@pytest.mark.slow
def test_all_hashes_parameters_and_notations_of_the_table(table: list[dict[str, str]]) -> None:
    assert len(table) == 20_001
    for row in table:
        arch = SPACE.parse(notation(row))
        assert SPACE.format(arch) == notation(row)
        assert SPACE.hash(arch) == row["module_hash"]
        assert SPACE.counts(arch, CIFAR).params == int(row["trainable_params"])


def test_built_networks_have_the_parameters_of_the_table(table: list[dict[str, str]]) -> None:
    for row in table[::2500]:
        arch = SPACE.parse(notation(row))
        assert built_counts(SPACE, arch, CIFAR) == SPACE.counts(arch, CIFAR)
        assert built_counts(SPACE, arch, CIFAR).params == int(row["trainable_params"])


def test_canonical_of_the_table_is_unique_and_keeps_the_hash(table: list[dict[str, str]]) -> None:
    some = table[::20]
    found = {SPACE.canonical(SPACE.parse(notation(row))) for row in some}
    assert len(found) == len(some)
    for row in some[::10]:
        arch = SPACE.canonical(SPACE.parse(notation(row)))
        assert SPACE.canonical(arch) == arch
        assert SPACE.hash(arch) == row["module_hash"]


def test_up_to_five_vertices_there_are_2532_unique_cells() -> None:
    found = list(SPACE.unique(vertices=5))
    assert len(found) == len({SPACE.hash(arch) for arch in found}) == 2532
    assert all(SPACE.canonical(arch) == arch for arch in found[::50])


def test_the_unique_cells_are_those_of_a_complete_table(data_dir: Path) -> None:
    published = {row["module_hash"] for row in rows_of(data_dir / "nb101" / "ecnas_5v_4epochs.csv.gz")}
    assert {SPACE.hash(arch) for arch in SPACE.unique(vertices=5)} == published


def drawn(arch: tuple[int, ...]) -> tuple[set[tuple[int, int]], tuple[int, ...]]:
    return {edge for edge, present in zip(EDGES, arch, strict=False) if present}, arch[len(EDGES) :]


@settings(max_examples=40, deadline=None)
@given(arch=archs, order=st.permutations(range(1, VERTICES - 1)))
def test_renumbered_vertices_are_twins(arch: tuple[int, ...], order: list[int]) -> None:
    """Any renumbering that keeps edges pointing forwards gives the same hash and canonical arch."""
    edges, operations = drawn(arch)
    place = {0: 0, VERTICES - 1: VERTICES - 1} | {old: new for new, old in enumerate(order, start=1)}
    moved = {(place[source], place[target]) for source, target in edges}
    if any(source > target for source, target in moved):
        moved, order = edges, sorted(order)
    twin = (*(int(edge in moved) for edge in EDGES), *(operations[old - 1] for old in order))
    assert SPACE.canonical(twin) == SPACE.canonical(arch)
    assert SPACE.hash(twin) == SPACE.hash(arch)


def isomorphic(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    (edges, operations), (wanted, labels) = drawn(one), drawn(other)
    for order in itertools.permutations(range(1, VERTICES - 1)):
        place = (0, *order, VERTICES - 1)
        if {(place[source], place[target]) for source, target in edges} == wanted and all(
            labels[place[vertex] - 1] == operations[vertex - 1] for vertex in range(1, VERTICES - 1)
        ):
            return True
    return False


@settings(max_examples=25, deadline=None)
@given(arch=archs)
def test_canonical_is_isomorphic_to_a_cell_without_useless_vertices(arch: tuple[int, ...]) -> None:
    canonical = SPACE.canonical(arch)
    assert SPACE.valid(canonical)
    assert SPACE.canonical(canonical) == canonical
    edges, operations = drawn(arch)
    onward, back = {0}, {VERTICES - 1}
    for _ in range(VERTICES):
        onward |= {target for source, target in edges if source in onward}
        back |= {source for source, target in edges if target in back}
    used = onward & back
    kept = tuple(int(edge in edges and set(edge) <= used) for edge in EDGES)
    plain = (*kept, *(operations[v - 1] if v in used else 0 for v in range(1, VERTICES - 1)))
    assert isomorphic(plain, canonical)


@settings(max_examples=15, deadline=None)
@given(arch=archs, shape=st.sampled_from([(2, 9), (1, 8, 5), (2, 4, 5, 6)]))
def test_counts_are_those_of_the_built_network(arch: tuple[int, ...], shape: tuple[int, ...]) -> None:
    task = Task.noise(shape, classes=3)
    assert TINY.counts(arch, task) == built_counts(TINY, arch, task)
    assert SPACE.parse(SPACE.format(arch)) == arch


@pytest.mark.parametrize("shape", [(2, 9), (3, 8, 5), (1, 4, 5, 4)])
def test_networks_run_and_learn_in_every_dimension(shape: tuple[int, ...]) -> None:
    task = Task.noise(shape, classes=3)
    arch = SPACE.parse(
        "0100110/0010000/0001001/0000010/0000010/0000001/0000000;input|conv3x3-bn-relu|maxpool3x3"
        "|conv3x3-bn-relu|conv3x3-bn-relu|conv1x1-bn-relu|output"
    )
    torch.manual_seed(0)
    net = TINY.build(arch, task)
    x, y = task.batch(4, seed=0)
    task.target.losses(net(x), y).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
    assert all(isinstance(net.get_submodule(name), torch.nn.Module) for name in net.block_names)
    assert len(net.block_names) == 1 + 3 * TINY.cells


def test_a_cell_by_hand() -> None:
    """Output = concat(v1, v2) + projection(input), with v2 = pool(v1 cut to its width + projection(input))."""
    space = NasBench101(channels=5, cells=1, stacks=1)
    arch = space.parse("0111/0011/0001/0000;input|conv1x1-bn-relu|maxpool3x3|output")
    torch.manual_seed(0)
    net = space.build(arch, Task.noise((2, 6, 6), classes=3))
    x = torch.randn(2, 2, 6, 6)
    cell = net.get_submodule("blocks.0")
    inner = net.get_submodule("stem")(x)
    first = cell.vertices[0](cell.projections["1"](inner))
    second = torch.nn.functional.max_pool2d(first[:, :2] + cell.projections["2"](inner), 3, 1, 1)
    assert first.shape[1] == 3
    expected = torch.cat([first, second], 1) + cell.projections["3"](inner)
    logits = torch.nn.functional.linear(expected.mean((2, 3)), net.classifier.weight, net.classifier.bias)
    torch.testing.assert_close(net(x), logits)


def test_vertex_channels_by_hand() -> None:
    # vertices 2, 3 and 4 share 128 channels as 43 + 43 + 42; vertex 1 feeds 3 and 4 and is as wide as the wider
    cell = Cell(((), (0,), (0,), (1,), (1,), (2, 3, 4)), (0, 0, 0, 0))
    assert vertex_channels(cell, 128) == (43, 43, 43, 42)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("01/00", r"1 operations were given for 2 vertices"),
        ("0;input", r"1 matrix rows were given; expected 2 to 7"),
        ("012/001/000;input|maxpool3x3|output", r"matrix row 0 is '012'; expected 3 digits"),
        ("011/101/000;input|maxpool3x3|output", r"matrix row 1 is '101'; edges may only lead to later"),
        ("011/001/000;input|avgpool|output", r"'avgpool' of vertex 1 is not an operation: conv3x3-bn-relu"),
        ("011/001/000;a|maxpool3x3|output", r"from 'a' to 'output'; expected 'input' to 'output'"),
        ("010/000/000;input|maxpool3x3|output", r"no path leads from input to output"),
        ("01111/00111/00011/00001/00000;" + "|".join(["input", *["maxpool3x3"] * 3, "output"]), r"has 10 edges"),
    ],
)
def test_wrong_notations_say_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SPACE.parse(text)


def test_wrong_parameters_and_tasks() -> None:
    with pytest.raises(InputError, match="channels=3 was given; expected at least 5"):
        NasBench101(channels=3)
    with pytest.raises(InputError, match="at least 4 along every axis"):
        SPACE.check(Task.noise((3, 3, 8)))
    with pytest.raises(InputError, match="takes signals, images and volumes"):
        SPACE.check(Task.noise((3,)))
    with pytest.raises(InputError, match="not a valid architecture"):
        SPACE.build((0,) * len(SPACE.decisions), CIFAR)
    assert not SPACE.valid((0, 1))
    assert not SPACE.valid((2,) * len(SPACE.decisions))
