from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest
import torch

from trainless.core.arch import whole
from trainless.core.errors import InputError
from trainless.core.task import Task
from trainless.searchers.prune import Prune
from trainless.searchers.searcher import Told
from trainless.spaces.genotype import parse_genotype
from trainless.spaces.moves import sample
from trainless.spaces.nds import FAMILIES, NdsSpace
from trainless.spaces.nds_edges import NdsEdges, darts_edges
from trainless.spaces.protocol import Region

DARTS = FAMILIES["darts"].operations
EDGES = [(cell, node, source) for cell in ("normal", "reduce") for node in range(2, 6) for source in range(node)]
TASK = Task.noise((2, 8, 8), classes=3)
Open = Mapping[tuple[str, int, int], frozenset[str]]
"""The open operations of every edge that is left."""


def opened(region: Region) -> Open:
    """What a region leaves open, read off the names of its decisions."""
    named = dict(zip((decision.name for decision in darts_edges().decisions), region, strict=True))
    pairs = {(c, n): [*itertools.combinations(range(n), 2)] for c, n, _ in EDGES}
    kept = {at: {s for option in named[f"{at[0]}.{at[1]}.inputs"] for s in pairs[at][option]} for at in pairs}
    return {
        (c, n, s): frozenset(DARTS[option] for option in named[f"{c}.{n}.{s}"]) for c, n, s in EDGES if s in kept[c, n]
    }


@pytest.fixture(scope="module")
def worth() -> Mapping[tuple[tuple[str, int, int], str], np.ndarray]:
    """What each operation of each edge adds to two measures."""
    rng = np.random.default_rng(0)
    return {(edge, name): rng.normal(size=2) for edge in EDGES for name in DARTS}


def test_pruning_is_te_nas_edge_by_edge_and_then_the_best_two(worth) -> None:
    """Chen et al., 2021, on DARTS: three operations an edge and round, then two edges a node, by sums of ranks."""

    def measured(state: Open) -> np.ndarray:
        return 50 + sum(worth[edge, name] for edge, names in state.items() for name in sorted(names))

    def order(state: Open, cuts: list[Open]) -> list[int]:
        """The sum over measures of the place in the order of relative gains, the largest first."""
        before = measured(state)
        gains = np.array([(measured(cut) - before) / abs(before) for cut in cuts])
        return [sum(int((column > column[row]).sum()) for column in gains.T) for row in range(len(cuts))]

    state: Open = {edge: frozenset(set(DARTS) - {"none"}) for edge in EDGES}
    while any(len(names) > 1 for names in state.values()):
        cuts = [(edge, name) for edge, names in state.items() if len(names) > 1 for name in sorted(names)]
        places = order(state, [{**state, edge: state[edge] - {name}} for edge, name in cuts])
        left = dict(state)
        for _, (edge, name) in sorted(zip(places, cuts, strict=True)):
            if len(left[edge]) > 1 and len(state[edge]) - len(left[edge]) < 3:
                left[edge] = left[edge] - {name}
        state = left
    wide = [edge for edge in EDGES if edge[1] > 2]
    places = order(state, [{other: names for other, names in state.items() if other != edge} for edge in wide])
    for _, edge in sorted(zip(places, wide, strict=True)):
        if sum(other[:2] == edge[:2] for other in state) > 2:
            state = {other: names for other, names in state.items() if other != edge}

    searcher = Prune(darts_edges(), seed=0, number=3, decimals=12)
    while proposals := searcher.ask():
        values = np.array([measured(opened(each.candidate)) for each in proposals])
        searcher.tell(Told(tuple(proposals), {"one": values[:, 0], "other": values[:, 1]}))
    found = parse_genotype(darts_edges().format(searcher.best()))
    assert searcher.rounds == 3  # of seven operations four, of these one, and then the edges
    for cell, pairs in (("normal", found.normal), ("reduce", found.reduce)):
        nodes = [(2 + place // 2, source, name) for place, (name, source) in enumerate(pairs)]
        assert {(cell, node, source): frozenset({name}) for node, source, name in nodes} == {
            edge: names for edge, names in state.items() if edge[0] == cell
        }


def test_an_arch_is_the_network_of_its_genotype() -> None:
    edges, pairs = NdsEdges("darts", 4, 3), NdsSpace("darts", 4, 3)
    rng = np.random.default_rng(1)
    for _ in range(3):
        arch = sample(edges, rng)
        text = edges.format(arch)
        assert edges.counts(arch, TASK) == pairs.counts(pairs.parse(text), TASK)
        assert edges.format(edges.parse(text)) == text
        assert edges.canonical(edges.canonical(arch)) == edges.canonical(arch)
        assert edges.build(arch, TASK)(torch.randn(2, 2, 8, 8)).shape == (2, 3)
    own = NdsSpace("darts").format(tuple([4, 0] * 16))  # every pair reads the cell before last
    with pytest.raises(InputError, match=r"^darts-edges: a node reads state 0 twice"):
        edges.parse(own)


def test_a_cut_edge_takes_its_own_weights_and_nothing_else() -> None:
    edges = NdsEdges("darts", 4, 3)
    region = whole(edges.decisions)
    names = [decision.name for decision in edges.decisions]
    place = names.index("normal.3.inputs")
    cut = (*region[:place], frozenset({0}), *region[place + 1 :])  # 0+1: the edge from state 2 goes
    full = edges.build_region(region, TASK)
    less = edges.build_region(cut, TASK)
    gone = set(full.state_dict()) - set(less.state_dict())
    assert set(less.state_dict()) < set(full.state_dict())
    assert gone
    assert all(".slots.4." in name and "_from_2." in name for name in gone)  # two edges of node 2, then of node 3
    assert less(torch.randn(2, 2, 8, 8)).shape == (2, 3)
