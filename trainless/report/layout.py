"""Where the nodes of a graph go: columns by distance from the inputs, rows with few crossings."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from trainless.core.errors import InputError
from trainless.spaces.sketch import Edge, Graph

_SWEEPS = 12


@dataclass(frozen=True)
class Layout:
    """Columns of keys from top to bottom, and the keys that each edge passes through.

    A key is a node's, or a place of its own where a long edge crosses a column.
    """

    columns: tuple[tuple[str, ...], ...]
    routes: tuple[tuple[Edge, tuple[str, ...]], ...]


def arrange(graph: Graph) -> Layout:
    """Lay a graph out in columns: each node one after its latest source, long edges by way of every column.

    An only output stands in the last column, also where nodes that lead nowhere are further from the inputs.

    The order within the columns is by the mean place of the neighbours, swept to and fro (Sugiyama et al., 1981).

    Example:
        >>> from trainless.spaces.sketch import edge_cell
        >>> layout = arrange(edge_cell("cell", [(0, 1), (0, 2), (1, 2)], ["a", "b", "c"]))
        >>> [len(column) for column in layout.columns]
        [1, 2, 1]
    """
    depth = _depths(graph)
    columns: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for node in graph.nodes:
        columns[depth[node.key]].append(node.key)
    routes = []
    for index, edge in enumerate(_merged(graph.edges)):
        passed = []
        for column in range(depth[edge.source] + 1, depth[edge.target]):
            passed.append(f"\0{index}.{column}")
            columns[column].append(passed[-1])
        routes.append((edge, (edge.source, *passed, edge.target)))
    _untangle(columns, [route for _, route in routes])
    return Layout(tuple(map(tuple, columns)), tuple(routes))


def _merged(edges: Sequence[Edge]) -> list[Edge]:
    """Parallel edges as one with both labels."""
    labels: dict[tuple[str, str], list[str]] = {}
    for edge in edges:
        labels.setdefault((edge.source, edge.target), []).append(edge.label)
    return [Edge(*ends, " + ".join(filter(None, words))) for ends, words in labels.items()]


def _depths(graph: Graph) -> dict[str, int]:
    """The length of the longest way to each node."""
    known = {node.key for node in graph.nodes}
    for edge in graph.edges:
        if edge.source not in known or edge.target not in known:
            raise InputError(f"the sketch {graph.title!r} has an edge {edge.source} → {edge.target} without its node")
    depth = dict.fromkeys((node.key for node in graph.nodes), 0)
    for _ in graph.nodes:
        changed = False
        for edge in graph.edges:
            if depth[edge.target] < depth[edge.source] + 1:
                depth[edge.target], changed = depth[edge.source] + 1, True
        if not changed:
            ends = [node.key for node in graph.nodes if node.role == "output"]
            return {**depth, ends[0]: max(depth.values())} if len(ends) == 1 else depth
    raise InputError(f"the sketch {graph.title!r} has a circle: a cell has to be drawn without one")


def _untangle(columns: list[list[str]], routes: Sequence[tuple[str, ...]]) -> None:
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for route in routes:
        for source, target in itertools.pairwise(route):
            before.setdefault(target, []).append(source)
            after.setdefault(source, []).append(target)
    for sweep in range(_SWEEPS):
        order = columns if sweep % 2 == 0 else columns[::-1]
        neighbours = before if sweep % 2 == 0 else after
        for fixed, column in itertools.pairwise(order):
            place = {key: index - len(fixed) / 2 for index, key in enumerate(fixed)}
            own = {key: index - len(column) / 2 for index, key in enumerate(column)}
            column[:] = sorted(column, key=functools.partial(_mean_place, neighbours, place, own))


def _mean_place(neighbours: dict[str, list[str]], place: dict[str, float], own: dict[str, float], key: str) -> float:
    found = [place[other] for other in neighbours.get(key, ()) if other in place]
    return sum(found) / len(found) if found else own[key]
