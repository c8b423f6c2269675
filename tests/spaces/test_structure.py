from __future__ import annotations

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spaces import genotypes
from trainless.core.errors import InputError
from trainless.spaces import registry, space
from trainless.spaces.moves import sample
from trainless.spaces.nb101 import NasBench101
from trainless.spaces.nb201 import OPERATIONS, NasBench201
from trainless.spaces.sketch import Edge, Graph, Node
from trainless.spaces.structure import MOST_SUBSETS, cell_features, features, subsets

OPS = ("a", "b", "c")


def test_equals_the_published_program_on_nas_bench_201(golden_dir: Path) -> None:
    nb201 = NasBench201()
    with (golden_dir / "graf.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 14
    for row in rows:
        found = features(nb201, nb201.parse(row["arch"]))
        expected = {name: float(row[name]) for name in list(row)[3:]}
        assert list(found) == list(expected)
        assert found == expected, row["arch"]


def test_every_nb201_arch_has_the_same_names_and_its_own_counts() -> None:
    nb201 = NasBench201()
    rng = np.random.default_rng(0)
    names = list(features(nb201, (0,) * 6))
    assert len(names) == 191
    for _ in range(50):
        arch = sample(nb201, rng)
        found = features(nb201, arch)
        assert list(found) == names
        assert [found[f"op_count_{name}"] for name in OPERATIONS] == [arch.count(o) for o in range(5)]


def paths(graph: Graph) -> list[list[Edge]]:
    """Every path from an input to an output, by walking."""
    role = {node.key: node.role for node in graph.nodes}
    found: list[list[Edge]] = []
    walks: list[list[Edge]] = [[edge] for edge in graph.edges if role[edge.source] == "input"]
    while walks:
        walk = walks.pop()
        if role[walk[-1].target] == "output":
            found.append(walk)
        walks += [[*walk, edge] for edge in graph.edges if edge.source == walk[-1].target]
    return found


def expected_lengths(graph: Graph, allowed: set[str]) -> list[int]:
    """Operations on each path all of whose operations are allowed."""
    label = {node.key: node.label for node in graph.nodes if node.role == "operation"}
    lengths = []
    for path in paths(graph):
        on_way = [edge.label for edge in path if edge.label] + [label[e.target] for e in path if e.target in label]
        if set(on_way) <= allowed:
            lengths.append(len(on_way))
    return lengths


@st.composite
def cells(draw: st.DrawFn, on_nodes: bool) -> Graph:
    count = draw(st.integers(2, 6))
    pairs = draw(st.lists(st.sampled_from(list(itertools.combinations(range(count), 2))), max_size=9))
    labels = st.sampled_from(OPS)
    middle = [
        Node(str(n), draw(labels), "operation") if on_nodes else Node(str(n), str(n), "state")
        for n in range(1, count - 1)
    ]
    nodes = [Node("0", "input", "input"), *middle, Node(str(count - 1), "output", "output")]
    edges = [Edge(str(s), str(t), "" if on_nodes else draw(labels)) for s, t in pairs]
    order = draw(st.permutations(nodes))
    return Graph("random", tuple(order), tuple(edges))


@settings(max_examples=60, deadline=None)
@given(st.one_of(cells(True), cells(False)))
def test_paths_equal_those_found_by_walking(graph: Graph) -> None:
    found = cell_features(graph, OPS)
    for subset in subsets(OPS):
        lengths = expected_lengths(graph, set(subset))
        name = "+".join(subset)
        assert found[f"min_path_len_{name}"] == min(lengths, default=len(graph.edges))
        assert found[f"max_op_on_path_{name}"] == max(lengths, default=0)


@settings(max_examples=60, deadline=None)
@given(st.one_of(cells(True), cells(False)))
def test_degrees_equal_counts_of_edges(graph: Graph) -> None:
    found = cell_features(graph, OPS)
    for subset in subsets(OPS):
        gone = {node.key for node in graph.nodes if node.role == "operation" and node.label not in subset}
        left = [e for e in graph.edges if e.label in ("", *subset) and not {e.source, e.target} & gone]
        last = str(len(graph.nodes) - 1)
        name = f"node_degree_{'+'.join(subset)}"
        assert found[f"{name}_in_degree"] == sum(edge.source == "0" for edge in left)
        assert found[f"{name}_out_degree"] == sum(edge.target == last for edge in left)
        assert found[f"{name}_avg_in"] == found[f"{name}_avg_out"]
        assert found[f"{name}_avg_in"] == pytest.approx(len(left) / (len(graph.nodes) - len(gone)))


@settings(max_examples=30, deadline=None)
@given(st.one_of(cells(True), cells(False)))
def test_more_operations_never_lengthen_the_shortest_path_nor_shorten_the_longest(graph: Graph) -> None:
    found = cell_features(graph, OPS)
    for small, large in itertools.product(subsets(OPS), repeat=2):
        if set(small) <= set(large):
            few, many = "+".join(small), "+".join(large)
            assert found[f"min_path_len_{many}"] <= found[f"min_path_len_{few}"]
            assert found[f"max_op_on_path_{many}"] >= found[f"max_op_on_path_{few}"]


def test_darts_cells_are_told_apart_by_prefix() -> None:
    darts = space("darts")
    found = features(darts, darts.parse(genotypes.DARTS_SECOND))
    # normal: 5 sep 3×3 and 1 dil 3×3 and 2 skips; all four states are concatenated
    normal = {name.removeprefix("normal.") for name in found if name.startswith("normal.")}
    assert normal == {name.removeprefix("reduction.") for name in found if name.startswith("reduction.")}
    assert len(found) == 2 * len(normal)
    assert found["normal.op_count_sep_conv_3x3"] == 5
    assert found["normal.op_count_skip_connect"] == 2
    assert found["normal.op_count_dil_conv_3x3"] == 1
    assert found["normal.min_path_len_sep_conv_3x3"] == 1
    assert found["reduction.op_count_max_pool_3x3"] == 5
    assert found["reduction.op_count_skip_connect"] == 3


def test_concatenated_states_count_only_where_something_enters_them() -> None:
    nodes = (Node("i", "input", "input"), Node("1", "1", "state"), Node("2", "2", "state"), Node("o", "out", "output"))
    cell = Graph("cell", nodes, (Edge("i", "1", "a"), Edge("i", "2", "b"), Edge("1", "o"), Edge("2", "o")))
    found = cell_features(cell, ("a", "b"))
    assert found["node_degree_a_out_degree"] == 1
    assert found["node_degree_a+b_out_degree"] == 2
    assert found["node_degree_a_avg_in"] == 2 / 4
    assert found["max_op_on_path_a+b"] == 1


def test_nb101_counts_vertices() -> None:
    nb101 = NasBench101()
    chain = nb101.parse("0101/0010/0001/0000;input|conv3x3-bn-relu|maxpool3x3|output")
    found = features(nb101, chain)
    assert len(found) == 3 + 7 * 6
    assert found["op_count_conv3x3-bn-relu"] == found["op_count_maxpool3x3"] == 1
    assert found["max_op_on_path_conv3x3-bn-relu+maxpool3x3"] == 2
    assert found["max_op_on_path_conv3x3-bn-relu"] == 0  # only the direct edge is left
    assert found["min_path_len_maxpool3x3"] == 0
    assert found["node_degree_conv3x3-bn-relu_in_degree"] == 2  # the vertex and the output
    bare = features(nb101, nb101.parse("01/00;input|output"))
    assert list(bare) == list(found)
    assert bare["op_count_conv1x1-bn-relu"] == 0


@pytest.mark.parametrize("name", registry.names())
def test_every_space_has_features_of_fixed_names(name: str) -> None:
    chosen = space(name)
    rng = np.random.default_rng(1)
    found = [features(chosen, sample(chosen, rng)) for _ in range(4)]
    assert len({tuple(one) for one in found}) == 1
    assert np.isfinite([list(one.values()) for one in found]).all()
    assert len({tuple(one.values()) for one in found}) > 1


def test_networks_of_blocks_count_options() -> None:
    sizes = space("nats-size")
    found = features(sizes, (0, 1, 1, 7, 0))
    assert found["op_count_cell=8"] == 2
    assert found["op_count_cell=16"] == 1
    assert found["mean_cell"] == (8 + 16 + 8) / 3
    assert found["mean_reduction"] == (16 + 64) / 2


def test_many_operations_have_the_smaller_sets_and_the_whole() -> None:
    many = tuple("abcdefghijklm")
    chosen = subsets(many)
    assert len(chosen) <= MOST_SUBSETS + 1
    assert chosen[-1] == many
    assert set(map(len, chosen)) == {1, 2, 13}


def test_an_arch_of_another_space_is_refused() -> None:
    with pytest.raises(InputError, match="nb201 has 6 decisions, but \\(0, 1\\) has 2 entries"):
        features(NasBench201(), (0, 1))
