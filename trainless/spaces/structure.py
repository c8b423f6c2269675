"""GRAF's features of an arch's graph (Kadlecová et al., 2024): paths and degrees, for every set of operations."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import TypeAlias, cast

import numpy as np

from trainless.core.arch import Arch
from trainless.spaces.moves import sample
from trainless.spaces.protocol import Space, require_arch
from trainless.spaces.sketch import Drawable, Graph

Numbers: TypeAlias = tuple[float, ...]

MOST_SUBSETS = 255
"""All non-empty sets of eight operations; a space of more operations gets the smaller sets and the whole one."""

_SKETCHES = 200  # so many are looked at where a space does not say which operations it has
_NO_OPERATION = -1


def features(space: Space, arch: Arch) -> dict[str, float]:
    """Features of an arch by name: a cell's operations, paths and degrees, or how often options were chosen.

    Of every cell, how often each operation occurs (``op_count_X``) and, for every set S of operations, in the graph
    that is left when only the operations of S are kept:

    * ``min_path_len_S``: fewest operations on a path from an input to an output; without a path, the number of the
      cell's edges;
    * ``max_op_on_path_S``: most operations on such a path; 0 without one;
    * ``node_degree_S_in_degree``, ``node_degree_S_out_degree``: edges that leave the inputs, and that enter the
      outputs;
    * ``node_degree_S_avg_in``, ``node_degree_S_avg_out``: edges per node (the same number twice, as published).

    On NAS-Bench-201, where ``none`` counts as an operation, these are the 191 features of the published program. They
    are read off :meth:`~trainless.spaces.sketch.Drawable.sketch`, with the operations on edges or on nodes. Edges
    without an operation lengthen no path, and are kept unless they leave a state that nothing enters. Where a sketch
    has several cells, names begin with the cell's title. Of more than eight operations, only sets of the smaller sizes
    and the whole are taken (at most ``MOST_SUBSETS`` + 1).

    A space without cells has the number of decisions of each kind that chose an option (``op_count_kernel=3``) and the
    mean of options that are numbers (``mean_kernel``).

    Example:
        >>> from trainless.spaces.nb201 import NasBench201
        >>> space = NasBench201()
        >>> found = features(space, (3, 0, 1, 0, 0, 1))
        >>> len(found), found["op_count_none"], found["max_op_on_path_skip_connect+nor_conv_3x3"]
        (191, 3.0, 3.0)
    """
    require_arch(space, arch)
    graphs = _graphs(space, arch)
    if not graphs:
        return _option_counts(space, arch)
    found: dict[str, float] = {}
    for graph in graphs:
        operations = graph.operations or _seen_operations(cast(Hashable, space))
        found |= cell_features(graph, operations, f"{graph.title}." if len(graphs) > 1 else "")
    return found


def cell_features(graph: Graph, operations: tuple[str, ...], prefix: str = "") -> dict[str, float]:
    """The features of one cell; see :func:`features`.

    An edge's label is its operation, and so is the label of a node whose role is ``operation``.
    """
    return dict(zip(_names(operations, prefix), _values(graph, operations), strict=True))


def _graphs(space: Space, arch: Arch) -> list[Graph]:
    sketch = space.sketch(arch) if isinstance(space, Drawable) else ()
    return [part for part in sketch if isinstance(part, Graph)]


@functools.lru_cache(maxsize=64)
def _seen_operations(space: Space) -> tuple[str, ...]:
    """The operations that a few sketches show, in the order of the decisions' options."""
    rng = np.random.default_rng(0)
    archs = [sample(space, rng) for _ in range(_SKETCHES)]
    seen = {slot for arch in archs for graph in _graphs(space, arch) for slot in _operations_of(graph)} - {""}
    options = dict.fromkeys(option for decision in space.decisions for option in decision.options)
    return (*(option for option in options if option in seen), *sorted(seen - set(options)))


def _operations_of(graph: Graph) -> list[str]:
    """The operation of every edge and then of every node, empty where there is none."""
    edges = [edge.label for edge in (*graph.edges, *graph.absent)]
    return edges + [node.label if node.role == "operation" else "" for node in graph.nodes]


@functools.cache
def subsets(operations: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The sets of operations that have features, the smaller ones first."""
    chosen: list[tuple[str, ...]] = []
    for size in range(1, len(operations) + 1):
        new = list(itertools.combinations(operations, size))
        if len(chosen) + len(new) > MOST_SUBSETS:
            return (*chosen, operations)
        chosen += new
    return tuple(chosen)


@functools.lru_cache(maxsize=64)
def _names(operations: tuple[str, ...], prefix: str) -> tuple[str, ...]:
    def of_subset(subset: tuple[str, ...]) -> Iterator[str]:
        text = "+".join(subset)
        yield f"{prefix}min_path_len_{text}"
        yield f"{prefix}max_op_on_path_{text}"
        for degree in ("in_degree", "out_degree", "avg_in", "avg_out"):
            yield f"{prefix}node_degree_{text}_{degree}"

    counts = (f"{prefix}op_count_{operation}" for operation in operations)
    return (*counts, *(name for subset in subsets(operations) for name in of_subset(subset)))


def _values(graph: Graph, operations: tuple[str, ...]) -> Iterator[float]:
    labels = _operations_of(graph)
    shape = _shape(
        tuple((node.key, node.role) for node in graph.nodes),
        tuple((edge.source, edge.target, bool(edge.label)) for edge in (*graph.edges, *graph.absent)),
    )
    counts = Counter(labels)
    yield from (float(counts[operation]) for operation in operations)
    places = dict.fromkeys(operations, 0)
    for place, label in enumerate(labels):
        if label in places:
            places[label] |= 1 << place
    for subset in subsets(operations):
        kept = 0
        for operation in subset:
            kept |= places[operation]
        yield from _measured(shape, kept)


@dataclass(frozen=True, eq=False)
class _Shape:
    """A cell without the names of its operations; each operation has a place, edges first and then nodes.

    ``steps`` are, for every node in topological order, its number, its place and, for every edge that enters it, the
    source and the place. ``edges`` counts absent ones too.
    """

    steps: tuple[tuple[int, int, tuple[tuple[int, int], ...]], ...]
    roles: tuple[str, ...]
    edges: int


@functools.lru_cache(maxsize=4096)
def _shape(nodes: tuple[tuple[str, str], ...], edges: tuple[tuple[str, str, bool], ...]) -> _Shape:
    number = {key: index for index, (key, _) in enumerate(nodes)}
    entering: dict[int, list[tuple[int, int]]] = {index: [] for index in range(len(nodes))}
    for place, (source, target, has_operation) in enumerate(edges):
        entering[number[target]].append((number[source], place if has_operation else _NO_OPERATION))
    order = TopologicalSorter({node: [source for source, _ in found] for node, found in entering.items()})
    roles = tuple(role for _, role in nodes)
    steps = (
        (node, len(edges) + node if roles[node] == "operation" else _NO_OPERATION, tuple(entering[node]))
        for node in order.static_order()
    )
    return _Shape(tuple(steps), roles, len(edges))


@functools.lru_cache(maxsize=1 << 16)
def _measured(shape: _Shape, kept: int) -> Numbers:
    """The six features of the graph in which only the operations at the kept places (a bit each) are left."""
    nodes, edges = _left(shape, kept)
    least = {node: 0 for node, role in enumerate(shape.roles) if role == "input"}
    most = dict(least)
    for source, target, cost in edges:
        if source in least:
            least[target] = min(least.get(target, least[source] + cost), least[source] + cost)
            most[target] = max(most.get(target, 0), most[source] + cost)
    ends = [node for node, role in enumerate(shape.roles) if role == "output" and node in least]
    shortest = min((least[end] for end in ends), default=shape.edges)
    longest = max((most[end] for end in ends), default=0)
    leaving = sum(shape.roles[source] == "input" for source, _, _ in edges)
    arriving = sum(shape.roles[target] == "output" for _, target, _ in edges)
    mean = len(edges) / nodes if nodes else 0.0
    return float(shortest), float(longest), float(leaving), float(arriving), mean, mean


def _left(shape: _Shape, kept: int) -> tuple[int, list[tuple[int, int, int]]]:
    """How many nodes are left, and the edges in topological order: source, target and operations on the way."""
    present: set[int] = set()
    fed: set[int] = set()
    edges: list[tuple[int, int, int]] = []
    for node, place, entering in shape.steps:
        if place != _NO_OPERATION and not kept >> place & 1:
            continue
        present.add(node)
        if shape.roles[node] != "state":
            fed.add(node)
        for source, on_edge in entering:
            bare = on_edge == _NO_OPERATION
            if source in fed if bare else source in present and kept >> on_edge & 1:
                fed.add(node)
                edges.append((source, node, (place != _NO_OPERATION) + (not bare)))
    return len(present), edges


def _option_counts(space: Space, arch: Arch) -> dict[str, float]:
    """How many decisions of each kind chose each option, and the mean of options that are numbers."""
    found: dict[str, float] = {}
    numbers: dict[str, list[float]] = {}
    for decision, option in zip(space.decisions, arch, strict=True):
        kind = _kind(decision.name)
        for index, text in enumerate(decision.options):
            name = f"op_count_{kind}={text}"
            found[name] = found.get(name, 0.0) + (index == option)
        if all(_is_number(text) for text in decision.options):
            numbers.setdefault(f"mean_{kind}", []).append(float(decision.options[option]))
    return found | {name: sum(values) / len(values) for name, values in numbers.items()}


def _kind(name: str) -> str:
    """What decisions of different places have in common: ``stage1a.kernel`` is a kernel, ``cell 3`` a cell."""
    last = name.rpartition(".")[2]
    return last.rstrip("0123456789 _") or last


def _is_number(text: str) -> bool:
    return text.lstrip("-").replace(".", "", 1).isdecimal()
